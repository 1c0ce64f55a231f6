package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/spans"
)

// maxText is the maximum length of a message, in bytes. The limits of details apply to all
// else.
const maxText = 16 << 10

// captured is what the details of a run have shown up to a position, for spans that are open.
type captured struct {
	after  string                 // position of the last item
	calls  map[spans.Place]string // arguments of calls, at most as many as a run keeps
	prompt string
	text   string // the last one for the user
}

// size is about how many bytes of memory it takes.
func (c *captured) size() int {
	if c == nil {
		return 0
	}
	n := len(c.prompt) + len(c.text)
	for _, arguments := range c.calls {
		n += 64 + len(arguments)
	}
	return n
}

// contents returns the content of spans, by their index: what the owners of the runs see in
// their details. Without the variable for content it is empty.
func (e *Exporter) contents(ctx context.Context, ended []spans.Span) (map[int]content, error) {
	all := map[int]content{}
	if !e.content {
		return all, nil
	}
	byRun := map[string][]int{}
	for i, s := range ended {
		if s.Kind == spans.Tool || s.Kind == spans.Turn {
			byRun[s.Run] = append(byRun[s.Run], i)
		}
	}
	for run, of := range byRun {
		err := e.contentsOf(ctx, run, ended, of, all)
		if err != nil && !api.Is(err, api.NotFound) && !api.Is(err, api.Conflict) {
			return nil, fmt.Errorf("run %s: read its details: %w", run, err)
		}
		if s := e.known.get(run); s != nil {
			e.known.weigh(s)
		}
	}
	return all, nil
}

// contentsOf reads the details of a run from where the last reading ended, up to the last of
// its spans.
func (e *Exporter) contentsOf(ctx context.Context, run string, ended []spans.Span, of []int, to map[int]content) error {
	c := &captured{}
	if s := e.known.get(run); s != nil {
		if s.captured == nil {
			s.captured = c
		}
		c = s.captured
	}
	before := map[spans.Place]bool{} // events that ended the turns before, which have no span here after a restart
	for _, i := range of {
		before[ended[i].After] = true
	}
	last := ended[of[len(of)-1]]
	for {
		page, err := e.cfg.Runs.Detail(ctx, run, c.after)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			at, raw := placeOf(item)
			if behind(at, raw, last) {
				return nil
			}
			c.after = item.Pos
			c.begin(at, item)
			if item.Kind == "detail" { // it ends nothing
				continue
			}
			for _, i := range of {
				if at == ended[i].Last {
					to[i] = c.end(ended[i], item)
				}
			}
			if before[at] {
				*c = captured{after: c.after} // the content of the turn before is not that of the next one
			}
			if at == last.Last {
				return nil
			}
		}
		if page.Done || len(page.Items) == 0 {
			return nil
		}
	}
}

// begin keeps what an item has for spans that end later, or with it.
func (c *captured) begin(at spans.Place, item api.DetailItem) {
	d := item.Detail
	switch {
	case item.Kind == "text_output":
		if text := textOf(item.Event); text != "" {
			c.text = messages("assistant", text)
		}
	case d == nil:
	case strings.HasPrefix(item.Kind, "tool_"):
		if c.calls == nil {
			c.calls = map[spans.Place]string{}
		}
		arguments := first(d.Command, d.Arguments, d.Prompt)
		if arguments == "" {
			arguments = files(d.Files)
		}
		if arguments != "" && len(c.calls) < spans.MaxOpen {
			c.calls[at] = arguments
		}
	case d.Prompt != nil && c.prompt == "": // not those for sub-agents
		c.prompt = messages("user", excerpt(d.Prompt))
	}
}

// end returns the content of a span that ends with an item.
func (c *captured) end(s spans.Span, item api.DetailItem) (own content) {
	if s.Kind == spans.Turn {
		own.input = c.prompt
		if s.Message != nil {
			own.output = c.text
		}
		*c = captured{after: c.after} // its calls have ended, too
		return own
	}
	own.arguments = c.calls[s.Begin]
	delete(c.calls, s.Begin)
	if s.Last != s.Begin {
		delete(c.calls, s.Last)
	}
	if d := item.Detail; d != nil && !s.Incomplete {
		own.result = first(d.Output, d.Result, d.Stderr)
		if own.result == "" && s.Last != s.Begin {
			own.result = files(d.Files)
		}
	}
	return own
}

// placeOf returns the place of an item, and the sequence of its entry in RAW.
func placeOf(item api.DetailItem) (at spans.Place, raw uint64) {
	entry, _, _ := strings.Cut(item.Pos, ".")
	raw, _ = strconv.ParseUint(entry, 10, 64) // 0: it is behind nothing
	at = spans.Place{Line: item.Line, Part: item.Part}
	if at.Line == 0 {
		at.Raw = raw
	}
	return at, raw
}

// behind reports whether an item is behind the event that ended a span. Of the same entry that is not known if one of
// the two is of no line.
func behind(at spans.Place, raw uint64, s spans.Span) bool {
	if (at.Line == 0) != (s.Last.Line == 0) {
		return raw > s.Raw
	}
	last := s.Last
	return cmp.Or(cmp.Compare(at.Raw, last.Raw), cmp.Compare(at.Line, last.Line), cmp.Compare(at.Part, last.Part)) > 0
}

func first(texts ...*runs.Excerpted) string {
	for _, t := range texts {
		if t != nil {
			return excerpt(t)
		}
	}
	return ""
}

// excerpt is a text with a mark where a part is omitted.
func excerpt(t *runs.Excerpted) string {
	if t.Omitted == 0 {
		return t.Head + t.Tail
	}
	return fmt.Sprintf("%s\n[%d bytes omitted]\n%s", t.Head, t.Omitted, t.Tail)
}

func files(all []runs.FileDetail) string {
	if len(all) == 0 {
		return ""
	}
	b, err := json.Marshal(all)
	if err != nil {
		return ""
	}
	return string(b)
}

// textOf is the text of an event for the user.
func textOf(event json.RawMessage) string {
	e := gjson.GetManyBytes(event, "channel", "text")
	if e[0].Str != "assistant" {
		return ""
	}
	text := runs.Redact(e[1].Str)
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "")
	}
	return text
}

// messages returns a message in the form of the conventions.
func messages(role, text string) string {
	if text == "" {
		return ""
	}
	type part struct {
		Type    string `json:"type"`
		Content string `json:"content"`
	}
	type message struct {
		Role  string `json:"role"`
		Parts []part `json:"parts"`
	}
	b, err := json.Marshal([]message{{role, []part{{"text", text}}}})
	if err != nil {
		return ""
	}
	return string(b)
}
