// Package client drives linesman from a Go program, over NATS: it queues tasks,
// waits for runs, reads their events and results, and cancels them. It owns
// how requests are sent and how errors are returned; their meaning is package api.
//
//	c, err := client.Connect(ctx, client.Config{URL: "nats://127.0.0.1:4222", Creds: "operator.creds"})
//	task, err := c.Submit(ctx, api.Submission{Task: runs.Task{Prompt: "Explain what this package does."}})
//	run, err := c.Wait(ctx, task.Run, nil)
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
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
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

	errNotSent = bus.ErrNotSent
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

// answerTime is how long a client waits for an outcome, unless the operation says otherwise.
const answerTime = 15 * time.Second

// Call asks a responder for an operation, and decodes its outcome: see [api.Caller]. Each operation can be
// asked for by [api.Op.Call]; the methods below do that. It waits no longer than ctx, and than the operation says.
func (c *Client) Call(ctx context.Context, op api.Entry, request, outcome any) error {
	body, failed, err := c.ask(ctx, op.Name, request, cmp.Or(op.Within, answerTime))
	if err != nil {
		return err
	}
	if failed {
		e := &api.Error{}
		if json.Unmarshal(body, e) != nil || e.Code == "" {
			return errForm()
		}
		return e
	}
	if json.Unmarshal(body, outcome) != nil {
		return errForm()
	}
	if f, ok := reflect.ValueOf(outcome).Elem().Interface().(interface{ Formed() bool }); ok && !f.Formed() {
		return errForm()
	}
	return nil
}

// ask sends a request and returns its response; failed is true if that is an
// error.
func (c *Client) ask(
	ctx context.Context, name string, request any, within time.Duration,
) (body []byte, failed bool, err error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // it makes markup six times as long
	if encoder.Encode(request) != nil {
		return nil, false, api.Invalid("request", "is no JSON")
	}
	args := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if why := c.bus.TooLarge(len(args)); why != "" {
		field := "request"
		if name == "submit" {
			field = api.FieldPrompt
		}
		return nil, false, api.Invalid(field, why)
	}
	asking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	a, err := c.bus.Call(asking, name, args)
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
	return a.Body, a.Failed, nil
}

// unanswered is the error of a request that got no answer.
func unanswered(err error) *api.Error {
	retry := !errors.Is(err, ErrDenied) && !errors.Is(err, ErrRefused)
	return &api.Error{Code: api.Unavailable, Message: err.Error(), Retryable: retry, Err: err}
}

// errOther reports an answer that cannot be read. The request may have been
// carried out.
var errOther = errors.New("the responder's answer is not of the known form: is it of another version?")

func errForm() *api.Error {
	return &api.Error{Code: api.Internal, Message: errOther.Error(), Err: errOther}
}

// Submit queues a task. The error lists everything that is wrong with it.
func (c *Client) Submit(ctx context.Context, q api.Submission) (api.Submitted, error) {
	return submitted(api.OpSubmit.Call(ctx, c, q))
}

// SubmitCloud submits a task to Codex Cloud.
func (c *Client) SubmitCloud(ctx context.Context, q api.CloudSubmission) (api.Submitted, error) {
	return submitted(api.OpSubmitCloud.Call(ctx, c, q))
}

func submitted(done api.Submitted, err error) (api.Submitted, error) {
	if err == nil && runs.CheckID(done.Run) != nil { // it was submitted
		return done, &api.Error{Code: api.Internal, Message: errOther.Error()}
	}
	return done, err
}

// Cancel cancels a run. The agent of a running one may end later. The error
// is [api.Ended] for a run that has ended.
func (c *Client) Cancel(ctx context.Context, q api.Cancel) (api.Cancelled, error) {
	return api.OpCancel.Call(ctx, c, q)
}

// Status returns the state of a run without the details of its record. The
// error is [api.NotFound] where there is no such run.
func (c *Client) Status(ctx context.Context, run string) (*api.Run, error) {
	return api.OpStatus.Call(ctx, c, api.RunRequest{Run: run})
}

// Describe returns the state of a run with the details of its record, which are
// empty while there is none.
func (c *Client) Describe(ctx context.Context, run string) (*api.Run, error) {
	return detailed(api.OpDescribe.Call(ctx, c, api.RunRequest{Run: run}))
}

