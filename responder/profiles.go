package responder

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Profile fixes what callers may do who are known only by their right to prompt it, see [Service.Prompt].
type Profile struct {
	Owner, Name string
	// Attributes are those of its tasks: agent, directory, mode, model and labels. An absent mode is read-only.
	runs.Attributes
	Queue string // "": that of the service
	Live  bool   // its prompts may be live runs, of which callers answer what the agent asks
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

// Prompt completes a submission to a profile, and checks it: [Service.Begin] then queues it. The mode may not be above
// that of the profile, the directory must be the profile's or below it, and the thread one of its own. A relative
// directory is below that of the profile; the worker checks it again, with its links. Whether it is live is as asked,
// and by default as the profile is.
func (s *Service) Prompt(p Profile, q api.Submission, live *bool) (api.Submission, error) {
	if q.Live = p.Live && (live == nil || *live); !q.Live && live != nil && *live {
		return q, api.Invalid("live", "the profile has no live runs: what callers allow there may be more than its mode does")
	}
	p.Mode = cmp.Or(p.Mode, runs.ReadOnly)
	q.Agent, q.Labels, q.Model = p.Agent, p.Labels.With(runs.LabelProfile, p.id()), cmp.Or(q.Model, p.Model)
	if q.Keep {
		q.Labels = q.Labels.With(runs.LabelKeep, "true")
	}
	switch q.Mode {
	case "":
		q.Mode = p.Mode
	case api.Preview:
	default:
		if !q.Mode.Within(p.Mode) {
			return q, api.Invalid("mode", "at most "+string(p.Mode)+" here")
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

const (
	// maxSessions is how many kept runs of the profiles may be open when another one is asked for, and how many of them
	// are announced: the oldest.
	maxSessions = 64
	// maxOfProfile is how many may be of one of several profiles.
	maxOfProfile = maxSessions * 3 / 4
	// beginTime is how long a session may take to begin, with those before it: then its caller has given up.
	beginTime = 30 * time.Second
)

// Begin queues a submission that [Service.Prompt] has checked. All are the profiles that share the bound of sessions.
func (s *Service) Begin(ctx context.Context, p Profile, q api.Submission, all []Profile) (api.Submitted, error) {
	ctx = p.In(ctx)
	if !q.Keep {
		return s.Queue(ctx, q)
	}
	ctx, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	select {
	case s.beginning <- struct{}{}:
		defer func() { <-s.beginning }()
	case <-ctx.Done():
		return api.Submitted{}, unavailable("other sessions take long to begin", ctx.Err())
	}
	if err := s.roomFor(p, all); err != nil {
		if done, again := s.Again(ctx, q.Once); again {
			return done, nil
		}
		return api.Submitted{}, err
	}
	done, err := s.Queue(ctx, q)
	if err == nil && !done.Replayed {
		s.begun[done.Run] = p.id()
	}
	return done, err
}

// roomFor refuses another session of a profile if there are too many: also those that are queued, or that the table
// does not have yet.
func (s *Service) roomFor(p Profile, all []Profile) error {
	counted, open, own := map[string]bool{}, 0, 0
	for _, one := range all {
		counted[one.id()] = one.Live
	}
	count := func(profile string) {
		if open++; profile == p.id() {
			own++
		}
	}
	for run, profile := range s.begun {
		if _, known := s.Get(run); known {
			delete(s.begun, run)
		} else {
			count(profile)
		}
	}
	now := s.Snapshot(0, func(v runs.Header) bool {
		return (v.Turn > 0 || v.Labels.Has(runs.LabelKeep, "true")) && counted[v.Labels.Value(runs.LabelProfile)]
	})
	for _, v := range append(now.Queued, now.Working...) {
		count(v.Labels.Value(runs.LabelProfile))
	}
	switch {
	case open >= maxSessions:
		return &api.Error{Code: api.TooMany, Message: fmt.Sprintf("%d sessions are open: end one", open)}
	case len(all) > 1 && own >= maxOfProfile:
		return &api.Error{Code: api.TooMany, Message: fmt.Sprintf("%d sessions of the profile are open: end one", own)}
	}
	return nil
}

// PromptNext sends a prompt to a session: its next turn. The error is [api.Conflict] while a turn runs.
func (s *Service) PromptNext(ctx context.Context, p LiveProfile, text string) (api.Sent, error) {
	v, err := s.Look(ctx, p.Session)
	if err != nil {
		return api.Sent{}, err
	}
	if !v.State.Final() && !v.AwaitsMessage() {
		return api.Sent{}, &api.Error{Code: api.Conflict, Run: v.ID, State: v.State, Retryable: true,
			Message: "a turn of the session runs"}
	}
	return s.Send(ctx, api.SendRequest{Run: v.ID, Text: text})
}

// LiveProfile is a profile whose agent a live worker has, or one of its sessions.
type LiveProfile struct {
	Profile
	Slots, Busy int    // of these workers
	Queued      int    // tasks that wait for a worker, of all profiles
	Session     string // run whose next turns its prompts are; "": each prompt is a run
}

// Token is the last token of its subjects, and the name of its session.
func (p LiveProfile) Token() string {
	if p.Session != "" {
		return strings.ToLower(p.Session)
	}
	return p.Name
}

// DefaultProfiles returns one of an owner for each known agent, with the name of the queue.
func (s *Service) DefaultProfiles(owner string) (all []Profile) {
	for _, a := range s.cfg.Agents {
		all = append(all, Profile{Owner: owner, Name: s.cfg.Queue, Attributes: runs.Attributes{Agent: a.Kind()}})
	}
	return all
}

// LiveProfiles returns those of some profiles whose agent a live worker has, and then their sessions.
func (s *Service) LiveProfiles(some []Profile) (live []LiveProfile) {
	workers := s.table.Workers()
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
	return append(live, s.sessionsOf(live)...)
}

// sessionsOf returns the sessions of some profiles that are live.
func (s *Service) sessionsOf(live []LiveProfile) (all []LiveProfile) {
	of := map[string]LiveProfile{}
	for _, p := range live {
		if p.Live {
			of[p.id()] = p
		}
	}
	if len(of) == 0 {
		return nil
	}
	open := s.Snapshot(0, func(v runs.Header) bool {
		return v.Turn > 0 && of[v.Labels.Value(runs.LabelProfile)].Live
	}).Working
	for _, v := range open[:min(len(open), maxSessions)] {
		one := of[v.Labels.Value(runs.LabelProfile)]
		one.Session = v.ID
		all = append(all, one)
	}
	return all
}
