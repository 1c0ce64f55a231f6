package pipeline

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// An agent is silent while RUNS removes records for its size several times. Then it writes again and ends: its record
// has all its lines, whether the normalizer was restarted meanwhile or not.
func TestSilentRunKeepsItsRecordInAFullStream(t *testing.T) {
	t.Parallel()
	begun, rest := silentLog(t)
	for name, restarted := range map[string]bool{"one normalizer": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, role := fewRuns(t, 1<<17)
			write := appender(t, b, "silent")
			write(begun...)
			term := newByHand(t, role)
			short := bustest.CorpusLog(t, "hello", 4096)
			for i := range 250 {
				appender(t, b, fmt.Sprint("short", i))(short...)
				if i%5 == 4 {
					term.fold(t)
					term.keepUp(t)
				}
				if restarted && i%25 == 24 {
					term.close()
					term = newByHand(t, role)
				}
			}
			if n := len(records(t, b)); n > 200 {
				t.Fatalf("RUNS has %d of 251 records: too few were removed", n)
			}
			write(rest...)
			term.fold(t)
			term.close()
			_, unbroken := serve(t)
			appender(t, unbroken, "silent")(slices.Concat(begun, rest)...)
			normalize(t, unbroken)
			have, _, _ := strings.Cut(records(t, b)["silent"], `,"raw_seq"`)
			want, _, _ := strings.Cut(records(t, unbroken)["silent"], `,"raw_seq"`)
			if have != want {
				t.Errorf("record\n got %s\nwant %s", have, want)
			}
		})
	}
}

// Records that are almost as old as RUNS keeps them are stored again if their runs are open.
func TestSilentRunKeepsItsRecordForLonger(t *testing.T) {
	t.Parallel()
	b, role := fewRuns(t, 1<<26)
	begun, _ := silentLog(t)
	appender(t, b, "silent")(begun...)
	term := newByHand(t, role)
	term.fold(t)
	short := bustest.CorpusLog(t, "hello", 4096)
	for i := range 20 {
		appender(t, b, fmt.Sprint("ended", i))(short...)
	}
	term.fold(t)
	before := revisions(t, b)
	_, info, err := term.checkStreams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []time.Duration{6, 7} {
		info.TimeStamp = info.State.FirstTime.Add(info.Config.MaxAge / 8 * part)
		term.keepOpen(t.Context(), info)
		term.look(t)
		term.record(t)
		have := revisions(t, b)
		if again := have["silent"] != before["silent"]; again != (part == 7) {
			t.Errorf("after %d eighths of the age: stored again: %v", part, again)
		}
		if delete(have, "silent"); len(have) != 20 {
			t.Errorf("%d ended runs", len(have))
		}
		for run, revision := range have {
			if before[run] != revision {
				t.Errorf("%s, which has ended, was stored again", run)
			}
		}
	}
	term.close()
}

// silentLog returns the log of a run in two parts, each of whole lines.
func silentLog(t *testing.T) (begun, rest []runs.Entry) {
	t.Helper()
	log := bustest.CorpusLog(t, "plan", 1<<20)
	end := int64(bytes.IndexByte(log[1].Body, '\n') + 1)
	first, others := log[1], log[1]
	first.Body, others.Body, others.Offset = first.Body[:end], others.Body[end:], end
	return []runs.Entry{log[0], first}, append([]runs.Entry{others}, log[2:]...)
}

// revisions returns the revision of each record.
func revisions(t *testing.T, b *bus.Bus) map[string]uint64 {
	t.Helper()
	all := map[string]uint64{}
	for run := range records(t, b) {
		e, err := bucket.New(b.JetStream(), b.Runs()).Get(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		all[run] = e.Revision
	}
	return all
}

// fewRuns serves streams with a RUNS of so many bytes, and connects as operator and as normalizer.
func fewRuns(t *testing.T, size int64) (operator, role *bus.Bus) {
	t.Helper()
	s, b := serve(t)
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<28, 1<<28, size
	if _, err := b.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	return b, bustest.Connect(t, s, "normalizer")
}

// byHand is a term whose steps the test takes.
type byHand struct {
	*session
	raw jetstream.Consumer
}

func newByHand(t *testing.T, b *bus.Bus) *byHand {
	t.Helper()
	n := newNormalizer(b)
	s, err := n.open(t.Context(), n.Log)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.JetStream().OrderedConsumer(t.Context(), b.Raw(), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.last.Raw + 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &byHand{s, raw}
}

// fold folds and records all that there is.
func (s *byHand) fold(t *testing.T) {
	t.Helper()
	last := bustest.LastSeq(t, s.Bus.JetStream(), s.Bus.Raw())
	for s.session.raw < last {
		m, err := s.raw.Next()
		if err == nil {
			err = s.entry(t.Context(), m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.record(t)
}

// keepUp does what upkeep does for RUNS.
func (s *byHand) keepUp(t *testing.T) {
	t.Helper()
	_, info, err := s.checkStreams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.keepOpen(t.Context(), info)
	s.look(t)
	s.record(t)
}

// look waits until all old records were looked at.
func (s *byHand) look(t *testing.T) {
	t.Helper()
	for more := s.keep.looks != nil; more; {
		found := <-s.keep.looks
		more = found.more
		if err := s.hasLooked(t.Context(), found); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *byHand) record(t *testing.T) {
	t.Helper()
	if err := s.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// appender returns what appends to the log of a new run.
func appender(t *testing.T, b *bus.Bus, run string) func(...runs.Entry) {
	t.Helper()
	l, err := b.OpenLog(t.Context(), "codex", run, runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	return func(all ...runs.Entry) {
		t.Helper()
		for _, e := range all {
			if err := l.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
}
