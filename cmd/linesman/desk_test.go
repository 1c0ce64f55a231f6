package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
)

// A worker of another data directory has rules of its own: a task is refused at
// its submission only where the `up` alone could take it.
func TestDirectoryIsLeftToTheWorkersWhereTheUpIsNotTheOnlyOne(t *testing.T) {
	t.Parallel()
	dir, server := serve(t)
	here, err := readInstance(dir)
	if err != nil {
		t.Fatal(err)
	}
	here.Dir, here.Roots = dir, []string{dir}
	if err := here.Write(); err != nil {
		t.Fatal(err)
	}
	a := &app{config: config.Default(), log: zap.NewNop()}
	a.config.DataDir = dir
	b := as(t, server, embedded.OperatorUser)
	d, err := a.newDesk(b, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	name, err := a.workerName()
	if err != nil {
		t.Fatal(err)
	}
	beat := func(name, queue string) {
		group.Go(func() {
			b.Beat(ctx, time.Minute, func() runs.Beat { return runs.Beat{ID: name, Name: name, Queue: queue, Slots: 1} })
		})
	}
	heard := func(n int) {
		t.Helper()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(30 * time.Second); len(d.Workers()) < n; <-tick.C {
			if time.Now().After(end) {
				t.Fatalf("%d workers are not heard", n)
			}
		}
	}
	workers := func() (all []runtable.Worker) {
		for _, w := range d.Workers() {
			all = append(all, runtable.Worker{Beat: runs.Beat{Name: w.Name, Queue: w.Queue}})
		}
		return all
	}
	beat(name, a.config.Work.Queue)
	beat("elsewhere", "another-queue")
	heard(2)
	for path, refused := range map[string]bool{"/": true, dir: false, "": false, dir + "/none": false} {
		if err := d.outside(runs.Task{Dir: path}, workers()); (err != nil) != refused || refused && !strings.HasSuffix(err.Error(), "work.roots: "+dir) {
			t.Errorf("%q: got %v, refused should be %t", path, err, refused)
		}
	}
	beat("other", a.config.Work.Queue)
	heard(3)
	if err := d.outside(runs.Task{Dir: "/"}, workers()); err != nil {
		t.Errorf("beside another worker: got %v", err)
	}
}
