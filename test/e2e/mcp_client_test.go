package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
)

// `linesman mcp` asks a responder: it has no table of runs, so that what it takes does not depend on how many
// there are. A call that its client cancels ends in the responder, and so do the calls of a client that ends.
func TestMCPClientIsAClientOfTheResponder(t *testing.T) {
	t.Parallel()
	lab, data := secretDir(t), t.TempDir()
	write(t, filepath.Join(lab, "agent.sh"), "while [ -e hold ]; do sleep 0.05; done\n")
	write(t, filepath.Join(lab, "hold"), "")
	settings := filepath.Join(lab, "linesman.toml")
	write(t, settings, fmt.Sprintf("[work]\nroots = [%q]\n[agents.codex]\ncommand = ['/bin/sh', %q]\n", lab,
		filepath.Join(lab, "agent.sh")))
	up(t, data, "--config", settings)
	conn := operator(t, data)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	tables := func() int { // that are filled from the bucket of runs
		t.Helper()
		stream, err := js.Stream(t.Context(), "KV_linesman_runs")
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.Consumers
	}
	fixture.Eventually(t, fixture.Patience, "the responder has no table of runs", func() bool { return tables() > 0 })
	before := tables()

	progress := make(chan any, 64) // tokens
	cmd := exec.Command(program, "mcp", "--data-dir", data)
	fixture.Watch(t, cmd)
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			select {
			case progress <- r.Params.ProgressToken:
			default:
			}
		},
	}).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	out, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "_codex_local_exec", Arguments: map[string]any{
		"task": "Hold.", "workingDir": lab, "format": "json", "mode": "read-only", "skipGitRepoCheck": true,
	}})
	if err != nil || out.IsError {
		t.Fatalf("%v %+v", err, out)
	}
	run := gjson.Get(out.Content[0].(*sdk.TextContent).Text, "data.task_id").String()
	if got := tables(); got != before {
		t.Errorf("%d readers of the runs with an MCP client, %d without", got, before)
	}
	// wait returns when the call is waiting.
	wait := func(ctx context.Context, token string) chan error {
		t.Helper()
		done := make(chan error, 1)
		params := &sdk.CallToolParams{Name: "_codex_local_wait", Arguments: map[string]any{
			"task_id": run, "timeout_sec": 3600,
		}}
		params.SetProgressToken(token)
		go func() {
			out, err := client.CallTool(ctx, params)
			if err == nil && out.IsError {
				err = fmt.Errorf("%s", out.Content[0].(*sdk.TextContent).Text)
			}
			done <- err
		}()
		for late := time.After(fixture.Patience); ; {
			select {
			case got := <-progress: // the last of a call may arrive after its end
				if got == token {
					return done
				}
			case <-late:
				t.Fatalf("no progress of the call %q", token)
			}
		}
	}
	answered := func() (n int64) { // calls, by the statistics of the responder
		m, err := conn.Request("$SRV.STATS.linesman", nil, fixture.Patience)
		if err != nil {
			t.Fatal(err)
		}
		return gjson.GetBytes(m.Data, `endpoints.#(name=="tool").num_requests`).Int()
	}
	fixture.Eventually(t, fixture.Patience, "the first call is not counted", func() bool { return answered() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	done := wait(ctx, "cancelled")
	cancel()
	if err := <-done; err == nil {
		t.Error("a cancelled call succeeded")
	}
	fixture.Eventually(t, fixture.Patience, "the cancelled call does not end", func() bool { return answered() == 2 })

	wait(t.Context(), "left")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	fixture.Eventually(t, fixture.Patience, "the call of a client that ended does not end",
		func() bool { return answered() == 3 })
}
