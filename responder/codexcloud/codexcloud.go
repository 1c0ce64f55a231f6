// Package codexcloud drives Codex Cloud by its command line, `codex cloud`, and
// writes what it sees to the raw logs of runs: a task in the cloud is a run
// like any other.
//
//	codex cloud exec | status | list | diff ──▶ lines of our own ──▶ raw log
//	                                            (normalizer/cloud reads them)
//
// The log is the only state. If a driver is killed at any point, the next one
// reads the log and resumes; several may follow the same runs, and the fence of
// the log refuses all but the first to write a change, so nothing is written
// twice. One thing is lost by a kill: a task that the service accepted and
// whose run did not name it yet. The service has it, and no run shows it; a run
// that had only its start entry ends as lost.
//
// The program is run without a shell, in an empty directory of ours (it writes
// error.log into the current one), with limits on time and output, and ended
// as a process group. What it prints is decided by form, never by exit status
// alone: `status` exits 1 for all but one of its good answers.
package codexcloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// Agent is the agent kind of the runs.
const Agent = "codex_cloud"

// MaxOutput bounds the stdout of a cloud run's log, in bytes: a diff whose
// characters all need escapes, and the other lines.
const MaxOutput = 8 << 20

// logs opens and reads the raw logs of runs.
type logs interface {
	// Open continues the raw log of a run after m: it reads the later entries.
	Open(ctx context.Context, agent, run string, m runs.Mark) (Log, error)
	// Output returns the run's stdout in the raw log, at most the first
	// MaxOutput bytes.
	Output(ctx context.Context, agent, run string) ([]byte, error)
}

// Log is the raw log of one run, for use by one goroutine at a time.
type Log interface {
	// Mark returns how far the log is known.
	Mark() runs.Mark
	// Append appends e after the last known entry. It blocks until e is stored
	// or ctx ends. If another writer was first, the error is a [runs.ErrMoved],
	// and e was not stored.
	Append(ctx context.Context, e runs.Entry) error
}

// Config configures a [Driver].
type Config struct {
	Command []string      // the program and the arguments before "cloud"
	Scratch string        // each call runs in a new directory below it, which is removed afterwards
	Logs    logs          // where changes are written
	Env     []string      // environment of the program; nil: that of this process, without LINESMAN_ variables
	Min     time.Duration // polling interval of a task that changes; default 5 s
	Max     time.Duration // longest polling interval of an unchanged task; default 60 s
	Log     *zap.Logger   // default: none
}

// Driver drives Codex Cloud. Its methods are safe for concurrent use, also by
// several drivers.
type Driver struct {
	logs                     logs
	minInterval, maxInterval time.Duration
	log                      *zap.Logger
	call                     func(context.Context, call) (output, error)

	stopping context.Context // ended by Stop
	stop     context.CancelFunc
}

// New returns a driver. It starts nothing; it creates the scratch directory and
// removes the leftovers of killed calls.
func New(cfg Config) (*Driver, error) {
	if cfg.Logs == nil {
		return nil, errors.New("cloud: needs logs")
	}
	cfg.Min = cmp.Or(cfg.Min, 5*time.Second)
	cfg.Max = max(cmp.Or(cfg.Max, time.Minute), cfg.Min)
	p, err := newProgram(cfg.Command, cfg.Scratch, cfg.Env)
	if err != nil {
		return nil, err
	}
	log := cmp.Or(cfg.Log, zap.NewNop()).Named("cloud")
	d := &Driver{logs: cfg.Logs, minInterval: cfg.Min, maxInterval: cfg.Max, log: log, call: p.call}
	d.stopping, d.stop = context.WithCancel(context.Background())
	return d, nil
}

// Stop ends submissions whose callers have left, now and later: the process is about to end.
func (d *Driver) Stop() { d.stop() }

func newProgram(command []string, scratch string, env []string) (*program, error) {
	if scratch == "" {
		return nil, errors.New("cloud: scratch: must be a directory, got none")
	}
	scratch, err := filepath.Abs(scratch)
	if err != nil {
		return nil, fmt.Errorf("cloud: scratch: %w", err)
	}
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, fmt.Errorf("cloud: scratch: %w", err)
	}
	if name := command[0]; strings.ContainsRune(name, filepath.Separator) { // calls have other working directories
		if name, err = filepath.Abs(name); err != nil {
			return nil, fmt.Errorf("cloud: command: %w", err)
		}
		command = append([]string{name}, command[1:]...)
	}
	if env == nil {
		env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LINESMAN_") })
	}
	p := &program{command: command, scratch: scratch, env: append(env[:len(env):len(env)], "NO_COLOR=1"),
		slots: make(chan struct{}, maxCalls), submits: make(chan struct{}, maxSubmits)}
	p.sweep(time.Now())
	return p, nil
}
