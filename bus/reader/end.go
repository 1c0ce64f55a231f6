package reader

import (
	"context"
	"time"
)

// left asks the leader whether there are more messages. It skips what the leader
// certainly does not have.
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
	left, err := holds(ctx, d.js.Conn(), d.stream, d.subject, d.from, last)
	if err == nil && !left {
		if end := d.end.believe(info, asked, d.from, last); end > 0 {
			d.from, d.seen = end+1, max(d.seen, end)
		}
	}
	return left, err
}

// ends asks the leader whether messages are left up to sequence last. It returns the
// sequence up to which there certainly are none, or 0.
func (d *Direct) ends(ctx context.Context, last uint64) (uint64, error) {
	asked := time.Now()
	s, err := Look(ctx, d.js, d.stream)
	if err != nil {
		return 0, err
	}
	left, err := holds(ctx, d.js.Conn(), d.stream, d.subject, d.from, last)
	if err != nil || left {
		return 0, err
	}
	return d.end.believe(s.CachedInfo(), asked, d.from, last), nil
}
