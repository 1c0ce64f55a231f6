package daemon

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

// WatchSessions publishes the sessions of agents from the logs that they keep, as
// [worker.Worker.Sessions] does, but not those of runs. The end of ctx is no error.
func (s *Session) WatchSessions(ctx context.Context, spec worker.SessionsSpec) error {
	spec.Own = s.ofRun
	return s.withWorker(ctx, func(w *worker.Worker) error { return quiet(w.Sessions(ctx, spec)) })
}

// ofRun reports whether the stdout of a session is a run. Without an answer it is none.
func (s *Session) ofRun(ctx context.Context, session string) bool {
	page, err := s.Client().List(ctx, api.List{Thread: session, Limit: 10})
	if err != nil {
		s.config.Log.Warn("it is not known whether a session is a run already", zap.Error(err))
		return false
	}
	return slices.ContainsFunc(page.Runs, func(r *api.Run) bool { return r.Source != runs.SourceSession })
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
		if at.Dir == "" {
			continue
		}
		names = append(names, a.Short)
		if kind != "" && kind != a.Kind() {
			continue
		}
		dir := cmp.Or(c.getenv(at.Env), filepath.Join(c.getenv("HOME"), at.Home))
		if !filepath.IsAbs(dir) {
			return spec, fmt.Errorf("%s: %s or HOME must be an absolute path", a.Name, at.Env)
		}
		spec.Places = append(spec.Places, worker.Place{
			Agent: a.Kind(), Dir: filepath.Join(dir, at.Dir), Has: at.Has, Origin: at.Origin,
		})
	}
	if len(spec.Places) == 0 {
		return spec, fmt.Errorf("--agent: linesman reads no session logs of %s, only those of %s", kind,
			strings.Join(names, ", "))
	}
	return spec, nil
}

func (c Config) getenv(name string) (value string) {
	for _, v := range c.Environ {
		if text, found := strings.CutPrefix(v, name+"="); found {
			value = text
		}
	}
	return value
}
