package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// maxFinalText bounds what is shown of an agent's answer, in bytes, unless all
// of it is asked for.
const maxFinalText = 4 << 10

// ResultOptions select what is printed of a result.
type ResultOptions struct {
	Ended     bool // when the run ended
	WholeText bool // all of the agent's answer that the record has, and the output of a failed run as it is
}

// Result prints the result of a run: facts, and then the answer of the agent, behind
// a bar. The run has details.
func (r *Renderer) Result(x *api.Result, o ResultOptions) error {
	var b strings.Builder
	d := x.Run.Detail
	r.facts(&b, resultFacts(x.Run, d, o))
	if d.FinalText != nil && *d.FinalText != "" {
		text := *d.FinalText
		if !o.WholeText {
			text = strings.ToValidUTF8(text[:min(len(text), maxFinalText)], "")
		}
		b.WriteByte('\n')
		r.quote(&b, text)
		if int64(len(text)) < d.FinalBytes {
			fmt.Fprintf(&b, "(its beginning; %s in all)\n", ShortBytes(d.FinalBytes))
		}
	}
	if o.WholeText || !failed(x.Run) || d.Cloud != nil || x.Output.Omitted != "" {
		r.output(&b, x.Output)
	} else {
		r.said(&b, x)
	}
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

func failed(run *api.Run) bool {
	return run.State == runs.StateFailed || run.State == runs.StateTimeout
}

const saidLines = 10

// said writes the last lines of the output of a failed agent that are not JSON: what the JSON
// lines tell stands above.
func (r *Renderer) said(b *strings.Builder, x *api.Result) {
	for _, s := range []struct{ name, text string }{{"stdout", x.Output.Stdout}, {"stderr", x.Output.Stderr}} {
		lines := strings.Split(strings.TrimSpace(s.text), "\n")
		if strings.HasSuffix(lines[0], "}") { // the rest of a line, where the output was cut
			lines = lines[1:]
		}
		lines = slices.DeleteFunc(lines, func(line string) bool {
			line = strings.TrimSpace(line)
			return line == "" || line[0] == '{' || json.Valid([]byte(line))
		})
		if lines = lines[max(len(lines)-saidLines, 0):]; len(lines) > 0 {
			fmt.Fprintf(b, "\n%s\n", r.Paint(bold, s.name))
			r.quote(b, strings.Join(lines, "\n"))
		}
	}
	fmt.Fprintf(b, "\n(all steps: linesman logs %s; the whole output: linesman results --output %[1]s)\n",
		Word(x.Run.ID))
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
	all.about(run)
	all.add("summary", Safe(d.Sentence))
	all.add("reason", Safe(run.Reason))
	all.add("took", seconds(lasted(run)))
	all.finished(d)
	if o.Ended {
		all.add("ended", run.EndedAt.String())
	}
	if run.Times == runs.Captured {
		all.add("times", captured)
	}
	if t := d.Tests; t != nil {
		all.add("tests", fmt.Sprintf("%d passed, %d failed, %d skipped", t.Passed, t.Failed, t.Skipped))
		all.each("failed", t.Names)
	}
	all.files(d)
	all.add("changes", changesText(d.Changes))
	if run.Thread != "" {
		all.add("thread", Word(run.Thread))
	}
	if run.ForkedFrom != "" {
		all.add("copy of", Word(run.ForkedFrom))
	}
	all.used(run)
	for _, m := range d.Models {
		used := Word(m.Name) + ": " + tokens(m.Usage)
		if m.Cost != nil {
			used += ", " + dollars(*m.Cost)
		}
		all.add("model", used)
	}
	all.add("unknown", unknown(d.Drift))
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

// agent adds the kind and the version of the agent of a run.
func (f *facts) agent(run *api.Run) {
	f.add("agent", agentOf(run))
}

// used adds what a run has used, and its thread, if that is more.
func (f *facts) used(d *api.Run) {
	if u := d.Usage; u != nil && u.Total != nil {
		f.add("tokens", bound(u)+tokens(*u.Total))
		if u.Subagents != nil {
			f.add("sub-agents", tokens(*u.Subagents))
		}
	}
	if u := d.ThreadUsage; u != nil && (d.Usage == nil || d.Usage.Total == nil || u.Input > d.Usage.Total.Input) {
		f.add("thread used", tokens(*u))
	}
	if d.Cost != nil {
		f.add("cost", dollars(*d.Cost))
	}
	if c := d.ThreadCost; c != nil && (d.Cost == nil || *c > *d.Cost) {
		f.add("thread cost", dollars(*c))
	}
}

// bound says what a total is, if it is only a bound.
func bound(u *api.RunUsage) string {
	switch {
	case u.Partial:
		return "at least "
	case u.Earlier:
		return "at most "
	}
	return ""
}

// finished says that an agent was ended after its result.
func (f *facts) finished(d *api.Detail) {
	if d.Exit != nil && d.Exit.Reason == runs.ReasonFinished {
		f.add("exit", "the agent did not exit after its result, and was ended (limits.after_result)")
	}
}

func tokens(u api.Usage) string {
	return fmt.Sprintf("%d in (%d cached), %d out", u.Input, u.Cached, u.Output)
}

func dollars(amount float64) string { return fmt.Sprintf("%.4f USD", amount) }

// unknown describes what linesman does not know in the output of an agent; "": nothing.
func unknown(d *runs.Drift) string {
	if d == nil || len(d.Things) == 0 {
		return ""
	}
	const most = 5 // named things
	n, things := strconv.Itoa(len(d.Things)), "things"
	switch {
	case d.Others:
		n = "more than " + n
	case n == "1":
		things = "thing"
	}
	var names []string
	for _, t := range d.Things[:min(len(d.Things), most)] {
		names = append(names, Word(string(t.What))+" "+Word(cmp.Or(t.Name, t.Hash)))
	}
	if len(d.Things) > most {
		names = append(names, "…")
	}
	return "the output has " + n + " " + things + " that linesman does not know: " + strings.Join(names, ", ")
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

// missing is why there is no output, unless it was not requested.
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

// quote writes a text of the agent, or of a person, every row of it behind a bar, so that it
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
