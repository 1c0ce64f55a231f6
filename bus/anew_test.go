package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/codex"
	"github.com/linesman/linesman/runs"
)

// 1. A task is queued, then started and done, or cancelled where it waits. 2.
// RAW loses its oldest entries, by age or size, up to behind the queued entry:
// every run that is queued for some time passes through this. 3. Rebuild.
//
// Consequence: the run counts as covered from its beginning, and differs: its
// record without queued_at, and of a cancel without queued not even an end.
// compareRun takes a run for partial only by its gaps and its start.
func TestRebuildFindsNoDifferenceWhenAQueuedEntryHasAgedOut(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"done", "cancelled"} {
		t.Run(how, func(t *testing.T) {
			s, b := serve(t)
			office(t, s)
			submit(t, connect(t, s, ResponderUser), "T-1")
			log, err := b.OpenLog(t.Context(), "codex", "T-1", runs.Mark{})
			if err != nil {
				t.Fatal(err)
			}
			entries := corpusLog(t, "shell-ok", 700)
			if how == "cancelled" {
				entries = []runs.Entry{{Kind: runs.Cancelled, Time: 2000, Body: runs.Encode(runs.Remark{})}}
			}
			for _, e := range entries {
				if err := log.Append(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			recorded(t, b, "T-1")
			raw, err := b.js.Stream(t.Context(), b.Raw())
			if err == nil {
				err = raw.Purge(t.Context(), jetstream.WithPurgeSequence(2))
			}
			if err != nil {
				t.Fatal(err)
			}
			found, err := b.Rebuild(t.Context(), []normalizer.Backend{codex.Backend{}}, 0, b.log)
			if err != nil || len(found.Differences) != 0 {
				t.Errorf("rebuild: %+v %v", found, err)
			}
		})
	}
}

// 1. Everything runs as in `linesman up`. 2. WORK is deleted. The normalizer
// looks around for RAW, EVENTS and RUNS, and has those made again; WORK is not
// among them, and no other role makes streams.
//
// Consequence: every submission fails, and every queued run stays queued (of
// an error endUnqueued concludes nothing), until `up` is started again.
func TestAWorkStreamThatWasDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	office(t, s)
	r := connect(t, s, ResponderUser)
	submit(t, r, "T-1")
	until(t, "T-1 is not recorded", func() bool { _, ok, err := b.Record(t.Context(), "T-1"); return ok && err == nil })
	if err := b.js.DeleteStream(t.Context(), b.Work()); err != nil {
		t.Fatal(err)
	}
	until(t, "WORK is gone, and stays so", func() bool {
		_, err := b.js.Stream(t.Context(), b.Work())
		return err == nil
	})
	submit(t, r, "T-2")
}

// 1. A responder follows the beats of a worker; the stream has come to
// sequence N. 2. The bucket is deleted and made anew at once, as by a restore.
// The ordered consumer is made again by the client library, beyond the new
// stream's end: it brings nothing, and there is no error.
//
// Consequence: no worker is heard until the new stream has passed N, which with
// a checkpoint a second may be days; all are taken for gone, and their silent
// runs are ended as lost after stuck_after. WatchRuns has the same hole.
func TestAWatchHearsOfAStreamThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	r, w := connect(t, s, ResponderUser), connect(t, s, WorkerUser)
	say := func(slots int) error {
		return w.beat(t.Context(), runs.Beat{ID: "here", Name: "here", Slots: slots}, time.Minute)
	}
	for range 50 {
		if err := say(1); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	var mu sync.Mutex
	slots := 0
	heard := func(want int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return slots == want }
	}
	watch.Go(func() {
		err := r.WatchBeats(ctx, func(v runs.Beat, _ time.Time) { mu.Lock(); defer mu.Unlock(); slots = v.Slots })
		if err != nil {
			t.Error(err)
		}
	})
	until(t, "nothing is heard", heard(1))
	remake(t, b, b.js, bucketStream(b.State()))
	until(t, "what is said after the bucket was made anew is not heard", func() bool {
		if lastSeq(t, b.js, bucketStream(b.State())) < 40 {
			if err := say(2); err != nil {
				t.Logf("beat: %v", err)
			}
		}
		return heard(2)()
	})
}

// 1. Two responders with different queues take a submission under the same run
// id at the same time. Both find no log, both put a message into WORK (the
// fence there is by queue), one stores the queued entry. 2. The other gets
// ErrMoved, and takes that for a worker that was quicker. (With one queue the
// same happens where a worker begins and acknowledges the first task between
// the second caller's look at the log and its message.)
//
// Consequence: both callers are told that their task is queued; one of the two
// prompts is never run, and its caller gets the other's results.
func TestOneOfTwoSubmissionsOfAnIDIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	one, two := connect(t, s, ResponderUser), connect(t, s, ResponderUser)
	both := 0
	for i := range 40 {
		run := fmt.Sprintf("T-%d", i)
		var race sync.WaitGroup
		var errs [2]error
		for k, b := range []*Bus{one, two} {
			race.Go(func() {
				task := task(run)
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

// 1. A run ends, and a cleanup removes its record: a delete marker stays for
// runs.max_age. 2. RAW ages out (72 h). 3. A task is submitted under the same
// id, as a caller with ids of its own may. Submit looks at RAW alone and takes it.
//
// Consequence: the worker runs it, but to the normalizer the run "was removed":
// no event, no record, no answer ever. Known() asks RUNS; Submit does not.
func TestASubmissionUnderARemovedIDIsRefusedOrRecorded(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	office(t, s)
	r := connect(t, s, ResponderUser)
	life := func() error {
		_, _, err := r.Submit(t.Context(), DefaultQueue, task("T-1"), 1000)
		if err != nil {
			return err
		}
		d := take(t, connect(t, s, WorkerUser))
		log, err := b.OpenLog(t.Context(), "codex", "T-1", runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range corpusLog(t, "shell-ok", 700) {
			if err := log.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		return d.Done()
	}
	if err := life(); err != nil {
		t.Fatal(err)
	}
	recorded(t, b, "T-1")
	until(t, "the record cannot be removed", func() bool {
		_, revision, err := (&session{Normalizer: newNormalizer(b), buckets: map[string]jetstream.Stream{}}).loadRecord(t.Context(), "T-1")
		return err == nil && r.RemoveRun(t.Context(), "T-1", revision) == nil
	})
	raw, err := b.js.Stream(t.Context(), b.Raw())
	if err == nil {
		err = raw.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := life(); errors.Is(err, runs.ErrKnownRun) {
		return
	} else if err != nil {
		t.Fatal(err)
	}
	want := lastSeq(t, b.js, b.Raw())
	if err := b.normalizerReached(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := b.Record(t.Context(), "T-1"); err != nil || !ok {
		t.Errorf("a task was taken and done, and has no record: %v", err)
	}
}
