package pipeline

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// 1. A task is queued, and then started and completed, or cancelled while queued. 2.
// RAW loses its oldest entries, by age or size, including the queued entry: every run
// that was queued for some time passes through this state. 3. Rebuild.
//
// The run must not count as covered from its beginning: its record has no queued_at,
// and that of a task cancelled while queued not even an end.
func TestRebuildFindsNoDifferenceWhenAQueuedEntryHasAgedOut(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"done", "cancelled"} {
		t.Run(how, func(t *testing.T) {
			s, b := serve(t)
			startNormalizer(t, s)
			bustest.Submit(t, bustest.Connect(t, s, embedded.ResponderUser), "T-1")
			log, err := b.OpenLog(t.Context(), "codex", "T-1", runs.Mark{})
			if err != nil {
				t.Fatal(err)
			}
			entries := bustest.CorpusLog(t, "shell-ok", 700)
			if how == "cancelled" {
				entries = []runs.Entry{{Kind: runs.Cancelled, Time: 2000, Body: runs.Encode(runs.Remark{})}}
			}
			for _, e := range entries {
				if err := log.Append(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			bustest.Recorded(t, b, "T-1")
			raw, err := b.JetStream().Stream(t.Context(), b.Raw())
			if err == nil {
				err = raw.Purge(t.Context(), jetstream.WithPurgeSequence(2))
			}
			if err != nil {
				t.Fatal(err)
			}
			found, err := Rebuild(t.Context(), b, []normalizer.Backend{codex.Backend{}}, 0, zap.NewNop())
			if err != nil || len(found.Differences) != 0 {
				t.Errorf("rebuild: %+v %v", found, err)
			}
		})
	}
}

// 1. Everything runs as in `linesman up`. 2. WORK is deleted.
//
// If the normalizer did not recreate it, as it does RAW, EVENTS and RUNS, every
// submission would fail, and every queued run would stay queued until `up` is
// restarted, since no other role creates streams.
func TestAWorkStreamThatWasDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	startNormalizer(t, s)
	r := bustest.Connect(t, s, embedded.ResponderUser)
	bustest.Submit(t, r, "T-1")
	bustest.Until(
		t,
		"T-1 is not recorded",
		func() bool { _, ok, err := b.Record(t.Context(), "T-1"); return ok && err == nil },
	)
	if err := b.JetStream().DeleteStream(t.Context(), b.Work()); err != nil {
		t.Fatal(err)
	}
	bustest.Until(t, "WORK is gone, and stays so", func() bool {
		_, err := b.JetStream().Stream(t.Context(), b.Work())
		return err == nil
	})
	bustest.Submit(t, r, "T-2")
}

// 1. Two responders with different queues receive a submission with the same run id at
// the same time. Both find no log, and both store a message in WORK, whose fence is per
// queue; one stores the queued entry. 2. The other one gets ErrMoved, which must not
// count as a worker that was faster. (With one queue the same happens if a worker
// starts and acknowledges the first task between the second caller's check of the log
// and its message.)
//
// Otherwise both callers would be told that their task is queued, one of the two
// prompts would never run, and its caller would get the other's results.
func TestOneOfTwoSubmissionsOfAnIDIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	one, two := bustest.Connect(t, s, embedded.ResponderUser), bustest.Connect(t, s, embedded.ResponderUser)
	both := 0
	for i := range 40 {
		run := fmt.Sprintf("T-%d", i)
		var race sync.WaitGroup
		var errs [2]error
		for k, b := range []*bus.Bus{one, two} {
			race.Go(func() {
				task := bustest.Task(run)
				task.Prompt = fmt.Sprint(k)
				_, _, errs[k] = b.Submit(t.Context(), fmt.Sprintf("q%d", k), task, 1000)
				if errs[k] != nil && !errors.Is(errs[k], runs.ErrKnownRun) {
					t.Error(errs[k])
				}
			})
		}
		race.Wait()
		if errs[0] == nil && errs[1] == nil {
			both++
		}
	}
	if both > 0 {
		t.Errorf("%d of 40 ids were taken twice", both)
	}
}

// 1. A run ends, and a cleanup removes its record: a delete marker remains for
// runs.max_age. 2. RAW expires (72 h). 3. A task is submitted with the same id, as a
// caller with ids of its own may do.
//
// If the worker ran it, the normalizer would ignore it as a removed run: no event, no
// record, no answer.
func TestASubmissionUnderARemovedIDIsRefusedOrRecorded(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	startNormalizer(t, s)
	r := bustest.Connect(t, s, embedded.ResponderUser)
	life := func() error {
		_, _, err := r.Submit(t.Context(), bus.DefaultQueue, bustest.Task("T-1"), 1000)
		if err != nil {
			return err
		}
		d := bustest.Take(t, bustest.Connect(t, s, embedded.WorkerUser))
		log, err := b.OpenLog(t.Context(), "codex", "T-1", runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range bustest.CorpusLog(t, "shell-ok", 700) {
			if err := log.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		return d.Done()
	}
	if err := life(); err != nil {
		t.Fatal(err)
	}
	bustest.Recorded(t, b, "T-1")
	bustest.Until(t, "the record cannot be removed", func() bool {
		_, revision, err := (&session{Normalizer: newNormalizer(b), buckets: map[string]*bucket.Bucket{}}).loadRecord(
			t.Context(),
			"T-1",
			false,
		)
		return err == nil && r.RemoveRun(t.Context(), "T-1", revision) == nil
	})
	bustest.Purge(t, b.JetStream(), b.Raw())
	if err := life(); errors.Is(err, runs.ErrKnownRun) {
		return
	} else if err != nil {
		t.Fatal(err)
	}
	want := bustest.LastSeq(t, b.JetStream(), b.Raw())
	if err := b.Reached(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := b.Record(t.Context(), "T-1"); err != nil || !ok {
		t.Errorf("a task was taken and done, and has no record: %v", err)
	}
}
