// Package client drives linesman from a Go program, over NATS: it queues tasks,
// waits for runs, reads their events and results, and cancels them. It owns
// how requests are sent and how errors are returned; their meaning is package api.
//
//	c, err := client.Connect(ctx, client.Config{URL: "nats://127.0.0.1:4222", Creds: "operator.creds"})
//	task, err := c.Submit(ctx, api.Submission{Prompt: "Explain what this package does."})
//	run, err := c.Wait(ctx, api.WaitRequest{Run: task.Run, Timeout: 600})
//	fmt.Println(run.State, run.Sentence)
//
// Every error is an [*api.Error] or that of a context. Requests that got no
// answer have the code [api.Unavailable], and errors.Is tests for the reason:
// [ErrNoResponder], [ErrDenied], [ErrUnreachable], or context.DeadlineExceeded.
//
// A client always reconnects. A request that was in flight when the connection
// broke fails, and may have been carried out: give it an idempotency
// key to repeat it. The methods of a client may be called from several
// goroutines.
package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
)

// Why a request got no answer.
var (
	ErrNoResponder = bus.ErrNoResponder // no responder is subscribed; nothing was done
	ErrDenied      = bus.ErrDenied      // these credentials do not allow it; nothing was done
	ErrUnreachable = bus.ErrUnreachable // the NATS server is unreachable; the request may have been carried out
	ErrRefused     = bus.ErrRefused     // the server refuses the credentials; it is ErrUnreachable, too
)

// Config has the parameters of a connection. Give either Creds, or User and Password, or
// neither for a server without authentication.
type Config struct {
	URL string // of the NATS server, or several, separated by commas

	Creds          string // NATS credentials file
	User, Password string // of the server of a `linesman up`: see `linesman context`

	// Of the second account, where the server has one for the events. Without
	// them the events are read in the first one.
	PublicCreds                string
	PublicUser, PublicPassword string

	Prefix string      // of subjects and streams; "": linesman
	Name   string      // of the connection, as the server shows it; "": linesman
	Log    *zap.Logger // of the connection; nil: none
}

// Client is a connection to linesman.
type Client struct {
	bus *bus.Bus
}

// Connect connects to a server. It does not wait for one that is unreachable: then the
// error is [ErrUnreachable].
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	login := func(user, password, creds string) bus.Login {
		return bus.Login{
			URL: cfg.URL, User: user, Password: password, Creds: creds, Name: cfg.Name, Inbox: bus.InboxOf(creds),
		}
	}
	inside, public := login(cfg.User, cfg.Password, cfg.Creds), bus.Login{}
	if cfg.PublicCreds != "" || cfg.PublicUser != "" {
		public = login(cfg.PublicUser, cfg.PublicPassword, cfg.PublicCreds)
	}
	log := cfg.Log
	if log == nil {
		log = zap.NewNop()
	}
	b, err := bus.Connect(ctx, inside, public, bus.Names{Prefix: cmp.Or(cfg.Prefix, bus.DefaultPrefix)}, log)
	if err != nil {
		return nil, unanswered(err)
	}
	return New(b), nil
}

// New returns a client of a connection that exists. [Client.Close] closes it.
func New(b *bus.Bus) *Client { return &Client{bus: b} }

// Close closes the connection.
func (c *Client) Close() { c.bus.Close() }

// Time limits of answers.
const (
	answerTime = 15 * time.Second
	slowTime   = 5 * time.Minute // of what starts programs or visits all runs
)

// call sends a request of a verb and reads its outcome. It waits at most so
// long, and no longer than ctx.
func call[A any](ctx context.Context, c *Client, verb string, request any, within time.Duration) (answer A, err error) {
	body, failed, err := c.ask(ctx, verb, request, within)
	if err != nil {
		return answer, err
	}
	if failed {
		e := &api.Error{}
		if json.Unmarshal(body, e) != nil || e.Code == "" {
			return answer, errForm()
		}
		return answer, e
	}
	if json.Unmarshal(body, &answer) != nil {
		return answer, errForm()
	}
	return answer, nil
}

