package main

import (
	"context"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// waitingRequest is a request that waits for an answer from outside, as
// `bridge list` prints it.
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
	moment := func(t api.Time) string {
		if t == 0 {
			return ""
		}
		return time.UnixMilli(int64(t)).UTC().Format(time.RFC3339)
	}
	all := []waitingRequest{}
	for _, q := range questions {
		all = append(all, waitingRequest{
			Run: q.Run, Request: q.Request, Agent: q.Agent, Phase: q.Phase, Prompt: q.Prompt, Model: q.Model,
			Asked: moment(q.Asked), Due: moment(q.Due),
		})
	}
	return all, err
}

// answeredRun is what became of an answer, as `bridge answer` prints it.
type answeredRun struct {
	Run   string     `json:"task_id"`
	State runs.State `json:"state"`
}
