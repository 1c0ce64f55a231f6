package worker

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/linesman/linesman/runs"
)

// discardLog is a log that stores nothing.
type discardLog struct{ mark runs.Mark }

func (l *discardLog) Open(context.Context, string, string, runs.Mark) (Log, error) {
	return &discardLog{}, nil
}
func (l *discardLog) Mark() runs.Mark { return l.mark }
func (l *discardLog) Append(_ context.Context, e runs.Entry) error {
	l.mark = l.mark.After(e, l.mark.Seq+1)
	return nil
}

// BenchmarkTail measures the worker alone: reading, chunking and saving the
// mark.
func BenchmarkTail(b *testing.B) {
	path := filepath.Join(b.TempDir(), "f")
	line := append(bytes.Repeat([]byte("x"), 242), '\n')
	if err := os.WriteFile(path, bytes.Repeat(line, 400_000), 0o600); err != nil {
		b.Fatal(err)
	}
	w, err := New(Config{Root: filepath.Join(b.TempDir(), "runs"), Logs: &discardLog{}})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(400_000 * int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Tail(b.Context(), TailSpec{Paths: []string{path}, Agent: "codex", Once: true}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRun measures one agent from the creation to the removal of its run
// directory.
func BenchmarkRun(b *testing.B) {
	root := filepath.Join(b.TempDir(), "runs")
	w, err := New(Config{Root: root, Logs: &discardLog{}, Shim: []string{os.Args[0], "shim"}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		d, err := Create(root, shell("r", "echo one"))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := w.Run(d).Drive(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMembers measures the search for the processes of a run without a
// shim: the first search, and each later one.
func BenchmarkMembers(b *testing.B) {
	id := identity{Mark: "m", Boot: bootID()}
	dir := b.TempDir()
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			(&members{id: id, dir: dir}).find()
		}
	})
	b.Run("later", func(b *testing.B) {
		m := &members{id: id, dir: dir}
		m.find()
		for b.Loop() {
			m.find()
		}
	})
}
