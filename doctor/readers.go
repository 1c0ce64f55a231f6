package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
)

// readers counts the consumers of other programs on the stream of events.
func (x *examination) readers(ctx context.Context) (Level, string, string) {
	have, most, err := x.bus.Readers(ctx)
	if err != nil {
		return Warn, firstLine(err), ""
	}
	stream := x.bus.Names.Events()
	text := fmt.Sprintf("%d consumers on %s, of %d at most", have, stream, most)
	if have < most/5*4 {
		return OK, text, ""
	}
	return Warn, text + "; at the limit programs that need one are refused",
		fmt.Sprintf("remove those that nobody needs, with `nats consumer rm %s` in the context that `linesman context "+
			"operator_public` prints; each expires %.0f h after its last request", stream, bus.ReaderAge.Hours())
}

// limited notes when the embedded server last limited a reader.
func (x *examination) limited() {
	const name, recent = "readers", time.Hour
	if x.here.PID == 0 {
		return
	}
	l, err := embedded.ReadLimited(x.here.Data)
	if errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(l.Until) > recent {
		return
	}
	if err != nil {
		x.note(name, Warn, err.Error(), "")
		return
	}
	at := l.At.Local().Format(time.TimeOnly)
	if l.Refused {
		x.note(name, Warn, fmt.Sprintf("at %s user %s had %d connections, the most there may be, and more were refused",
			at, l.User, l.Connections),
			"end programs that nobody needs")
		return
	}
	until := l.Until.Local().Format(time.TimeOnly)
	x.note(name, Warn, fmt.Sprintf("at %s %d connections of user %s were closed, because of %s; "+
		"those it makes until %s may only subscribe", at, l.Connections, l.User, l.Why, until),
		"find the program that does so; remove credentials.json while nothing runs to give all users new passwords")
}
