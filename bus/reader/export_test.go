package reader

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// StallAfter sets how long a consumer may deliver nothing until it has stalled.
func (w *Watch) StallAfter(d time.Duration) { w.stall = d }

// NewLong is [NewDirect] of a whole stream, with batches of four messages, which reads an answer by a consumer from the
// second batch on.
func NewLong(js jetstream.JetStream, stream, subject string) *Reader {
	r := NewDirect(js, stream, subject, "", true, 1)
	open := r.open
	r.open = func(from uint64, patience time.Duration) source {
		d := open(from, patience).(*direct)
		d.size, d.batch, d.longRest = 4, 4, 1
		return d
	}
	return r
}
