package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/bridge"
	"github.com/linesman/linesman/runs"
)

// BridgePlan is what the flags of `linesman bridge` specify.
type BridgePlan struct {
	Dirs       []string // nil: ~/.agentecflow/state and the current directory
	External   bool
	MaxTimeout time.Duration // 0: the setting
	AtOnce     int

	// Task is what all tasks have in common. Agent "": that of the model of a request, else the default;
	// Dir "": the current directory.
	Task runs.Task
}

// maxAtOnce is the highest number of requests of one directory that wait at the same time.
const maxAtOnce = 256

// PlanBridge returns the directories with requests, and what their tasks have in common: nil
// if they are answered from outside. The error joins all mistakes, in the words of the flags.
func (c Config) PlanBridge(p BridgePlan) (dirs []bridge.Dir, q *api.Submission, err error) {
	var wrong []error
	add := func(is bool, format string, args ...any) {
		if is {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	for _, dir := range p.Dirs {
		info, err := os.Stat(dir)
		add(err != nil, "--dir: %w", err)
		add(err == nil && !info.IsDir(), "--dir: %s is not a directory", dir)
		dirs = append(dirs, bridge.Dir{Path: dir, Must: true})
	}
	if p.Dirs == nil {
		if home := c.getenv("HOME"); filepath.IsAbs(home) {
			dirs = append(dirs, bridge.Dir{Path: filepath.Join(home, ".agentecflow", "state")})
		}
		dirs = append(dirs, bridge.Dir{Path: ".", Must: true})
	}
	own := p.Task.Attributes != runs.Attributes{Mode: runs.ReadOnly} || p.Task.SkipGit ||
		p.Task.Env.Policy != runs.InheritNone
	add(p.External && own, "--external: not with flags for agents, which it does not start")
	q = &api.Submission{Task: p.Task, Confirm: true,
		DestructiveGit: true} // the owner of the directories has chosen the mode
	q.Dir, err = filepath.Abs(q.Dir) // "" is the current one
	add(err != nil, "--working-dir: %w", err)
	task := q.Task
	task.Agent, task.Prompt = cmp.Or(task.Agent, api.DefaultAgent), "x"
	add(task.Mode == runs.DangerFull && !c.Settings.Work.Danger,
		"--mode: danger-full-access is not allowed here: see the setting work.danger")
	add(p.MaxTimeout < 0, "--max-timeout: must not be negative, got %s", p.MaxTimeout)
	most := c.Settings.Work.MaxLimit
	add(p.MaxTimeout > most, "--max-timeout: at most %s, which is work.max_limit, got %s", most, p.MaxTimeout)
	add(p.AtOnce < 1 || p.AtOnce > maxAtOnce, "--at-once: must be 1 to %d, got %d", maxAtOnce, p.AtOnce)
	names := api.NamesOf(func(n api.Name) string { return n.Flag })
	names[api.FieldDir] = "--working-dir"
	if bad := task.Check(); bad != nil {
		for line := range strings.SplitSeq(bad.Error(), "\n") {
			field, problem, _ := strings.Cut(line, ": ")
			add(true, "%s: %s", cmp.Or(names[field], field), problem)
		}
	}
	if p.External {
		return dirs, nil, errors.Join(wrong...)
	}
	return dirs, q, errors.Join(wrong...)
}
