package bus_test

import (
	"slices"
	"testing"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// The identity of a store survives restarts, and changes when the stream is recreated.
// Workers may read it.
func TestStoresChangeOnlyWhenTheStreamsAreRecreated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all [][]string
	for range 2 {
		s, err := embedded.StartServer(dir, "127.0.0.1:0", bustest.Names, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		b := bustest.Connect(t, s, embedded.OperatorUser)
		limits := bus.DefaultLimits()
		limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<30, 1<<30, 1<<28
		ask := func() {
			t.Helper()
			if _, err := b.Ensure(t.Context(), limits); err != nil {
				t.Fatal(err)
			}
			ids, err := bustest.Connect(t, s, embedded.WorkerUser).Stores(t.Context())
			if err != nil || len(ids) != 2 || ids[0] == ids[1] {
				t.Fatalf("stores %q, error %v", ids, err)
			}
			all = append(all, ids)
		}
		ask()
		if len(all) == 2 {
			for _, name := range []string{b.Raw(), bucket.Stream(b.Runs())} {
				if err := b.JetStream().DeleteStream(t.Context(), name); err != nil {
					t.Fatal(err)
				}
				ask()
			}
		}
		s.Stop()
	}
	if !slices.Equal(all[0], all[1]) {
		t.Errorf("after a restart %q, before %q", all[1], all[0])
	}
	if all[2][0] == all[1][0] || all[2][1] != all[1][1] || all[3][0] != all[2][0] || all[3][1] == all[2][1] {
		t.Errorf("after RAW was recreated, then RUNS: %q", all[1:])
	}
}
