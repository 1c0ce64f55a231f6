package a2a

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// PushConfigs stores push notification configurations.
type PushConfigs interface {
	// Check reports what is wrong with a registration, each a [runs.FieldError]
	// that quotes no value.
	Check(webhook.Registration) error
	Put(ctx context.Context, r webhook.Registration) error
	Get(ctx context.Context, run, id string) (webhook.Registration, error)
	List(ctx context.Context, run string) ([]webhook.Registration, error)
	Delete(ctx context.Context, run, id string) error
}

// onlyConfig is the id of a configuration without an id.
const onlyConfig = "default"

// CreateTaskPushConfig stores a configuration of a task; it replaces one with
// the same id.
func (h *Handler) CreateTaskPushConfig(ctx context.Context, q *sdk.PushConfig) (c *sdk.PushConfig, err error) {
	err = h.withPush(ctx, q.TaskID, "create a push config", func(ctx context.Context, run string) error {
		r := registration(run, q)
		c = pushConfig(r)
		return h.Push.Put(ctx, r)
	})
	return c, err
}

// GetTaskPushConfig returns a configuration, without its secrets.
func (h *Handler) GetTaskPushConfig(ctx context.Context, q *sdk.GetTaskPushConfigRequest) (c *sdk.PushConfig,
	err error) {
	err = h.withPush(ctx, q.TaskID, "get a push config", func(ctx context.Context, run string) error {
		r, err := h.Push.Get(ctx, run, configID(q.ID))
		c = pushConfig(r)
		return err
	})
	return c, err
}

// ListTaskPushConfigs returns all configurations of a task: they fit one page.
func (h *Handler) ListTaskPushConfigs(ctx context.Context, q *sdk.ListTaskPushConfigRequest) (
	*sdk.ListTaskPushConfigResponse, error) {
	answer := &sdk.ListTaskPushConfigResponse{Configs: []*sdk.PushConfig{}}
	err := h.withPush(ctx, q.TaskID, "list push configs", func(ctx context.Context, run string) error {
		if q.PageToken != "" {
			return fail(sdk.ErrInvalidParams, "pageToken: there is one page only")
		}
		list, err := h.Push.List(ctx, run)
		for _, r := range list {
			answer.Configs = append(answer.Configs, pushConfig(r))
		}
		return err
	})
	return answer, err
}

// DeleteTaskPushConfig removes a configuration. Removing a missing one
// succeeds.
func (h *Handler) DeleteTaskPushConfig(ctx context.Context, q *sdk.DeleteTaskPushConfigRequest) error {
	return h.withPush(ctx, q.TaskID, "delete a push config", func(ctx context.Context, run string) error {
		if err := h.Push.Delete(ctx, run, configID(q.ID)); !errors.Is(err, webhook.ErrUnknown) {
			return err
		}
		return nil
	})
}

// withPush carries out a request about the configurations of a task. What is
// for the log.
func (h *Handler) withPush(ctx context.Context, id sdk.TaskID, what string,
	do func(ctx context.Context, run string) error) error {
	if err := h.admit(ctx, scopeSubmit); err != nil {
		return err
	}
	if h.Push == nil {
		return noPush()
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	v, err := h.find(ctx, id)
	if err != nil {
		return err
	}
	return h.explainPush(what, do(ctx, v.ID))
}

func noPush() error {
	return fail(sdk.ErrPushNotificationNotSupported, "there are no push notifications here")
}

// checkPush refuses a message with an invalid push configuration, before any
// effect.
func (h *Handler) checkPush(q *sdk.SendMessageRequest) error {
	if q.Config == nil || q.Config.PushConfig == nil {
		return nil
	}
	if h.Push == nil {
		return noPush()
	}
	return h.explainPush("check a push config", h.Push.Check(registration("T-local-unnamed", q.Config.PushConfig)))
}

// register stores the push configuration of a message. If a kill prevented it,
// the repeated message stores it.
func (h *Handler) register(ctx context.Context, run string, q *sdk.SendMessageRequest) error {
	if q.Config == nil || q.Config.PushConfig == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return h.explainPush("create a push config", h.Push.Put(ctx, registration(run, q.Config.PushConfig)))
}

func registration(run string, c *sdk.PushConfig) webhook.Registration {
	r := webhook.Registration{ID: configID(c.ID), Run: run, Protocol: webhook.A2A, URL: c.URL, Token: c.Token}
	if c.Auth != nil {
		r.Scheme, r.Credentials = c.Auth.Scheme, c.Auth.Credentials
	}
	return r
}

// pushConfig returns a registration without its token and its credentials: other
// callers may read it than the one that stored it.
func pushConfig(r webhook.Registration) *sdk.PushConfig {
	c := &sdk.PushConfig{TaskID: sdk.TaskID(r.Run), ID: r.ID, URL: r.URL}
	if r.Scheme != "" {
		c.Auth = &sdk.PushAuthInfo{Scheme: r.Scheme}
	}
	return c
}

func configID(id string) string { return cmp.Or(id, onlyConfig) }

func (h *Handler) explainPush(what string, err error) error {
	var field *runs.FieldError
	var known *sdk.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.As(err, &field):
		return fail(sdk.ErrInvalidParams, "push notification config: "+field.Error())
	case errors.Is(err, webhook.ErrTooMany):
		return fail(sdk.ErrInvalidParams, "the task has as many push notification configs as it can have")
	case errors.Is(err, webhook.ErrUnknown):
		return fail(sdk.ErrTaskNotFound, "the task has no such push notification config")
	}
	return h.explain(what, h.Service.Explain(what, err))
}

