package reader

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrStalled reports a consumer that brings nothing although there is more.
var ErrStalled = errors.New("its consumer stands still")

// Progress watches over a consumer that works in the background. Its zero value is
// ready; a new consumer needs a new one.
type Progress struct {
	end   end
	seen  uint64    // that came last, when there was more to come
	since time.Time // when that was found out
}

// Check asks the leader whether a subject has more than what came up to the
// sequence seen. Info is that of the stream, asked for at the given time. It returns
// up to where there is nothing more to come, at least seen: what was removed before
// it was read comes no more. The error is [ErrStalled] where there has been more for
// longer than a new consumer takes.
func (p *Progress) Check(ctx context.Context, js jetstream.JetStream, info *jetstream.StreamInfo, asked time.Time, subject string, seen uint64) (uint64, error) {
	last := info.State.LastSeq
	if last <= seen {
		*p = Progress{}
		return seen, nil
	}
	more, err := Holds(ctx, js.Conn(), info.Config.Name, subject, seen+1, 0)
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
	if time.Since(p.since) > 5*Heartbeat {
		return seen, ErrStalled
	}
	return seen, nil
}

// end finds out up to where a stream has nothing more, of what leaders say.
type end struct {
	from, upTo uint64    // between these there was nothing; 0: nobody has said so
	since      time.Time // when that was said first
}

// believe returns up to where the stream has nothing, now that a leader said that
// it has nothing from one sequence up to another, and 0 where it may be wrong.
// One that was stopped, and does not know that there is another one, may answer
// that, and the other one tell of the end. Later it knows.
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
