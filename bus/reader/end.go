package reader

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// left asks the leader whether there is more to come. What it does not have
// need not be looked for again.
func (d *Direct) left(ctx context.Context) (bool, error) {
	asked := time.Now()
	s, err := Look(ctx, d.js, d.stream)
	if err != nil {
		return false, err
	}
	info := s.CachedInfo()
	last := info.State.LastSeq
	switch {
	case d.other(info):
		return false, ErrReplaced
	case last < d.from:
		return false, nil
	}
	left, err := Holds(ctx, d.js.Conn(), d.stream, d.subject, d.from, last)
	if err == nil && !left {
		if end := d.believe(info, asked, last); end > 0 {
			d.from, d.seen = end+1, max(d.seen, end)
		}
	}
	return left, err
}

// ends asks the leader whether anything is left up to the sequence last, and
// returns up to where there is nothing, 0 where that is not certain.
func (d *Direct) ends(ctx context.Context, last uint64) (uint64, error) {
	asked := time.Now()
	s, err := Look(ctx, d.js, d.stream)
	if err != nil {
		return 0, err
	}
	left, err := Holds(ctx, d.js.Conn(), d.stream, d.subject, d.from, last)
	if err != nil || left {
		return 0, err
	}
	return d.believe(s.CachedInfo(), asked, last), nil
}

// absence says that a stream had nothing behind one sequence, up to another;
// none was told where both are 0.
type absence struct{ behind, upTo uint64 }

// believe returns up to where the stream has nothing to read, now that a leader
// said that it has nothing up to the sequence last, and 0 where it may be wrong.
// One that was stopped, and does not know that there is another one, may answer
// that, and the other one tell of the end. Later it knows.
func (d *Direct) believe(info *jetstream.StreamInfo, asked time.Time, last uint64) uint64 {
	const later = 2 * time.Second
	switch {
	case heardOfAll(info) && time.Since(asked) < heardWithin:
		return last
	case d.gone.upTo == 0 || d.gone.behind != d.from:
		d.gone, d.told = absence{d.from, last}, time.Now()
	case time.Since(d.told) >= later:
		return min(last, d.gone.upTo)
	}
	return 0
}
