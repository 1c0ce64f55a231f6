package codexcloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// Request describes a new task.
type Request struct {
	Run         string            // its run id; "": a new one
	Prompt      string            // 1 to runs.MaxPrompt characters, not blank
	Environment string            // id or unique label, at most MaxEnvironment bytes
	Branch      string            // default: main
	Attempts    int               // 1 to MaxAttempts; 0 is 1
	Labels      map[string]string // of the run, see runs.CheckLabels
	Governance  string            // stored with the run, see runs.CheckGovernance; "": none
}

// Limits of a [Request].
const (
	MaxEnvironment = 256
	maxBranch      = 256
	MaxAttempts    = 4
)

// Submitted is a task that the service accepted.
type Submitted struct {
	Run string // run id; "": its log could not be created
	ID  string // the service's id
	URL string // URL of its page
	At  int64  // when it was accepted, Unix milliseconds
}

// Check reports every invalid field of r, each as a [runs.FieldError]. It
// quotes no value.
func (r *Request) Check() error {
	var errs []error
	wrong := func(field, format string, a ...any) {
		errs = append(errs, &runs.FieldError{Field: field, Problem: fmt.Sprintf(format, a...)})
	}
	switch n := utf8.RuneCountInString(r.Prompt); {
	case !utf8.ValidString(r.Prompt) || strings.ContainsRune(r.Prompt, 0):
		wrong("prompt", "must be UTF-8 text without NUL")
	case strings.TrimSpace(r.Prompt) == "":
		wrong("prompt", "must not be blank")
	case n > runs.MaxPrompt:
		wrong("prompt", "at most %d characters, got %d", runs.MaxPrompt, n)
	}
	word := func(field, s string, limit int) {
		switch {
		case len(s) > limit:
			wrong(field, "at most %d bytes, got %d", limit, len(s))
		case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) || strings.TrimSpace(s) != s:
			wrong(field, "must be printable text without white space around it")
		}
	}
	if r.Environment == "" {
		wrong("environment", "must not be empty")
	}
	word("environment", r.Environment, MaxEnvironment)
	word("branch", r.Branch, maxBranch)
	if r.Attempts < 0 || r.Attempts > MaxAttempts {
		wrong("attempts", "must be 1 to %d, got %d", MaxAttempts, r.Attempts)
	}
	if r.Run != "" && runs.CheckID(r.Run) != nil {
		wrong("run", "must be a run id")
	}
	if err := runs.CheckLabels(r.Labels); err != nil {
		wrong("labels", "%s", strings.TrimPrefix(err.Error(), "labels: "))
	}
	if r.Governance != "" && runs.CheckGovernance(r.Governance) != nil {
		wrong("governance_context", "must be printable ASCII, at most %d bytes", runs.MaxGovernance)
	}
	return errors.Join(errs...)
}

// Submit submits a task to the service, and creates the log of its run once the
// service has accepted it. The error joins [runs.FieldError]s if the request is
// invalid, and is a [*Failure] if the program failed. An accepted task is
// returned even with an error: then it has no run.
func (d *Driver) Submit(ctx context.Context, r Request) (Submitted, error) {
	if err := r.Check(); err != nil {
		return Submitted{}, err
	}
	branch, attempts := r.Branch, max(r.Attempts, 1)
	if branch == "" {
		branch = "main" // otherwise the program would use the branch of its working directory
	}
	c := call{
		// With = a value may begin with a dash.
		args: []string{"exec", "--env=" + r.Environment, fmt.Sprintf("--attempts=%d", attempts), "--branch=" + branch,
			"-"},
		stdin:   &r.Prompt,
		timeout: execTimeout,
	}
	o, err := d.call(ctx, c)
	id, url, ok := taskURL(firstLine(o.stdout))
	if taken := ok && bytes.IndexByte(o.stdout, '\n') >= 0; err != nil && !taken { // the URL may precede a kill
		return Submitted{}, fmt.Errorf("submit: %w", err)
	}
	if !ok {
		return Submitted{}, fmt.Errorf("submit: %w", c.failed(o))
	}
	s := Submitted{ID: id, URL: url, At: time.Now().UnixMilli()}
	// The caller may have disconnected: the task exists, so its run must, too.
	const patience = time.Minute
	write, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	s.Run, err = d.begin(write, r.Run, s, runs.Start{Source: "cloud", Labels: r.Labels, Governance: r.Governance},
		submittedLine{
			Type: "cloud.submitted", ID: id, URL: url, Environment: r.Environment, Attempts: attempts,
		})
	if err != nil {
		return s, fmt.Errorf("submit: cloud task %s was taken, but its run cannot be told: %w", id, err)
	}
	d.log.Info("submitted", zap.String("run", s.Run), zap.String("task", id))
	return s, nil
}

// begin creates the log of a new run and returns its id: the requested one, or
// a generated one.
func (d *Driver) begin(ctx context.Context, asked string, s Submitted, body runs.Start, line submittedLine) (string,
	error) {
	start := runs.Entry{Kind: runs.Started, Time: s.At, Body: runs.Encode(body)}
	for {
		run := asked
		if asked == "" {
			run = runs.CloudID(s.At, rand.Uint64())
		}
		log, err := d.logs.Open(ctx, Agent, run, runs.Mark{})
		if err != nil {
			return "", err
		}
		err = runs.ErrMoved
		if log.Mark().Seq == 0 { // otherwise the id is in use, with a probability of one in two billion
			err = log.Append(ctx, start)
		}
		switch {
		case errors.Is(err, runs.ErrMoved) && asked == "":
		case errors.Is(err, runs.ErrMoved):
			return "", runs.ErrKnownRun
		case err != nil:
			return "", err
		default:
			return run, log.Append(ctx, runs.Entry{Kind: runs.Out, Time: s.At, Body: encode(line)})
		}
	}
}
