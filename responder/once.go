package responder

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/runs"
)

// Leases: how long it takes at most to carry out a request once.
const (
	submitLease = 30 * time.Second
	cancelLease = 45 * time.Second
	cloudLease  = 4 * time.Minute // the program has two minutes, and its run's log one
)

// once carries out a request, unless its key was used before: then the outcome
// is that of the first time, and replayed is true. Run is the run id that the
// request gets. Do gets the run id to use, and whether an earlier attempt broke off.
func once[T any](ctx context.Context, s *Service, q api.Once, request any, run string, lease time.Duration,
	do func(run string, again bool) (T, error),
) (outcome T, replayed bool, err error) {
	if q.Key == "" {
		outcome, err = do(run, false)
		return outcome, false, err
	}
	if s.cfg.Requests == nil {
		return outcome, false, notOffered(api.FieldKey, "requests are not remembered here")
	}
	if q.Hash == "" {
		if q.Hash, err = hashOf(request); err != nil {
			return outcome, false, err
		}
	}
	claim, err := s.cfg.Requests.Begin(ctx,
		idempotency.Request{Caller: Caller(ctx), Key: q.Key, Hash: q.Hash, Run: run, Lease: lease}, time.Now())
	if err != nil {
		return outcome, false, err
	}
	if claim.Outcome != nil {
		if err := json.Unmarshal(claim.Outcome, &outcome); err != nil {
			return outcome, false, errors.New("the outcome of a request is not of the known form")
		}
		return outcome, true, nil
	}
	outcome, err = do(claim.Run, claim.Again)

	// The caller may have gone: the next attempt must find what was done.
	note, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var noted error
	switch {
	case err == nil:
		var b []byte
		if b, noted = bounds.Encode(outcome); noted == nil {
			noted = claim.Finish(note, b, time.Now())
		}
	case !claim.Again && nothingDone(err):
		noted = claim.Release(note, time.Now())
	default:
		noted = claim.Leave(note, time.Now())
	}
	if noted != nil { // the entry has the run id, and its lease ends
		s.log.Warn("the outcome of a request was not stored", zap.String("run", claim.Run), zap.Error(noted))
	}
	return outcome, false, err
}

// hashOf is the hash of a request in the types of package api. Its key and the
// secret of its webhook are left out: they may change from one attempt to the next.
func hashOf(request any) (string, error) {
	b, err := bounds.Encode(request)
	if err != nil {
		return "", err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return "", err
	}
	delete(members, "once")
	if w, ok := members["webhook"]; ok {
		var webhook map[string]json.RawMessage
		if err := json.Unmarshal(w, &webhook); err != nil {
			return "", err
		}
		delete(webhook, "credentials")
		if members["webhook"], err = bounds.Encode(webhook); err != nil {
			return "", err
		}
	}
	if b, err = bounds.Encode(members); err != nil {
		return "", err
	}
	hash, err := idempotency.Hash(b)
	if err != nil {
		return "", api.Invalid("request", "has no canonical form: no name may stand twice in an object, nor a number be too large")
	}
	return hash, nil
}

// nothingDone reports whether an error says for certain that nothing was done.
func nothingDone(err error) bool {
	var known *api.Error
	var program *codexcloud.Failure
	switch {
	case errors.As(err, &known):
		switch known.Code {
		case api.Validation, api.Unsupported, api.NotFound, api.Ended, api.QueueFull:
			return true
		}
		return false
	case errors.As(err, &program):
		switch program.Reason {
		case codexcloud.ReasonSpawn, codexcloud.ReasonUsage, codexcloud.ReasonNotSignedIn, codexcloud.ReasonRateLimit, codexcloud.ReasonPermission,
			codexcloud.ReasonNotGit, codexcloud.ReasonNotFound:
			return true
		}
		return false
	}
	return errors.Is(err, runs.ErrQueueFull)
}
