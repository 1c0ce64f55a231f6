package a2a

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/runs"
)

// ProfileURI is the extension whose requests call skills, as the AdCP profile
// on A2A says: the task is the call, and completed once it was answered. What
// the call began has an id of its own, in the data.
const ProfileURI = "https://adcontextprotocol.org/extensions/adcp/v3"

// called are the tools that the skills call.
var called = map[string]string{
	"codex-run": "_codex_local_exec", "codex-resume": "_codex_local_resume", "codex-status": "_codex_local_status", "codex-cancel": "_codex_local_cancel",
}

// notInput are parameters of the tools that callers of skills cannot give.
var notInput = map[string]string{"format": "the profile says it", "verbose": "it shows output as it was written"}

// statusSkill is how the profile asks for what became of a task.
const statusSkill = "get_task_status"

// invoke answers the call of a skill. The task is not kept: the same message
// makes the same one again, and what it began is done once.
func (h *Handler) invoke(ctx context.Context, q *sdk.SendMessageRequest) (*sdk.Task, error) {
	m, err := readMessage(q)
	if err != nil {
		return nil, err
	}
	skill, input, err := readCall(ctx, m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*askTime)
	defer cancel()
	var envelope []byte
	if skill == statusSkill {
		envelope, err = h.taskStatus(ctx, input)
	} else {
		if !gjson.GetBytes(input, "idempotency_key").Exists() && !gjson.GetBytes(input, "idempotencyKey").Exists() {
			input = join(runs.Encode(map[string]string{"idempotency_key": keyOf(m.ID)}), input)
		}
		envelope, err = h.callOnce(ctx, called[skill], join(json.RawMessage(`{"format":"adcp"}`), input))
	}
	if err != nil {
		return nil, h.explain(skill, err)
	}
	return answered(m, skill, envelope)
}

// readCall reads the one data part that says which skill to call. A text is for
// people, and says nothing.
func readCall(ctx context.Context, m *sdk.Message) (skill string, input json.RawMessage, err error) {
	wrong := func(why string) error { return fail(sdk.ErrInvalidParams, "message.parts: "+why) }
	var data json.RawMessage
	for i, p := range m.Parts {
		switch p.Content.(type) {
		case sdk.Text:
		case sdk.Data:
			if data != nil {
				return "", nil, wrong("the profile takes one data part")
			}
			if data, err = dataOf(ctx, i, p); err != nil {
				return "", nil, err
			}
		default:
			return "", nil, fail(sdk.ErrUnsupportedContentType, "message.parts: the profile takes no files")
		}
	}
	if data == nil {
		return "", nil, wrong("the profile takes one data part, {skill, input}")
	}
	if m.TaskID != "" {
		return "", nil, fail(sdk.ErrUnsupportedOperation, "no skill waits for a message: send it without taskId")
	}
	o := gjson.ParseBytes(data)
	var names []string
	o.ForEach(func(key, _ gjson.Result) bool {
		names = append(names, key.String())
		return len(names) < 3
	})
	slices.Sort(names)
	if !slices.Equal(names, []string{"input", "skill"}) || o.Get("skill").Type != gjson.String || !o.Get("input").IsObject() {
		return "", nil, wrong("the data must be {skill, input}: a text and an object")
	}
	skill, input = o.Get("skill").String(), json.RawMessage(o.Get("input").Raw)
	if called[skill] == "" && skill != statusSkill {
		return "", nil, wrong("skill: must be one of codex-run, codex-resume, codex-status, codex-cancel, get_task_status")
	}
	gjson.ParseBytes(input).ForEach(func(key, _ gjson.Result) bool {
		if why := notInput[key.String()]; why != "" {
			err = wrong("input." + key.String() + " is no parameter here: " + why)
		}
		return err == nil
	})
	return skill, input, err
}

