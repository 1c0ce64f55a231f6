package a2a

import (
	"cmp"
	"context"
	"errors"
	"net/url"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// pushConfigs stores push notification configurations.
type pushConfigs interface {
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
func (h *handler) CreateTaskPushConfig(ctx context.Context, q *sdk.PushConfig) (c *sdk.PushConfig, err error) {
	err = h.withPush(ctx, q.TaskID, "create a push config", func(ctx context.Context, run string) error {
		r := registration(ctx, run, q)
		c = pushConfig(ctx, r)
		return h.Push.Put(ctx, r)
	})
	return c, err
}

// GetTaskPushConfig returns a configuration, without its secrets.
func (h *handler) GetTaskPushConfig(ctx context.Context, q *sdk.GetTaskPushConfigRequest) (c *sdk.PushConfig,
	err error) {
	err = h.withPush(ctx, q.TaskID, "get a push config", func(ctx context.Context, run string) error {
		r, err := h.Push.Get(ctx, run, configID(q.ID))
		c = pushConfig(ctx, r)
		return err
	})
	return c, err
}

// ListTaskPushConfigs returns all configurations of a task: they fit one page.
func (h *handler) ListTaskPushConfigs(ctx context.Context, q *sdk.ListTaskPushConfigRequest) (
	*sdk.ListTaskPushConfigResponse, error) {
	answer := &sdk.ListTaskPushConfigResponse{Configs: []*sdk.PushConfig{}}
	err := h.withPush(ctx, q.TaskID, "list push configs", func(ctx context.Context, run string) error {
		if q.PageToken != "" {
			return fail(sdk.ErrInvalidParams, "pageToken: there is one page only")
		}
		list, err := h.Push.List(ctx, run)
		for _, r := range list {
			answer.Configs = append(answer.Configs, pushConfig(ctx, r))
		}
		return err
	})
	return answer, err
}

// DeleteTaskPushConfig removes a configuration. Removing a missing one
// succeeds.
func (h *handler) DeleteTaskPushConfig(ctx context.Context, q *sdk.DeleteTaskPushConfigRequest) error {
	return h.withPush(ctx, q.TaskID, "delete a push config", func(ctx context.Context, run string) error {
		if err := h.Push.Delete(ctx, run, configID(q.ID)); !errors.Is(err, webhook.ErrUnknown) {
			return err
		}
		return nil
	})
}

// withPush carries out a request about the configurations of a task. What is
// for the log.
func (h *handler) withPush(ctx context.Context, id sdk.TaskID, what string,
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
func (h *handler) checkPush(ctx context.Context, q *sdk.SendMessageRequest) error {
	if q.Config == nil || q.Config.PushConfig == nil {
		return nil
	}
	if h.Push == nil {
		return noPush()
	}
	return h.explainPush("check a push config", h.Push.Check(registration(ctx, "T-local-unnamed", q.Config.PushConfig)))
}

// register stores the push configuration of a message. If a kill prevented it,
// the repeated message stores it.
func (h *handler) register(ctx context.Context, run string, q *sdk.SendMessageRequest) error {
	if q.Config == nil || q.Config.PushConfig == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return h.explainPush("create a push config", h.Push.Put(ctx, registration(ctx, run, q.Config.PushConfig)))
}

// pushOf returns what the call of a skill registers for the run that it creates; nil: nothing.
func (h *handler) pushOf(ctx context.Context, skill string, q *sdk.SendMessageRequest) (*tools.Push, error) {
	if !h.Tools.Submits(skill) || q.Config == nil || q.Config.PushConfig == nil {
		return nil, nil
	}
	if h.Push == nil {
		return nil, noPush()
	}
	r := registration(ctx, "", q.Config.PushConfig)
	r.Tool, r.Version = skill, cmp.Or(r.Version, in10)
	err := h.Push.Check(r)
	if auth := q.Config.PushConfig.Auth; err == nil && auth != nil && auth.Scheme == "" { // not the same as none
		err = &runs.FieldError{Field: "authentication.schemes", Problem: "must be one scheme"}
	}
	if err != nil {
		return nil, h.explainPush("check a push config", err)
	}
	config := map[string]string{"id": r.ID, "url": r.URL, "token": r.Token, "scheme": r.Scheme}
	return &tools.Push{Config: config, Echo: r.Echo(), Subscription: subscription{h, r}}, nil
}

// subscription is the configuration of the call of a skill.
type subscription struct {
	h *handler
	r webhook.Registration
}

// Register implements [responder.Subscription].
func (s subscription) Register(ctx context.Context, run string) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s.r.Run = run
	err := s.h.Push.Put(ctx, s.r)
	switch {
	case errors.Is(err, webhook.ErrTooMany):
		return api.Invalid(api.FieldWebhook, err.Error())
	case errors.Is(err, webhook.ErrNoKey):
		return responder.NoKey(api.FieldWebhook + ".authentication")
	}
	return s.h.Service.Explain("create a push config", err)
}

// Unregister implements [responder.Subscription].
func (s subscription) Unregister(ctx context.Context, run string) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	_ = s.h.Push.Delete(ctx, run, s.r.ID) // else it expires
}

func registration(ctx context.Context, run string, c *sdk.PushConfig) webhook.Registration {
	r := webhook.Registration{ID: configID(c.ID), Run: run, Protocol: webhook.A2A, By: responder.Caller(ctx), URL: c.URL,
		Token: c.Token}
	if callOf(ctx).version == version03 {
		r.Version = in03
	}
	if c.Auth != nil {
		r.Scheme, r.Credentials = c.Auth.Scheme, c.Auth.Credentials
	}
	return r
}

// pushConfig returns a registration without its token and its credentials: other
// callers may read it than the one that stored it. They get no path of its URL.
func pushConfig(ctx context.Context, r webhook.Registration) *sdk.PushConfig {
	c := &sdk.PushConfig{TaskID: sdk.TaskID(r.Run), ID: r.ID, URL: r.URL}
	if !responder.Owns(ctx, r.By) {
		u, _ := url.Parse(r.URL)
		if c.URL = ""; u != nil {
			c.URL = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}).String()
		}
	}
	if r.Scheme != "" {
		c.Auth = &sdk.PushAuthInfo{Scheme: r.Scheme}
	}
	return c
}

func configID(id string) string { return cmp.Or(id, onlyConfig) }

func (h *handler) explainPush(what string, err error) error {
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
