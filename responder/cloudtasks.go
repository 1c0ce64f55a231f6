package responder

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
)

// IsCloud reports whether a run is a task of Codex Cloud.
func IsCloud(r runs.Header) bool { return r.Agent == codexcloud.Agent }

// Unknown is the row of a run that the table does not have, derived from its id.
func Unknown(run string) runs.Header {
	row := runs.Header{Summary: runs.Summary{ID: run, Attributes: runs.Attributes{Agent: api.DefaultAgent},
		State: runs.StateQueued}}
	if strings.HasPrefix(run, "T-cloud-") {
		row.Agent = codexcloud.Agent
	}
	return row
}

// CheckCloudSubmit reports all mistakes of a submission to Codex Cloud as one
// [api.Validation] error.
func (s *Service) CheckCloudSubmit(q api.CloudSubmission) error {
	var m mistakes
	r := cloudRequest(q)
	m.when(m.fields(r.Check()) != nil, "request", "asks for a task that cannot be submitted")
	s.checkBoth(&m, q.Prompt, q.DestructiveGit, q.Webhook)
	return m.err()
}

func cloudRequest(q api.CloudSubmission) codexcloud.Request {
	return codexcloud.Request{
		Prompt: q.Prompt, Environment: q.Environment, Attempts: cmp.Or(q.Attempts, 1), Governance: q.Governance,
	}
}

// CloudDriven returns [api.Unsupported] if Codex Cloud is not configured.
func (s *Service) CloudDriven() error {
	if s.cfg.Cloud == nil {
		return noCloud()
	}
	return nil
}

// SubmitCloud submits a task to Codex Cloud; with a key, once.
func (s *Service) SubmitCloud(ctx context.Context, q api.CloudSubmission) (api.Submitted, error) {
	if err := s.CheckCloudSubmit(q); err != nil {
		return api.Submitted{}, err
	}
	if err := s.CloudDriven(); err != nil {
		return api.Submitted{}, err
	}
	if err := s.CanNotify(q.Webhook); err != nil {
		return api.Submitted{}, err
	}
	id := runs.NewCloudID(time.Now().UnixMilli(), rand.Uint64())
	hashed := q
	hashed.Once, hashed.Webhook = api.Once{}, withoutSecret(q.Webhook)
	done, err := s.once(ctx, q.Once, hashed, id, cloudLease, func(run string, again bool) (outcome, error) {
		if again {
			return outcome{}, &api.Error{
				Code:       api.OutcomeUnknown,
				Message:    "an earlier request with this key did not finish: Codex Cloud may have accepted the task",
				Suggestion: "Look for the task in Codex Cloud; if it is not there, use a new key",
			}
		}
		return s.handOver(ctx, q, run)
	})
	return done.submitted(), s.explain("submit to Codex Cloud", err)
}

// handOver submits a task to the cloud as a run. Its webhook is registered first: a
// kill in between leaves the webhook of a run that does not exist.
func (s *Service) handOver(ctx context.Context, q api.CloudSubmission, run string) (outcome, error) {
	if err := s.Register(ctx, run, q.Webhook); err != nil {
		return outcome{}, notBegun{err}
	}
	r := cloudRequest(q)
	r.Run = run
	sub, err := s.cfg.Cloud.Submit(ctx, r)
	if sub.Run == "" {
		s.unregister(ctx, run, q.Webhook)
	}
	if err != nil && sub.ID != "" {
		s.log.Error("a task of Codex Cloud is not followed by a run", zap.String("task", sub.ID), zap.Error(err))
		problem := "its run could not be created"
		if sub.Run != "" {
			problem = "its run could not be told which task it is, and may end as lost"
		}
		return outcome{}, &api.Error{
			Code:    api.ProgramFailed,
			Message: "Codex Cloud accepted the task, but " + problem + ": do not submit it again",
			Reason:  api.ReasonNotRecorded, Run: sub.Run, CloudID: sub.ID, WebURL: sub.URL,
		}
	}
	if err != nil {
		return outcome{}, validation(err)
	}
	s.cloud.add(sub.ID, sub.Run)
	return outcome{
		Run: sub.Run, At: sub.At, CloudID: sub.ID, WebURL: sub.URL, Basis: s.Basis(), Governance: q.Governance,
	}, nil
}

