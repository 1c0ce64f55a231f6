package daemon

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/worker/launch"
)

// A worker of another data directory has rules of its own: a task is refused at
// its submission only where the `up` alone could take it.
func TestDirectoryIsLeftToTheWorkersWhereTheUpIsNotTheOnlyOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := Config{Settings: config.Default(), rules: func() (launch.Rules, bool) {
		return launch.Rules{Dir: dir, Roots: []string{dir}}, true
	}}.withDefaults()
	c.Settings.DataDir, c.Settings.NATSListen = t.TempDir(), "127.0.0.1:0"
	server, err := newServer(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer server.close()
	b := server.operator
	d, err := newService(b, c)
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
	name, err := workerName(c.Settings.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	beat := func(name, queue string) {
		group.Go(func() {
			b.SendHeartbeats(ctx, time.Minute, func() runs.Heartbeat {
				return runs.Heartbeat{ID: name, Name: name, Queue: queue,
					Slots: 1}
			})
		})
	}
	heard := func(n int) {
		t.Helper()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(fixture.Patience); len(d.Workers().Workers) < n; <-tick.C {
			if time.Now().After(end) {
				t.Fatalf("%d workers are not heard", n)
			}
		}
	}
	workers := func() (all []runtable.Worker) {
		for _, w := range d.Workers().Workers {
			all = append(all, runtable.Worker{Heartbeat: runs.Heartbeat{Name: w.Name, Queue: w.Queue}})
		}
		return all
	}
	beat(name, c.Settings.Work.Queue)
	beat("elsewhere", "another-queue")
	heard(2)
	for path, refused := range map[string]bool{"/": true, dir: false, "": false, dir + "/none": true} {
		err := d.outside(d.config.Settings.Work.Queue, runs.Task{Attributes: runs.Attributes{Dir: path}}, workers())
		if (err != nil) != refused || path == "/" && (!strings.Contains(err.Error(), "work.roots: "+dir+"; ") ||
			!strings.Contains(err.Error(), "`linesman up --root DIR`")) {
			t.Errorf("%q: got %v, refused should be %t", path, err, refused)
		}
	}
	beat("other", c.Settings.Work.Queue)
	heard(3)
	root := runs.Task{Attributes: runs.Attributes{Dir: "/"}}
	if err := d.outside(d.config.Settings.Work.Queue, root, workers()); err != nil {
		t.Errorf("beside another worker: got %v", err)
	}
}
