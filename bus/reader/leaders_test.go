package reader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/test/fixture"
)

const (
	testStream   = "EVENTS"
	laterSubject = "events.codex.x.later"
)

// twoLeaders answers for a stream with one event, as two servers do that both consider
// themselves its leader: the first requests for a message reach the former leader,
// which has nothing; all others reach the one that knows the end.
type twoLeaders struct {
	js      jetstream.JetStream
	info    jetstream.StreamInfo
	event   uint64       // 0: it was removed
	later   uint64       // one of the subject laterSubject that all servers have; 0: none
	without atomic.Int32 // number of requests that reach the former leader
	asked   atomic.Int32
}

// withoutJetStream returns a connection for answers in the place of JetStream, and one that asks.
func withoutJetStream(t *testing.T) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	s, err := server.NewServer(
		&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true},
	) // without JetStream
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Shutdown)
	if !s.ReadyForConnections(fixture.Patience) {
		t.Fatal("the server does not start")
	}
	nc, err := nats.Connect(s.ClientURL(), nats.Timeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	client, err := nats.Connect(s.ClientURL(), nats.Timeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	js, err := jetstream.New(client, jetstream.WithDefaultTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func startLeaders(t *testing.T, event, last uint64, replicas ...*jetstream.PeerInfo) *twoLeaders {
	t.Helper()
	nc, js := withoutJetStream(t)
	l := &twoLeaders{js: js, event: event, info: jetstream.StreamInfo{
		Config:  jetstream.StreamConfig{Name: testStream, AllowDirect: true},
		Created: time.Unix(1, 0).UTC(), State: jetstream.StreamState{Msgs: 1, LastSeq: last},
		Cluster: &jetstream.ClusterInfo{Leader: "a", Replicas: replicas},
	}}
	for subject, answer := range map[string]nats.MsgHandler{
		"$JS.API.STREAM.INFO.":    func(m *nats.Msg) { l.answer(m, l.info) },
		"$JS.API.STREAM.MSG.GET.": l.message, directGet: l.batch,
	} {
		if _, err := nc.Subscribe(subject+testStream, answer); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(fixture.Patience); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *twoLeaders) answer(m *nats.Msg, with any) {
	b, err := json.Marshal(with)
	if err == nil {
		_ = m.Respond(b)
	}
}

// request is one for messages.
type request struct {
	Seq     uint64 `json:"seq"`
	Subject string `json:"next_by_subj"`
}

func (l *twoLeaders) message(m *nats.Msg) {
	l.asked.Add(1)
	var ask request
	if json.Unmarshal(m.Data, &ask) == nil && ask.Subject == laterSubject && ask.Seq <= l.later {
		l.answer(m, map[string]any{"message": map[string]any{"seq": l.later}})
		return
	}
	if json.Unmarshal(m.Data, &ask) != nil || l.without.Add(-1) >= 0 || ask.Seq > l.event {
		l.answer(
			m,
			map[string]any{"error": jetstream.APIError{Code: 404, ErrorCode: jetstream.JSErrCodeMessageNotFound}},
		)
		return
	}
	l.answer(m, map[string]any{"message": map[string]any{"seq": l.event}})
}

// batch answers direct gets. A lagging replica also has nothing while the former
// leader is asked.
func (l *twoLeaders) batch(m *nats.Msg) {
	var ask request
	event := l.event
	bad := json.Unmarshal(m.Data, &ask) != nil
	if ask.Subject == laterSubject {
		event = l.later
	} else {
		bad = bad || l.without.Load() > 0
	}
	if bad || ask.Seq > event {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{headerStatus: {"404"}}})
		return
	}
	at := strconv.FormatUint(event, 10)
	_ = m.RespondMsg(
		&nats.Msg{Data: []byte("{}"), Header: nats.Header{jetstream.SequenceHeader: {at}, headerBefore: {"0"}}},
	)
	_ = m.RespondMsg(&nats.Msg{Header: nats.Header{headerStatus: {"204"}, headerBefore: {at}, headerPending: {"0"}}})
}

var (
	heard   = &jetstream.PeerInfo{Active: 100 * time.Millisecond}
	stopped = &jetstream.PeerInfo{Active: time.Minute}
)

// A former leader that was paused answers that it has nothing, while another one knows
// the end: what lies between is read nevertheless.
func TestAFormerLeaderDoesNotHideEvents(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	for _, way := range []struct{ follow, several bool }{{}, {follow: true}, {several: true}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", way), func(t *testing.T) {
			t.Parallel()
			l := startLeaders(t, 7, 10, heard, stopped)
			l.without.Store(1)
			d := NewDirect(l.js, testStream, "events.codex.x.*", "live.codex.x.*", false, 1)
			if way.several {
				d = NewSelect(l.js, testStream, "events.>", []string{"events.codex.x.a", "events.codex.x.b"}, nil, 1)
			}
			ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
			defer cancel()
			each := func(m *jetstream.RawStreamMsg) error {
				if m.Sequence != 7 {
					t.Errorf("got event %d", m.Sequence)
				}
				return enough
			}
			read := func() error { return d.Follow(ctx, each) }
			if !way.follow {
				read = func() error { return d.UpTo(ctx, &l.info, 10, each) }
			}
			if err := read(); !errors.Is(err, enough) {
				t.Errorf("the event is not read: %v, next sequence %d", err, d.from)
			}
		})
	}
}

