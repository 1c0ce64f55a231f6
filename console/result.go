package console

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
)

// maxFinalText bounds what is shown of an agent's answer, in bytes, unless all
// of it is asked for.
const maxFinalText = 4 << 10

// ResultOptions select what is printed of a result.
type ResultOptions struct {
	Ended     bool // when the run ended
	WholeText bool // all that the record has of the agent's answer, not only its beginning
}

// Result prints what came of a run: facts, and then what the agent said, behind
// a bar. The run has details.
func (r *Renderer) Result(x *api.Result, o ResultOptions) error {
	var b strings.Builder
	d := x.Run.Detail
	r.facts(&b, resultFacts(x.Run, d, o))
	if d.FinalText != nil && *d.FinalText != "" {
		text := *d.FinalText
		if !o.WholeText {
			text = text[:bounds.Cut(text, maxFinalText)]
		}
		b.WriteByte('\n')
		r.quote(&b, text)
		if int64(len(text)) < d.FinalBytes {
			fmt.Fprintf(&b, "(its beginning; %s in all)\n", ShortBytes(d.FinalBytes))
		}
	}
	r.output(&b, x.Output)
	if x.Events != nil && x.Events.Included {
		fmt.Fprintf(&b, "\n%s\n", r.Paint(bold, "events, the last ones"))
		for _, item := range x.Events.Items {
			v := lookAt(item)
			b.WriteString(strings.Join(append([]string{v.kind}, plainBody(v)...), " ") + "\n")
		}
	}
	_, err := io.WriteString(r.out, b.String())
	return err
}

// lookAt reads an item of the event stream: an event, or a completion.
func lookAt(item json.RawMessage) view {
	var event struct{ Kind *string }
	if json.Unmarshal(item, &event) == nil && event.Kind == nil {
		return look(Record{Completion: item})
	}
	return look(Record{Event: item})
}

func resultFacts(run *api.Run, d *api.Detail, o ResultOptions) [][2]string {
	var all facts
	all.add("run", Word(run.ID))
	all.add("state", Word(string(run.State)))
	all.add("summary", Safe(d.Summary))
	all.add("reason", Safe(run.Reason))
	all.add("took", seconds(lasted(run)))
	if o.Ended {
		all.add("ended", run.EndedAt.String())
	}
	if t := d.Tests; t != nil {
		all.add("tests", fmt.Sprintf("%d passed, %d failed, %d skipped", t.Passed, t.Failed, t.Skipped))
		all.each("failed", t.Names)
	}
	all.files(d)
	if run.ThreadID != "" {
		all.add("thread", Word(run.ThreadID))
	}
	if u := d.ThreadUsage; u != nil {
		all.add("tokens", fmt.Sprintf("%d in (%d cached), %d out", u.Input, u.Cached, u.Output))
	}
	if e := d.Error; e != nil {
		all.add("error", Safe(e.Message))
		for _, at := range e.Locations {
			all.add("at", fmt.Sprintf("%s:%d", Safe(at.File), at.Line))
		}
		all.each("try", e.Suggestions)
	}
	if d.Cloud != nil {
		all.add("web page", Safe(d.Cloud.URL))
	}
	return all
}

// facts are names with values.
type facts [][2]string

func (f *facts) add(name, value string) {
	if value != "" {
		*f = append(*f, [2]string{name, value})
	}
}

// each adds a fact for each value.
func (f *facts) each(name string, values []string) {
	for _, value := range values {
		f.add(name, Safe(value))
	}
}

// files adds the changed files. Of a task of Codex Cloud only their number may
// be known.
func (f *facts) files(d *api.Detail) {
	files := api.Files{}
	if d.Files != nil {
		files = *d.Files
	}
	if c := d.Cloud; c != nil {
		if c.FilesChanged == 0 {
			return
		}
		changed := int64(c.Added) + int64(c.Removed)
		if files.LinesChanged = &changed; d.Files == nil {
			files.Unlisted = c.FilesChanged
		}
	}
	f.each("modified", files.Modified)
	f.each("added", files.Added)
	f.each("deleted", files.Deleted)
	if files.Unlisted > 0 {
		f.add("files", fmt.Sprintf("%d not listed", files.Unlisted))
	}
	if files.LinesChanged != nil {
		f.add("lines", fmt.Sprintf("%d changed", *files.LinesChanged))
	}
}

// missing says why there is no output. One that nobody asked for needs no words.
var missing = map[api.Omitted]string{
	api.Expired: "The output is no longer kept",
	api.NoDiff:  "There is no diff of the task",
}

func (r *Renderer) output(b *strings.Builder, o api.Output) {
	if o.Omitted != "" {
		if why := missing[o.Omitted]; why != "" {
			fmt.Fprintf(b, "\n(%s)\n", why)
		}
		return
	}
	for _, s := range []struct{ name, text string }{{"stdout", o.Stdout}, {"stderr", o.Stderr}} {
		if s.text != "" {
			fmt.Fprintf(b, "\n%s\n", r.Paint(bold, s.name))
			r.quote(b, s.text)
		}
	}
	if o.Truncated {
		fmt.Fprintf(b, "(cut; %s in all)\n", ShortBytes(o.Size))
	}
}

// quote writes a text of the agent, every row of it behind a bar, so that it
// cannot pass for a line of linesman.
func (r *Renderer) quote(b *strings.Builder, text string) {
	if r.terminal {
		r.text(b, "", "│ ", text)
		return
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		b.WriteString("│ " + Safe(line) + "\n")
	}
}
