package console

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// eachRequest is a status after each request to the model. Its tokens are those of that request.
const eachRequest = "step finished"

// linesOfPrompt is how many lines of a prompt are printed unless all are requested.
const linesOfPrompt = 5

// head writes the title of a run and what it runs on.
func (t *Timeline) head(b *strings.Builder, run *api.Run) {
	t.begun = true
	facts := []string{agentOf(run)}
	for _, s := range []string{run.Model, run.Dir} {
		if s != "" {
			facts = append(facts, Safe(s))
		}
	}
	name := flat(run.Title)
	if name == "" {
		name = Word(run.ID)
	} else {
		facts = append(facts, Word(run.ID))
	}
	t.row(b, bold, "── ", name)
	t.row(b, Dim, "   ", strings.Join(facts, ", "))
}

// notice writes what is not a text and not of a tool: a prompt, a status, an error.
func (t *Timeline) notice(b *strings.Builder, v view, d *runs.Detail) {
	t.prompt(b, t.fresh(v, d.Prompt))
	switch {
	case v.kind == "error" && v.message != t.problem:
		t.problem = v.message
		message := strings.TrimSuffix(v.message, " (stderr redacted)") // its end follows
		for _, line := range linesOf(runs.Whole(cmp.Or(message, "an error"))) {
			t.row(b, Red, "! ", line)
		}
	case v.kind == "status" && v.usage != (runs.Usage{}) && (v.message != eachRequest || t.options.Full):
		t.row(b, Dim, "· ", Safe(v.message)+"  "+tokensOf(v.usage))
	case v.kind == "status" && t.options.Full:
		t.row(b, Dim, "· ", statusText(v))
	case v.kind == "unknown" && t.options.Full:
		t.row(b, Dim, "? ", "an event of a kind that is not known")
	}
	for _, line := range linesOf(d.Text) {
		t.row(b, Dim, "┊ ", line)
	}
	if len(d.Files) > 0 {
		t.files(b, d.Files, d.MoreFiles, false, "")
	}
	t.stderr(b, d.Stderr)
}

// fresh returns the prompt of an item, or nil for that of the first turn if the task of the run had the same one.
func (t *Timeline) fresh(v view, prompt *runs.Excerpted) *runs.Excerpted {
	task := t.task
	switch {
	case v.kind == "detail" && prompt != nil:
		t.task = prompt
	case v.message == "turn started":
		t.task = nil
		if task != nil && prompt != nil && *task == *prompt {
			return nil
		}
	}
	return prompt
}

// prompt writes the prompt of the user, unless it was printed as the title or with the call of
// a sub-agent.
func (t *Timeline) prompt(b *strings.Builder, prompt *runs.Excerpted) {
	lines := linesOf(prompt)
	more := len(lines) - linesOfPrompt
	switch {
	case len(lines) == 0, lines[0] == t.calls.prompt, len(lines) == 1 && t.run != nil && t.run.Title == lines[0]:
		return
	case more > 1 && !t.options.Full:
		lines = append(lines[:linesOfPrompt], fmt.Sprintf("… %d more lines", more))
	}
	for _, line := range lines {
		t.row(b, bold, "> ", line)
	}
}

// stderr writes the end of the agent's stderr.
func (t *Timeline) stderr(b *strings.Builder, text *runs.Excerpted) {
	if text != nil {
		t.row(b, Yellow, "! ", "the end of the agent's stderr:")
		t.excerpt(b, "", text, ofFailure)
	}
}

// completion writes how the run ended, after the end of its stderr if it failed.
func (t *Timeline) completion(b *strings.Builder, v view, d *runs.Detail) {
	color, mark := Green, "■ "
	if v.done.failed() {
		color = Red
		t.stderr(b, d.Stderr)
	}
	facts := []string{v.done.short()}
	if d.Text != nil {
		facts[0] = "failed: " + Safe(d.Text.Head)
	}
	took := v.Time.UnixMilli() - int64(t.first)
	switch {
	case t.run == nil || t.run.StartedAt == 0:
	case t.run.State.Final():
		took = lasted(t.run)
	default:
		took = v.Time.UnixMilli() - int64(t.run.StartedAt)
	}
	facts = append(facts, "took "+seconds(took))
	if t.run != nil && t.run.Tokens != nil {
		facts = append(facts, tokenText(t.run.Tokens))
	}
	if c := d.Changed; c != nil {
		shown := *c
		if c.In == runs.ByTools {
			shown.Added, shown.Removed = t.changes.added, t.changes.removed
		}
		facts = append(facts, changedText(&shown))
	}
	t.row(b, color, mark, strings.Join(facts, ", "))
}

// short is the outcome for the owner, who sees the stderr: without the words of the contract
// for events.
func (c *completion) short() string {
	if c.Error == nil || c.Status == nil || c.Status.Code == nil && c.Status.Signal == nil {
		return Safe(c.outcome())
	}
	return "failed: " + (&completion{Status: c.Status}).outcome()
}

func tokensOf(u runs.Usage) string {
	text := ShortNumber(u.Input) + " tokens in"
	if u.CachedInput > 0 {
		text += " (" + ShortNumber(u.CachedInput) + " cached)"
	}
	return text + ", " + ShortNumber(u.Output) + " out"
}

// tokenText describes the tokens of a run, – if they are not known.
func tokenText(n *runs.Spend) string {
	if n == nil {
		return "– tokens"
	}
	return ShortNumber(n.Input) + " tokens in, " + ShortNumber(n.Output) + " out"
}

// shortTokens is tokenText for a status line.
func shortTokens(n *runs.Spend) string { return strings.Replace(tokenText(n), " tokens in", " in", 1) }

// ShortNumber is a number for people: 320, 4.8k, 120k, 1.2M.
func ShortNumber(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 10_000:
		return fmt.Sprintf("%.1fk", float64(n/100)/10)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1000)
	default:
		return fmt.Sprintf("%.1fM", float64(n/100_000)/10)
	}
}

func agentOf(run *api.Run) string {
	name := Word(run.Agent)
	if run.Version != "" {
		name += " " + Word(run.Version)
	}
	return name
}
