package pipeline

import (
	"context"
	"hash/maphash"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/normalizer"
)

// brief is what is remembered of an event to compare it: not its body.
type brief struct {
	Seq   uint64
	Pos   normalizer.Pos
	Token string
	sum   uint64
}

// collect reads the events of a run.
func collect(ctx context.Context, b *bus.Bus, run string) ([]brief, error) {
	var all []brief
	err := b.Read(ctx, bus.Filter{Run: run}, func(s bus.Stored) error {
		all = append(all, brief{s.Seq, s.Pos, s.Token, maphash.Bytes(seed, s.Body)})
		return nil
	})
	return all, err
}

// seed makes the sums of one process comparable with each other.
var seed = maphash.MakeSeed()
