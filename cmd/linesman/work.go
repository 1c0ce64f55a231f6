package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/linesman/linesman/atomicfile"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
	"github.com/linesman/linesman/worker/launch"
)

// workerName is who drives the run directories of this data directory: the
// same after every start, for who has the directories has the runs.
func (a *app) workerName() (string, error) {
	path := filepath.Join(a.config.DataDir, "worker")
	for {
		b, err := os.ReadFile(path)
		if err == nil {
			if name := strings.TrimSpace(string(b)); workerName.MatchString(name) {
				return name, nil
			}
			return "", fmt.Errorf("%s is damaged; remove it, and a new name is made", path)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("worker's name: %w", err)
		}
		if err := makeName(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("worker's name: %w", err)
		}
	}
}

var workerName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// makeName writes a new name, whole or not at all, if there is none yet.
func makeName(path string) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	host = regexp.MustCompile(`[^A-Za-z0-9-]+`).ReplaceAllString(host, "-")
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s\n", host[:min(len(host), 48)], hex.EncodeToString(random[:]))
	return atomicfile.Create(path, ".tmp-worker-*", []byte(name))
}

// tasks says which tasks a worker of this configuration takes.
func (a *app) tasks(b *bus.Bus) (worker.Tasks, error) {
	dir, err := os.Getwd()
	if err != nil {
		return worker.Tasks{}, fmt.Errorf("working directory: %w", err)
	}
	c := a.config
	return worker.Tasks{
		Queue: queue{b.Queue(c.Work.Queue)}, Name: c.Work.Queue, Slots: c.Work.MaxRuns,
		Commands: map[string][]string{"codex": c.Agents.Codex.Command},
		Rules:    launch.Rules{Dir: dir, Roots: c.Work.Roots, Danger: c.Work.Danger},
		Pass:     c.Agents.Codex.Env, Environ: a.environ, MaxLimit: c.Work.MaxLimit,
		Limits: worker.Limits{Idle: c.Work.Idle, Hard: c.Work.Hard, Grace: c.Limits.Grace, Spool: int64(c.Spool.MaxBytes)},
	}, nil
}

// queue lets a worker take tasks from a bus.
type queue struct{ *bus.Queue }

func (q queue) Next(ctx context.Context) (worker.Delivery, error) {
	d, err := q.Queue.Next(ctx)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// alive says that a worker lives, until the returned function is called.
func (a *app) alive(ctx context.Context, b *bus.Bus, w *worker.Worker, tasks worker.Tasks) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var beat sync.WaitGroup
	beat.Go(func() {
		b.Beat(ctx, a.config.LostAfter, func() runs.Beat {
			v := runs.Beat{ID: fmt.Sprintf("%s-%d", w.Name(), os.Getpid()), Name: w.Name(), Version: build().Version}
			if tasks.Slots > 0 {
				v.ID, v.Queue, v.Slots, v.Busy, v.Agents = w.Name(), tasks.Name, tasks.Slots, w.Tasks(), []string{"codex"}
			}
			return v
		})
	})
	return func() {
		cancel()
		beat.Wait()
	}
}
