package rest

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/request"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
)

func getRun(ctx context.Context, q *exchange) (*reply, error) {
	v, err := q.find(ctx)
	if err != nil {
		return nil, err
	}
	a, _, err := q.answerRun(ctx, http.StatusOK, v)
	if err == nil {
		a.tagged = true
	}
	return a, err
}

// answerRun reads the record of a run, and answers with it.
func (q *exchange) answerRun(ctx context.Context, status int, v runs.Header) (*reply, *api.Run, error) {
	record, err := q.Service.Record(ctx, v.ID)
	if err != nil && !api.Is(err, api.NotFound) { // not recorded yet
		return nil, nil, err
	}
	run := responder.Describe(v, record)
	if record == nil {
		record = &runs.Record{ID: v.ID, Attributes: v.Attributes, State: v.State, Governance: v.Governance}
	}
	a := &reply{Status: status, Body: run, record: record}
	if q.form != adcpType || len(run.Questions) == 0 || q.Allows != nil && !q.Allows(ctx, "answer") {
		return a, run, nil
	}
	asked, err := q.Service.QuestionOf(ctx, record, run.Questions[0])
	if asked != nil {
		a.Body = struct {
			*api.Run
			Question *api.Question `json:"question"`
		}{run, asked}
	}
	return a, run, err
}

func waitForRun(ctx context.Context, q *exchange) (*reply, error) {
	seconds := q.query.number("timeout")
	if q.query.err != nil {
		return nil, q.query.err
	}
	v, err := q.find(ctx)
	if err != nil {
		return nil, err
	}
	is := responder.Reached(api.WaitRequest{Until: q.query.word("until"), After: uint64(q.query.number("after"))})
	if q.query.err != nil {
		return nil, q.query.err
	}
	if seconds > 0 && !is(v) {
		free, err := q.hold()
		if err != nil {
			return nil, err
		}
		defer free()
		limited, cancel := context.WithTimeout(q.r.Context(), time.Duration(seconds)*time.Second)
		defer cancel()
		if v, err = q.Service.WaitUntil(limited, v.ID, nil, is); err != nil && limited.Err() == nil {
			return nil, err
		}
		if v.ID == "" { // it was removed at the timeout
			return nil, &api.Error{Code: api.NotFound}
		}
	}
	after, cancel := context.WithTimeout(q.r.Context(), askTime)
	defer cancel()
	a, _, err := q.answerRun(after, http.StatusOK, v)
	if err == nil && seconds > 0 && !is(v) {
		a.late = true
	}
	return a, err
}

func submitRun(ctx context.Context, q *exchange) (*reply, error) {
	args, err := q.arguments(request.TaskParams, nil, request.Format)
	if err != nil {
		return nil, err
	}
	if err := q.Service.Connected(); err != nil {
		return nil, err
	}
	return q.begin(ctx, request.ToolExec, args)
}

func resumeRun(ctx context.Context, q *exchange) (*reply, error) {
	thread := ""
	v, gone := q.find(ctx)
	if gone == nil {
		thread, gone = q.Service.Resumable(v)
	}
	if gone != nil && (!q.mayHaveKey() || runs.CheckID(q.run()) != nil) {
		return nil, gone
	}
	path := []request.Preset{{Name: "threadId", Value: thread}} // its agent is that of the task
	args, err := q.arguments(request.ContinueParams, path, request.Format, "threadId", "thread_id", "agent")
	if err == nil {
		args.Of(q.run())
	}
	if gone != nil && (err != nil || !request.Again(ctx, q.Service, request.ToolResume, args)) {
		return nil, gone
	}
	if err != nil {
		return nil, err
	}
	return q.begin(ctx, request.ToolResume, args)
}

// begin submits a task, like the tool.
func (q *exchange) begin(ctx context.Context, tool string, args *request.Args) (*reply, error) {
	call := adcp.Call{Args: args}
	task := request.Submission(q.Service, tool, args)
	args.RequireKey()
	if err := args.Err(); err != nil && !request.Again(ctx, q.Service, tool, args) {
		return q.refuse(ctx, call, err)
	}
	done, err := request.Submit(ctx, q.Service, tool, args, task)
	if err != nil {
		return q.refuse(ctx, call, err)
	}
	if q.form == adcpType {
		call.Replayed = done.Replayed
		return enveloped(adcp.Succeed(ctx, q.Service, call, v36.Queued(done), adcp.OfSubmission(done, task.Labels))), nil
	}
	v, ok := q.Service.Get(done.Run)
	if !ok { // removed already
		v = responder.Unknown(done.Run)
	}
	return &reply{Status: http.StatusAccepted, Body: responder.Summarize(v), location: "/v1/runs/" + v.ID}, nil
}

