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

// Request is what a task in the cloud is asked to do.
type Request struct {
	Run         string            // run id that it gets; "": a new one
	Prompt      string            // 1 to runs.MaxPrompt characters, not blank
	Environment string            // id or unique label, at most MaxEnvironment bytes
	Branch      string            // of the repository; default: main
	Attempts    int               // 1 to MaxAttempts; 0 is 1
	Labels      map[string]string // of the run, see runs.CheckLabels
	Governance  string            // kept with the run, see runs.CheckGovernance; "": none
}

// Limits of a [Request].
const (
	MaxEnvironment = 256
	MaxBranch      = 256
	MaxAttempts    = 4
)

// Submitted is a task that the service took.
type Submitted struct {
	Run string // run id; "" where no log could be begun
	ID  string // the service's own
	URL string // its page
	At  int64  // when it was taken, Unix milliseconds
}

// Check reports everything that is wrong with r, each a [runs.FieldError]. It
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
	word := func(field, s string, most int) {
		switch {
		case len(s) > most:
			wrong(field, "at most %d bytes, got %d", most, len(s))
		case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) || strings.TrimSpace(s) != s:
			wrong(field, "must be printable text without white space around it")
		}
	}
	if r.Environment == "" {
		wrong("environment", "must not be empty")
	}
	word("environment", r.Environment, MaxEnvironment)
	word("branch", r.Branch, MaxBranch)
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

// Submit hands a task over to the service, and begins the log of its run once
// the service has taken it. The error joins [runs.FieldError]s where the
// request is wrong, and is a [*Failure] where the program failed. A task that
// was taken is told even with an error: then no run follows it.
func (d *Driver) Submit(ctx context.Context, r Request) (Submitted, error) {
	if err := r.Check(); err != nil {
		return Submitted{}, err
	}
	branch, attempts := r.Branch, max(r.Attempts, 1)
	if branch == "" {
		branch = "main" // else the program would take that of its working directory
	}
	c := call{
		// With = a value that begins with a dash is still one.
		args:    []string{"exec", "--env=" + r.Environment, fmt.Sprintf("--attempts=%d", attempts), "--branch=" + branch, "-"},
		stdin:   &r.Prompt,
		timeout: execTimeout,
	}
	o, err := d.call(ctx, c)
	id, url, ok := taskURL(firstLine(o.stdout))
	if taken := ok && bytes.IndexByte(o.stdout, '\n') >= 0; err != nil && !taken { // what was killed may have said so before
		return Submitted{}, fmt.Errorf("submit: %w", err)
	}
	if !ok {
		return Submitted{}, fmt.Errorf("submit: %w", c.failed(o))
	}
	s := Submitted{ID: id, URL: url, At: time.Now().UnixMilli()}
	// Whoever asked may have gone: the task is there, so its run must be.
	const patience = time.Minute
	write, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	s.Run, err = d.begin(write, r.Run, s, runs.Start{Source: "cloud", Labels: r.Labels, Governance: r.Governance}, submittedLine{
		Type: "cloud.submitted", ID: id, URL: url, Environment: r.Environment, Attempts: attempts,
	})
	if err != nil {
		return s, fmt.Errorf("submit: cloud task %s was taken, but its run cannot be told: %w", id, err)
	}
	d.log.Info("submitted", zap.String("run", s.Run), zap.String("task", id))
	return s, nil
}

// begin begins the log of a new run and returns its id: that which was asked
// for, or one of ours.
func (d *Driver) begin(ctx context.Context, asked string, s Submitted, body runs.Start, line submittedLine) (string, error) {
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
		if log.Mark().Seq == 0 { // one in two thousand million has this id already
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
