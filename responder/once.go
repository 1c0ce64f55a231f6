package responder

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/runs"
)

// Leases: the longest time that a request can take.
const (
	submitLease = 30 * time.Second
	cancelLease = 45 * time.Second
	cloudLease  = 6 * time.Minute // the program waits for two minutes and has two, and its run's log one
)

// outcome is the stored outcome of a request with a key: everything that its answer
// contains, so that a later attempt gets the same answer. Entries outlive processes
// and upgrades, so the form is not that of package api.
type outcome struct {
	Run        string     `json:"run"`
	At         int64      `json:"at"` // Unix milliseconds
	Position   int        `json:"position,omitempty"`
	Thread     string     `json:"thread,omitempty"`
	CloudID    string     `json:"cloud_id,omitempty"`
	WebURL     string     `json:"web_url,omitempty"`
	State      runs.State `json:"state,omitempty"` // of a cancel: after it, and before
	Before     runs.State `json:"before,omitempty"`
	Basis      *api.Basis `json:"stream,omitempty"`
	Governance string     `json:"governance_context,omitempty"` // of a submission
	Context    string     `json:"context_id,omitempty"`         // the caller's own name of it
	Turn       int        `json:"turn,omitempty"`               // of a message, or another command of a live run
	Entry      uint64     `json:"entry,omitempty"`
	Delivered  bool       `json:"delivered,omitempty"`

	replayed bool // an earlier attempt did it
}

func (o outcome) submitted() api.Submitted {
	return api.Submitted{
		Run: o.Run, At: o.At, Position: o.Position, Thread: o.Thread, CloudID: o.CloudID, WebURL: o.WebURL, Basis: o.Basis,
		Governance: o.Governance, Context: o.Context, Replayed: o.replayed,
	}
}

func (o outcome) cancelled() api.Cancelled {
	return api.Cancelled{Run: o.Run, At: o.At, State: o.State, Before: o.Before, Basis: o.Basis, Replayed: o.replayed}
}

// once carries out a request, unless its key was used before: then it returns the
// outcome of the first time. Run is the run id for a new request. Do gets the run
// id to use, and whether an earlier attempt did not finish. Without a lease do may be
// called at any time again: it knows itself what was done.
func (s *Service) once(ctx context.Context, q api.Once, request any, run string, lease time.Duration,
	do func(run string, again bool) (outcome, error),
) (done outcome, err error) {
	if q.Key == "" {
		return do(run, false)
	}
	if !idempotency.KeyForm().MatchString(q.Key) {
		return done, api.Invalid(api.FieldKey, "must be 16 to 255 letters, digits, '_', '.', ':' and '-'")
	}
	if s.cfg.Requests == nil {
		return done, notOffered(api.FieldKey, "requests are not remembered here")
	}
	if q.Hash == "" {
		if q.Hash, err = hashOf(request); err != nil {
			return done, err
		}
	}
	claim, err := s.cfg.Requests.Begin(ctx,
		idempotency.Request{Caller: Caller(ctx), Key: q.Key, Hash: q.Hash, Run: run, Lease: lease}, time.Now())
	if err != nil {
		return done, err
	}
	if claim.Outcome != nil {
		if err := json.Unmarshal(claim.Outcome, &done); err != nil {
			return done, errors.New("the outcome of a request is not of the known form")
		}
		done.replayed = true
		return done, nil
	}
	done, err = do(claim.Run, claim.Again)

	// The caller may have disconnected: the next attempt must find the outcome.
	note, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var noted error
	switch {
	case err == nil:
		var b []byte
		if b, noted = bounds.Encode(done); noted == nil {
			noted = claim.Finish(note, b, time.Now())
		}
	case (!claim.Again || lease == 0) && nothingDone(err):
		noted = claim.Release(note, time.Now())
	default:
		noted = claim.Leave(note, time.Now())
	}
	if noted != nil { // the entry has the run id, and its lease ends
		s.log.Warn("the outcome of a request was not stored", zap.String("run", claim.Run), zap.Error(noted))
	}
	return done, err
}

// Again returns the outcome of a submission that was carried out before with its key, whatever else holds now.
func (s *Service) Again(ctx context.Context, q api.Once) (api.Submitted, bool) {
	done, _, _ := s.Begun(ctx, q)
	if done == nil {
		return api.Submitted{}, false
	}
	return *done, true
}

// Begun is [Service.Again] that also reports whether a submission was begun with the key: its outcome may be unknown,
// or it may be another one, nil.
func (s *Service) Begun(ctx context.Context, q api.Once) (*api.Submitted, bool, error) {
	if s.cfg.Requests == nil || !idempotency.KeyForm().MatchString(q.Key) {
		return nil, false, nil
	}
	request := idempotency.Request{Caller: Caller(ctx), Key: q.Key, Hash: q.Hash}
	stored, begun, err := s.cfg.Requests.Begun(ctx, request, time.Now())
	done := outcome{replayed: true}
	if err != nil || stored == nil || json.Unmarshal(stored, &done) != nil {
		return nil, begun, s.explain("look for a request", err)
	}
	return new(done.submitted()), true, nil
}

// withoutSecret is a webhook as the hash of a request has it: the secret may change
// from one attempt to the next, and so may the key.
func withoutSecret(w *api.Webhook) *api.Webhook {
	if w == nil {
		return nil
	}
	public := *w
	public.Credentials = ""
	return &public
}

// OnceOf identifies a request by a key and what its caller wants. Without a key it is zero.
func OnceOf(key string, request any) (q api.Once, err error) {
	if key == "" {
		return q, nil
	}
	q.Key = key
	q.Hash, err = hashOf(request)
	return q, err
}

// hashOf is the hash of a request in the types of package api, without its key.
func hashOf(request any) (string, error) {
	b, err := bounds.Encode(request)
	if err != nil {
		return "", err
	}
	hash, err := idempotency.Hash(b)
	if err != nil {
		return "", api.Invalid("request", "has no canonical form: no object may have a name twice, and no number may "+
			"be too large")
	}
	return hash, nil
}

// notBegun is an error from before a request was carried out.
type notBegun struct{ error }

func (e notBegun) Unwrap() error { return e.error }

// nothingDone reports whether an error means for certain that nothing was done.
func nothingDone(err error) bool {
	if _, ok := errors.AsType[notBegun](err); ok {
		return true
	}
	if known, ok := errors.AsType[*api.Error](err); ok {
		return slices.Contains([]api.Code{
			api.Validation, api.Unsupported, api.NotFound, api.Ended, api.Conflict, api.KeyConflict, api.QueueFull}, known.Code)
	}
	if program, ok := errors.AsType[*codexcloud.Failure](err); ok {
		return program.NothingDone()
	}
	return errors.Is(err, runs.ErrQueueFull)
}
