package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// waitingRequest is a request that waits for an answer from outside.
type waitingRequest struct {
	api.Question
	Asked string `json:"asked_at"`
	Due   string `json:"due_at,omitempty"`
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
		all = append(all, waitingRequest{Question: q, Asked: moment(q.Asked), Due: moment(q.Due)})
	}
	return all, err
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
	switch {
	case isCode(err, api.NotFound):
		return &refusal{"404", "NOT_FOUND", "there is no such request"}
	case isCode(err, api.Validation):
		return &refusal{"400", "VALIDATION", err.Error()}
	case isCode(err, api.NotWaiting), isCode(err, api.Ended):
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
	all, err := waitingRequests(ctx, d.Service, args.Request)
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
	run, err := d.RunOfRequest(ctx, args.Request)
	if err != nil {
		return nil, refuse(err)
	}
	done, err := d.Answer(ctx, run, reply, false)
	if err != nil {
		return nil, refuse(err)
	}
	return done, nil
}
