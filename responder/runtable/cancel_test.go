package runtable_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
)

// takenOver are streams in which a worker takes a run over right after its owner was asked in vain.
type takenOver struct {
	runtable.Streams
	takeOver func()
}

func (s takenOver) AskCancel(ctx context.Context, run, reason string) error {
	defer s.takeOver()
	return s.Streams.AskCancel(ctx, run, reason)
}

// A worker that takes over a silent run while it is cancelled has read its log before the cancel entry,
// and has no reason to read it again.
func TestRunThatIsTakenOverWhileItIsCancelledIsCancelled(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	owner := l.bus(embedded.WorkerUser)
	log, err := owner.OpenLog(l.soon(), "codex", "T-silent", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	started := runs.Entry{Kind: runs.Started, Time: time.Now().UnixMilli(), Body: runs.Encode(runs.Start{Source: "run"})}
	if err := log.Append(l.soon(), started); err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1)
	listen := sync.OnceFunc(func() {
		stop, err := owner.Listen("T-silent", cancelled{reasons: asked})
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(stop)
		if m, err := owner.OpenLog(l.soon(), "codex", "T-silent", runs.Mark{}); err != nil || m.Mark().Cancelled {
			t.Errorf("the new owner reads %+v, %v", m, err)
		}
	})
	table := l.respond(func(c *runtable.Config) { c.Streams = takenOver{c.Streams, listen} })
	l.reaches("T-silent", func(v runs.Header) bool { return v.State == runs.StateWorking })
	if _, err := table.Cancel(l.soon(), "T-silent", "why"); err != nil {
		t.Fatal(err)
	}
	select {
	case reason := <-asked:
		if reason != "why" {
			t.Errorf("the reason is %q", reason)
		}
	case <-l.soon().Done():
		t.Error("the new owner does not hear of the cancel")
	}
}

// An owner that cannot say that it has stored a cancel, as a worker that stops, is followed by one that finds it.
func TestCancelThatTheOwnerDidNotStoreIsStored(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	owner := l.bus(embedded.WorkerUser)
	log, err := owner.OpenLog(l.soon(), "codex", "T-stops", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	started := runs.Entry{Kind: runs.Started, Time: time.Now().UnixMilli(), Body: runs.Encode(runs.Start{Source: "run"})}
	if err := log.Append(l.soon(), started); err != nil {
		t.Fatal(err)
	}
	stop, err := owner.Listen("T-stops", stops{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	table := l.respond(nil)
	l.reaches("T-stops", func(v runs.Header) bool { return v.State == runs.StateWorking })
	if _, err := table.Cancel(l.soon(), "T-stops", "why"); err != nil {
		t.Fatal(err)
	}
	next, err := owner.OpenLog(l.soon(), "codex", "T-stops", runs.Mark{})
	if err != nil || !next.Mark().Cancelled {
		t.Errorf("the next owner does not find the cancel, error %v", err)
	}
}

// stops is the owner of a run that is about to stop.
type stops struct{ bus.Owner }

func (stops) Cancel(context.Context, string) error { return errors.New("not stored") }

// cancelled is the owner of a run that passes on the reasons of cancels.
type cancelled struct {
	bus.Owner
	reasons chan<- string
}

func (c cancelled) Cancel(_ context.Context, reason string) error {
	c.reasons <- reason
	return nil
}