// cloudCancel is the error of a cancel, which Codex Cloud does not offer.
func (s *Service) cloudCancel(ctx context.Context, v runs.Header) error {
	record, err := s.Record(ctx, v.ID)
	if err != nil {
		return err
	}
	e := &api.Error{
		Code: api.Unsupported, Message: "Codex Cloud can be asked to end a task on its web page only", Run: v.ID,
		State: v.State,
	}
	if c := record.Cloud; c != nil {
		e.CloudID, e.WebURL = c.ID, c.URL
	}
	return e
}

// CloudRun returns the run of a task by its id in Codex Cloud. The error is
// [api.NotFound] if no run follows the task.
func (s *Service) CloudRun(ctx context.Context, id string) (string, error) {
	run, err := s.cloud.find(ctx, s.table, id)
	if err == nil && run == "" {
		err = &api.Error{Code: api.NotFound, Message: "no run follows this task of Codex Cloud", CloudID: id}
	}
	return run, s.explain("find a task of Codex Cloud", err)
}

// cloudIndex maps the ids of Codex Cloud to runs. Only records contain these ids:
// each is read once. At its limit the index is emptied.
type cloudIndex struct {
	mu   sync.Mutex
	runs map[string]string // by the id in Codex Cloud
	read map[string]bool   // runs whose record names a task
}

const (
	maxIndexed = 10_000
	maxLookups = 1_000 // records that one call reads
)

func newCloudIndex() *cloudIndex {
	return &cloudIndex{runs: map[string]string{}, read: map[string]bool{}}
}

// add stores the run of a task.
func (x *cloudIndex) add(id, run string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.read) >= maxIndexed {
		clear(x.runs)
		clear(x.read)
	}
	x.runs[id], x.read[run] = run, true
}

// get returns the run of a task, and whether the record of a run was read.
func (x *cloudIndex) get(id, run string) (of string, read bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.runs[id], x.read[run]
}

// find returns the run of a task, "" if no run follows it.
func (x *cloudIndex) find(ctx context.Context, t *runtable.Table, id string) (string, error) {
	if run, _ := x.get(id, ""); run != "" {
		return run, nil
	}
	all := t.Snapshot(maxIndexed, IsCloud)
	lookups := 0
	for _, v := range slices.Concat(all.Working, all.Queued, all.Ended) {
		if _, read := x.get(id, v.ID); read {
			continue
		}
		if lookups++; lookups > maxLookups {
			return "", nil
		}
		record, err := t.Record(ctx, v.ID)
		if errors.Is(err, runs.ErrNoRun) {
			continue
		}
		if err != nil {
			return "", err
		}
		if record.Cloud != nil && record.Cloud.ID != "" {
			x.add(record.Cloud.ID, v.ID)
		}
	}
	run, _ := x.get(id, "")
	return run, nil
}

// OpenCloud returns the tasks of Codex Cloud that have not ended, for the driver
// that polls them.
func (s *Service) OpenCloud(ctx context.Context) ([]codexcloud.Open, error) {
	if err := s.Filled(ctx); err != nil {
		return nil, err
	}
	var all []codexcloud.Open
	for _, v := range s.table.Snapshot(0, IsCloud).Working {
		record, err := s.table.Record(ctx, v.ID)
		if errors.Is(err, runs.ErrNoRun) {
			continue
		}
		if err != nil {
			return nil, err
		}
		one := codexcloud.Open{Run: v.ID, Bytes: record.Bytes}
		if record.Cloud != nil {
			one.ID = record.Cloud.ID
		}
		all = append(all, one)
	}
	return all, nil
}
