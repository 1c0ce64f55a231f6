package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
)

// client is an MCP client of a daemon, over HTTP, and the progress that it was told.
type client struct {
	*sdk.ClientSession
	mu   sync.Mutex
	told []sdk.ProgressNotificationParams
}

func (d *daemon) client() *client {
	d.t.Helper()
	at, c := fixture.ReadAddress(d.t, d.data), &client{}
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.told = append(c.told, *r.Params)
		},
	}).Connect(d.t.Context(), &sdk.StreamableClientTransport{
		Endpoint:   at.HTTP + "/mcp",
		HTTPClient: &http.Client{Transport: bearer(at.Token)},
	}, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	c.ClientSession = s
	d.t.Cleanup(func() { _ = s.Close() })
	return c
}

// bearer shows a token with every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// A foreground run tells its progress to who asked for it, rising, and then
// its end.
func TestRealCodexTellsItsProgress(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, 1, "go=plan")
	c := d.client()
	params := &sdk.CallToolParams{Name: "_codex_local_run", Arguments: map[string]any{
		"task": "go", "workingDir": d.dirs["go"], "mode": "read-only", "format": "json",
	}}
	gitInit(t, d.dirs["go"]) // codex wants a repository, and run cannot waive that
	params.SetProgressToken("mine")
	result, err := c.CallTool(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	e := gjson.ParseBytes(body)
	if result.IsError || e.Get("data.capability").String() != "foreground" || e.Get("data.task_id").String() == "" {
		t.Fatalf("run: %s", body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.told) < 2 {
		t.Errorf("told %d times: %+v", len(c.told), c.told)
	}
	last := -1.0
	for _, p := range c.told {
		if p.ProgressToken != "mine" || p.Progress <= last || p.Progress > 100 {
			t.Errorf("told %+v after %v", p, last)
		}
		last = p.Progress
	}
}

// Who stops waiting does not stop the task.
func TestRealCodexTaskOutlivesWhoWaits(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, 1, "go=shell-slow")
	run := d.submit("go", nil)
	c := d.client()
	d.until(run, "work", func(_, entry gjson.Result) bool { return entry.Get("state").String() == "working" })
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "_codex_local_wait", Arguments: map[string]any{"task_id": run}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the wait: %v", err)
	}
	if e := d.wait(run); e.Get("data.state").String() != "completed" {
		t.Errorf("the task: %s", e.Raw)
	}
}
