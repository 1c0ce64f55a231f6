// Package bridge answers requests that programs leave as files. A program
// writes .agent-request*.json and exits with status 42. The bridge runs an
// agent for the request and writes .agent-response*.json next to it. The
// program is started again and continues with the answer.
//
//	request ─▶ claimed ─▶ run ─▶ answer on disk ─▶ answered ─▶ response ─▶ request removed
//	          (journal)         (temporary name)  (journal)   (rename)
//
// A request id is answered once. After a kill at any point, the next bridge
// with the same state and directory resumes: the run id is in the journal
// before the run is submitted, and the answer is on disk before the journal
// records it. From then on, the temporary name tells whether readers have seen
// the answer. If another program writes a response meanwhile, the bridge keeps
// it and notifies the run.
//
// The bridge reads only files of its own user or root, follows no symbolic
// links, and does not log the content of requests and responses.
package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
)

// job is a request for a [runner].
type job struct {
	Run     string // id that the run must get
	Prompt  string
	Model   string        // "": the agent's own choice
	Timeout time.Duration // of the request, the same at each attempt
	Due     time.Time     // when that is over
	Labels  runs.Labels
}

// runner executes runs. A bridge calls its methods from several goroutines.
type runner interface {
	// Submit starts a job. It is no error if the run is known already. A
	// [refusedError] is final; after any other error the bridge retries until the
	// timeout of the request.
	Submit(ctx context.Context, j job) error
	// Wait waits for the end of a run and returns its outcome. The error is [api.NotFound] if there is no such run.
	Wait(ctx context.Context, run string) (outcome, error)
	// Cancel ends a run. It is no error if the run has ended or is unknown.
	Cancel(ctx context.Context, run, reason string) error
	// Expire is Cancel for a run whose timeout has passed.
	Expire(ctx context.Context, run string) error
	// Overtaken is Cancel for a run whose request another program has answered with
	// o.
	Overtaken(ctx context.Context, run string, o outcome) error
}

// refusedError says why a job cannot be executed, in a text for the requesting
// program.
type refusedError struct{ Why string }

func (e *refusedError) Error() string { return e.Why }

// Dir is a directory to watch.
type Dir struct {
	Path string
	Must bool // the directory must exist when the bridge starts; else the bridge waits for it
}

// Config configures a bridge. A duration of 0 means its default.
type Config struct {
	Dirs  []Dir
	State string // directory of the journals

	Client   *client.Client
	Table    agent.Table
	External bool // start no agents: the runs wait for an answer from outside
	// Task is what all tasks have in common. Without an agent each has the agent that its model
	// tells, or else [api.DefaultAgent].
	Task   api.Submission
	runner runner // for tests; nil: the client

	MaxTimeout time.Duration // maximum of a request's timeout; 0: no maximum
	MaxAtOnce  int           // requests of one directory that are processed at a time; default 16

	Poll     time.Duration // interval between scans without file notifications; default 2 s
	Patience time.Duration // how long an invalid file may stay unchanged before it is moved aside; default 30 s
	Settle   time.Duration // how long a request file must be missing before the request is withdrawn; default 2 s
	Retry    time.Duration // delay after an error; default 1 s

	Ready func()      // called once all directories with Must are watched
	Log   *zap.Logger // default: none
}

// bridge watches directories and answers the requests in them.
type bridge struct {
	cfg  Config
	log  *zap.Logger
	step func(at string) // for tests: called after each step that a crash can follow
}

// Run answers requests until ctx ends, then it returns nil. It waits for a responder first. Unfinished runs
// continue, and the next bridge answers their requests. The error reports a
// missing directory, a directory that another bridge watches, an unusable
// journal, a responder that cannot serve it, or the end of ctx before there was one.
func Run(ctx context.Context, cfg Config) error {
	b := newBridge(cfg)
	if err := await(ctx, cfg.Client, b.cfg.Log); err != nil {
		return err
	}
	return b.run(ctx)
}

func newBridge(cfg Config) *bridge {
	cfg.Poll, cfg.Patience = cmp.Or(cfg.Poll, 2*time.Second), cmp.Or(cfg.Patience, 30*time.Second)
	cfg.Settle, cfg.Retry = cmp.Or(cfg.Settle, 2*time.Second), cmp.Or(cfg.Retry, time.Second)
	cfg.MaxAtOnce, cfg.Log = cmp.Or(cfg.MaxAtOnce, 16), cmp.Or(cfg.Log, zap.NewNop())
	if cfg.runner == nil {
		cfg.runner = &tasks{cfg.Client, cfg.Table, cfg.Task, cfg.External}
	}
	return &bridge{cfg: cfg, log: cfg.Log.Named("bridge"), step: func(string) {}}
}

func (b *bridge) run(ctx context.Context) error {
	var watchers []*dirWatcher
	defer func() {
		for _, f := range watchers {
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
		f := newDirWatcher(b, path)
		watchers = append(watchers, f)
		if err := f.open(); errors.Is(err, errBusy) || errors.Is(err, errState) || err != nil && d.Must {
			return fmt.Errorf("directory %s: %w", path, err)
		}
	}
	if b.cfg.Ready != nil {
		b.cfg.Ready()
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range watchers {
		group.Go(func() error { return f.run(ctx) })
	}
	return group.Wait()
}
