package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// readCost is how many events were read, and the messages that the reader sent and received.
type readCost struct {
	events         int
	sent, received uint64
}

// counted reads a selection on a connection of its own, up to a number of events; 0: all. It returns how many there
// were, and how many messages the reader sent and received.
func counted(t *testing.T, s *embedded.Server, of runs.Selection, up int) readCost {
	t.Helper()
	events := 0
	reads := bustest.Connect(t, s, embedded.SubscriberUser)
	conn, enough := reads.PublicJetStream().Conn(), errors.New("enough")
	before := conn.Stats()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := reads.Read(ctx, of, func(bus.Stored) error {
		if events++; events == up {
			return enough
		}
		return nil
	}); err != nil && !errors.Is(err, enough) {
		t.Errorf("%+v: %v", of, err)
	}
	after := conn.Stats()
	return readCost{events, after.OutMsgs - before.OutMsgs, after.InMsgs - before.InMsgs}
}

// measured is counted, repeated up to five times until the cost is good: if a machine is busy, messages are sent again.
func measured(t *testing.T, s *embedded.Server, of runs.Selection, up int, good func(readCost) bool) (
	got readCost, is bool) {
	t.Helper()
	for i := 0; i < 5 && !is; i++ {
		got = counted(t, s, of, up)
		is = good(got)
	}
	return got, is
}

// A page, and the start of a follower, take the same requests and messages however much is stored, but for some that
// are sent again on a busy machine. A whole read has few requests, and hardly a message more than events.
func TestGrowthOfPagesAndFollowers(t *testing.T) {
	t.Parallel()
	const page = 50
	most := []string{"status", "text_output", "tool_call", "tool_result"}
	first, sizes := map[string]readCost{}, []int{100, 1000}
	for _, size := range sizes {
		s, op := serve(t)
		storeRuns(t, op, size)
		all := size * 21
		for name, c := range map[string]struct {
			of   runs.Selection
			up   int
			most uint64 // messages to the reader
		}{
			"page": {runs.Selection{After: uint64(all / 2), Want: page}, page, page + 10},
			"page of a kind": {runs.Selection{After: uint64(all / 2), Want: page, Tokens: []string{"status"}}, page,
				page + 10},
			"page of three kinds": {runs.Selection{Want: page, Tokens: []string{"status", "error", "completion"}}, page,
				3*page + 15},
			"page of most kinds": {runs.Selection{Want: page, Tokens: most}, page, 5*page + 20},
			"page of an agent":   {runs.Selection{Want: page, Agent: "claude_code"}, page, page + 10},
			"page of runs":       {runs.Selection{Want: page, Runs: fourRuns, Last: uint64(all)}, page, 4*21 + 20},
			"follower":           {runs.Selection{After: uint64(all - 21), Follow: true}, 21, 21 + 10},
			"follower of a kind": {runs.Selection{After: uint64(all - 21), Follow: true, Tokens: []string{"completion"}}, 1,
				10},
			"follower of an agent": {runs.Selection{After: uint64(all - 21), Follow: true, Agent: "claude_code"}, 21, 21 + 10},
			"follower of a run":    {runs.Selection{Run: fmt.Sprint("run-", size-1), Follow: true}, 21, 21 + 10},
		} {
			got, good := measured(t, s, c.of, c.up, func(got readCost) bool {
				want := first[name]
				if size == sizes[0] {
					want = got
				}
				return got.sent <= want.sent*3/2+4 && got.received <= want.received*3/2 && got.received <= c.most
			})
			if size == sizes[0] {
				first[name] = got
			}
			if got.events != c.up || !good {
				t.Errorf("%s of %d runs: %+v, want %+v, and at most %d received", name, size, got, first[name], c.most)
			}
		}
		got, good := measured(t, s, runs.Selection{}, 0, func(got readCost) bool {
			return got.sent <= uint64(all/1000)+20 && got.received <= uint64(all+all/10)+got.sent
		})
		if got.events != all || !good {
			t.Errorf("all of %d runs: %+v", size, got)
		}
		bustest.Until(t, "a reader leaves a consumer", func() bool {
			stream, err := op.PublicJetStream().Stream(t.Context(), op.Names.Events())
			return err == nil && stream.CachedInfo().State.Consumers == 0
		})
	}
}

// A rebuild asks for hardly any stored record by itself.
func TestGrowthOfARebuild(t *testing.T) {
	t.Parallel()
	b := bustest.ConnectPlain(t, bustest.ServePlain(t, server.Options{}))
	bustest.EnsureSmall(t, b)
	const size = 200
	logs, order := map[string][]runs.Entry{}, []string(nil)
	for i := range size {
		id := fmt.Sprint("r", i)
		logs[id], order = bustest.CorpusLog(t, "hello", 4096), append(order, id)
	}
	bustest.Interleave(t, b, logs, order...)
	normalize(t, b)
	rebuilt := func() int {
		asked, err := b.Inside().SubscribeSync("$JS.API.STREAM.MSG.GET.KV_" + b.Runs())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = asked.Unsubscribe() }()
		r, err := Rebuild(t.Context(), b, []normalizer.Backend{codex.Backend{}}, 0, zap.NewNop())
		if err != nil || r.Runs != size || len(r.Differences) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if err := b.Inside().FlushTimeout(fixture.Patience); err != nil {
			t.Fatal(err)
		}
		n, _, err := asked.Pending()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := rebuilt()
	for i := 0; i < 4 && n > 5; i++ { // on a busy machine some are asked for again
		n = rebuilt()
	}
	if n > 5 {
		t.Errorf("%d of %d records were asked for", n, size)
	}
}
