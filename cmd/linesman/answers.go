package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// Bounds of what is told of requests that wait.
const (
	maxWaiting   = 1000
	maxLookedFor = 1000 // runs that have ended, among which a request is looked for

	askedBytes = 2 * 6 * runs.MaxPrompt // of output, in which the question is
)

// waitingRequest is a request that waits for an answer from outside.
type waitingRequest struct {
	Run     string `json:"task_id"`
	Request string `json:"request_id,omitempty"`
	Agent   string `json:"agent_name,omitempty"` // who is asked, as the request has it
	Phase   string `json:"phase,omitempty"`
	Asked   string `json:"asked_at"`
	Due     string `json:"due_at,omitempty"`
	Prompt  string `json:"prompt,omitempty"`
	Model   string `json:"model,omitempty"`
}

// waitingRequests are all that wait, or the one that id names, with what they
// ask. The error is [runs.ErrNoRun] where that is none that waits.
func waitingRequests(ctx context.Context, r *responder.Responder, id string) ([]waitingRequest, error) {
	records, err := r.Waiting(ctx, maxWaiting)
	if err != nil {
		return nil, err
	}
	moment := func(ms int64) string {
		if ms == 0 {
			return ""
		}
		return time.UnixMilli(ms).UTC().Format(time.RFC3339)
	}
	all := []waitingRequest{}
	for _, record := range records {
		request := record.Labels["request_id"]
		if record.Lines == 0 || id != "" && id != record.ID && id != request { // nothing is asked yet
			continue
		}
		w := waitingRequest{
			Run: record.ID, Request: request, Agent: record.Labels["agent_name"], Phase: record.Labels["phase"],
			Asked: moment(record.StartedAt), Due: moment(record.Due),
		}
		out, _, err := r.Output(ctx, record, askedBytes)
		if err != nil {
			return nil, err
		}
		if q, ok := runs.FindQuestion(out.Head); ok {
			w.Prompt, w.Model = q.Prompt, q.Model
		}
		all = append(all, w)
	}
	if id != "" && len(all) == 0 {
		return nil, runs.ErrNoRun
	}
	return all, nil
}

// findRequest is the run of a request: of those that wait, else of those that
// ended last. The id may be the run's own. The error is [runs.ErrNoRun] where
// there is none.
func findRequest(ctx context.Context, r *responder.Responder, id string) (string, error) {
	if runs.CheckID(id) == nil {
		v, err := r.Look(ctx, id)
		if err == nil {
			return v.ID, nil
		}
		if !errors.Is(err, runs.ErrNoRun) {
			return "", err
		}
	}
	records, err := r.Waiting(ctx, maxWaiting)
	if err != nil {
		return "", err
	}
	found := ""
	for _, record := range records {
		if record.Labels["request_id"] != id {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("several runs are of this request, among them %s and %s: name one of them", found, record.ID)
		}
		found = record.ID
	}
	if found != "" {
		return found, nil
	}
	for _, v := range r.Snapshot(maxLookedFor, func(r runs.Row) bool { return r.Agent == runs.AgentExternal }).Ended {
		record, err := r.Record(ctx, v.ID)
		if errors.Is(err, runs.ErrNoRun) {
			continue
		}
		if err != nil {
			return "", err
		}
		if record.Labels["request_id"] == id {
			return v.ID, nil
		}
	}
	return "", runs.ErrNoRun
}

