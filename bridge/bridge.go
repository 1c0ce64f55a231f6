// Package bridge answers requests that programs leave as files: a program
// writes .agent-request*.json and ends with the status 42, the bridge has an
// agent do it and writes .agent-response*.json beside it, and the program,
// started again, goes on from there.
//
//	request ─▶ claimed ─▶ run ─▶ answer on disk ─▶ answered ─▶ response ─▶ request removed
//	           (journal)         (temporary name)  (journal)   (rename)
//
// A request id is answered once. After a kill at any point the next bridge on
// the same state and directory goes on where the last one was: the run's id is
// in the journal before the run is submitted, and the answer is on the disk
// before the journal says so, so from then on the temporary name tells whether
// readers have seen it. A response that somebody else writes meanwhile stays,
// and the run is told of it.
//
// It reads files of its own user or root only, follows no symbolic link, and
// logs nothing of what requests and responses say.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// Job is a request as a [Runner] gets it.
type Job struct {
	Run     string // id of the run, which the runner must keep
	Prompt  string
	Model   string        // "": the agent's own choice
	Timeout time.Duration // what is left of the request's time
	Labels  map[string]string
}

// Runner has runs done. A bridge calls its methods from several goroutines.
type Runner interface {
	// Submit has a job done. One whose run is known already is no error. A
	// [RefusedError] says that it never will be done; after other errors the
	// bridge tries again, until the request's time is over.
	Submit(ctx context.Context, j Job) error
	// Wait returns what came of a run, once it has ended.
	Wait(ctx context.Context, run string) (Outcome, error)
	// Cancel has a run end. One that has ended, or that nobody knows, is no
	// error.
	Cancel(ctx context.Context, run, reason string) error
	// Expire is Cancel for a run whose time is over.
	Expire(ctx context.Context, run string) error
	// Overtaken is Cancel for a run whose request somebody else has answered,
	// and says with what.
	Overtaken(ctx context.Context, run string, o Outcome) error
}

// RefusedError says why a job cannot be done, for the one who asked.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// Dir is a directory to watch.
type Dir struct {
	Path string
	Must bool // it must be there when the bridge starts; others are waited for
}

// Config is what a [Bridge] needs. Where a duration is 0, its default holds.
type Config struct {
	Dirs   []Dir
	State  string // directory of what the bridge remembers
	Runner Runner

	MaxTimeout time.Duration // most time that a request gets; 0: as much as it asks for
	MaxAtOnce  int           // requests of one directory that are done at a time; default 16

	Poll     time.Duration // between looks without news from the file system; default 2 s
	Patience time.Duration // how long a file may be no request yet; default 30 s
	Settle   time.Duration // how long a request must be gone to be withdrawn; default 2 s
	Retry    time.Duration // pause after what went wrong; default 1 s

	Ready func()      // called once all directories that must be there are watched
	Log   *zap.Logger // default: none
}

// Bridge watches directories and answers the requests in them.
type Bridge struct {
	cfg  Config
	log  *zap.Logger
	step func(at string) // for tests: told of each step that a crash can follow
}

// New returns a bridge. It touches no file before Run.
func New(cfg Config) *Bridge {
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{{&cfg.Poll, 2 * time.Second}, {&cfg.Patience, 30 * time.Second}, {&cfg.Settle, 2 * time.Second}, {&cfg.Retry, time.Second}} {
		if *d.value <= 0 {
			*d.value = d.usual
		}
	}
	if cfg.MaxAtOnce <= 0 {
		cfg.MaxAtOnce = 16
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return &Bridge{cfg: cfg, log: cfg.Log.Named("bridge"), step: func(string) {}}
}

// Run answers requests until ctx ends; then it returns nil. Runs that work go
// on, and the next bridge has their answers. The error says that a directory
// is not there, or another bridge's, or that nothing can be remembered.
func (b *Bridge) Run(ctx context.Context) error {
	var folders []*folder
	defer func() {
		for _, f := range folders {
			f.close()
		}
	}()
	seen := map[string]bool{}
	for _, d := range b.cfg.Dirs {
		path, err := resolve(d.Path)
		if err != nil {
			return fmt.Errorf("directory %s: %w", d.Path, err)
		}
		if seen[path] {
			continue
		}
		seen[path] = true
		j, err := openJournal(filepath.Join(b.cfg.State, digest(path)))
		if err != nil {
			return err
		}
		f := newFolder(b, path, j)
		folders = append(folders, f)
		if err := f.open(); errors.Is(err, errBusy) || err != nil && d.Must {
			return fmt.Errorf("directory %s: %w", path, err)
		}
	}
	if b.cfg.Ready != nil {
		b.cfg.Ready()
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range folders {
		group.Go(func() error { return f.run(ctx) })
	}
	return group.Wait()
}
