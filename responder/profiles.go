package responder

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Profile fixes what callers may do who are known only by their right to prompt it, see [Service.Prompt].
type Profile struct {
	Owner, Name string
	// Attributes are those of its tasks: agent, directory, mode, model and labels. An absent mode is read-only.
	runs.Attributes
	Queue string // "": that of the service
}

// AgentToken returns its agent as subjects have it: claude-code.
func (p Profile) AgentToken() string { return strings.ReplaceAll(p.Agent, "_", "-") }

// id is the name of a profile. Of its runs it is the label [runs.LabelProfile]; no token can have the name of its
// caller, because of the dots.
func (p Profile) id() string { return p.AgentToken() + "." + p.Owner + "." + p.Name }

// In adds the caller of a profile to the context of a request: keys of requests are those of the profile.
func (p Profile) In(ctx context.Context) context.Context {
	return WithSurface(WithCaller(ctx, "prompter."+p.id()), overAgents)
}

// Prompt completes a submission to a profile, and checks it: [Service.Queue] with the context of [Profile.In] then
// queues it. The mode may not be above that of the profile, the directory must be the profile's or below it, and the
// thread one of its own. A relative directory is below that of the profile; the worker checks it again, with its links.
func (s *Service) Prompt(p Profile, q api.Submission) (api.Submission, error) {
	p.Mode = cmp.Or(p.Mode, runs.ReadOnly)
	q.Agent, q.Labels, q.Model = p.Agent, p.Labels.With(runs.LabelProfile, p.id()), cmp.Or(q.Model, p.Model)
	switch q.Mode {
	case "":
		q.Mode = p.Mode
	case api.Preview:
	default:
		if !q.Mode.Within(p.Mode) {
			return q, api.Invalid(api.FieldMode, "at most "+string(p.Mode)+" here")
		}
	}
	q.Confirm = true // by whoever configured the profile
	q.Queue, q.Below = p.Queue, p.Dir
	if q.Dir != "" && p.Dir == "" {
		return q, api.Invalid(api.FieldDir, "cannot be chosen here")
	}
	if q.Thread != "" {
		v, known := s.Thread(q.Thread)
		if !known || !v.Labels.Has(runs.LabelProfile, p.id()) {
			return q, &api.Error{Code: api.NotFound, Field: api.FieldThread, Message: "there is no such thread here"}
		}
		q.Dir = cmp.Or(q.Dir, v.Dir)
	}
	if q.Dir = cmp.Or(q.Dir, p.Dir); p.Dir != "" {
		if !filepath.IsAbs(q.Dir) {
			q.Dir = filepath.Join(p.Dir, q.Dir)
		}
		if q.Dir = filepath.Clean(q.Dir); !below(p.Dir, q.Dir) {
			return q, api.Invalid(api.FieldDir, "must be below the directory for these prompts")
		}
	}
	return q, s.CheckSubmit(q)
}

// below reports whether a directory is another one, or is in it, also with links resolved, if both are here.
func below(root, dir string) bool {
	within := func(root, dir string) bool {
		rest, err := filepath.Rel(root, dir)
		return err == nil && filepath.IsLocal(rest)
	}
	from, err := filepath.EvalSymlinks(root)
	to, missing := filepath.EvalSymlinks(dir)
	if err != nil || missing != nil {
		return within(root, dir)
	}
	return within(from, to)
}

// CancelPrompted cancels a run of a profile. The error is [api.NotFound] for any other.
func (s *Service) CancelPrompted(ctx context.Context, p Profile, run string) (api.Cancelled, error) {
	v, err := s.Look(ctx, run)
	if err != nil {
		return api.Cancelled{}, err
	}
	if !v.Labels.Has(runs.LabelProfile, p.id()) {
		return api.Cancelled{}, notFound(run)
	}
	return s.Cancel(ctx, api.Cancel{Run: run, Reason: "the caller of the prompt"})
}

// LiveProfile is a profile whose agent a live worker has.
type LiveProfile struct {
	Profile
	Slots, Busy int // of these workers
	Queued      int // tasks that wait for a worker, of all profiles
}

// LiveProfiles returns those of some profiles whose agent a live worker has. Of none: one of an owner for each agent of
// the live workers, with the name of their queue.
func (s *Service) LiveProfiles(owner string, some []Profile) (live []LiveProfile) {
	workers := s.table.Workers()
	if len(some) == 0 {
		for _, a := range s.cfg.Agents {
			some = append(some, Profile{Owner: owner, Name: s.cfg.Queue, Attributes: runs.Attributes{Agent: a.Kind()}})
		}
	}
	counts, _ := s.Counts()
	for _, p := range some {
		one := LiveProfile{Profile: p, Queued: counts.States[runs.StateQueued]}
		one.Queue = cmp.Or(p.Queue, s.cfg.Queue)
		for _, w := range workers {
			if w.Queue == one.Queue && slices.Contains(w.Agents, p.Agent) {
				one.Slots += w.Slots
				one.Busy += w.Busy
			}
		}
		if one.Slots > 0 {
			live = append(live, one)
		}
	}
	return live
}