// detailed is a run whose details can be read.
func detailed(run *api.Run, err error) (*api.Run, error) {
	if err == nil && run.Detail == nil {
		run.Detail = &api.Detail{}
	}
	return run, err
}

// Overview returns the state of runs: the running ones, the queued ones, and the
// last ones that ended.
func (c *Client) Overview(ctx context.Context, q api.OverviewRequest) (*api.Overview, error) {
	return api.OpOverview.Call(ctx, c, q)
}

// List returns a page of runs, the newest first.
func (c *Client) List(ctx context.Context, q api.List) (api.RunPage, error) {
	return api.OpList.Call(ctx, c, q)
}

// Resolve returns the id of the run that a reference names: its id, a part of at least 3
// characters that only its id begins or ends with, "last" for the newest run, or a label
// KEY=VALUE for the newest run that has it. The error is [api.NotFound], [api.Validation],
// or [api.Conflict] for several runs, which are its issues.
func (c *Client) Resolve(ctx context.Context, ref string) (string, error) {
	done, err := api.OpResolve.Call(ctx, c, api.ResolveRequest{Ref: ref})
	return done.Run, err
}

// Seen marks a run that has ended as opened by its owner: lists no longer show it as
// unseen. The error is [api.NotEnded] for a run that has not ended.
func (c *Client) Seen(ctx context.Context, run string) error {
	_, err := api.OpSeen.Call(ctx, c, api.RunRequest{Run: run})
	return err
}

// Results returns the result of a run. The error is [api.NotEnded] for a run that
// has not ended.
func (c *Client) Results(ctx context.Context, q api.ResultsRequest) (*api.Result, error) {
	r, err := api.OpResults.Call(ctx, c, q)
	if err == nil {
		r.Run, err = detailed(r.Run, nil)
	}
	return r, err
}

// Output returns a part of the output of the agent of a run.
func (c *Client) Output(ctx context.Context, q api.OutputRequest) (api.OutputPart, error) {
	return api.OpOutput.Call(ctx, c, q)
}

// Diff returns what a run changed in its directory, or the reason why that is unknown. The
// error is [api.NotEnded] for a run that has not ended.
func (c *Client) Diff(ctx context.Context, run string) (*api.Diff, error) {
	return api.OpDiff.Call(ctx, c, api.RunRequest{Run: run})
}

// Events returns a page of the events of a run, or of all runs, with the filters of q. See
// [Client.Follow] for a stream of them.
func (c *Client) Events(ctx context.Context, q api.EventsRequest) (api.EventPage, error) {
	return api.OpEvents.Call(ctx, c, q)
}

// Detail returns a page of what the events of a run omit, and waits for an item if the
// request says so. See [Client.FollowDetail] for a stream of them.
func (c *Client) Detail(ctx context.Context, q api.DetailRequest) (api.DetailPage, error) {
	return c.detail(ctx, q, foldTime)
}

// Questions returns the questions that wait for an answer, the oldest
// first. The error is [api.NotFound] if the request names a run that does not wait.
func (c *Client) Questions(ctx context.Context, q api.QuestionsRequest) (api.Questions, error) {
	return api.OpWaiting.Call(ctx, c, q)
}

// Answer answers a question. The first answer counts; the same one again
// is no error.
func (c *Client) Answer(ctx context.Context, q api.AnswerRequest) (api.Answered, error) {
	return api.OpAnswer.Call(ctx, c, q)
}

// Workers returns the workers that take tasks.
func (c *Client) Workers(ctx context.Context) (api.Workers, error) {
	return api.OpWorkers.Call(ctx, c, api.Nothing{})
}

// Environments returns the environments of Codex Cloud that the responder knows.
func (c *Client) Environments(ctx context.Context) (api.Environments, error) {
	return api.OpEnvironments.Call(ctx, c, api.Nothing{})
}

// Forget erases a run that has ended, and returns how much was erased. The error is
// [api.Conflict] for one that has not, and [api.Unsupported] where the responder
// lacks the rights.
func (c *Client) Forget(ctx context.Context, run string) (runs.Forgotten, error) {
	return api.OpForget.Call(ctx, c, api.RunRequest{Run: run})
}

// Cleanup ends stuck runs and removes old ones.
func (c *Client) Cleanup(ctx context.Context, q api.CleanupRequest) (api.CleanedUp, error) {
	return api.OpCleanup.Call(ctx, c, q)
}