// takeAnswers serves two NATS requests until ctx ends: what waits, and an
// answer. Several bridges share them.
//
//	PREFIX.api.waiting   {} or {"request": id}
//	PREFIX.api.answer    {"request": id, "text": …} or {"request": id, "error": …}
func (d *desk) takeAnswers(ctx context.Context) error {
	m, err := micro.AddService(d.bus.Inside(), micro.Config{
		Name: "linesman-bridge", Version: "1.0.0", Description: "requests of programs that wait for an answer from outside",
		ErrorHandler: func(_ micro.Service, err *micro.NATSError) {
			d.app.log.Warn("NATS service", zap.String("subject", err.Subject), zap.String("why", err.Description))
		},
	})
	if err != nil {
		return fmt.Errorf("NATS service: %w", err)
	}
	defer func() { _ = m.Stop() }()
	group := m.AddGroup(d.bus.API())
	for name, do := range map[string]func(context.Context, []byte) (any, *refusal){"waiting": d.tellWaiting, "answer": d.takeAnswer} {
		handle := func(r micro.Request) {
			ctx, cancel := context.WithTimeout(ctx, answerTime)
			defer cancel()
			said, no := do(ctx, r.Data())
			d.respond(r, said, no)
		}
		if err := group.AddEndpoint(name, micro.HandlerFunc(handle)); err != nil {
			return fmt.Errorf("NATS service: %w", err)
		}
	}
	<-ctx.Done()
	return nil
}

// refusal is why a request was not carried out.
type refusal struct{ code, status, why string }

func refuse(err error) *refusal {
	var field *runs.FieldError
	switch {
	case errors.Is(err, runs.ErrNoRun):
		return &refusal{"404", "NOT_FOUND", "there is no such request"}
	case errors.As(err, &field):
		return &refusal{"400", "VALIDATION", err.Error()}
	case errors.Is(err, responder.ErrNotAsked), isEnded(err):
		return &refusal{"409", "VALIDATION", err.Error()}
	}
	return &refusal{"500", "INTERNAL", "it could not be carried out: ask again"}
}

func (d *desk) respond(r micro.Request, said any, no *refusal) {
	var err error
	if no != nil {
		body, _ := json.Marshal(map[string]any{"status": "error", "error": map[string]string{"code": no.status, "message": no.why}}) // strings
		err = r.Error(no.code, no.why, body)
	} else {
		err = r.RespondJSON(map[string]any{"status": "ok", "data": said})
	}
	if err != nil {
		d.app.log.Debug("answer", zap.Error(err))
	}
}

func (d *desk) tellWaiting(ctx context.Context, body []byte) (any, *refusal) {
	var args struct{ Request string }
	if len(body) > 0 && json.Unmarshal(body, &args) != nil {
		return nil, &refusal{"400", "VALIDATION", "must be a JSON object"}
	}
	if err := d.Ready(ctx); err != nil {
		return nil, refuse(err)
	}
	all, err := waitingRequests(ctx, d.Responder, args.Request)
	if err != nil {
		return nil, refuse(err)
	}
	most, unlisted := d.bus.Inside().MaxPayload()-4096, 0
	for i, w := range all {
		b, err := json.Marshal(w)
		if err != nil {
			return nil, refuse(err)
		}
		if most -= int64(len(b)) + 1; most < 0 {
			unlisted, all = len(all)-i, all[:i]
			break
		}
	}
	return struct {
		Requests []waitingRequest `json:"requests"`
		Unlisted int              `json:"unlisted,omitempty"` // too many for one message
	}{all, unlisted}, nil
}

func (d *desk) takeAnswer(ctx context.Context, body []byte) (any, *refusal) {
	var args struct {
		Request string
		Text    *string
		Error   *string
	}
	if json.Unmarshal(body, &args) != nil || args.Request == "" || (args.Text == nil) == (args.Error == nil) {
		return nil, &refusal{"400", "VALIDATION", "must be a JSON object with request, and one of text and error"}
	}
	reply := runs.Reply{Status: runs.ReplySuccess}
	if args.Error != nil {
		reply.Status, reply.Error = runs.ReplyError, *args.Error
	} else {
		reply.Text = *args.Text
	}
	if err := d.Ready(ctx); err != nil {
		return nil, refuse(err)
	}
	run, err := findRequest(ctx, d.Responder, args.Request)
	if err != nil {
		return nil, refuse(err)
	}
	state, err := d.Answer(ctx, run, reply)
	if err != nil {
		return nil, refuse(err)
	}
	return answeredRun{run, state}, nil
}
