package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/linesman/linesman/runs"
)

type resultsCmd struct {
	Run_     runID `arg:"" name:"run" help:"Id of the run."`
	Output   bool  `help:"Show what the agent printed, too: of a run in the cloud, its diff. That of a run that failed is always shown."`
	Events   bool  `help:"Show the last events, at most 50."`
	MaxBytes int   `name:"max-output-bytes" placeholder:"N" default:"65536" help:"Most bytes of output to show, 1024 to 1048576 (default 65536): of a longer one its beginning and its end."`
	JSON     bool  `name:"json" help:"Print the responder's answer, a v3.6 envelope, on one line."`
}

// Help is printed by `linesman results --help`.
func (resultsCmd) Help() string {
	return `Tells what came of a run that has ended: its summary, the files that it changed, what tests said, tokens, what went wrong,
and the agent's answer.

Examples:

    linesman results T-local-0mwqeheq41ojmir
    linesman results --json T-local-0mwqeheq41ojmir | jq -r .data.ext.final_text

Exit status: 0 done, 1 failed, or the run has not ended, 2 bad flags or settings, 3 NATS or the responder is out of reach,
4 there is no such run.`
}

func (c *resultsCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	args := c.Run_.named()
	args["include_output"], args["max_output_bytes"] = c.Output, c.MaxBytes
	if c.Events {
		if c.Run_.inCloud() {
			return exitWith(exitUsage, errors.New("--events: not for a run in the cloud; see `linesman events`"))
		}
		args["include_events"] = true
	}
	caller, err := a.caller(ctx)
	if err != nil {
		return err
	}
	defer caller.bus.Close()
	got, err := caller.ask(ctx, answerTime, c.Run_.tool("results"), args)
	if err != nil {
		return err
	}
	return caller.finish(got, c.JSON, map[string]string{"max_output_bytes": "--max-output-bytes"}, c.Run_, func() error {
		var r result
		if err := got.read(&r); err != nil {
			return err
		}
		return r.print(newRenderer(a.stdout, a.environ))
	})
}

// result is the payload of results and of a wait.
type result struct {
	TaskID    string `json:"task_id"`
	State     string
	Summary   string
	Completed string `json:"completed_ts"` // of results alone
	Metadata  struct {
		Duration int64
		Files    *runs.Files        `json:"file_operations"`
		Tests    *runs.Tests        `json:"test_results"`
		Error    *runs.ErrorContext `json:"error_context"`
		Thread   *struct {
			ID    string `json:"thread_id"`
			Usage *usage `json:"token_usage"`
		} `json:"thread_info"`
	}
	Output struct {
		Included       bool
		Reason         string
		Stdout, Stderr string
		Truncated      bool
		Original       int64 `json:"original_size"`
	}
	Events *struct {
		Included bool
		Count    int64
		Items    []json.RawMessage
	}
	Ext struct {
		Reason         string
		FinalText      string `json:"final_text"`
		FinalTextBytes int64  `json:"final_text_bytes"`
		FilesUnlisted  int    `json:"files_unlisted"`
		WebURL         string `json:"web_ui_url"`
	}
}

// print lays the result out: facts, and then what the agent said, behind a bar.
func (r *result) print(on *renderer) error {
	var b strings.Builder
	writeFacts(&b, on, r.facts())
	if r.Ext.FinalText != "" {
		b.WriteByte('\n')
		r.quote(&b, on, r.Ext.FinalText)
		if r.Ext.FinalTextBytes > 0 {
			fmt.Fprintf(&b, "(its beginning; %s in all)\n", shortBytes(r.Ext.FinalTextBytes))
		}
	}
	r.printOutput(&b, on)
	if r.Events != nil && r.Events.Included {
		fmt.Fprintf(&b, "\n%s\n", on.paint(bold, "events, the last ones"))
		for _, item := range r.Events.Items {
			v := lookAt(item)
			b.WriteString(strings.Join(append([]string{v.kind}, plainBody(v)...), " ") + "\n")
		}
	}
	_, err := on.out.Write([]byte(b.String()))
	return err
}

// lookAt reads an item of the event stream: an event, or a completion.
func lookAt(item json.RawMessage) view {
	var event struct{ Kind *string }
	if json.Unmarshal(item, &event) == nil && event.Kind == nil {
		return look(record{Completion: item})
	}
	return look(record{Event: item})
}

func (r *result) facts() [][2]string {
	var all [][2]string
	fact := func(name, value string) {
		if value != "" {
			all = append(all, [2]string{name, value})
		}
	}
	fact("run", safeWord(r.TaskID))
	fact("state", safeWord(r.State))
	fact("summary", safe(r.Summary))
	fact("reason", safe(r.Ext.Reason))
	fact("took", inSeconds(r.Metadata.Duration))
	fact("ended", safe(r.Completed))
	if t := r.Metadata.Tests; t != nil {
		fact("tests", fmt.Sprintf("%d passed, %d failed, %d skipped", t.Passed, t.Failed, t.Skipped))
		for _, name := range t.FailedTests {
			fact("failed", safe(name))
		}
	}
	if f := r.Metadata.Files; f != nil {
		for _, l := range []struct {
			word  string
			paths []string
		}{{"modified", f.Modified}, {"added", f.Added}, {"deleted", f.Deleted}} {
			for _, path := range l.paths {
				fact(l.word, safe(path))
			}
		}
		if n := r.Ext.FilesUnlisted; n > 0 {
			fact("files", fmt.Sprintf("%d not listed", n))
		}
		if f.LinesChanged != nil {
			fact("lines", fmt.Sprintf("%d changed", *f.LinesChanged))
		}
	}
	if t := r.Metadata.Thread; t != nil {
		if t.ID != "" {
			fact("thread", safeWord(t.ID))
		}
		if u := t.Usage; u != nil {
			fact("tokens", fmt.Sprintf("%d in (%d cached), %d out", u.Input, u.Cached, u.Output))
		}
	}
	if e := r.Metadata.Error; e != nil {
		fact("error", safe(e.Message))
		for _, at := range e.Locations {
			fact("at", fmt.Sprintf("%s:%d", safe(at.File), at.Line))
		}
		for _, s := range e.Suggestions {
			fact("try", safe(s))
		}
	}
	fact("web page", safe(r.Ext.WebURL))
	return all
}

func (r *result) printOutput(b *strings.Builder, on *renderer) {
	o := r.Output
	if !o.Included {
		if o.Reason != "" && !strings.Contains(o.Reason, "include_output") { // which is told by --help
			fmt.Fprintf(b, "\n(%s)\n", safe(o.Reason))
		}
		return
	}
	for _, s := range []struct{ name, text string }{{"stdout", o.Stdout}, {"stderr", o.Stderr}} {
		if s.text != "" {
			fmt.Fprintf(b, "\n%s\n", on.paint(bold, s.name))
			r.quote(b, on, s.text)
		}
	}
	if o.Truncated {
		fmt.Fprintf(b, "(cut; %s in all)\n", shortBytes(o.Original))
	}
}

// quote writes a text of the agent, every row of it behind a bar, so that it
// cannot pass for a line of linesman.
func (r *result) quote(b *strings.Builder, on *renderer, text string) {
	if on.terminal {
		on.text(b, "", "│ ", text)
		return
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		b.WriteString("│ " + safe(line) + "\n")
	}
}
