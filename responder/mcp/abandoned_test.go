package mcp

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder"
	coding "github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// observed are the real tools, and tell how a test calls them.
type observed struct {
	*coding.Set
	calls chan string // a call begins
	waits chan string // it waits
}

func (o observed) Call(ctx context.Context, tool string, args json.RawMessage, _ func(v36.Progress)) (v36.Answer,
	error) {
	o.calls <- tool
	return o.Set.Call(ctx, tool, args, func(p v36.Progress) {
		select {
		case o.waits <- p.Message:
		default:
		}
	})
}

// A client that can ask its user leaves while it waits for a run: nothing more is called for it, and the endpoint
// closes at once.
func TestWaitThatIsAbandonedEnds(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	s.Service = responder.New(responder.Config{
		Streams: s.Operator, Queue: bus.DefaultQueue, LostAfter: time.Minute, Idle: time.Hour, Hard: time.Hour,
		MaxHard: time.Hour, Cause: s.Operator.Cause, Patience: fixture.Patience,
	})
	servicetest.During(t, "responder", s.Service.Run)
	if err := s.Service.Filled(t.Context()); err != nil {
		t.Fatal(err)
	}
	const run = "T-local-live00000000001"
	s.BeginLive("codex", run, runs.Start{Source: "queue", Worker: "w1", Keep: true})
	s.Await(run, servicetest.Working)
	for set, tool := range map[string]string{"agents": api.ToolAgentWait, "live": api.ToolLiveWait} {
		o := observed{coding.New(s.Service), make(chan string), make(chan string, 1)}
		endpoint := Handler(NewServer(Config{Tools: o, List: coding.Named(set)}))
		server := httptest.NewServer(endpoint)
		client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, asks(
			func(context.Context, *sdk.ElicitParams) (*sdk.ElicitResult, error) { return says("cancel", ""), nil },
		)).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: server.URL, MaxRetries: -1},
			&sdk.ClientSessionOptions{ProtocolVersion: legacy})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			_, _ = client.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: map[string]any{"run": run}})
		}()
		<-o.calls
		<-o.waits
		leave()
		closed, more := make(chan struct{}), 0
		go func() {
			endpoint.Close()
			close(closed)
		}()
		for open := true; open; {
			select {
			case <-o.calls:
				if more++; more == 3 {
					t.Errorf("%s is called again and again", tool)
				}
			case <-closed:
				open = false
			}
		}
		_ = client.Close()
		server.Close()
	}
}