// A former leader and a lagging replica do not know an event of one subject: a later one of another subject does not
// come before it.
func TestAFormerLeaderHidesNoEventsBetweenThoseOfOtherSubjects(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	for _, follow := range []bool{true, false} {
		t.Run(fmt.Sprint("follow ", follow), func(t *testing.T) {
			t.Parallel()
			l := startLeaders(t, 7, 10, heard, stopped)
			l.later = 9
			l.without.Store(1)
			d := NewSelect(l.js, testStream, "events.>", []string{"events.codex.x.a", laterSubject}, nil, 1)
			ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
			defer cancel()
			each := func(m *jetstream.RawStreamMsg) error {
				if m.Sequence != 7 {
					t.Errorf("got event %d", m.Sequence)
				}
				return enough
			}
			err := error(nil)
			if follow {
				err = d.Follow(ctx, each)
			} else {
				err = d.UpTo(ctx, &l.info, 10, each)
			}
			if !errors.Is(err, enough) {
				t.Errorf("the event is not read: %v, next sequence %d", err, d.from)
			}
		})
	}
}

// A reader does not wait for removed events. It stops at once if the leader had contact
// with all replicas, and otherwise after a second answer, two seconds later.
func TestAnEndThatWasRemovedIsBelieved(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]*jetstream.PeerInfo{"all follow": heard, "one was stopped": stopped} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
			defer cancel()
			var l *twoLeaders
			var d *Reader
			for late := true; late; {
				l, late = startLeaders(t, 0, 10, heard, other), false
				d = NewDirect(l.js, testStream, "events.codex.x.*", "live.codex.x.*", false, 1)
				began := time.Now()
				if err := d.UpTo(
					ctx,
					&l.info,
					10,
					func(*jetstream.RawStreamMsg) error { return nil },
				); err != nil {
					t.Fatal(err)
				}
				switch n := l.asked.Load(); {
				case (n == 1) == (other == heard):
				case other == heard && time.Since(began) >= heardWithin: // on a busy machine the first answer is too old
					late = true
				default:
					t.Errorf("the leader is asked %d times", n)
				}
			}
			d.known.created = l.info.Created
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for {
				if _, err := d.left(ctx, 0); err == nil && d.from == 11 {
					return
				}
				select {
				case <-ctx.Done():
					t.Fatal("the follower does not continue")
				case <-tick.C:
				}
			}
		})
	}
}