func cancelRun(ctx context.Context, q *exchange) (*reply, error) {
	v, err := q.find(ctx)
	if api.Is(err, api.NotFound) && q.mayHaveKey() && runs.CheckID(q.run()) == nil {
		v = responder.Unknown(q.run()) // the outcome of its cancel may be stored
	} else if err != nil {
		return nil, err
	}
	run := request.Preset{Name: "task_id", Value: v.ID}
	args, err := q.arguments(request.CancelParams, []request.Preset{run}, request.Format, "task_id", "taskId")
	if err != nil {
		return nil, err
	}
	call := adcp.Call{Args: args, ChangesRun: true}
	args.RequireKey()
	if err := args.Err(); err != nil {
		return q.refuse(ctx, call, err)
	}
	var done api.Cancelled
	before := v
	if responder.IsCloud(v) { // cloud tasks cannot be cancelled: see the error
		done, err = q.Service.Cancel(ctx, api.Cancel{Run: v.ID})
	} else {
		done, before, err = request.Cancel(ctx, q.Service, args)
	}
	if err != nil {
		return q.refuse(ctx, call, err)
	}
	if q.form == adcpType {
		call.Replayed = done.Replayed
		said := v36.Cancelled(done, args.Text("reason"))
		return enveloped(adcp.Succeed(ctx, q.Service, call, said, adcp.OfCancel(before, done))), nil
	}
	if now, ok := q.Service.Get(v.ID); ok {
		v = now
	}
	a, body, err := q.answerRun(ctx, http.StatusAccepted, v)
	if err != nil {
		return nil, err
	}
	if done.State == runs.StateCancelled {
		a.Status = http.StatusOK
		if !body.State.Final() { // the cancel entry is stored; the record follows
			body.State, body.Position, body.CancelRequested = runs.StateCancelled, nil, true
		}
	}
	return a, nil
}

// mayHaveKey reports whether the request may have an idempotency key, in the
// header or in the body.
func (q *exchange) mayHaveKey() bool {
	return q.key != "" || bytes.Contains(q.body, []byte("idempotency"))
}

// refuse answers a write request with its error.
func (q *exchange) refuse(ctx context.Context, call adcp.Call, err error) (*reply, error) {
	if q.form == adcpType {
		a := enveloped(adcp.Fail(ctx, q.Service, call, err))
		if api.Is(err, api.Conflict) { // a mistake in the terms of AdCP
			a.Status = kinds[api.Conflict].status
		}
		return a, nil
	}
	var e *api.Error
	if !errors.As(err, &e) {
		return nil, err
	}
	return nil, q.nameKey(problemOf(e))
}

func listRuns(_ context.Context, q *exchange) (*reply, error) {
	list, err := q.list()
	if err != nil {
		return nil, err
	}
	if q.stream {
		return nil, q.followRuns(list)
	}
	page, err := q.Service.List(list)
	if err != nil {
		return nil, listed(err)
	}
	answer := &api.RunPage{Runs: []*api.Run{}, Next: page.Next}
	for _, v := range page.Runs {
		answer.Runs = append(answer.Runs, responder.Summarize(v))
	}
	return &reply{Status: http.StatusOK, Body: answer}, nil
}

// listed names the parameter of an error of a list.
func listed(err error) error {
	var e *api.Error
	if errors.As(err, &e) {
		return e.Rename(map[string]string{api.FieldLabels: "label", api.FieldKinds: "kind", api.FieldWords: "word"})
	}
	return err
}

func listSessions(ctx context.Context, q *exchange) (*reply, error) {
	list, err := q.page()
	if err != nil {
		return nil, err
	}
	page, err := q.Service.Sessions(ctx, list)
	if err != nil {
		return nil, listed(err)
	}
	return &reply{Status: http.StatusOK, Body: page}, nil
}

// list is the parsed query.
func (q *exchange) list() (l api.List, err error) {
	l, _ = q.page()
	for _, state := range q.query.words("state") {
		l.States = append(l.States, runs.State(state))
	}
	l.Words = q.query.Values["word"]
	l.Labels, l.Since, l.Until = q.query.Values["label"], q.query.time("since"), q.query.time("until")
	l.Unseen = q.query.word("unseen") == "true"
	l.Order = api.Order(q.query.word("order"))
	l.Recent = int(q.query.number("recent"))
	if l.Recent > 0 && !q.stream {
		q.query.refuse("recent", "is for a stream; a page has a limit")
	}
	return l, q.query.err
}

// page is what the queries of all lists of runs have.
func (q *exchange) page() (l api.List, err error) {
	for _, name := range []string{"agent", "workingDir", "threadId"} {
		if q.query.Has(name) && q.query.Get(name) == "" {
			q.query.refuse(name, "must not be blank")
		}
	}
	l.Agent, l.Dir, l.Thread = q.query.Get("agent"), q.query.Get("workingDir"), q.query.Get("threadId")
	if l.Agent != "" && runs.CheckAgent(l.Agent) != nil {
		q.query.refuse("agent", "must be a kind of agent: a-z first, then a-z, 0-9 and '_', at most 64")
	}
	l.Context, l.Limit = q.context(), int(q.query.number("limit"))
	if l.Cursor = q.query.Get("cursor"); l.Cursor == "" && q.query.Has("cursor") {
		q.query.refuse("cursor", wrongCursor)
	}
	return l, q.query.err
}

const wrongCursor = "must be next of an answer to the same filters"
