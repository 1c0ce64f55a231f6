package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/spans"
)

// maxText is the maximum length of a message, in bytes. The limits of details apply to all
// else.
const maxText = 16 << 10

// errFound ends the reading of details.
var errFound = errors.New("all details were found")

// contents returns the content of spans, by their index: what the owners of the runs see in
// their details. Without the variable for content it is empty. The details of each run are
// read once for a batch, from their beginning.
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
		var failure *api.Error
		switch {
		case errors.As(err, &failure) && failure.Code == api.NotFound:
		case err != nil:
			return nil, fmt.Errorf("run %s: read its details: %w", run, err)
		}
	}
	return all, nil
}

func (e *Exporter) contentsOf(ctx context.Context, run string, ended []spans.Span, of []int, to map[int]content) error {
	var last spans.Place
	for _, i := range of {
		if later(ended[i].Last, last) {
			last = ended[i].Last
		}
	}
	err := e.cfg.Runs.Detail(ctx, run, func(item api.DetailItem) error {
		at := spans.Place{Line: item.Line, Part: item.Part}
		if item.Line > 0 && later(at, last) && last.Line > 0 {
			return errFound
		}
		for _, i := range of {
			c := to[i]
			add(&c, ended[i], at, item)
			to[i] = c
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return nil
	}
	return err
}

func later(a, b spans.Place) bool { return a.Line > b.Line || a.Line == b.Line && a.Part > b.Part }

// add adds what an item has for a span.
func add(c *content, s spans.Span, at spans.Place, item api.DetailItem) {
	if s.Kind == spans.Turn {
		if s.Message != nil && at == *s.Message && item.Kind == "text_output" {
			c.output = messages("assistant", textOf(item.Event))
		}
		// the prompt of a turn is before its first event, or among its events
		if item.Detail != nil && item.Detail.Prompt != nil && !strings.HasPrefix(item.Kind, "tool_") &&
			!later(at, s.Last) && (c.input == "" || !later(s.Begin, at)) {
			c.input = messages("user", excerpt(item.Detail.Prompt))
		}
		return
	}
	d := item.Detail
	if d == nil {
		return
	}
	if at == s.Begin {
		c.arguments = first(d.Command, d.Arguments, d.Prompt)
		if c.arguments == "" {
			c.arguments = files(d.Files)
		}
	}
	if at == s.Last {
		c.result = first(d.Output, d.Result, d.Stderr)
		if c.result == "" && at != s.Begin {
			c.result = files(d.Files)
		}
	}
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

// textOf is the text of an event.
func textOf(event json.RawMessage) string {
	var e struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(event, &e) // an event of ours
	e.Text = runs.Redact(e.Text)
	if len(e.Text) > maxText {
		return strings.ToValidUTF8(e.Text[:maxText], "")
	}
	return e.Text
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
