package delegator

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/push"
	"github.com/linesman/linesman/runs"
)

// pushName is the parameter that asks for notifications.
const pushName = "push_notification_config"

// maxPush is the most bytes of it.
const maxPush = 16 << 10

var pushParam = param{name: pushName, kind: object, most: maxPush,
	about: "Webhook that is told when the task works and when it has ended, unless the answer to this call says how it ended: " +
		"url (https), operation_id, token, authentication {schemes: [Bearer or HMAC-SHA256], credentials}. All but token are required."}

// pushFields are the fields of a registration by what callers know.
var pushFields = map[string]string{
	"": pushName, "url": pushName + ".url", "operation_id": pushName + ".operation_id", "token": pushName + ".token",
	"authentication": pushName + ".authentication", "authentication.schemes": pushName + ".authentication.schemes",
	"authentication.credentials": pushName + ".authentication.credentials", "context": "context",
}

// checkPush adds what is wrong with the registration that the call brings.
func (c *call) checkPush() {
	raw := c.args.raw(pushName)
	if raw == nil {
		return
	}
	r, err := c.registration(raw)
	if err == nil && c.Push != nil {
		err = c.Push.Check(r)
	}
	if c.args.fields(err, pushFields) != nil {
		c.args.refuse(pushName, "is no configuration of a webhook")
	}
}

func (c *call) registration(raw json.RawMessage) (push.Registration, error) {
	r, err := push.ParseConfig(raw)
	r.Tool, r.Context = c.tool.name, c.args.raw("context")
	return r, err
}

// canPush is the error of a call that asks for notifications where none are sent.
func (c *call) canPush() error {
	if c.Push != nil || c.args.raw(pushName) == nil {
		return nil
	}
	return &adcp.Error{Code: adcp.Unsupported, Message: "notifications are not sent from here", Field: pushName, Recovery: adcp.Correctable}
}

// register keeps the registration that the call brings, for a run that need
// not be there yet. Without one it does nothing.
func (c *call) register(ctx context.Context, run string) error {
	raw := c.args.raw(pushName)
	if raw == nil {
		return nil
	}
	r, err := c.registration(raw)
	if err != nil {
		return err
	}
	r.Run = run
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return c.Push.Put(ctx, r)
}

// unregister forgets the registration of a run that was not submitted after
// all. Where that fails, its time ends.
func (c *call) unregister(ctx context.Context, run string) {
	if c.args.raw(pushName) == nil || c.Push == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := c.Push.Delete(ctx, run, push.AdCP); err != nil && !errors.Is(err, push.ErrUnknown) {
		c.log.Warn("a registration without a run stays for now", zap.String("run", run), zap.Error(err))
	}
}

// withoutSecret is a configuration without what its credentials are: they may
// change from one attempt of a request to the next.
func withoutSecret(raw json.RawMessage) json.RawMessage {
	var top, auth map[string]json.RawMessage
	if json.Unmarshal(raw, &top) != nil || json.Unmarshal(top["authentication"], &auth) != nil || auth == nil {
		return raw
	}
	delete(auth, "credentials")
	top["authentication"] = encode(auth)
	return encode(top)
}

// Result tells what came of a run that has ended as the results tools tell it,
// but for where the streams stand: so it is the same whenever it is asked for.
// It has nothing of what the agent printed: who hears of a run need not have
// the right to read that.
func (d *Delegator) Result(ctx context.Context, r *runs.Record) (json.RawMessage, *adcp.Error, error) {
	c := &call{Delegator: d}
	data, err := c.result(ctx, r, resultOptions{silent: true, most: 64 << 10})
	if err != nil {
		return nil, nil, err
	}
	seconds, completed := lasted(r.Row())/1000, moment(r.EndedAt)
	data.Duration, data.Completed, data.Ext.Stream = &seconds, &completed, nil
	if !ofCloud(r.Row()) {
		if data.Events, err = c.eventsOf(ctx, r, false); err != nil {
			return nil, nil, err
		}
	}
	var e *adcp.Error
	if adcp.StatusOf(r.State) == adcp.Failed {
		e = adcp.FailureOf(r)
	}
	return body(&reply{meta: countMeta{1}, data: data}), e, nil
}
