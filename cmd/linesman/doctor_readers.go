package main

import (
	"context"
	"fmt"

	"github.com/linesman/linesman/bus"
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
		fmt.Sprintf("remove those that nobody needs, as with `nats consumer rm %s`; each expires %.0f h after its last request", stream, bus.ReaderAge.Hours()))
}
