package worker

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/runs"
)

func TestWholeLines(t *testing.T) {
	full := strings.Repeat("x", runs.MaxChunk)
	for _, test := range []struct {
		name  string
		in    string
		final bool
		want  int
	}{
		{"nothing", "", false, 0},
		{"a line", "one\n", false, 4},
		{"lines and a piece", "one\ntwo\nth", false, 8},
		{"lines and a piece at the end", "one\ntwo\nth", true, 8},
		{"a piece", "th", false, 0},
		{"a piece at the end", "th", true, 2},
		{"a full chunk", full, false, runs.MaxChunk},
		{"a line of a full chunk", full[1:] + "\n", false, runs.MaxChunk},
		{"a line and a full piece", "\n" + full[1:], false, 1},
	} {
		if got := wholeLines([]byte(test.in), test.final); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// However the file is written, truncated and taken over, each byte is read
// once and in order, if it was there at a refresh.
func TestStreamReadsEachByteOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "f")
		os.Remove(path)
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()

		var seg segment
		s := &stream{path: path, segment: &seg}
		defer func() { s.close() }()
		var written, read bytes.Buffer
		count := 0
		catchUp := func() {
			buf := make([]byte, 100)
			for {
				at := int64(read.Len())
				if _, err := s.refresh(at, time.Now()); err != nil {
					t.Fatal(err)
				}
				n, from, err := s.read(buf, at)
				if err != nil || from != at {
					t.Fatalf("read at %d, got %d: %v", at, from, err)
				}
				if n == 0 {
					break
				}
				read.Write(buf[:n])
			}
			if !bytes.Equal(read.Bytes(), written.Bytes()) {
				t.Fatalf("read %q, written %q", read.Bytes(), written.Bytes())
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				var b []byte
				for range rapid.IntRange(1, 100).Draw(t, "numbers") { // no content begins like another one
					b = fmt.Appendf(b, "%d ", count)
					count++
				}
				_, _ = f.Write(b)
				written.Write(b)
			},
			"read": func(*rapid.T) { catchUp() },
			"truncate": func(*rapid.T) {
				catchUp()
				_ = f.Truncate(0)
			},
			"take over": func(*rapid.T) { // by the next worker, which has the segment and the log
				catchUp()
				s.close()
				s = &stream{path: path, segment: &seg}
			},
			"": func(*rapid.T) {},
		})
		catchUp()
	})
}

func FuzzMark(f *testing.F) {
	f.Add([]byte("garbage"))
	dir := f.TempDir()
	good, err := openMark(filepath.Join(dir, "good"))
	if err != nil {
		f.Fatal(err)
	}
	good.Log.Out = 7
	if err := good.save(); err != nil {
		f.Fatal(err)
	}
	f.Add(good.line[:])
	good.f.Close()
	f.Fuzz(func(t *testing.T, body []byte) {
		path := filepath.Join(t.TempDir(), "mark")
		if err := os.WriteFile(path, body, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := openMark(path)
		if err != nil {
			t.Fatal(err)
		}
		m.Log.Out++
		want := m.Log
		if err := m.save(); err != nil {
			t.Fatal(err)
		}
		m.f.Close()
		again, err := openMark(path)
		if err != nil || again.Log != want {
			t.Fatalf("saved %+v, read %+v: %v", want, again.Log, err)
		}
		again.f.Close()
	})
}

func TestLargestMarkFits(t *testing.T) {
	t.Parallel()
	m, err := openMark(filepath.Join(t.TempDir(), "mark"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.f.Close()
	_, key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	const most = 1<<63 - 1
	head := bytes.Repeat([]byte{0xff}, maxHead)
	name := strings.Repeat("x", 75) // name of a worker: host name and random digits
	m.progress = progress{
		Log:   runs.Mark{Seq: 1<<64 - 1, At: most, Out: most, Err: most, By: name, Work: 1<<64 - 1, Gone: true},
		As:    name,
		Noted: most,
		Keys:  slices.Repeat([][]byte{key}, maxKeys),
		Out:   segment{Base: most, Head: head},
		Err:   segment{Base: most, Head: head},
	}
	if err := m.save(); err != nil {
		t.Error(err)
	}
}
