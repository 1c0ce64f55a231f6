package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

// WatchSessions publishes the sessions of agents from the logs that they keep, as
// [worker.Worker.Sessions] does, but not those of runs. The end of ctx is no error.
func (s *Session) WatchSessions(ctx context.Context, spec worker.SessionsSpec) error {
	spec.Own = s.ofRun
	return s.withWorker(ctx, func(w *worker.Worker) error { return quiet(w.Sessions(ctx, spec)) })
}

// Unfollow ends the run of a session that is followed, and returns the run then. The agent
// keeps running. Its error is an [api.Error].
func (s *Session) Unfollow(ctx context.Context, run string) (*api.Run, error) {
	record, ok, err := s.bus.Record(ctx, run)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, &api.Error{Code: api.NotFound, Message: "there is no run " + run, Run: run}
	case record.Source != runs.SourceSession:
		return nil, &api.Error{Code: api.Unsupported, Run: run, State: record.State,
			Message: "the run is not that of a session that linesman follows"}
	case record.State.Final():
		return nil, &api.Error{Code: api.Ended, Run: run, State: record.State,
			Message: "the run has ended: it is " + string(record.State)}
	}
	err = s.bus.AskUnfollow(ctx, run)
	if errors.Is(err, runs.ErrNoOwner) {
		return nil, &api.Error{Code: api.Unsupported, Run: run, State: record.State,
			Message: "no `linesman watch-sessions` that runs follows this session"}
	}
	if err != nil {
		return nil, err
	}
	return s.Client().Wait(ctx, run, nil)
}

// ofRun reports whether the stdout of a session is a run. It is not known while a normalizer does not record what is
// stored.
func (s *Session) ofRun(ctx context.Context, session string) (bool, error) {
	last, err := s.bus.LastRaw(ctx)
	if err == nil {
		err = s.bus.Reached(ctx, last)
	}
	if err != nil {
		return false, err
	}
	page, err := s.Client().List(ctx, api.List{Thread: session, Limit: 10})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(page.Runs, func(r *api.Run) bool { return r.Source != runs.SourceSession }), nil
}

// Sessions adds the directories where agents of this user keep logs of their sessions to
// spec: agents of one kind, or all if kind is "". The environment says where they are.
func (c Config) Sessions(kind string, spec worker.SessionsSpec) (worker.SessionsSpec, error) {
	switch {
	case spec.Idle <= 0:
		return spec, fmt.Errorf("--idle: must be positive, got %v", spec.Idle)
	case spec.Since < 0:
		return spec, fmt.Errorf("--since: must not be negative, got %v", spec.Since)
	}
	var names []string
	for _, a := range c.withDefaults().Agents {
		at := a.Sessions
		if len(at.Files) == 0 {
			continue
		}
		names = append(names, a.Short)
		if kind != "" && kind != a.Kind() {
			continue
		}
		dir, err := at.Root(c.getenv)
		if err != nil {
			return spec, fmt.Errorf("%s: %w", a.Name, err)
		}
		spec.Places = append(spec.Places, worker.Place{
			Agent: a.Kind(), Dir: dir, Logs: at, Statuses: c.statuses(dir, a),
		})
	}
	if len(spec.Places) == 0 {
		return spec, fmt.Errorf("--agent: linesman reads no session logs of %s, only those of %s", kind,
			strings.Join(names, ", "))
	}
	return spec, nil
}

// statuses returns where the programs of an agent, and the hooks in them, say what they do.
func (c Config) statuses(dir string, a agent.Agent) (all []worker.Statuses) {
	if at := a.Sessions; at.Status != nil {
		all = append(all, worker.Statuses{Dir: filepath.Join(dir, at.Statuses), Read: at.Status, All: true})
	}
	return append(all, worker.Statuses{Dir: datadir.HookDir(c.Settings.DataDir, a.Kind()), Read: agent.HookStatus})
}

func (c Config) getenv(name string) (value string) {
	for _, v := range c.Environ {
		if text, found := strings.CutPrefix(v, name+"="); found {
			value = text
		}
	}
	return value
}
