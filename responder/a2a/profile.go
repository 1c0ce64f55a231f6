package a2a

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/request"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
)

// ProfileURI is the extension under which requests call skills, by the AdCP
// profile of A2A: the task is the call, and is completed when it is answered. A
// run that the call started has an id of its own, in the data.
const ProfileURI = "https://adcontextprotocol.org/extensions/adcp/v3"

// skill is a request that the profile calls.
type skill struct {
	tool   string
	params []request.Param
	agent  string // its argument agent; "": none
}

// skillOf returns the request of a skill, false if there is no such skill.
func (h *Handler) skillOf(name string) (skill, bool) {
	switch name {
	case "codex-run":
		return skill{tool: request.ToolExec, params: request.ExecParams}, true
	case "codex-resume":
		return skill{tool: request.ToolResume, params: request.ContinueParams}, true
	case "codex-status":
		return skill{tool: request.ToolStatus, params: request.StatusParams}, true
	case "codex-cancel":
		return skill{tool: request.ToolCancel, params: request.CancelParams}, true
	case statusSkill:
		return skill{}, true
	}
	short, isRun := strings.CutSuffix(name, runSuffix)
	return skill{request.ToolExec, request.TaskParams, short}, isRun && slices.Contains(h.Service.Agents().Names(), short)
}

// notInput are parameters of these requests that a skill does not accept.
var notInput = map[string]string{"format": "the profile says it", "verbose": "it shows output as it was written"}

// statusSkill is the profile's request for the status of a task.
const statusSkill = "get_task_status"

// invoke answers the call of a skill. Its task is not stored: a repeated
// message creates the same one, and its effect happens once.
func (h *Handler) invoke(ctx context.Context, q *sdk.SendMessageRequest) (*sdk.Task, error) {
	m, err := readMessage(q)
	if err != nil {
		return nil, err
	}
	name, input, err := h.readCall(ctx, m)
	if err != nil {
		return nil, err
	}
	push, err := h.pushOf(ctx, name, q)
	if err != nil {
		return nil, err
	}
	if refused := h.unsigned(push); refused != nil {
		return answered(m, name, *refused)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*askTime)
	defer cancel()
	if name == statusSkill {
		r, err := h.taskStatus(ctx, input)
		if err != nil {
			return nil, h.explain(name, err)
		}
		return answered(m, name, r)
	}
	presets := []request.Preset{{Name: request.Format, Value: "adcp"}}
	if !gjson.GetBytes(input, "idempotency_key").Exists() && !gjson.GetBytes(input, "idempotencyKey").Exists() {
		presets = append(presets, request.Preset{Name: request.Key, Value: keyOf(m.ID)})
	}
	s, _ := h.skillOf(name)
	if s.agent != "" {
		presets = append(presets, request.Preset{Name: "agent", Value: s.agent})
	}
	said, err := h.call(ctx, s.tool, request.Read(s.params, input, presets...))
	if err != nil {
		return nil, err
	}
	t, err := answered(m, name, said)
	if err != nil {
		return nil, err
	}
	return t, h.attach(ctx, push, t)
}

// call makes a request. The error is an A2A error; errors of the request are in
// the envelope.
func (h *Handler) call(ctx context.Context, tool string, args *request.Args) (adcp.Response, error) {
	c := adcp.Call{Args: args, ChangesRun: tool == request.ToolCancel}
	var reply *v36.Reply
	var of *adcp.Subject
	var err error
	switch tool {
	case request.ToolStatus:
		reply, of, err = h.snapshot(ctx, args)
	case request.ToolCancel:
		reply, of, c.Replayed, err = h.cancel(ctx, args)
	default:
		var done api.Submitted
		done, err = h.queue(ctx, tool, args)
		reply, of, c.Replayed = v36.Queued(done), adcp.OfSubmission(done), done.Replayed
	}
	var known *sdk.Error
	switch {
	case errors.As(err, &known):
		return adcp.Response{}, known
	case err != nil:
		return adcp.Fail(ctx, h.Service, c, err), nil
	}
	return adcp.Succeed(ctx, h.Service, c, reply, of), nil
}

// snapshot returns the state of the requested tasks.
func (h *Handler) snapshot(ctx context.Context, args *request.Args) (*v36.Reply, *adcp.Subject, error) {
	args.CheckDir()
	if err := args.Err(); err != nil {
		return nil, nil, err
	}
	all, one, err := request.Status(ctx, h.Service, args)
	if err != nil {
		return nil, nil, err
	}
	var of *adcp.Subject
	if one != nil {
		of = adcp.OfView(*one)
	}
	return v36.Snapshot(all, h.Service.Basis(), nil), of, nil
}

// cancel cancels a task. The cancel may be a repetition.
func (h *Handler) cancel(ctx context.Context, args *request.Args) (
	r *v36.Reply, of *adcp.Subject, replayed bool, err error,
) {
	if err := args.Err(); err != nil {
		return nil, nil, false, err
	}
	var v runs.Header
	done, err := once(ctx, func(ctx context.Context) (done api.Cancelled, err error) {
		done, v, err = request.Cancel(ctx, h.Service, args)
		return done, err
	})
	return v36.Cancelled(done, args.Text("reason")), adcp.OfCancel(v, done), done.Replayed, err
}

