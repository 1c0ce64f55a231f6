package mcp

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/linesman/linesman/responder"
	v36 "github.com/linesman/linesman/responder/v36"
)

// A client that gets no reports of the progress gets an answer before it gives up, after 60 s without a
// message. One that gets reports waits as long as it asks for.
func TestCallsWithoutProgressAreBounded(t *testing.T) {
	type said struct {
		most    time.Duration
		bounded bool
	}
	asked := make(chan said, 1)
	wait := func(ctx context.Context, _ json.RawMessage, _ func(v36.Progress)) (v36.Answer, error) {
		most, bounded := responder.Patience(ctx)
		asked <- said{most, bounded}
		return v36.Answer{Envelope: []byte(`{}`), JSON: true}, nil
	}
	everywhere(t, config(tools{"wait": wait}), nil, func(t *testing.T, client *sdk.ClientSession) {
		for token, bounded := range map[any]bool{nil: true, "mine": false} {
			params := &sdk.CallToolParams{Name: "wait"}
			if token != nil {
				params.SetProgressToken(token)
			}
			if _, err := client.CallTool(t.Context(), params); err != nil {
				t.Fatal(err)
			}
			if got := <-asked; got.bounded != bounded || bounded && (got.most < 30*time.Second || got.most > 55*time.Second) {
				t.Errorf("with the token %v: %+v", token, got)
			}
		}
	})
}
