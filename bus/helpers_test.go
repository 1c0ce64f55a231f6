package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// serve starts a server for the test, with its streams.
func serve(t testing.TB) (*embedded.Server, *bus.Bus) {
	t.Helper()
	return bustest.Serve(t, embedded.StartServer)
}

func newNormalizer(b *bus.Bus) *pipeline.Normalizer {
	return &pipeline.Normalizer{
		Bus:      b,
		Out:      b.Names,
		Backends: []normalizer.Backend{codex.Backend{}},
		Log:      zap.NewNop(),
		CutEvery: 20 * time.Millisecond,
	}
}

// normalize runs a normalizer until it has read all that RAW holds.
func normalize(t testing.TB, b *bus.Bus) {
	t.Helper()
	n := newNormalizer(b)
	n.Until = bustest.LastSeq(t, b.JetStream(), b.Raw())
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// startNormalizer runs a normalizer in the background until the test ends.
func startNormalizer(t testing.TB, s *embedded.Server) {
	t.Helper()
	n := newNormalizer(bustest.Connect(t, s, embedded.NormalizerUser))
	operator := bustest.Connect(t, s, embedded.OperatorUser)
	n.Prepare = func(ctx context.Context) error {
		_, err := operator.Ensure(ctx, bus.DefaultLimits())
		return err
	}
	bustest.Background(t, n.Run)
}

// errDied interrupts an operation.
var errDied = errors.New("interrupted by a test")
