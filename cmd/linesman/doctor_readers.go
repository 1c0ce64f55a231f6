package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
)

// readers tells how many consumers others have on the stream of events.
func (d *doctor) readers(ctx context.Context) {
	const name = "readers"
	ctx, cancel := soon(ctx)
	defer cancel()
	have, most, err := d.caller.bus.Readers(ctx)
	if err != nil {
		d.note(name, levelWarn, first(err), "")
		return
	}
	stream := d.caller.bus.Names.Events()
	text := fmt.Sprintf("%d consumers on %s, of %d at most", have, stream, most)
	if have < most/5*4 {
		d.note(name, levelOK, text, "")
		return
	}
	d.note(name, levelWarn, text+"; at the limit programs that need one are refused",
		fmt.Sprintf("remove those that nobody needs, with `nats consumer rm %s` in the context that `linesman context operator_public` prints; each expires %.0f h after its last request", stream, bus.ReaderAge.Hours()))
}

// limited tells when the embedded server last limited a reader.
func (d *doctor) limited() {
	const name, recent = "readers", time.Hour
	if d.here.PID == 0 {
		return
	}
	l, err := embedded.ReadLimited(d.here.Data)
	if errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(l.Until) > recent {
		return
	}
	if err != nil {
		d.note(name, levelWarn, err.Error(), "")
		return
	}
	at := l.At.Local().Format(time.TimeOnly)
	if l.Refused {
		d.note(name, levelWarn, fmt.Sprintf("at %s user %s had %d connections, the most there may be, and more were refused", at, l.User, l.Connections),
			"end programs that nobody needs")
		return
	}
	d.note(name, levelWarn, fmt.Sprintf("at %s %d connections of user %s were closed, because of %s; those it makes until %s may only subscribe", at, l.Connections, l.User, l.Why, l.Until.Local().Format(time.TimeOnly)),
		"find the program that does so; remove credentials.json while nothing runs to give all users new passwords")
}
