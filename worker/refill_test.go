package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

// RAW loses a run all of whose output it had: it gets it again before what comes next.
func TestLogLostBeforeTheEndIsFilledAgain(t *testing.T) {
	t.Parallel()
	for _, source := range []string{runs.SourceRun, runs.SourceQueue} {
		for _, test := range []struct {
			at   runs.Kind // it is lost before the first append of this kind
			kept int       // entries
			tail string    // of the output
			want string
		}{
			{runs.Exited, 0, "", "start out note exit"},
			{runs.Exited, 0, "part", "start out note exit"},
			{runs.Exited, 1, "", "start out note exit"},
			{runs.Exited, 2, "", "start out note exit"},
			{runs.Note, 0, "", "start out note exit"},
			{runs.Cancelled, 0, "", "start out cancel note exit"},
			{runs.Cancelled, 0, "part", "start out cancel out note exit"},
			{runs.Cancelled, 1, "", "start out cancel note exit"},
		} {
			name := fmt.Sprintf("%s, %d entries kept, before %s, tail %q", source, test.kept, test.at, test.tail)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := newFixture(t)
				script := "printf 'one\ntwo\n" + test.tail + "'"
				if test.at == runs.Cancelled {
					script += "; exec sleep 600"
				}
				spec := shell("r", script)
				spec.Source, spec.Dir = source, workTree(t) // so there is a note, that there is no diff
				s := &stage{fixture: l}
				l.logs.lossy = true
				s.once(isKind(test.at), false, func() { s.lose(test.kept) })
				r, done := l.driven(t.Context(), l.create(spec))
				if test.at == runs.Cancelled {
					l.await("r", "two\n")
					if err := r.Cancel(t.Context(), "enough"); err != nil {
						t.Error(err)
					}
				}
				if res := <-done; res.err != nil {
					t.Error(res.err)
				}
				if got := l.kinds("r"); got != test.want || l.output("r") != "one\ntwo\n"+test.tail || !l.empty() {
					t.Errorf("log: %s, want %s; output %q", got, test.want, l.output("r"))
				}
			})
		}
	}
}

// RAW is lost while no worker is there, and the next one is to cancel the run: it fills RAW before.
func TestRunWhoseLogWasLostIsFilledBeforeItIsCancelled(t *testing.T) {
	t.Parallel()
	s := &stage{fixture: newFixture(t)}
	s.logs.lossy = true
	ctx, stop := context.WithCancel(t.Context())
	_, done := s.driven(ctx, s.create(shell("r", "echo one; echo two; exec sleep 600")))
	s.await("r", "two\n")
	stop()
	<-done
	s.lose(0)
	r := s.w.Run(s.opened())
	r.cancels <- "enough"
	if ex, err := r.Drive(t.Context()); err != nil || ex.Reason != runs.ReasonCancelled {
		t.Errorf("exit %s, error %v", runs.Encode(ex), err)
	}
	if got := s.kinds("r"); got != "start out cancel exit" || s.output("r") != "one\ntwo\n" {
		t.Errorf("log: %s; output %q", got, s.output("r"))
	}
}

// A cancel that comes while RAW is filled again stops the agent before that is done, and loses none of its output.
func TestCancelDoesNotWaitForALostLog(t *testing.T) {
	t.Parallel()
	const lines = 24 // each has a piece of its own
	s := &stage{fixture: newFixture(t)}
	s.logs.lossy, s.w.slowAppend = true, 1 // so it is filled piece by piece
	ctx, stop := context.WithCancel(t.Context())
	script := fmt.Sprintf("for i in $(seq %d); do head -c %d /dev/zero | tr '\\0' x; echo; done; exec sleep 600",
		lines, runs.MaxChunk-1)
	_, done := s.driven(ctx, s.create(shell("r", script)))
	waitFor(t, "the output", func() bool { return len(s.output("r")) == lines*runs.MaxChunk })
	out := s.output("r")
	stop()
	<-done
	s.lose(0)
	r := s.w.Run(s.opened())
	told, pieces, toldAfter := make(chan error, 1), 0, 0
	s.logs.hook = func(_ *fileLog, e runs.Entry) runs.Entry {
		switch {
		case e.Kind != runs.Out:
			return e
		case pieces == 0:
			go func() { told <- r.Cancel(t.Context(), "enough") }()
		case toldAfter == 0:
			select {
			case err := <-told:
				if toldAfter = pieces; err != nil {
					t.Error(err)
				}
			case <-time.After(superviseInterval / 4): // an append that takes longer would be no other test
			}
		}
		pieces++
		return e
	}
	if ex, err := r.Drive(t.Context()); err != nil || ex.Reason != runs.ReasonCancelled {
		t.Errorf("exit %s, error %v", runs.Encode(ex), err)
	}
	if pieces < lines || toldAfter == 0 {
		t.Errorf("the agent was told after %d of %d pieces", toldAfter, pieces)
	}
	if got := s.kinds("r"); got != "start out cancel exit" || s.output("r") != out {
		t.Errorf("log: %s; %d of %d bytes", got, len(s.output("r")), len(out))
	}
}

// RAW is lost when it gets a cancel, or after: the run ends as cancelled all the same.
func TestCancelThatIsLostIsStoredAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		source    string
		at        runs.Kind // it is lost before the first append of this kind
		tail, out string    // of the output, and what of that RAW gets
		want      string
	}{
		{runs.SourceRun, runs.Exited, "", "", "start out cancel exit"},
		{runs.SourceRun, runs.Cancelled, "part", "part", "start out cancel out exit"},
		{runs.SourcePipe, runs.Exited, "", "", "start out cancel exit"},
		{runs.SourcePipe, runs.Cancelled, "part", "", "start out cancel exit"},
	} {
		for kept := range 3 {
			s := &stage{fixture: newFixture(t)}
			s.logs.lossy = true
			s.once(isKind(test.at), false, func() { s.lose(kept) })
			spec := shell("r", "printf 'one\n"+test.tail+"'; exec sleep 600")
			if spec.Source = test.source; test.source == runs.SourcePipe {
				spec.Argv = nil
			}
			d := s.create(spec)
			if test.source == runs.SourcePipe {
				write(t, d.file(outFile), "one\n"+test.tail)
			}
			r, done := s.driven(t.Context(), d)
			s.await("r", "one\n")
			if err := r.Cancel(t.Context(), "enough"); err != nil {
				t.Error(err)
			}
			if res := <-done; res.err != nil || res.Reason != runs.ReasonCancelled {
				t.Errorf("%+v, %d entries kept: exit %s, error %v", test, kept, runs.Encode(res.Exit), res.err)
			}
			if got := s.kinds("r"); got != test.want || s.output("r") != "one\n"+test.out ||
				!strings.Contains(string(s.entries("r")[2].Body), "enough") {
				t.Errorf("%+v, %d entries kept: log %s, output %q", test, kept, got, s.output("r"))
			}
		}
	}
}

// So does a kept run that sleeps, of which RAW gets the end of a process last.
func TestCancelOfASleepingRunThatIsLostIsStoredAgain(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes")
	s.logs.lossy = true
	s.once(isKind(runs.Exited), false, func() { s.lose(0) })
	r, done := s.driven(t.Context(), s.create(s.spec))
	s.lasts(firstTurn + wentToSleep)
	if err := r.Cancel(t.Context(), "enough"); err != nil {
		t.Error(err)
	}
	if res := <-done; res.err != nil || res.Reason != runs.ReasonCancelled {
		t.Errorf("exit %s, error %v", runs.Encode(res.Exit), res.err)
	}
	s.reads(firstTurn + wentToSleep + " cancel exit")
}
