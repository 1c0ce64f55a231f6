package client_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
)

func Example() {
	config, stop := up() // elsewhere: client.Config{URL: "nats://127.0.0.1:4222", Creds: "operator.creds"}
	defer stop()

	ctx := context.Background()
	c, err := client.Connect(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	task, err := c.Submit(ctx, api.Submission{Task: runs.Task{Prompt: "Which files are here?"}})
	if err != nil {
		log.Fatal(err)
	}
	run, err := c.Wait(ctx, task.Run, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.State, *run.FinalText)
	// Output: completed Two files.
}

func ExampleClient_Follow() {
	config, stop := up()
	defer stop()

	ctx := context.Background()
	c, err := client.Connect(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	task, err := c.Submit(ctx, api.Submission{Task: runs.Task{Prompt: "Which files are here?"}})
	if err != nil {
		log.Fatal(err)
	}
	for event, err := range c.Follow(ctx, client.Filter{Run: task.Run, Follow: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Line, event.Kind)
	}
	// Output:
	// 1 status
	// 2 status
	// 3 text_output
	// 4 status
	// 0 completion
}

// up starts a server with a responder and a worker of its own.
func up() (config client.Config, stop func()) {
	dir, err := os.MkdirTemp("", "client")
	if err != nil {
		log.Fatal(err)
	}
	s, err := open(context.Background(), dir, "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return s.config("operator"), func() {
		if err := s.close(); err != nil {
			log.Fatal(err)
		}
		_ = os.RemoveAll(dir)
	}
}
