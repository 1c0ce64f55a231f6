package main

import (
	"context"
	"time"

	"github.com/linesman/linesman/responder"
)

// waitingRequest is a request that waits for an answer from outside, as --json
// prints it.
type waitingRequest struct {
	Run     string `json:"task_id"`
	Request string `json:"request_id,omitempty"`
	Agent   string `json:"agent_name,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Asked   string `json:"asked_at"`
	Due     string `json:"due_at,omitempty"`
	Prompt  string `json:"prompt,omitempty"`
	Model   string `json:"model,omitempty"`
}

// waitingRequests are all that wait, or the one that id names, with what they
// ask. The error is [api.NotFound] where that is none that waits.
func waitingRequests(ctx context.Context, s *responder.Service, id string) ([]waitingRequest, error) {
	questions, err := s.Questions(ctx, id)
	moment := func(ms int64) string {
		if ms == 0 {
			return ""
		}
		return time.UnixMilli(ms).UTC().Format(time.RFC3339)
	}
	all := []waitingRequest{}
	for _, q := range questions {
		all = append(all, waitingRequest{q.Run, q.Request, q.Agent, q.Phase, moment(q.Asked), moment(q.Due), q.Prompt, q.Model})
	}
	return all, err
}
