package worker

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

// pipe drives a run whose Pipe reads in.
func (l *fixture) pipe(ctx context.Context, in io.Reader, limit int64) (runs.Exit, error) {
	l.t.Helper()
	d := l.create(Spec{Run: "p", Attributes: runs.Attributes{Agent: "codex"}, Source: runs.SourcePipe,
		Limits: Limits{Spool: limit}})
	done := make(chan error, 1)
	go func() { done <- Pipe(ctx, in, d) }()
	ex, err := l.w.Run(d).Drive(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return ex, <-done
}

func TestPipeKeepsAllOfItsInput(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, in, out string
		limit         int64
		want          runs.Exit
	}{
		{"nothing", "", "", 0, runs.Exit{Reason: runs.ReasonEOF}},
		{"lines", "one\ntwo\n", "one\ntwo\n", 0, runs.Exit{Reason: runs.ReasonEOF}},
		{"torn", "one\ntw", "one\ntw", 0, runs.Exit{Reason: runs.ReasonEOF, Torn: true}},
		{"as much as allowed", "0123456789", "0123456789", 10, runs.Exit{Reason: runs.ReasonEOF, Torn: true}},
		{"more than allowed", "0123456789x", "0123456789", 10, runs.Exit{Reason: runs.ReasonSpool, Torn: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newFixture(t)
			ex, err := l.pipe(t.Context(), strings.NewReader(test.in), test.limit)
			if err != nil || !sameExit(ex, test.want) || !sameExit(l.exit("p"), test.want) {
				t.Errorf("exit %s, error %v, want %s", runs.Encode(ex), err, runs.Encode(test.want))
			}
			if l.output("p") != test.out || !l.empty() {
				t.Errorf("output %q, want %q; directory removed: %t", l.output("p"), test.out, l.empty())
			}
		})
	}
}

func TestPipeFollowsItsInput(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	type both struct {
		ex  runs.Exit
		err error
	}
	done := make(chan both, 1)
	go func() { ex, err := l.pipe(t.Context(), r, 0); done <- both{ex, err} }()
	for _, line := range []string{"one\n", "two\n"} {
		_, _ = io.WriteString(w, line)
		l.await("p", line)
	}
	w.Close()
	if got := <-done; got.err != nil || got.ex.Reason != runs.ReasonEOF {
		t.Errorf("exit %s, error %v", runs.Encode(got.ex), got.err)
	}
}

func TestPipeLeavesAnIdleInputWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	ex, err := l.pipe(ctx, r, 0)
	if !errors.Is(err, context.DeadlineExceeded) || ex.Reason != runs.ReasonEOF {
		t.Errorf("exit %s, error %v", runs.Encode(ex), err)
	}
}

func TestReadErrorEndsThePipeAsLost(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	broken := errors.New("broken")
	ex, err := l.pipe(t.Context(), io.MultiReader(strings.NewReader("one\n"), errReader{broken}), 0)
	if !errors.Is(err, broken) || ex.Reason != runs.ReasonLost || l.output("p") != "one\n" {
		t.Errorf("exit %s, error %v, output %q", runs.Encode(ex), err, l.output("p"))
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestCancelledPipeEndsAtOnce(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	d := l.create(Spec{Run: "p", Attributes: runs.Attributes{Agent: "codex"}, Source: runs.SourcePipe})
	defer d.Close()
	r := l.w.Run(d)
	r.cancels <- "no more"
	ex, err := r.Drive(t.Context())
	if err != nil || ex.Reason != runs.ReasonCancelled || l.kinds("p") != "start cancel exit" {
		t.Errorf("exit %s, error %v, log %q", runs.Encode(ex), err, l.kinds("p"))
	}
	if err := r.Interrupt(); !errors.Is(err, errNoAgent) {
		t.Errorf("interrupt: %v", err)
	}
}

func TestKilledPipeIsReadToItsEndByTheNextWorker(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cmd := l.process(r, nil, "pipe")
	r.Close()
	_, _ = io.WriteString(w, "one\ntw")
	l.await("piped", "one\n")
	waitFor(t, "the spool", func() bool { return contents(t, l.root+"/piped/"+outFile) == "one\ntw" })
	kill(cmd)
	l.adopt()
	waitFor(t, "the end", func() bool { return l.ended("piped") && l.empty() })
	want := runs.Exit{Reason: runs.ReasonEOF, Torn: true}
	if l.output("piped") != "one\ntw" || !sameExit(l.exit("piped"), want) {
		t.Errorf("output %q, exit %s", l.output("piped"), runs.Encode(l.exit("piped")))
	}
}
