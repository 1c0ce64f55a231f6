package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// The checkpoint of a cut is stored before its records. A run that ended within the cut
// is not forgotten before its record is stored: otherwise the normalizer's write would
// be refused, and the run would be refused as open.
func TestForgetWaitsForTheRecordsOfACutThatIsUnderWay(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	log := bustest.CorpusLog(t, "shell-ok", 500)
	bustest.Interleave(t, b, map[string][]runs.Entry{"whole": log, "half": log[:2]}, "whole", "half")
	normalize(t, b) // the record of half shows that it is open
	bustest.Interleave(t, b, map[string][]runs.Entry{"young": log}, "young")
	half, err := b.OpenLog(t.Context(), "codex", "half", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range log[2:] {
		if err := half.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}

	// As a normalizer does at the beginning of a cut.
	state, err := b.JetStream().Stream(t.Context(), bucket.Stream(b.State()))
	if err != nil {
		t.Fatal(err)
	}
	m, err := state.GetLastMsgForSubject(t.Context(), bucket.Subject(b.State(), bus.CheckpointKey))
	if err != nil {
		t.Fatal(err)
	}
	var c bus.Checkpoint
	if err := json.Unmarshal(m.Data, &c); err != nil {
		t.Fatal(err)
	}
	old := m.Data
	c.CutRaw = bustest.LastSeq(t, b.JetStream(), b.Raw())
	begun, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	subject := bucket.Subject(b.State(), bus.CheckpointKey)
	if _, err := b.JetStream().Publish(t.Context(), subject, begun); err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"young", "half"} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		f, err := b.Forget(ctx, run)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: forgotten before it was recorded: %+v, %v", run, f, err)
		}
	}

	if _, err := b.JetStream().Publish(t.Context(), subject, old); err != nil {
		t.Fatal(err)
	}
	normalize(t, b)
	for _, run := range []string{"young", "half", "whole"} {
		if f, err := b.Forget(t.Context(), run); err != nil || !f.Record || f.Entries != uint64(len(log)) {
			t.Errorf("%s: %+v, %v", run, f, err)
		}
	}
}

// A task that was cancelled while queued is removed from its queue afterwards: if the
// process is killed in between, the task stays in the queue, with its prompt.
func TestForgottenRunIsInNoQueue(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	task := runs.QueuedTask{Run: "T-1", Task: runs.Task{Attributes: runs.Attributes{Agent: "codex",
		Mode: runs.ReadOnly, Dir: "/"}, Prompt: "sentinel"}}
	for _, run := range []string{"T-1", "T-2"} {
		task.Run = run
		if _, _, err := b.Submit(t.Context(), bus.DefaultQueue, task, 1); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.AppendIf(t.Context(), "codex", "T-1", runs.Mark{}, func(runs.Mark) *runs.Entry {
		return &runs.Entry{Kind: runs.Cancelled, Time: 2, Body: runs.Encode(map[string]string{"reason": "enough"})}
	})
	if err != nil {
		t.Fatal(err)
	}
	normalize(t, b)
	if _, err := b.Forget(t.Context(), "T-1"); err != nil {
		t.Fatal(err)
	}
	for run, want := range map[string]bool{"T-1": false, "T-2": true} {
		if is, err := b.Queued(t.Context(), bus.DefaultQueue, run); err != nil || is != want {
			t.Errorf("%s is in the queue: %v, %v; want %v", run, is, err, want)
		}
	}
}
