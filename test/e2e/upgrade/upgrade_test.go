// Package upgrade starts linesman on what older ones left behind. The fixtures
// below testdata were made by make.sh.
package upgrade

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

var program string

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, "starts on the data of older versions", func(dir string) error {
		program = filepath.Join(dir, "linesman")
		return fixture.Build(dir, "./cmd/linesman")
	}))
}

// What was stored stays as it was; what only the spool had comes after it, once;
// the task that waited still does; and what else was left is there.
func TestOlderDataIsGoneOnWith(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join("testdata", "*.tar.gz"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		t.Run(name, func(t *testing.T) {
			data := unpack(t, archive)
			before, err := os.ReadFile(filepath.Join(data, "before.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			told := receive(t)
			fresh(t, data, told.address)
			outbox, err := os.ReadFile(filepath.Join(data, "jetstream", "jetstream", "LINESMAN", "streams", "LINESMAN_PUSH",
				"msgs", "1.blk"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			at := fixture.Up(t, program, data, append(os.Environ(), "LINESMAN_WORK_MAX_RUNS=0",
				"LINESMAN_PUSH_ALLOW_PRIVATE=true"))
			var now string
			if !fixture.Poll(fixture.Patience, func() bool {
				now = linesman(t, data, "events", "--json")
				return strings.Contains(now, `"run":"open","line":0,"part":1,"completion"`)
			}) {
				t.Fatalf("the open run does not end:\n%s", now)
			}
			if !strings.HasPrefix(now, string(before)) {
				t.Errorf("what was stored has changed:\n%s\n%s", before, now)
			}
			for run, recording := range map[string]string{"done": "shell-ok", "failed": "failed", "open": "patch"} {
				exit := runs.Exit{Reason: runs.ReasonEOF}
				if run == "open" {
					code := 0
					exit = runs.Exit{Reason: runs.ReasonExited, Code: &code}
				}
				same(t, run, of(now, run), fold(t, recording, exit))
			}
			linesman(t, data, "wait", "open") // its record may be a moment behind its events
			said := gjson.Parse(linesman(t, data, "status", "--json"))
			for run, state := range map[string]string{"done": "completed", "failed": "failed", "open": "completed"} {
				if got := said.Get(`runs.#(run=="` + run + `").state`).String(); got != state {
					t.Errorf("run %s is %q, want %s: %s", run, got, state, said)
				}
			}
			if said.Get("counts.queued").Int() != 3 {
				t.Errorf("the task that waited does not wait: %s", said)
			}
			(&left{t, data, at.Address, told, string(outbox)}).check()
			if said := linesman(t, data, "rebuild"); !strings.Contains(said, ", 0 differences\n") {
				t.Errorf("rebuild: %s", said)
			}
			linesman(t, data, "health")
		})
	}
}

// unpack makes a data directory of an archive.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data")
	for files := tar.NewReader(plain); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return data
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(data, filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(at, h.FileInfo().Mode())
		case tar.TypeFifo:
			err = unix.Mkfifo(at, uint32(h.Mode))
		case tar.TypeReg:
			var body []byte
			if body, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(at, body, h.FileInfo().Mode())
			}
		default:
			t.Fatalf("%s is of type %q", h.Name, h.Typeflag)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func linesman(t *testing.T, data string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "LINESMAN_DATA_DIR="+data)
	out, said, code := fixture.Run(t, cmd)
	if code != 0 {
		t.Fatalf("linesman %q: exit %d\n%s%s", args, code, out, said)
	}
	return out
}

// of are the events of a run.
func of(printed, run string) (all []string) {
	for line := range strings.Lines(printed) {
		if r := gjson.Parse(line); r.Get("run").String() == run {
			all = append(all, r.Get("event").Raw+r.Get("completion").Raw)
		}
	}
	return all
}

// fold is what a recording gives.
func fold(t *testing.T, recording string, exit runs.Exit) (all []string) {
	t.Helper()
	out, err := os.ReadFile(filepath.Join("..", "..", "corpus", "codex", recording+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	f := normalizer.NewFold(codex.Backend{}, "x", 0)
	for i, e := range []runs.Entry{{Kind: runs.Out, Body: out}, {Kind: runs.Exited, Body: runs.Encode(exit)}} {
		f.Apply(uint64(i+1), e, func(m normalizer.Message) { all = append(all, string(m.Body)) })
	}
	return all
}

func same(t *testing.T, run string, got, want []string) {
	t.Helper()
	g, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	w, err := json.MarshalIndent(want, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if len(want) == 0 || !bytes.Equal(g, w) {
		t.Errorf("run %s\n%s\nwant\n%s", run, g, w)
	}
}