// ask sends a request and returns its response; failed is true if that is an
// error.
func (c *Client) ask(
	ctx context.Context, name string, request any, within time.Duration,
) (body []byte, failed bool, err error) {
	args, err := json.Marshal(request)
	if err != nil {
		return nil, false, api.Invalid("request", "is no JSON")
	}
	if why := c.bus.TooLarge(len(args)); why != "" {
		field := "request"
		if name == "submit" {
			field = api.FieldPrompt
		}
		return nil, false, api.Invalid(field, why)
	}
	asking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	body, failed, err = c.bus.Call(asking, name, args)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, false, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		e := unanswered(err)
		e.Message = fmt.Sprintf("the responder gave no answer within %s", within.Round(time.Second))
		return nil, false, e
	case err != nil:
		return nil, false, unanswered(err)
	}
	return body, failed, nil
}

// unanswered is the error of a request that got no answer.
func unanswered(err error) *api.Error {
	retry := !errors.Is(err, ErrDenied) && !errors.Is(err, ErrRefused)
	return &api.Error{Code: api.Unavailable, Message: err.Error(), Retryable: retry, Err: err}
}

// ErrForm reports an answer that cannot be read. The request may have been
// carried out.
var ErrForm = errors.New("the responder's answer is not of the known form: is it of another version?")

func errForm() *api.Error {
	return &api.Error{Code: api.Internal, Message: ErrForm.Error(), Err: ErrForm}
}

// Submit queues a task. The error lists everything that is wrong with it.
func (c *Client) Submit(ctx context.Context, q api.Submission) (api.Submitted, error) {
	return submitted(call[api.Submitted](ctx, c, "submit", q, answerTime))
}

// SubmitCloud submits a task to Codex Cloud.
func (c *Client) SubmitCloud(ctx context.Context, q api.CloudSubmission) (api.Submitted, error) {
	return submitted(call[api.Submitted](ctx, c, "submit_cloud", q, slowTime))
}

func submitted(done api.Submitted, err error) (api.Submitted, error) {
	if err == nil && runs.CheckID(done.Run) != nil { // it was submitted
		return done, &api.Error{Code: api.Internal, Message: ErrForm.Error()}
	}
	return done, err
}

// Cancel cancels a run. The agent of a running one may end later. The error
// is [api.Ended] for a run that has ended.
func (c *Client) Cancel(ctx context.Context, q api.Cancel) (api.Cancelled, error) {
	return call[api.Cancelled](ctx, c, "cancel", q, answerTime)
}

// Status returns the state of a run without the details of its record. The
// error is [api.NotFound] where there is no such run.
func (c *Client) Status(ctx context.Context, run string) (*api.Run, error) {
	return aRun(call[*api.Run](ctx, c, "status", api.RunRequest{Run: run}, answerTime))
}

// Describe returns the state of a run with the details of its record, which are
// empty while there is none.
func (c *Client) Describe(ctx context.Context, run string) (*api.Run, error) {
	return detailed(call[*api.Run](ctx, c, "describe", api.RunRequest{Run: run}, answerTime))
}

func aRun(run *api.Run, err error) (*api.Run, error) {
	if err == nil && (run == nil || run.ID == "") {
		err = errForm()
	}
	return run, err
}

// detailed is aRun of a run whose details can be read.
func detailed(run *api.Run, err error) (*api.Run, error) {
	run, err = aRun(run, err)
	if err == nil && run.Detail == nil {
		run.Detail = &api.Detail{}
	}
	return run, err
}

// Overview returns the state of runs: the running ones, the queued ones, and the
// last ones that ended.
func (c *Client) Overview(ctx context.Context, q api.OverviewRequest) (*api.Overview, error) {
	all, err := call[*api.Overview](ctx, c, "overview", q, answerTime)
	if err == nil && all == nil {
		err = errForm()
	}
	return all, err
}

// List returns a page of runs, the newest first.
func (c *Client) List(ctx context.Context, q api.List) (api.RunPage, error) {
	return call[api.RunPage](ctx, c, "list", q, answerTime)
}

