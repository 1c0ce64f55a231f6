package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// Limits of the bucket of saved folds, which is a cache: if it is full, the oldest are removed.
const (
	MaxFold      = 128 << 10 // bytes of a saved fold; a larger one is not stored
	maxFoldBytes = 64 << 20
	foldSlots    = 24 // of a run
)

// FoldKey is the key of a saved fold: odd numbers have one slot, odd multiples of two the next one, and
// so on. A slot has the newest one. So the slots of a run have the last two of all, and further back
// fewer and fewer.
func FoldKey(run string, number uint64) string {
	return run + "." + strconv.Itoa(min(bits.TrailingZeros64(number), foldSlots-1))
}

// kept returns the numbers in the slots of a run whose newest saved fold has a number, from that on
// downwards.
func kept(newest uint64) (all []uint64) {
	for slot := 0; newest>>slot > 0 && slot < foldSlots; slot++ {
		n := newest >> slot
		all = append(all, (n-1+n%2)<<slot)
	}
	slices.SortFunc(all, func(a, b uint64) int { return cmp.Compare(b, a) })
	return all
}

// forgetFolds erases the saved folds of a run.
func (b *Bus) forgetFolds(ctx context.Context, run string) error {
	stream := bucket.Stream(b.Folds())
	if _, err := b.Stream(ctx, stream); errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // neither is what is on its way: it names a message that is gone
	}
	if _, err := b.BeginFolds(ctx); err != nil {
		return err
	}
	_, err := b.purge(ctx, stream, bucket.Subject(b.Folds(), run+".*"))
	return err
}

// BeginFolds stores a message in the bucket of saved folds, and returns its sequence. A saved fold is
// stored only if it names the newest message: those that are on their way now are refused.
func (b *Bus) BeginFolds(ctx context.Context) (uint64, error) {
	return bucket.New(b.js, b.Folds()).Put(ctx, "begin", nil, nil, bucket.Once())
}

// SavedFolds calls each with the saved folds of a run, the newest first, until it reports that it is
// done, or fails: with those whose last entry is before a sequence of RAW, and is in RAW. There may be
// none of any run.
func (b *Bus) SavedFolds(ctx context.Context, agent, run string, before uint64,
	each func(runs.SavedFold) (done bool, err error)) error {
	folds, err := b.Stream(ctx, bucket.Stream(b.Folds()))
	if err != nil {
		return err
	}
	newest, err := b.lastFold(ctx, folds, run+".*")
	if err != nil || newest == nil {
		return err
	}
	f, ok := decodeFold(newest.Data)
	if !ok {
		return fmt.Errorf("%w: cannot decode %s", ErrUnfit, newest.Subject)
	}
	for i, number := range kept(f.Number) {
		if i > 0 {
			m, err := b.lastFold(ctx, folds, FoldKey(run, number))
			if err != nil {
				return err
			}
			if m == nil {
				continue
			}
			f, ok = decodeFold(m.Data)
		}
		if !ok || f.Seq >= before || f.Record.ID != run || f.Record.Agent != agent {
			continue
		}
		m, err := reader.Next(ctx, b.inside, b.Raw(), b.RawSubject(agent, run), f.Seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if m.Sequence != f.Seq || m.Time.UnixNano() != f.At {
			continue // of another RAW, or of an end that it has lost
		}
		before = f.Seq
		if done, err := each(f); done || err != nil {
			return err
		}
	}
	return nil
}

// lastFold returns the last message of keys, nil if there is none.
func (b *Bus) lastFold(ctx context.Context, folds jetstream.Stream, keys string) (*jetstream.RawStreamMsg, error) {
	free, err := b.outputTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer free()
	return last(ctx, folds, bucket.Subject(b.Folds(), keys))
}

func decodeFold(value []byte) (f runs.SavedFold, ok bool) {
	ok = len(value) <= MaxFold && json.Unmarshal(value, &f) == nil && f.Record != nil && f.Seq > 0
	return f, ok
}