// readCall parses the one data part that names the skill. A text part is for
// people, and ignored.
func (h *Handler) readCall(ctx context.Context, m *sdk.Message) (skill string, input json.RawMessage, err error) {
	wrong := func(why string) error { return fail(sdk.ErrInvalidParams, "message.parts: "+why) }
	_, data, err := readParts(ctx, m, "the profile takes one data part", "the profile takes no files")
	if err != nil {
		return "", nil, err
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
	if !slices.Equal(names, []string{"input", "skill"}) || o.Get("skill").Type != gjson.String ||
		!o.Get("input").IsObject() {
		return "", nil, wrong("the data must be {skill, input}: a text and an object")
	}
	skill, input = o.Get("skill").String(), json.RawMessage(o.Get("input").Raw)
	if _, known := h.skillOf(skill); !known {
		var all []string
		for _, s := range h.skills() {
			all = append(all, s.ID)
		}
		return "", nil, wrong("skill: must be one of " + strings.Join(all, ", "))
	}
	gjson.ParseBytes(input).ForEach(func(key, _ gjson.Result) bool {
		if why := notInput[key.String()]; why != "" {
			err = wrong("input." + key.String() + " is no parameter here: " + why)
		}
		return err == nil
	})
	return skill, input, err
}

// taskStatus returns the state of a task: the same data as of an A2A task, with
// its id and status.
func (h *Handler) taskStatus(ctx context.Context, input json.RawMessage) (adcp.Response, error) {
	o := gjson.ParseBytes(input)
	var issues []adcp.Issue
	o.ForEach(func(key, _ gjson.Result) bool {
		if name := key.String(); !slices.Contains([]string{"task_id", "include_result", "include_history", "context"}, name) {
			issues = append(issues, adcp.Issue{Message: "there is no parameter of one of the names",
				Keyword: "additionalProperties"})
		}
		return len(issues) == 0
	})
	id := o.Get("task_id")
	if id.Type != gjson.String {
		issues = append(issues, adcp.Issue{Pointer: "/task_id", Message: "must be the id of a task", Keyword: "type"})
	}
	r := adcp.Response{At: api.TimeOf(time.Now())}
	if echo := o.Get("context"); echo.IsObject() {
		r.Context = json.RawMessage(echo.Raw)
	}
	if len(issues) > 0 {
		r.Status, r.Message = adcp.Rejected, issues[0].Message
		r.Error = &adcp.Error{Code: adcp.ValidationError, Message: r.Message, Issues: issues, Recovery: adcp.Correctable}
		return r, nil
	}
	v, err := h.find(ctx, sdk.TaskID(id.String()))
	if err != nil && !errors.Is(err, sdk.ErrTaskNotFound) {
		return r, err
	}
	if err != nil {
		r.Status, r.Message = adcp.Unknown, err.Error()
		r.Error = &adcp.Error{Code: adcp.NotFound, Message: r.Message, Recovery: adcp.Correctable}
		return r, nil
	}
	v, record, err := h.record(ctx, v)
	if err != nil {
		return r, err
	}
	r.Status, r.TaskID, r.ContextID, r.Message, r.Governance = adcp.StatusOf(v.State), v.ID, v.Thread, summary(v, record),
		governance(v, record)
	if !v.State.Final() || record == nil {
		r.Body = interim(v)
		q, err := h.question(ctx, v, record)
		if q != nil {
			r.Body = slices.Concat(r.Body[:len(r.Body)-1], []byte(`,"question":`), runs.Encode(q), []byte{'}'})
		}
		return r, err
	}
	r.Message = record.Summary()
	r.Body, r.Error, err = bodyOf(ctx, h.Service, record)
	return r, err
}

// answered returns the task of a call: completed whatever the state of the
// started run, and failed if the call itself was refused or failed.
func answered(m *sdk.Message, skill string, said adcp.Response) (*sdk.Task, error) {
	data, err := object(said.Encode(), said.Context)
	if err != nil {
		return nil, err
	}
	state := sdk.TaskStateCompleted
	switch said.Status {
	case adcp.Rejected, adcp.Unknown, adcp.AuthRequired:
		state = sdk.TaskStateFailed
	case adcp.Failed:
		if skill != statusSkill && skill != "codex-status" { // the status of a failed task was requested and returned
			state = sdk.TaskStateFailed
		}
	}
	now := time.Now().UTC()
	sum := sha256.Sum256([]byte(skill + "\x00" + m.ID))
	t := &sdk.Task{ID: sdk.TaskID("call-" + hex.EncodeToString(sum[:16])), Status: sdk.TaskStatus{State: state,
		Timestamp: &now}}
	t.ContextID = cmp.Or(m.ContextID, said.ContextID, string(t.ID))
	a := &sdk.Artifact{ID: "adcp-result"}
	if said.Message != "" {
		a.Parts = append(a.Parts, sdk.NewTextPart(said.Message))
	}
	a.Parts = append(a.Parts, dataPart(data))
	t.Artifacts = []*sdk.Artifact{a}
	return t, nil
}
