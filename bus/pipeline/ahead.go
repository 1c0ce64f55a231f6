package pipeline

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
)

// Limits of the stored records in memory, and of those that are read to find one.
const (
	maxAhead      = 4096
	maxAheadBytes = 16 << 20
	maxAheadOnce  = 1024
)

// ahead reads stored records in the order of their stream, and keeps some. A rebuild derives them in nearly the same
// order, so this spares it a request for most of them.
type ahead struct {
	next  func() (*jetstream.RawStreamMsg, bool)
	stop  func()
	held  map[string][]byte // values by run
	order []string          // of the runs in held, and of some that were taken
	bytes int
}

func newAhead(ctx context.Context, b *bus.Bus, since time.Time) *ahead {
	prefix := bucket.Subject(b.Runs(), "")
	r := reader.NewConsumer(b.JetStream(), bucket.Stream(b.Runs()), prefix+">", 256, 1)
	r.Since = since
	a := &ahead{held: map[string][]byte{}}
	a.next, a.stop = iter.Pull(func(yield func(*jetstream.RawStreamMsg) bool) {
		// What is not read is asked for, which tells the error.
		_ = r.ToEnd(ctx, func(m *jetstream.RawStreamMsg) error {
			if m.Subject = strings.TrimPrefix(m.Subject, prefix); !yield(m) {
				return reader.ErrStop
			}
			return nil
		})
	})
	return a
}

// take returns the stored value of a run, once; nil: it is not known.
func (a *ahead) take(run string) []byte {
	for range maxAheadOnce {
		if a.held[run] != nil {
			break
		}
		m, more := a.next()
		if !more {
			break
		}
		if m.Header.Get(bus.HeaderRun) == "" || len(m.Data) == 0 { // of an older release, or removed
			continue
		}
		a.drop(m.Subject)
		a.held[m.Subject], a.bytes = m.Data, a.bytes+len(m.Data)
		for a.order = append(a.order, m.Subject); len(a.order) > maxAhead || a.bytes > maxAheadBytes; a.order = a.order[1:] {
			a.drop(a.order[0])
		}
	}
	defer a.drop(run)
	return a.held[run]
}

func (a *ahead) drop(run string) {
	a.bytes -= len(a.held[run])
	delete(a.held, run)
}

// sameRecord reports whether two values of RUNS, of which this version made the second one, have the same record, and
// an older one made none of it.
func sameRecord(have, want []byte) bool {
	of := gjson.GetManyBytes(have, "format", "older", "record")
	return of[0].Int() <= bus.Format && !of[1].Bool() && of[2].Raw != "" && of[2].Raw == gjson.GetBytes(want, "record").Raw
}
