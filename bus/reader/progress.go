package reader

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrStalled reports a consumer that delivers nothing although the stream has more.
var ErrStalled = errors.New("the consumer stalled")

// progress detects stalls of a consumer.
type progress struct {
	end   end
	seen  uint64    // the last delivered message, when more was available
	since time.Time // when that was detected; zero: no more was available
}

// check implements [Ordered.Check].
func (p *progress) check(ctx context.Context, b Background, info *jetstream.StreamInfo, asked time.Time, seen uint64) (
	uint64, error) {
	last := info.State.LastSeq
	if last <= seen {
		*p = progress{}
		return seen, nil
	}
	more, err := holds(ctx, b.JS.Conn(), b.Stream, b.Subject, seen+1, 0)
	switch {
	case err != nil:
		return seen, err
	case !more:
		return max(seen, p.end.believe(info, asked, seen+1, last)), nil
	}
	p.end = end{}
	if seen != p.seen || p.since.IsZero() {
		p.seen, p.since = seen, time.Now()
	}
	if time.Since(p.since) > cmp.Or(b.Stall, 5*heartbeat) {
		return seen, ErrStalled
	}
	return seen, nil
}

// identity tells a stream from another one under its name.
type identity struct {
	created time.Time // when the stream was created
	seen    uint64    // highest sequence known to exist
}

// replacedBy reports whether the stream in info is another one, or has lost its end: then
// a consumer may be positioned beyond the end, and deliver nothing, without an error.
// Messages that arrived after info was requested must not be in i.
func (i identity) replacedBy(info *jetstream.StreamInfo) bool {
	return !info.Created.Equal(i.created) || info.State.LastSeq < i.seen && Followed(info) == nil
}

// end determines from the answers of leaders where a stream ends.
type end struct {
	from, upTo uint64    // the range in which a leader found nothing; upTo 0: no answer yet
	since      time.Time // when the first such answer came
}

// believe is called when a leader answered that it has nothing between two sequences.
// It returns the end of the range that certainly has nothing, or 0. A former leader
// that was paused may give such an answer before it learns of its successor; after two
// seconds it knows.
func (e *end) believe(info *jetstream.StreamInfo, asked time.Time, from, last uint64) uint64 {
	const later = 2 * time.Second
	switch {
	case heardOfAll(info) && time.Since(asked) < heardWithin:
		return last
	case e.upTo == 0 || e.from != from:
		*e = end{from, last, time.Now()}
	case time.Since(e.since) >= later:
		return min(last, e.upTo)
	}
	return 0
}
