package a2a

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
)

// profileURI is the extension under which requests call skills, by the AdCP
// profile of A2A: the task is the call, and is completed when it is answered. A
// run that the call started has an id of its own, in the data.
const profileURI = "https://adcontextprotocol.org/extensions/adcp/v3"

// Names of members of the data of a call.
const (
	skillData      = "skill"
	inputData      = "input"
	parametersData = "parameters" // of 0.3, in place of input
)

// inFlight is the code of a call that is being carried out already.
var inFlight = string(adcp.ErrorOf(&api.Error{Code: api.KeyInFlight}, false).Code)

// callsSkill reports whether a message calls a skill: in 1.0 by the extension, in 0.3 by its data.
func callsSkill(ctx context.Context, q *sdk.SendMessageRequest) bool {
	c := callOf(ctx)
	if c.version != version03 || q == nil || q.Message == nil {
		return c.asks(profileURI)
	}
	return slices.ContainsFunc(q.Message.Parts, func(p *sdk.Part) bool {
		if p == nil {
			return false
		}
		data, _ := p.Data().(map[string]any)
		_, names := data[skillData]
		return names
	})
}

// invoke answers the call of a skill. Its task is not stored: a repeated
// message creates the same one, and its effect happens once.
func (h *handler) invoke(ctx context.Context, q *sdk.SendMessageRequest) (*sdk.Task, error) {
	m, err := readMessage(q)
	if err != nil {
		return nil, err
	}
	name, input, err := h.readCall(ctx, m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*askTime)
	defer cancel()
	push, err := h.pushOf(ctx, name, q)
	if err != nil && request.Read(request.FieldParams, input).CheckRelease() == nil { // which comes first
		return nil, err
	}
	ctx = responder.WithAnswers(responder.WithSurface(ctx, responder.OverA2A), h.allows(ctx, scopeAnswer))
	input = withKey(input, m.ID)
	said, err := once(ctx, func(context.Context) (v36.Answer, error) { // a call may take longer than the wait
		a, err := h.Tools.CallWith(ctx, name, input, push, nil)
		if err == nil && a.Code == inFlight {
			err = &api.Error{Code: api.KeyInFlight}
		}
		return a, err
	})
	if err != nil && said.Code != inFlight { // that is an answer, too, after the wait
		return nil, h.explain(name, err)
	}
	return answered(ctx, m, name, said)
}

// withKey adds the idempotency key of a message to the input of its call, unless that has one.
func withKey(input json.RawMessage, messageID string) json.RawMessage {
	o := gjson.ParseBytes(input)
	if o.Get(request.Key).Exists() || o.Get("idempotencyKey").Exists() {
		return input
	}
	key, _ := json.Marshal(map[string]string{request.Key: keyOf(messageID)}) // it is plain text
	rest := strings.TrimLeft(strings.TrimSpace(o.Raw)[1:], " \t\r\n")
	if rest == "}" {
		return key
	}
	return slices.Concat(key[:len(key)-1], []byte{','}, []byte(rest))
}

// readCall parses the one data part that names the skill. A text part is for
// people, and ignored, and so is a task: no skill waits for a message.
func (h *handler) readCall(ctx context.Context, m *sdk.Message) (skill string, input json.RawMessage, err error) {
	wrong := func(why string) error { return fail(sdk.ErrInvalidParams, "message.parts: "+why) }
	_, data, err := readParts(ctx, m, "the profile takes one data part", "the profile takes no files")
	if err != nil {
		return "", nil, err
	}
	if data == nil {
		return "", nil, wrong("the profile takes one data part, {skill, input}")
	}
	o := gjson.ParseBytes(data)
	var names []string
	o.ForEach(func(key, _ gjson.Result) bool {
		names = append(names, key.String())
		return len(names) < 3
	})
	slices.Sort(names)
	in := inputData
	if callOf(ctx).version == version03 && slices.Contains(names, parametersData) {
		in = parametersData
	}
	if !slices.Equal(names, slices.Sorted(slices.Values([]string{skillData, in}))) ||
		o.Get(skillData).Type != gjson.String || !o.Get(in).IsObject() {
		return "", nil, wrong("the data must be {skill, input}: a text and an object")
	}
	skill, input = o.Get(skillData).String(), json.RawMessage(o.Get(in).Raw)
	var all []string
	for _, t := range h.Tools.Named(tools.ADCPTools) {
		all = append(all, t.Name)
	}
	also := func(t v36.Tool) bool { return t.Name == skill }
	if !slices.Contains(all, skill) && !slices.ContainsFunc(h.Tools.Also(tools.ADCPTools), also) {
		return "", nil, wrong("skill: must be one of " + strings.Join(all, ", "))
	}
	return skill, input, nil
}

// answered returns the task of a call: completed whatever the state of the
// started run. In 1.0 it is failed if the call itself was refused or failed, and
// has a text before the data; in 0.3 neither, because its clients read the data
// of a completed task alone.
func answered(ctx context.Context, m *sdk.Message, skill string, said v36.Answer) (*sdk.Task, error) {
	envelope := gjson.ParseBytes(said.Envelope)
	data, err := object(said.Envelope, json.RawMessage(envelope.Get("context").Raw))
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	sum := sha256.Sum256([]byte(skill + "\x00" + m.ID))
	t := &sdk.Task{
		ID:     sdk.TaskID("call-" + hex.EncodeToString(sum[:16])),
		Status: sdk.TaskStatus{State: sdk.TaskStateCompleted, Timestamp: &now},
	}
	t.ContextID = cmp.Or(m.ContextID, envelope.Get("context_id").String(), string(t.ID))
	a := &sdk.Artifact{ID: "adcp-result"}
	status, text := adcp.Status(envelope.Get("status").String()), envelope.Get("message").String()
	switch {
	case callOf(ctx).version == version03 && status == adcp.Submitted:
		a.Metadata = map[string]any{"adcp_task_id": envelope.Get("task_id").String()}
	case callOf(ctx).version == version03:
	default:
		if said.IsError && (status != adcp.Failed || skill != tools.StatusTool) { // that it failed was asked for
			t.Status.State = sdk.TaskStateFailed
		}
		if text != "" {
			a.Parts = append(a.Parts, sdk.NewTextPart(text))
		}
	}
	a.Parts = append(a.Parts, dataPart(data))
	t.Artifacts = []*sdk.Artifact{a}
	return t, nil
}