// notices encodes push notifications.
type notices struct{ service *responder.Service }

// NewNotices returns the encoder of push notifications of A2A: a status update
// while a task works, and the whole task when it has ended.
func NewNotices(s *responder.Service) webhook.Encoder { return notices{s} }

// Encode encodes a notification, as an event of a stream. A result that is too
// large is omitted: the receiver can request it.
func (n notices) Encode(ctx context.Context, _ webhook.Registration, record *runs.Record, _ string) (webhook.Body,
	error) {
	v := record.Header()
	ms := cmp.Or(int64(v.ChangedAt()), 1) // a log without times
	at := time.UnixMilli(ms).UTC()
	if !record.State.Final() { // changing data would make a different body of the same notification
		e := &sdk.TaskStatusUpdateEvent{
			TaskID: sdk.TaskID(record.ID), ContextID: record.ID, Status: sdk.TaskStatus{State: stateOf(record.State),
				Timestamp: &at},
		}
		if w := adcp.Awaited(record); w != nil {
			id, text := w.ID, adcp.Needs(w.ID)
			if !w.Question {
				id, text = "turn-"+w.ID, "The task needs a message after turn "+w.ID
			}
			at = time.UnixMilli(cmp.Or(w.At, record.StartedAt)).UTC()
			e.Status.Message = &sdk.Message{
				ID: record.ID + "-" + id, Role: sdk.MessageRoleAgent, TaskID: e.TaskID, ContextID: e.ContextID,
				Parts: sdk.ContentParts{sdk.NewTextPart(text), dataPart(w.Told)},
			}
		}
		return encodeNotice(e)
	}
	t := &sdk.Task{ID: sdk.TaskID(record.ID), ContextID: contextOf(v)}
	var err error
	if t.Status, err = status(t, v, record, nil, nil); err != nil {
		return webhook.Body{}, fmt.Errorf("run %s: its status: %w", record.ID, err)
	}
	envelope, err := adcp.Outcome(ctx, n.service, record, runs.Time(ms))
	if err != nil {
		return webhook.Body{}, fmt.Errorf("run %s: its result: %w", record.ID, err)
	}
	text := ""
	if record.FinalText != nil {
		text = *record.FinalText
	}
	result, err := artifact(text, envelope, nil)
	if err != nil {
		return webhook.Body{}, fmt.Errorf("run %s: its result: %w", record.ID, err)
	}
	t.Artifacts = []*sdk.Artifact{result}
	b, err := encodeNotice(t)
	if err == nil && len(b.Bytes) > webhook.MaxBody {
		t.Artifacts = nil
		b, err = encodeNotice(t)
	}
	return b, err
}

func encodeNotice(e sdk.Event) (webhook.Body, error) {
	b, err := json.Marshal(sdk.StreamResponse{Event: e})
	return webhook.Body{Type: "application/json", Bytes: b}, err
}
