package codexcloud

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// Request describes a new task.
type Request struct {
	Run         string // its run id; "": a new one
	Prompt      string // 1 to runs.MaxShortPrompt characters, not blank
	Environment string // id or unique label, at most MaxEnvironment bytes
	Attempts    int    // 1 to MaxAttempts; 0 is 1
	Governance  string // stored with the run, see runs.CheckGovernance; "": none
}

// Limits of a [Request].
const (
	MaxEnvironment = 256 // bytes
	MaxAttempts    = 4
)

// Submitted is a task that the service accepted.
type Submitted struct {
	Run string // run id; "": its log was not begun
	ID  string // the service's id
	URL string // URL of its page
	At  int64  // when it was accepted, Unix milliseconds
}

// Check reports every invalid field of r, each as a [runs.FieldError]. It
// quotes no value.
func (r *Request) Check() error {
	var errs []error
	wrong := func(is bool, field, format string, a ...any) {
		if is {
			errs = append(errs, &runs.FieldError{Field: field, Problem: fmt.Sprintf(format, a...)})
		}
	}
	switch n := utf8.RuneCountInString(r.Prompt); {
	case !utf8.ValidString(r.Prompt) || strings.ContainsRune(r.Prompt, 0):
		wrong(true, "prompt", "must be UTF-8 text without NUL")
	case strings.TrimSpace(r.Prompt) == "":
		wrong(true, "prompt", "must not be blank")
	default:
		wrong(n > runs.MaxShortPrompt, "prompt", "at most %d characters, got %d", runs.MaxShortPrompt, n)
	}
	switch e := r.Environment; {
	case e == "":
		wrong(true, "environment", "must not be empty")
	case len(e) > MaxEnvironment:
		wrong(true, "environment", "at most %d bytes, got %d", MaxEnvironment, len(e))
	case !utf8.ValidString(e) || strings.ContainsFunc(e, unicode.IsControl) || strings.TrimSpace(e) != e:
		wrong(true, "environment", "must be printable text without white space around it")
	}
	wrong(r.Attempts < 0 || r.Attempts > MaxAttempts, "attempts", "must be 1 to %d, got %d", MaxAttempts, r.Attempts)
	wrong(r.Run != "" && runs.CheckID(r.Run) != nil, "run", "must be a run id")
	wrong(r.Governance != "" && runs.CheckGovernance(r.Governance) != nil, "governanceContext",
		"must be printable ASCII, at most %d bytes", runs.MaxGovernance)
	return errors.Join(errs...)
}

// Submit submits a task to the service, and creates the log of its run once the
// service has accepted it. The error joins [runs.FieldError]s if the request is
// invalid, and is a [*Failure] if the program failed. An accepted task is
// returned even with an error: then it has no run, or one that does not name it,
// which may end as lost. Once the program has started, the end of ctx does not end it.
func (d *Driver) Submit(ctx context.Context, r Request) (Submitted, error) {
	if err := r.Check(); err != nil {
		return Submitted{}, err
	}
	attempts := max(r.Attempts, 1)
	c := call{
		// With =, a value may begin with a dash. Without a branch the program would use that of its directory.
		args:  []string{"exec", "--env=" + r.Environment, fmt.Sprintf("--attempts=%d", attempts), "--branch=main", "-"},
		stdin: &r.Prompt, timeout: execTimeout, waiting: ctx,
	}
	work, done := d.outliving(ctx)
	defer done()
	o, err := d.call(work, c)
	id, url, ok := taskURL(firstLine(o.stdout))
	if taken := ok && bytes.IndexByte(o.stdout, '\n') >= 0; err != nil && !taken { // the URL may precede a kill
		return Submitted{}, fmt.Errorf("submit: %w", err)
	}
	if !ok {
		return Submitted{}, fmt.Errorf("submit: %w", c.failed(o))
	}
	s := Submitted{ID: id, URL: url, At: time.Now().UnixMilli()}
	// The task exists, so its run must, too.
	write, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	run := cmp.Or(r.Run, runs.NewCloudID(s.At, rand.Uint64()))
	s.Run, err = d.begin(write, run, s.At, runs.Start{
		Source: "cloud", Attributes: runs.Attributes{Title: runs.Title(r.Prompt)}, Governance: r.Governance,
	}, submittedLine{
		Type: "cloud.submitted", ID: id, URL: url, Environment: r.Environment, Attempts: attempts,
	})
	if err != nil {
		return s, fmt.Errorf("submit: cloud task %s was accepted, but its run cannot be written: %w", id, err)
	}
	d.log.Info("submitted", zap.String("run", s.Run), zap.String("task", id))
	return s, nil
}

// outliving returns a context that does not end when a caller leaves, because the service may have accepted
// the task by then; but once the driver stops, too. Done releases it.
func (d *Driver) outliving(caller context.Context) (ctx context.Context, done context.CancelFunc) {
	ctx, done = context.WithCancel(context.WithoutCancel(caller))
	context.AfterFunc(caller, func() {
		select {
		case <-d.stopping.Done():
			done()
		case <-ctx.Done():
		}
	})
	return ctx, done
}

// begin creates the log of a new run and returns its id, also with an error if the log
// has begun. The error is [runs.ErrKnownRun] if the id is in use.
func (d *Driver) begin(
	ctx context.Context, run string, at int64, start runs.Start, line submittedLine,
) (string, error) {
	log, err := d.logs.Open(ctx, Agent, run, runs.Mark{})
	if err != nil {
		return "", err
	}
	if log.Mark().Seq != 0 {
		return "", runs.ErrKnownRun
	}
	err = log.Append(ctx, runs.Entry{Kind: runs.Started, Time: at, Body: runs.Encode(start)})
	switch {
	case errors.Is(err, runs.ErrMoved):
		return "", runs.ErrKnownRun
	case err != nil:
		return "", err
	}
	return run, log.Append(ctx, runs.Entry{Kind: runs.Out, Time: at, Body: encode(line)})
}

// pages are the hosts of task pages.
var pages = []string{"chatgpt.com", "www.chatgpt.com", "chat.openai.com", "chatgpt-staging.com"}

// Ref parses a reference to a cloud task: its id, or the URL of its page, with
// or without https. The id of a run (T-…) is not one.
func Ref(s string) (id string, ok bool) {
	s = strings.TrimSpace(s)
	if !strings.Contains(s, "/") {
		return s, runs.CheckCloudTask(s) == nil && !strings.HasPrefix(s, "T-")
	}
	if !strings.Contains(s, "://") {
		s = "https://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.User != nil || !slices.Contains(pages, u.Host) {
		return "", false
	}
	dir, id := path.Split(strings.TrimSuffix(u.EscapedPath(), "/"))
	if !strings.HasSuffix(dir, "/codex/tasks/") || runs.CheckCloudTask(id) != nil {
		return "", false
	}
	return id, true
}

// taskURL parses the line that the program prints for an accepted task. The
// host is not checked.
func taskURL(line string) (id, page string, ok bool) {
	page = strings.TrimSpace(line)
	u, err := url.Parse(page)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || len(page) > runs.MaxCloudText-2 {
		return "", "", false
	}
	_, id = path.Split(u.EscapedPath())
	return id, page, runs.CheckCloudTask(id) == nil
}
