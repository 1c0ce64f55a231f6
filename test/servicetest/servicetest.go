// Package servicetest holds what tests of the surfaces share: a NATS server with
// its streams, a normalizer, and raw logs that a test writes in a worker's place.
package servicetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/cloud"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// Begun is when the runs of tests begin: entries carry times, and no clock is read.
const Begun = int64(1_763_461_800_000)

// Streams is a server with its streams, and a running normalizer.
type Streams struct {
	T        testing.TB
	Dir      string // of the server
	Server   *embedded.Server
	Operator *bus.Bus // with all rights
	Bus      *bus.Bus // with the rights of a responder

	Service *responder.Service // set by the test; Await asks it
}

// New starts a server, until the test ends.
func New(t testing.TB) *Streams {
	t.Helper()
	s := &Streams{T: t, Dir: t.TempDir()}
	names := bus.Names{Prefix: bus.DefaultPrefix}
	var err error
	if s.Server, err = embedded.StartServer(s.Dir, "127.0.0.1:0", names, zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Server.Stop)
	connect := func(user string) *bus.Bus {
		b, err := s.Server.Connect(t.Context(), user, names, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	s.Operator, s.Bus = connect(embedded.OperatorUser), connect(embedded.ResponderUser)
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<30, 1<<30, 1<<28
	if _, err := s.Operator.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	n := &pipeline.Normalizer{Bus: s.Operator, Out: names,
		Backends: []normalizer.Backend{codex.Backend{}, cloud.Backend{}}, Log: zap.NewNop()}
	During(t, "normalizer", n.Run)
	return s
}

// During runs something until the test ends, or the returned function is called.
func During(t testing.TB, what string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := run(ctx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// Await waits until the service knows a run to be so.
func (s *Streams) Await(id string, is func(responder.View) bool) responder.View {
	s.T.Helper()
	end := time.After(time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if v, found := s.Service.Get(id); found && is(v) {
			return v
		}
		select {
		case <-tick.C:
		case <-end:
			s.T.Fatalf("run %s does not get there", id)
		}
	}
}

// Ended is a state of [Streams.Await].
func Ended(v responder.View) bool { return v.State.Final() }

// Working is a state of [Streams.Await].
func Working(v responder.View) bool { return v.State == runs.StateWorking }

// Active is a state of [Streams.Await]: the run shows what it does.
func Active(v responder.View) bool { return v.Activity != "" }

// Log is the raw log of a run. Its entries are a second apart.
type Log struct {
	*Streams
	id  string
	Raw *bus.RawLog
	At  int64 // of the next entry, Unix milliseconds
}

// Begin begins the log of a run at [Begun], or continues that of a queued one.
func (s *Streams) Begin(agent, id string, start runs.Start) *Log {
	s.T.Helper()
	return s.BeginAt(agent, id, Begun, start)
}

// BeginAt is Begin at a time.
func (s *Streams) BeginAt(agent, id string, at int64, start runs.Start) *Log {
	s.T.Helper()
	raw, err := s.Operator.OpenLog(s.T.Context(), agent, id, runs.Mark{})
	if err != nil {
		s.T.Fatal(err)
	}
	l := &Log{Streams: s, id: id, Raw: raw, At: at}
	return l.Append(runs.Entry{Kind: runs.Started, Body: runs.Encode(start)})
}

// Append appends an entry.
func (l *Log) Append(e runs.Entry) *Log {
	l.T.Helper()
	e.Time = l.At
	l.At += 1000
	err := l.Raw.Append(l.T.Context(), e)
	if errors.Is(err, runs.ErrMoved) && e.Kind == runs.Started { // the queued entry came in between
		err = l.Raw.Append(l.T.Context(), e)
	}
	if err != nil {
		l.T.Fatal(err)
	}
	return l
}

// Out appends stdout, in the largest chunks.
func (l *Log) Out(b []byte) *Log {
	l.T.Helper()
	return l.OutIn(b, runs.MaxChunk)
}

// OutIn appends stdout, in chunks of n bytes.
func (l *Log) OutIn(b []byte, n int) *Log {
	l.T.Helper()
	for len(b) > 0 {
		k := min(len(b), n)
		l.Append(runs.Entry{Kind: runs.Out, Offset: l.Raw.Mark().Out, Body: b[:k]})
		b = b[k:]
	}
	return l
}

// Err appends stderr.
func (l *Log) Err(b []byte) *Log {
	l.T.Helper()
	return l.Append(runs.Entry{Kind: runs.ErrOut, Offset: l.Raw.Mark().Err, Body: b})
}

// Exit ends the run by its exit code.
func (l *Log) Exit(code int) {
	l.T.Helper()
	l.End(runs.Exit{Reason: runs.ReasonExited, Code: &code})
}

// End ends the run, and waits until the service knows that.
func (l *Log) End(x runs.Exit) {
	l.T.Helper()
	l.Append(runs.Entry{Kind: runs.Exited, Body: runs.Encode(x)})
	l.Await(l.id, Ended)
}

// Recording returns a file that a real agent printed.
func Recording(t testing.TB, name string) []byte {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	b, err := os.ReadFile(filepath.Join(filepath.Dir(here), "..", "corpus", "codex", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
