package daemon_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/worker"
)

// TestMain makes this program the shim that owns an agent, as a program with a
// worker must.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "shim" {
		if worker.Shim(os.Args[2]) != nil {
			os.Exit(1)
		}
		return
	}
	if err := fixture.Isolate(); err != nil {
		log.Fatal(err)
	}
	os.Exit(m.Run())
}

// A Go program runs all roles, has an agent do a task, and reads its events. The
// agent here is a script that prints what Codex would.
func Example() {
	dir, err := os.MkdirTemp("", "linesman-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	agent := filepath.Join(dir, "agent")
	const script = `#!/bin/sh
echo '{"type":"thread.started","thread_id":"1"}'
echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"It is a script."}}'
`
	if err := os.WriteFile(agent, []byte(script), 0o700); err != nil {
		log.Fatal(err)
	}

	settings := config.Default()
	settings.DataDir, settings.NATSListen, settings.HTTP = filepath.Join(dir, "data"), "127.0.0.1:0", ""
	settings.Agents["codex"].Command = config.List{agent}
	settings.Work.Roots = config.List{dir}

	ctx, cancel := context.WithCancel(context.Background())
	d, err := daemon.New(ctx, daemon.Config{Settings: settings, Environ: os.Environ()})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	if err := d.Ready(ctx); err != nil {
		log.Fatal(err)
	}

	b, err := d.Server.Connect(ctx, embedded.OperatorUser)
	if err != nil {
		log.Fatal(err)
	}
	c := client.New(b)
	task, err := c.Submit(ctx, api.Submission{Task: runs.Task{Attributes: runs.Attributes{Dir: dir},
		Prompt: "What is this?", SkipGit: true}})
	if err != nil {
		log.Fatal(err)
	}
	run, err := c.Wait(ctx, task.Run, nil)
	if err != nil {
		log.Fatal(err)
	}
	page, err := c.Events(ctx, api.EventsRequest{Run: task.Run})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.State)
	for _, e := range page.Events {
		fmt.Println(e.Kind)
	}
	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// completed
	// status
	// text_output
	// completion
}