// Resolve returns the id of the run that a reference names: its id, a part of at least 3
// characters that only its id begins or ends with, "last" for the newest run, or a label
// KEY=VALUE for the newest run that has it. The error is [api.NotFound], [api.Validation],
// or [api.Conflict] for several runs, which are its issues.
func (c *Client) Resolve(ctx context.Context, ref string) (string, error) {
	done, err := call[api.Resolved](ctx, c, "resolve", api.ResolveRequest{Ref: ref}, answerTime)
	if err == nil && runs.CheckID(done.Run) != nil {
		err = errForm()
	}
	return done.Run, err
}

// Seen marks a run that has ended as opened by its owner: lists no longer show it as
// unseen. The error is [api.NotEnded] for a run that has not ended.
func (c *Client) Seen(ctx context.Context, run string) error {
	_, err := call[api.Seen](ctx, c, "seen", api.RunRequest{Run: run}, answerTime)
	return err
}

// Results returns the result of a run. The error is [api.NotEnded] for a run that
// has not ended.
func (c *Client) Results(ctx context.Context, q api.ResultsRequest) (*api.Result, error) {
	r, err := call[*api.Result](ctx, c, "results", q, answerTime)
	if err == nil && r == nil {
		r = &api.Result{}
	}
	if err == nil {
		r.Run, err = detailed(r.Run, nil)
	}
	return r, err
}

// Output returns a part of the output of the agent of a run.
func (c *Client) Output(ctx context.Context, q api.OutputRequest) (api.OutputPart, error) {
	return call[api.OutputPart](ctx, c, "output", q, answerTime)
}

// Diff returns what a run changed in its directory, or the reason why that is unknown. The
// error is [api.NotEnded] for a run that has not ended.
func (c *Client) Diff(ctx context.Context, run string) (*api.Diff, error) {
	d, err := call[*api.Diff](ctx, c, "diff", api.RunRequest{Run: run}, answerTime)
	if err == nil && d == nil {
		err = errForm()
	}
	return d, err
}

// Events returns a page of the events of a run, or of all runs, with the filters of q. See
// [Client.Follow] for a stream of them.
func (c *Client) Events(ctx context.Context, q api.EventsRequest) (api.EventPage, error) {
	return call[api.EventPage](ctx, c, "events", q, answerTime)
}

// Detail returns a page of what the events of a run omit, and waits for an item if the
// request says so. See [Client.FollowDetail] for a stream of them.
func (c *Client) Detail(ctx context.Context, q api.DetailRequest) (api.DetailPage, error) {
	return c.detail(ctx, q, foldTime)
}

// Questions returns the runs that wait for an answer from outside, the oldest
// first. The error is [api.NotFound] if the request names a run that does not wait.
func (c *Client) Questions(ctx context.Context, q api.QuestionsRequest) (api.Questions, error) {
	return call[api.Questions](ctx, c, "waiting", q, answerTime)
}

// Answer answers a run that waits. The first answer counts; the same one again
// is no error.
func (c *Client) Answer(ctx context.Context, q api.AnswerRequest) (api.Answered, error) {
	return call[api.Answered](ctx, c, "answer", q, answerTime)
}

// Workers returns the workers that take tasks.
func (c *Client) Workers(ctx context.Context) (api.Workers, error) {
	return call[api.Workers](ctx, c, "workers", api.Nothing{}, answerTime)
}

// Environments returns the environments of Codex Cloud that the responder knows.
func (c *Client) Environments(ctx context.Context) (api.Environments, error) {
	return call[api.Environments](ctx, c, "environments", api.Nothing{}, answerTime)
}

// Forget erases a run that has ended, and returns how much was erased. The error is
// [api.Conflict] for one that has not, and [api.Unsupported] where the responder
// lacks the rights.
func (c *Client) Forget(ctx context.Context, run string) (runs.Forgotten, error) {
	return call[runs.Forgotten](ctx, c, "forget", api.RunRequest{Run: run}, time.Minute)
}

// Cleanup ends stuck runs and removes old ones.
func (c *Client) Cleanup(ctx context.Context, q api.CleanupRequest) (api.CleanedUp, error) {
	return call[api.CleanedUp](ctx, c, "cleanup", q, slowTime)
}
