package delegator

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/cloud"
	"github.com/linesman/linesman/runs"
)

// How long it takes at most to do what is to be done once.
const (
	submitLease = 30 * time.Second
	cancelLease = 45 * time.Second
	cloudLease  = 4 * time.Minute // the program has two, and its run's log one
)

// outcome is what came of something that is done once: all that an answer says
// of it, so that a later one says the same.
type outcome struct {
	Run      string     `json:"run"`
	At       int64      `json:"at"` // Unix milliseconds
	Position int        `json:"position,omitempty"`
	Thread   string     `json:"thread,omitempty"`
	CloudID  string     `json:"cloud_id,omitempty"`
	WebURL   string     `json:"web_url,omitempty"`
	State    runs.State `json:"state,omitempty"` // of a cancel: after it, and before
	Before   runs.State `json:"before,omitempty"`
	Stream   *basis     `json:"stream,omitempty"`

	Governance string `json:"governance_context,omitempty"` // of a submission
}

type callerKey struct{}

// local is the caller that has no name. No token can have this one.
const local = "(local)"

// WithCaller says who calls: the name of a token, "" being whoever needs none.
// Idempotency keys are each caller's own.
func WithCaller(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, name)
}

// Caller is who calls, as [WithCaller] takes it.
func Caller(ctx context.Context) string {
	if name, _ := ctx.Value(callerKey{}).(string); name != "" {
		return name
	}
	return local
}

// once does what the call is for, unless the call's key says that it was done:
// then the outcome is that of the first time. Run is the run id that it gets.
func (c *call) once(ctx context.Context, run string, lease time.Duration, do func(adcp.Claim) (outcome, error)) (outcome, error) {
	key := c.args.text("idempotency_key")
	if key == "" {
		return do(adcp.Claim{Run: run})
	}
	if c.Requests == nil {
		return outcome{}, &adcp.Error{Code: adcp.Unsupported, Message: "requests are not remembered here", Field: "idempotency_key", Recovery: adcp.Correctable}
	}
	hash, err := c.hash()
	if err != nil {
		return outcome{}, invalid("arguments", "have no canonical form: no name may stand twice in an object, nor a number be too large", details{})
	}
	claim, err := c.Requests.Begin(ctx, adcp.Request{Caller: Caller(ctx), Key: key, Hash: hash, Run: run, Lease: lease}, time.Now())
	if err != nil {
		return outcome{}, err
	}
	if claim.Outcome != nil {
		var done outcome
		if err := json.Unmarshal(claim.Outcome, &done); err != nil {
			return done, errors.New("the outcome of a request is not of the known form")
		}
		c.again = true
		return done, nil
	}
	done, err := do(*claim)

	// Whoever asked may have gone: the next one is to find what was done.
	note, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var noted error
	switch {
	case err == nil:
		noted = claim.Finish(note, encode(done), time.Now())
	case !claim.Again && nothingDone(err):
		noted = claim.Release(note, time.Now())
	default:
		noted = claim.Leave(note, time.Now())
	}
	if noted != nil { // the entry has the run id, and its lease ends
		c.log.Warn("what came of a request is not noted", zap.String("tool", c.tool.name), zap.String("run", claim.Run), zap.Error(noted))
	}
	return done, err
}

// hash is that of what is asked for, however its parameters are spelled and in
// whatever format it is to be answered.
func (c *call) hash() (string, error) {
	arguments := map[string]json.RawMessage{}
	for _, g := range c.args.given {
		switch g.param {
		case "idempotency_key", "context", "governance_context", "format":
		case pushName:
			arguments[g.param] = withoutSecret(json.RawMessage(g.raw))
		default:
			arguments[g.param] = json.RawMessage(g.raw)
		}
	}
	return adcp.Hash(encode(map[string]any{"tool": c.tool.name, "arguments": arguments}))
}

// nothingDone reports whether an error says for certain that nothing was done.
func nothingDone(err error) bool {
	var known *failure
	var program *cloud.Failure
	var ended *responder.EndedError
	switch {
	case errors.As(err, &known):
		return known.Code == codeValidation || known.Code == codeUnsupported || known.Code == codeNotFound
	case errors.As(err, &program):
		switch program.Reason {
		case cloud.ReasonSpawn, cloud.ReasonUsage, cloud.ReasonNotSignedIn, cloud.ReasonRateLimit, cloud.ReasonPermission, cloud.ReasonNotGit,
			cloud.ReasonNotFound:
			return true
		}
		return false
	}
	return errors.As(err, &ended) || errors.Is(err, runs.ErrQueueFull)
}

func outcomeUnknown() error {
	return &adcp.Error{
		Code: adcp.OutcomeUnknown, Message: "an earlier request with this key broke off: Codex Cloud may have taken the task, and cannot be asked",
		Suggestion: "Look for the task in Codex Cloud; if it is not there, use a new key", Recovery: adcp.Terminal,
	}
}
