package reader

import (
	"context"
	"time"
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
		if end := d.end.believe(info, asked, d.from, last); end > 0 {
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
	return d.end.believe(s.CachedInfo(), asked, d.from, last), nil
}
