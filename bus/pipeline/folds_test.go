package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// saving returns a normalizer that saves folds after so much of a run.
func saving(b *bus.Bus, every int64) *Normalizer {
	n := newNormalizer(b)
	n.By, n.foldEvery, n.Backends = "test", every, known.Agents.Backends()
	return n
}

func runTo(t testing.TB, n *Normalizer) {
	t.Helper()
	n.Until = bustest.LastSeq(t, n.Bus.JetStream(), n.Bus.Raw())
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// savedOf returns the saved folds of a run.
func savedOf(t testing.TB, b *bus.Bus, agent, run string) (all []runs.SavedFold) {
	t.Helper()
	err := b.SavedFolds(t.Context(), agent, run, math.MaxUint64, func(f runs.SavedFold) (bool, error) {
		all = append(all, f)
		return false, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ends compares what follows the saved folds of a run, folded with details, with what a fold from the beginning
// has there. It returns the number of saved folds.
func ends(t testing.TB, b *bus.Bus, backend normalizer.Backend, run string) int {
	t.Helper()
	type entry struct {
		seq uint64
		runs.Entry
	}
	var log []entry
	err := b.Entries(t.Context(), backend.Agent(), run, 1, false, func(seq uint64, e runs.Entry) error {
		log = append(log, entry{seq, e})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var want []normalizer.Message
	whole := normalizer.NewDetailFold(backend, run, 0, nil)
	for _, e := range log {
		whole.Apply(e.seq, e.Entry, func(m normalizer.Message) { want = append(want, m) })
	}
	all := savedOf(t, b, backend.Agent(), run)
	for _, f := range all {
		fold, err := normalizer.RestoreDetailFold(backend, f.Record, f.State, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []normalizer.Message
		for _, e := range log {
			for _, s := range fold.Again() {
				if e.Kind == runs.ErrOut && s.From <= e.seq && e.seq <= s.To {
					fold.Apply(e.seq, e.Entry, nil)
				}
			}
		}
		for _, e := range log {
			if e.seq > f.Seq {
				fold.Apply(e.seq, e.Entry, func(m normalizer.Message) { got = append(got, m) })
			}
		}
		end := want
		for len(end) > 0 && end[0].Raw <= f.Seq {
			end = end[1:]
		}
		if len(got)+len(end) > 0 && !reflect.DeepEqual(got, end) {
			t.Errorf("run %s, behind %d: %d items, want %d of %d", run, f.Seq, len(got), len(end), len(want))
		}
	}
	return len(all)
}

// linesOf returns a recorded run as a raw log with an entry for each line.
func linesOf(t *testing.T, name string) []runs.Entry {
	log := bustest.CorpusLog(t, name, 1<<20)
	lines := log[:1:1]
	for line := range bytes.Lines(log[1].Body) {
		at := int64(0)
		if last := lines[len(lines)-1]; last.Kind == runs.Out {
			at = last.Offset + int64(len(last.Body))
		}
		lines = append(lines, runs.Entry{Kind: runs.Out, Time: 2_000, Offset: at, Body: line})
	}
	return append(lines, log[2])
}

// logOf returns output as a raw log in random chunks, with stderr between them; some are repeated, and some are torn.
func logOf(r *rand.Rand, out []byte) []runs.Entry {
	log := []runs.Entry{{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: "run"})}}
	errOut := int64(0)
	size := len(out)/100 + r.IntN(len(out)/10+100)
	for at := 0; at < len(out); {
		n := min(1+r.IntN(size), len(out)-at)
		if end := bytes.LastIndexByte(out[at:at+n], '\n'); r.IntN(2) > 0 && end >= 0 {
			n = end + 1
		}
		if r.IntN(30) > 0 { // else bytes are missing
			log = append(log, runs.Entry{Kind: runs.Out, Time: int64(at), Offset: int64(at), Body: out[at : at+n]})
		}
		at += n
		if r.IntN(5) == 0 {
			body := fmt.Appendf(nil, "stderr at %d\n", at)
			log = append(log, runs.Entry{Kind: runs.ErrOut, Time: int64(at), Offset: errOut, Body: body})
			errOut += int64(len(body))
		}
	}
	exit := runs.Exit{Reason: runs.ReasonExited, Code: new(r.IntN(2))}
	return append(log, runs.Entry{Kind: runs.Exited, Time: 9_000, Body: runs.Encode(exit)})
}

// Behind each saved fold are the items of a fold of the whole log, of all agents, wherever a line is torn,
// and however often the normalizer is killed.
func TestItemsBehindASavedFoldAreThoseOfTheWholeLog(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	found, number := 0, 0
	type recording struct {
		file    string
		backend normalizer.Backend
	}
	var recordings []recording
	for _, a := range known.Agents {
		files, err := filepath.Glob(fixture.Path(t, "test", "corpus", a.Short, "*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			recordings = append(recordings, recording{file, a.Backend})
		}
	}
	for i := range 100 / fixture.Every(5) {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		one := recordings[r.IntN(len(recordings))]
		out, err := os.ReadFile(one.file)
		if err != nil {
			t.Fatal(err)
		}
		number++
		run := fmt.Sprint("run-", number)
		l, err := b.OpenLog(t.Context(), one.backend.Agent(), run, runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		every := []int64{1300, 3000, 20_000}[r.IntN(3)]
		for _, e := range logOf(r, out) {
			if err := l.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			if r.IntN(40) == 0 {
				n := saving(b, every)
				n.Until = bustest.LastSeq(t, b.JetStream(), b.Raw())
				end := bustest.LastSeq(t, b.PublicJetStream(), b.Names.Events()) + 1 + r.Uint64N(20)
				n.die = func(next uint64) bool { return next == end }
				if err := n.term(t.Context(), n.Log); err != nil && !errors.Is(err, errDied) {
					t.Fatal(err)
				}
			}
		}
		runTo(t, saving(b, every))
		found += ends(t, b, one.backend, run)
		if t.Failed() {
			t.Fatalf("%s, chosen by %d", one.file, i)
		}
	}
	if found < number {
		t.Errorf("only %d saved folds of %d runs", found, number)
	}
}

// A run is read again from its beginning after its events were lost: what was saved before, and what is then, is right.
// After RAW was recreated, the fold of an open run is not that of the log, and is not saved.
func TestSavedFoldsAfterLosses(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	log := linesOf(t, "shell-fail")
	logs := map[string][]runs.Entry{"open": log[:len(log)-1], "ended": log}
	bustest.Interleave(t, b, logs, "open", "ended")
	expect := func(what string, open, ended bool) {
		t.Helper()
		runTo(t, saving(b, 1300))
		for run, want := range map[string]bool{"open": open, "ended": ended} {
			if n := ends(t, b, codex.Backend{}, run); n > 1 != want {
				t.Errorf("%s: %d saved folds of the run %s", what, n, run)
			}
		}
	}
	expect("at first", true, true)
	bustest.Remake(t, b, b.PublicJetStream(), b.Names.Events())
	expect("without EVENTS", true, true)
	bustest.Remake(t, b, b.JetStream(), bucket.Stream(b.Names.State()))
	expect("without the checkpoint", true, true)
	bustest.Remake(t, b, b.JetStream(), bucket.Stream(b.Folds()))
	expect("without saved folds", false, false)
	bustest.Remake(t, b, b.PublicJetStream(), b.Names.Events())
	expect("derived again", true, true)
	bustest.Remake(t, b, b.JetStream(), b.Raw())
	bustest.Interleave(t, b, map[string][]runs.Entry{"open": log}, "open")
	expect("without RAW", false, false)
}

// Another program, or another setting, does not save what a former one began.
func TestFoldThatAnotherProgramBeganIsNotSaved(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	log := linesOf(t, "shell-fail")
	bustest.Interleave(t, b, map[string][]runs.Entry{"T-1": log[:4]}, "T-1")
	n := saving(b, math.MaxInt64)
	runTo(t, n)
	l, err := b.OpenLog(t.Context(), "codex", "T-1", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	for i, by := range []string{"another", n.By} { // which has not folded all of it
		for _, e := range log[4+4*i:][:4] {
			if err := l.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		n := saving(b, 1300)
		n.By = by
		runTo(t, n)
		if all := savedOf(t, b, "codex", "T-1"); len(all) > 0 {
			t.Errorf("%d saved folds", len(all))
		}
	}
}

// A short run has no saved fold, a rebuild saves none, and leaves none.
func TestFoldsOfShortRunsAndRebuildsAreNotSaved(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	bustest.Interleave(t, b, map[string][]runs.Entry{"T-1": linesOf(t, "shell-fail")}, "T-1")
	runTo(t, saving(b, 0))
	if _, err := rebuild(t.Context(), newNormalizer(b), maxSuspects); err != nil {
		t.Fatal(err)
	}
	if n := bustest.Dump(t, b.JetStream(), bucket.Stream(b.Folds())); len(n) > 1 { // the first message of the term
		t.Errorf("%d messages", len(n))
	}
}

// A normalizer that was paused before it stored the saved folds of a cut stores none of a run that another one has
// ended, and that was then forgotten.
func TestSavedFoldsOfAForgottenRunAreRefused(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"test", ""} { // the other one saves folds, or does not
		t.Run("by "+by, func(t *testing.T) {
			t.Parallel()
			s, b := serve(t)
			bustest.Interleave(t, b, map[string][]runs.Entry{"gone": linesOf(t, "shell-fail")}, "gone")
			n := saving(bustest.Connect(t, s, embedded.NormalizerUser), 1300)
			n.CutEvery, n.die = time.Hour, func(next uint64) bool { return next == 6 }
			paused, err := n.open(t.Context(), n.Log)
			if err != nil {
				t.Fatal(err)
			}
			if err := paused.work(t.Context()); !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			paused.close()
			waiting := paused.saved.take()
			if len(waiting) < 2 || paused.saved.last == 0 {
				t.Fatalf("only %d, behind %d", len(waiting), paused.saved.last)
			}
			other := saving(b, 1300)
			other.By = by
			runTo(t, other)
			if found := ends(t, b, codex.Backend{}, "gone"); by != "" && found < 2 {
				t.Fatalf("only %d saved folds of a run", found)
			}
			if _, err := b.Forget(t.Context(), "gone"); err != nil {
				t.Fatal(err)
			}
			for range 2 { // it is refused, and then does not know what comes next
				paused.storeFolds(t.Context(), waiting)
				bustest.EachStored(t, b, func(_, subject string, _ nats.Header, body []byte) {
					if strings.HasPrefix(subject, bucket.Subject(b.Folds(), "gone")) {
						t.Errorf("%s was stored: %.200s", subject, body)
					}
				})
			}
			if paused.saved.last == 0 {
				t.Error("it has not begun again")
			}
			if err := paused.saveCheckpoint(t.Context(), paused.last); err == nil {
				t.Error("it stores another cut")
			}
		})
	}
}
