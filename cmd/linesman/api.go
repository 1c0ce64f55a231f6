package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
)

// caller asks a responder on behalf of a person.
type caller struct {
	app *app
	bus *bus.Bus
}

// caller connects to where a responder is asked. The caller closes its bus.
func (a *app) caller(ctx context.Context) (*caller, error) {
	a.asks = true
	b, err := a.client(ctx, embedded.OperatorUser)
	if err != nil {
		return nil, err
	}
	return &caller{a, b}, nil
}

// answer is a responder's envelope.
type answer struct {
	body   []byte // as it came
	Status string
	Meta   json.RawMessage
	Data   json.RawMessage
	Error  *problem
}

// problem is the error of an envelope.
type problem struct {
	Code    string
	Message string
	Details struct {
		Field       string
		Issues      []issue
		Unlisted    int    `json:"issues_unlisted"`
		State       string // of the run that was asked about
		TimeoutType string `json:"timeout_type"`
		Suggestion  string
		WebURL      string `json:"web_ui_url"`
	}
}

type issue struct {
	Field   string
	Problem string
	Meant   string `json:"did_you_mean"`
}

// answerTime is how long an answer may take that waits for nothing.
const answerTime = 15 * time.Second

// ask calls a tool with args and waits at most timeout for its answer. An
// answer that holds an error is none of ask; errors of ask have exit codes.
func (c *caller) ask(ctx context.Context, timeout time.Duration, tool string, args map[string]any) (answer, error) {
	body, err := json.Marshal(args)
	if err != nil {
		return answer{}, err
	}
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err = c.bus.Ask(asking, tool, body)
	switch {
	case errors.Is(err, bus.ErrNoResponder):
		return answer{}, exitWith(exitNATS, fmt.Errorf("%w: start `linesman up`, or `linesman responder` beside a server of its own", err))
	case ctx.Err() != nil:
		return answer{}, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return answer{}, exitWith(exitNATS, fmt.Errorf("the responder gave no answer within %s: see `linesman doctor`", shortTime(timeout)))
	case errors.Is(err, bus.ErrDenied):
		return answer{}, exitWith(exitNATS, fmt.Errorf("%w: use the keys of %s, %s", err, embedded.OperatorUser, mayDo[embedded.OperatorUser]))
	case errors.Is(err, bus.ErrUnreachable):
		return answer{}, exitWith(exitNATS, err)
	case err != nil:
		return answer{}, err
	}
	a := answer{body: body}
	if err := json.Unmarshal(body, &a); err != nil || a.Status != "ok" && a.Error == nil {
		return answer{}, errForm
	}
	return a, nil
}

// errForm reports an answer that cannot be read.
var errForm = errors.New("the responder's answer is not of the known form: is it of another version?")

// read takes the payload of an answer.
func (a answer) read(data any) error {
	if json.Unmarshal(a.Data, data) != nil {
		return errForm
	}
	return nil
}

// writeEnvelope prints the envelope as it came, on one line.
func (a answer) writeEnvelope(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s\n", jsonFor(w, a.body))
	return err
}

// finish ends a command of a person: the envelope where JSON was asked for,
// the error that it holds, or else what show has to say.
func (c *caller) finish(a answer, asJSON bool, flags map[string]string, run runID, show func() error) error {
	if asJSON {
		if err := a.writeEnvelope(c.app.stdout); err != nil {
			return err
		}
	}
	switch {
	case a.Error != nil:
		return a.Error.err(run, flags)
	case asJSON:
		return nil
	}
	return show()
}

// err is the problem as the command line tells it, with its exit code. Flags
// are what the tool's parameters are called here; run, if any, was asked about.
func (p *problem) err(run runID, flags map[string]string) error {
	d := p.Details
	switch {
	case p.Code == "NOT_FOUND" && run != "":
		return exitWith(exitNoRun, fmt.Errorf("there is no run %s", run))
	case p.Code == "VALIDATION" && d.State != "": // the command line is well: it is the run that does not fit
		return exitWith(exitFailed, errors.New(p.text(run)+": it is "+safeWord(d.State)))
	case p.Code == "VALIDATION":
		return exitWith(exitUsage, p.mistakes(flags))
	}
	text := p.text(run)
	for _, more := range []string{d.Suggestion, d.WebURL} {
		if more != "" {
			text += ": " + safe(more)
		}
	}
	return exitWith(exitFailed, errors.New(text))
}

// text is the message without what is said anyway.
func (p *problem) text(run runID) string {
	message := p.Message
	if p.Details.State != "" {
		message, _, _ = strings.Cut(message, ": it is ")
	}
	if p.Details.Field != "" {
		message = strings.TrimPrefix(message, p.Details.Field+": ")
	}
	if run != "" {
		return "run " + string(run) + ": " + safe(message)
	}
	return safe(message)
}

// mistakes are all that is wrong with the arguments.
func (p *problem) mistakes(flags map[string]string) error {
	name := func(field string) string {
		switch flag := flags[field]; {
		case flag != "":
			return flag
		case field == "task_id", field == "taskId":
			return "RUN"
		}
		return safeWord(field)
	}
	var all []error
	for _, i := range p.Details.Issues {
		all = append(all, fmt.Errorf("%s: %s", name(i.Field), safe(i.Problem)))
	}
	if n := p.Details.Unlisted; n > 0 {
		all = append(all, fmt.Errorf("and %d more mistakes", n))
	}
	if all == nil {
		message := p.Message
		if f := p.Details.Field; f != "" {
			message = name(f) + ": " + strings.TrimPrefix(message, f+": ")
		}
		return errors.New(safe(message))
	}
	return errors.Join(all...)
}

// tool is the name of a tool for a run: those of Codex Cloud have their own.
func (id runID) tool(verb string) string {
	if id.inCloud() {
		return "_codex_cloud_" + verb
	}
	return "_codex_local_" + verb
}

// named are the arguments that name a run to its status and results tools.
func (id runID) named() map[string]any {
	if id.inCloud() {
		return map[string]any{"taskId": id}
	}
	return map[string]any{"task_id": id}
}

func (id runID) inCloud() bool { return strings.HasPrefix(string(id), "T-cloud-") }

// wholeSeconds is a duration as the tools take it, rounded up.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// inSeconds is a number of whole seconds for people.
func inSeconds(n int64) string {
	if n < 60 {
		return fmt.Sprintf("%ds", max(n, 0))
	}
	return shortTime(time.Duration(n) * time.Second)
}

// ago says how long ago a time of an envelope was, "" for none.
func ago(stamp string, now time.Time) string {
	at, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return ""
	}
	return shortTime(now.Sub(at)) + " ago"
}
