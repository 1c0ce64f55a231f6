package reader

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/test/fixture"
)

// A follower of all messages was idle for a while. A message is not delivered, and the replica that is read next
// does not have it yet: it is read soon, not at the next of the long intervals.
func TestAMissedMessageThatAReplicaLacksIsReadSoon(t *testing.T) {
	t.Parallel()
	canary := fixture.StartCanary(t)
	nc, js := withoutJetStream(t)
	var last, looks, lags atomic.Int64 // lags: as many direct gets find nothing
	last.Store(1)
	respond := func(m *nats.Msg, with any) {
		if b, err := json.Marshal(with); err == nil {
			_ = m.Respond(b)
		}
	}
	for subject, answer := range map[string]nats.MsgHandler{
		"$JS.API.STREAM.INFO.": func(m *nats.Msg) {
			looks.Add(1)
			respond(m, jetstream.StreamInfo{
				Config:  jetstream.StreamConfig{Name: testStream, AllowDirect: true},
				Created: time.Unix(1, 0).UTC(), State: jetstream.StreamState{Msgs: 1, LastSeq: uint64(last.Load())},
				Cluster: &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{heard, heard}},
			})
		},
		"$JS.API.STREAM.MSG.GET.": func(m *nats.Msg) {
			respond(m, map[string]any{"message": map[string]any{"seq": last.Load()}})
		},
		directGet: func(m *nats.Msg) {
			var ask struct{ Seq int64 }
			if json.Unmarshal(m.Data, &ask) != nil || lags.Add(-1) >= 0 || ask.Seq > last.Load() {
				_ = m.RespondMsg(&nats.Msg{Header: nats.Header{headerStatus: {"404"}}})
				return
			}
			before := "0"
			for seq := ask.Seq; seq <= last.Load(); seq++ {
				at := strconv.FormatInt(seq, 10)
				_ = m.RespondMsg(&nats.Msg{Header: nats.Header{jetstream.SequenceHeader: {at}, headerBefore: {before}}})
				before = at
			}
			_ = m.RespondMsg(&nats.Msg{
				Header: nats.Header{headerStatus: {"204"}, headerBefore: {before}, headerPending: {"0"}},
			})
		},
	} {
		if _, err := nc.Subscribe(subject+testStream, answer); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(fixture.Patience); err != nil {
		t.Fatal(err)
	}
	got := make(chan uint64, 10)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		d := NewDirect(js, testStream, "events.>", "live.>", true, 1)
		done <- d.Follow(ctx, func(m *jetstream.RawStreamMsg) error {
			got <- m.Sequence
			return nil
		})
	}()
	next := func(want uint64) {
		t.Helper()
		select {
		case seq := <-got:
			if seq != want {
				t.Errorf("got %d, want %d", seq, want)
			}
		case <-time.After(fixture.Patience):
			t.Fatalf("%d does not come", want)
		}
	}
	next(1)
	fixture.Eventually(t, fixture.Patience, "it does not poll", func() bool { return looks.Load() >= 9 })
	lags.Store(1)
	last.Store(3)
	if err := nc.PublishMsg(&nats.Msg{Subject: "live.x", Header: nats.Header{
		jetstream.StreamHeader: {testStream}, jetstream.SequenceHeader: {fmt.Sprint(3)},
	}}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next(2)
	took := time.Since(began)
	next(3)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	canary.Within("the missed message came", took, 500*time.Millisecond)
}
