package responder

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Continues returns the thread that a task continues in a context: the context is named by its thread, or by the id
// of any run of it. Known is false for any other name, which is a label of the caller and continues nothing, see
// [runs.LabelContext]. The errors are those of [Service.Resumable].
func (s *Service) Continues(name string) (thread string, known bool, err error) {
	v, known := s.table.Get(name)
	if !known {
		v, known = s.table.Thread(name)
	}
	if !known {
		return "", false, nil
	}
	thread, err = s.Resumable(v)
	return thread, true, err
}

// inContext returns the condition of a run to be in a context.
func (s *Service) inContext(name string) func(runs.Header) bool {
	thread := name
	if v, ok := s.table.Get(name); ok {
		thread = v.Thread
	}
	return func(r runs.Header) bool {
		return r.ID == name || thread != "" && strings.EqualFold(r.Thread, thread) || r.Labels.Has(runs.LabelContext, name)
	}
}

// InContext reports whether a run is in a context, or in none that is known yet.
func (s *Service) InContext(r runs.Header, name string) bool {
	return r.Labels.Context(r.Thread) == "" || s.inContext(name)(r)
}

// Version returns the version of linesman.
func (s *Service) Version() string { return s.cfg.Version }

// KeyTTL returns how long the outcome of a request with an idempotency key is kept; 0: keys are not offered.
func (s *Service) KeyTTL() time.Duration {
	if s.cfg.Requests == nil {
		return 0
	}
	return cmp.Or(s.cfg.Requests.TTL, 24*time.Hour)
}

// Notifies reports whether a webhook of a run is registered, of whatever protocol.
func (s *Service) Notifies(ctx context.Context, run string) (bool, error) {
	if s.cfg.Webhooks == nil {
		return false, nil
	}
	is, err := s.cfg.Webhooks.Any(ctx, run)
	return is, s.explain("list webhooks", err)
}

// SubmittedBy returns the name of the request that submitted a run. One that does not tell it was submitted as by the
// tool of Codex Cloud, or the skill of its agent.
func (s *Service) SubmittedBy(v runs.Header, record *runs.Record) string {
	kind := v.Type
	if record != nil {
		kind = record.Type
	}
	switch a, known := s.cfg.Agents.Find(v.Agent); {
	case kind != "":
		return kind
	case IsCloud(v):
		return "_codex_cloud_submit"
	case known:
		return a.Short + "-run"
	}
	return cmp.Or(v.Agent, api.DefaultAgent) + "-run"
}