// taskStatus is how a task stands: the same data as of a task of A2A, with its
// id and status.
func (h *Handler) taskStatus(ctx context.Context, input json.RawMessage) ([]byte, error) {
	o := gjson.ParseBytes(input)
	var issues []adcp.Issue
	o.ForEach(func(key, _ gjson.Result) bool {
		if name := key.String(); !slices.Contains([]string{"task_id", "include_result", "include_history", "context"}, name) {
			issues = append(issues, adcp.Issue{Message: "there is no parameter of one of the names", Keyword: "additionalProperties"})
		}
		return len(issues) == 0
	})
	id := o.Get("task_id")
	if id.Type != gjson.String {
		issues = append(issues, adcp.Issue{Pointer: "/task_id", Message: "must be the id of a task", Keyword: "type"})
	}
	r := adcp.Response{At: time.Now()}
	if echo := o.Get("context"); echo.IsObject() {
		r.Context = json.RawMessage(echo.Raw)
	}
	if len(issues) > 0 {
		r.Status, r.Message = adcp.Rejected, issues[0].Message
		r.Error = &adcp.Error{Code: adcp.ValidationError, Message: r.Message, Issues: issues, Recovery: adcp.Correctable}
		return r.Encode(), nil
	}
	v, err := h.find(ctx, sdk.TaskID(id.String()))
	if err != nil && !errors.Is(err, sdk.ErrTaskNotFound) {
		return nil, err
	}
	if err != nil {
		r.Status, r.Message = adcp.Unknown, err.Error()
		r.Error = &adcp.Error{Code: adcp.NotFound, Message: r.Message, Recovery: adcp.Correctable}
		return r.Encode(), nil
	}
	v, record, err := h.record(ctx, v)
	if err != nil {
		return nil, err
	}
	r.Status, r.TaskID, r.ContextID, r.Message, r.Governance = adcp.StatusOf(v.State), v.ID, v.Thread, summary(v, record), governance(v, record)
	if !v.State.Final() || record == nil {
		r.Body = interim(v)
		return r.Encode(), nil
	}
	body, failed, err := h.Tools.Result(ctx, record)
	if err != nil {
		return nil, err
	}
	r.Message, r.Error, r.Body = record.Summary(), failed, withoutOutput(body)
	return r.Encode(), nil
}

// answered is the task of a call: completed, whatever the envelope says of what
// the call began, and failed where the call itself was refused, or did not work.
func answered(m *sdk.Message, skill string, envelope []byte) (*sdk.Task, error) {
	var data map[string]any
	d := json.NewDecoder(bytes.NewReader(envelope))
	d.UseNumber()
	if err := d.Decode(&data); err != nil {
		return nil, err
	}
	e := gjson.ParseBytes(envelope)
	if echo := e.Get("context"); echo.Exists() {
		data["context"] = json.RawMessage(echo.Raw)
	}
	state := sdk.TaskStateCompleted
	switch adcp.Status(e.Get("status").String()) {
	case adcp.Rejected, adcp.Unknown, adcp.AuthRequired:
		state = sdk.TaskStateFailed
	case adcp.Failed:
		if skill != statusSkill && skill != "codex-status" { // that a task failed was asked for, and told
			state = sdk.TaskStateFailed
		}
	}
	now := time.Now().UTC()
	sum := sha256.Sum256([]byte(skill + "\x00" + m.ID))
	t := &sdk.Task{ID: sdk.TaskID("call-" + hex.EncodeToString(sum[:16])), Status: sdk.TaskStatus{State: state, Timestamp: &now}}
	t.ContextID = cmp.Or(m.ContextID, e.Get("context_id").String(), string(t.ID))
	a := &sdk.Artifact{ID: "adcp-result"}
	if text := e.Get("message").String(); text != "" {
		a.Parts = append(a.Parts, sdk.NewTextPart(text))
	}
	a.Parts = append(a.Parts, dataPart(data))
	t.Artifacts = []*sdk.Artifact{a}
	return t, nil
}
