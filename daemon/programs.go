package daemon

import (
	"context"
	"os"
	"time"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/worker"
	"github.com/linesman/linesman/worker/programs"
)

// learnTime is how long an agent's program may take to say its version before a command starts
// it for the first time.
const learnTime = 2 * time.Second // the default of Config.learnTime

// program returns the program that a run starts, false if that is not the one of its agent.
func (c Config) program(s *worker.Spec) (programs.Program, bool) {
	if len(s.Argv) == 0 {
		return programs.Program{}, false
	}
	a, known := c.Agents.OfCommand(s.Argv)
	if !known || a.Kind() != s.Agent {
		return programs.Program{}, false
	}
	environ := s.Env
	if environ == nil {
		environ = os.Environ()
	}
	return programs.Find(a, agent.Launch{Command: s.Argv[:1], Env: a.Env, Set: a.Set}, s.Dir, environ)
}

// version returns the version of the agent of a run, if it is known.
func (c Config) version(s *worker.Spec) string {
	p, is := c.program(s)
	if !is {
		return ""
	}
	v, _ := c.versions.Of(p)
	return v
}

// installed are the agents whose programs a worker found, and their versions, by kind.
type installed struct {
	kinds    []string
	versions map[string]string
}

// watchPrograms keeps the installed agents and their versions up to date until ctx ends. It is
// no part of a heartbeat: looking for a file can take long.
func (w *taskWorker) watchPrograms(ctx context.Context) error {
	tick := time.NewTicker(w.lookEvery)
	defer tick.Stop()
	for {
		w.look(func(p programs.Program) { w.config.versions.Learn(ctx, p, programs.AskTime) })
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look looks for the programs of the agents, and calls learn for each.
func (w *taskWorker) look(learn func(programs.Program)) {
	found := &installed{versions: map[string]string{}}
	for _, a := range w.config.Agents {
		p, is := programs.Find(a, w.tasks.Agents[a.Kind()], w.tasks.Rules.Dir, w.tasks.Environ)
		if !is {
			continue
		}
		learn(p)
		found.kinds = append(found.kinds, a.Kind())
		if v, _ := w.config.versions.Of(p); v != "" {
			found.versions[a.Kind()] = v
		}
	}
	w.installed.Store(found)
}
