package a2a

import (
	"context"
	"errors"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

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
func (h *Handler) CreateTaskPushConfig(ctx context.Context, q *sdk.PushConfig) (*sdk.PushConfig, error) {
	run, err := h.pushTask(ctx, q.TaskID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r := registration(run, q)
	if err := h.explainPush("create a push config", h.Push.Put(ctx, r)); err != nil {
		return nil, err
	}
	return pushConfig(r), nil
}

// GetTaskPushConfig returns a configuration, without its secrets.
func (h *Handler) GetTaskPushConfig(ctx context.Context, q *sdk.GetTaskPushConfigRequest) (*sdk.PushConfig, error) {
	run, err := h.pushTask(ctx, q.TaskID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := h.Push.Get(ctx, run, configID(q.ID))
	if err := h.explainPush("get a push config", err); err != nil {
		return nil, err
	}
	return pushConfig(r), nil
}

// ListTaskPushConfigs returns all configurations of a task: they fit one page.
func (h *Handler) ListTaskPushConfigs(ctx context.Context, q *sdk.ListTaskPushConfigRequest) (
	*sdk.ListTaskPushConfigResponse, error) {
	run, err := h.pushTask(ctx, q.TaskID)
	if err != nil {
		return nil, err
	}
	if q.PageToken != "" {
		return nil, fail(sdk.ErrInvalidParams, "pageToken: there is one page only")
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	list, err := h.Push.List(ctx, run)
	if err := h.explainPush("list push configs", err); err != nil {
		return nil, err
	}
	answer := &sdk.ListTaskPushConfigResponse{Configs: []*sdk.PushConfig{}}
	for _, r := range list {
		answer.Configs = append(answer.Configs, pushConfig(r))
	}
	return answer, nil
}

// DeleteTaskPushConfig removes a configuration. Removing a missing one
// succeeds.
func (h *Handler) DeleteTaskPushConfig(ctx context.Context, q *sdk.DeleteTaskPushConfigRequest) error {
	run, err := h.pushTask(ctx, q.TaskID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := h.Push.Delete(ctx, run, configID(q.ID)); !errors.Is(err, webhook.ErrUnknown) {
		return h.explainPush("delete a push config", err)
	}
	return nil
}

// pushTask returns the run of a configuration request.
func (h *Handler) pushTask(ctx context.Context, id sdk.TaskID) (string, error) {
	if err := h.admit(ctx, scopeSubmit); err != nil {
		return "", err
	}
	if h.Push == nil {
		return "", noPush()
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	v, err := h.find(ctx, id)
	return v.ID, err
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

// pushConfig is a registration without its token and its credentials: who may
// ask is not always who knows them.
func pushConfig(r webhook.Registration) *sdk.PushConfig {
	c := &sdk.PushConfig{TaskID: sdk.TaskID(r.Run), ID: r.ID, URL: r.URL}
	if r.Scheme != "" {
		c.Auth = &sdk.PushAuthInfo{Scheme: r.Scheme}
	}
	return c
}

func configID(id string) string {
	if id == "" {
		return onlyConfig
	}
	return id
}

func (h *Handler) explainPush(what string, err error) error {
	var field *runs.FieldError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &field):
		return fail(sdk.ErrInvalidParams, "push notification config: "+field.Error())
	case errors.Is(err, webhook.ErrTooMany):
		return fail(sdk.ErrInvalidParams, "the task has as many push notification configs as it can have")
	case errors.Is(err, webhook.ErrUnknown):
		return fail(sdk.ErrTaskNotFound, "the task has no such push notification config")
	}
	return h.explain(what, h.Service.Explain(what, err))
}
