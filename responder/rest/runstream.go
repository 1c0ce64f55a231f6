package rest

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/linesman/linesman/api"
)

// followRuns answers with the runs of a list, and then their changes.
func (q *exchange) followRuns(list api.List) error {
	for _, name := range []string{"limit", "cursor", "order"} {
		if q.query.Has(name) {
			return invalid(name, "is for pages; a stream has all runs")
		}
	}
	stream, err := q.Service.FollowRuns(list, q.r.Header.Get(lastEventID))
	if err != nil {
		return listed(err)
	}
	return q.streamFrames(false, func(ctx context.Context, send sender) error {
		var b bytes.Buffer
		return stream.Each(ctx, func(batch []api.RunChange) error {
			b.Reset()
			for _, change := range batch {
				if err := writeChange(&b, change); err != nil {
					return err
				}
			}
			return send(b.Bytes())
		})
	})
}

// writeChange writes a change as a server-sent event.
func writeChange(b *bytes.Buffer, c api.RunChange) error {
	if c.ID != "" {
		b.WriteString("id: " + c.ID + "\n")
	}
	kind, data := "run", any(c.Run)
	switch {
	case c.Synced != nil:
		kind, data = "synced", c.Synced
	case c.Run == nil:
		kind, data = "gone", map[string]string{"run": c.Gone}
	}
	b.WriteString("event: " + kind + "\ndata: ")
	line := new(bytes.Buffer)
	e := json.NewEncoder(line) // one line, which it ends
	e.SetEscapeHTML(false)
	if err := e.Encode(data); err != nil {
		return err
	}
	b.Write(api.OneLine(line.Bytes()))
	b.WriteByte('\n')
	return nil
}
