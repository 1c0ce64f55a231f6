package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/linesman/linesman/worker"
)

// WatchSessions publishes the sessions of agents from the logs that they keep, as
// [worker.Worker.Sessions] does. The end of ctx is no error.
func (s *Session) WatchSessions(ctx context.Context, spec worker.SessionsSpec) error {
	return s.withWorker(ctx, func(w *worker.Worker) error { return quiet(w.Sessions(ctx, spec)) })
}

// Sessions adds the directories where agents of this user keep logs of their sessions to
// spec: agents of one kind, or all if kind is "". The environment says where they are.
func (c Config) Sessions(kind string, spec worker.SessionsSpec) (worker.SessionsSpec, error) {
	if spec.Idle <= 0 || spec.Since < 0 {
		return spec, fmt.Errorf("--idle must be positive, --since not negative, got %v and %v", spec.Idle, spec.Since)
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
			Agent: a.Kind(), Dir: filepath.Join(dir, at.Dir), Has: at.Has, Headless: at.Headless,
		})
	}
	if len(spec.Places) == 0 {
		return spec, errors.New("--agent: linesman reads the sessions of: " + strings.Join(names, ", "))
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
