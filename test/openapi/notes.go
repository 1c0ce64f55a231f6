package openapi

import (
	"cmp"
	"reflect"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/responder/rest"
)

const about = "Runs of coding agents: begin them, follow them, end them. Every request shows a token with the scope " +
	"that its operation names."

// note is what the tables do not say of a route. A route without a note is that of an operation which answers
// with its outcome and a status 200.
type note struct {
	id      string            // default: that of the route
	summary string            // default: that of the operation
	about   string            // beyond the summary
	outcome reflect.Type      // default: that of the operation
	answers map[int]string    // statuses beyond the usual ones, or their meaning here; "": the usual one
	headers map[string]object // of answers below 300
	last    string            // Last-Event-ID of a stream

	request string // name of the body's schema
	body    []request.Param
	without []string // parameters of the tool that the path says
}

func (n note) resumed() string { return cmp.Or(n.last, "As `after`, and before it.") }

// meanings are the usual meanings of statuses.
var meanings = map[int]string{
	0:   "Any other error: 403 for a foreign Host or Origin, 405, and 500 where linesman itself failed.",
	200: "The outcome.",
	304: "Nothing has changed.",
	400: "Something is wrong with the request; `issues` has all of it.",
	401: "The token is missing or counts no more.",
	403: "The token lacks a scope; `detail` names it.",
	404: "There is no such run.",
	406: "Nothing of what `Accept` asks for can be given.",
	409: "The state of the run does not allow it, or the idempotency key came with another request. `retryable`, with " +
		"`Retry-After`: the same request is still being carried out.",
	413: "The body is over 1 MiB.",
	415: "The body is not application/json.",
	501: "The kind of agent cannot do that.",
	503: "NATS is away, the run table is not read yet, or a bound is reached: again after `Retry-After` seconds.",
}

const tooLong = "The body is over 8 MiB." // of a task

var notes = map[string]note{
	"describe": {
		summary: "This document",
		answers: map[int]string{200: "The document. It can be kept for five minutes.", 304: meanings[304]},
		headers: header("ETag", "string", "Another one as soon as anything in the document differs."),
	},
	"listRuns": {
		about: "Runs are in the order in which they were queued or, without a queue, began. The next page begins after " +
			"the last run of a page, even if new runs were added since. A run must match all filters. With `Accept: " +
			"text/event-stream` the answer is a stream: first all matching runs, each as the `RunSummary` of a " +
			"server-sent event `run`, then an event `synced` with `{\"resumed\": false}` and, if older runs were left " +
			"out, `next`, and then each run when it changes, or an event `gone` with `{\"run\": id}` for a run that was " +
			"removed or no longer matches.",
		answers: map[int]string{200: "A page of runs, without the details of each."},
		last: "For a stream: the last `id` that the client received. It resumes after it, and `synced` has `resumed` " +
			"true; with an id that is not known any more it begins again.",
	},
	"listSessions": {
		about: "A thread has `refused` if no task can continue it now: an open run has it, or it was used in the last minute, " +
			"not by a run.",
	},
	"submitRun": {
		outcome: run, request: "RunRequest", body: request.TaskParams,
		answers: map[int]string{202: "The task is queued.", 404: "There is no last thread.", 413: tooLong, 501: ""},
		headers: header("Location", "string", "Path of the run."),
	},
	"getRun": {
		answers: map[int]string{200: "The run.", 304: meanings[304]},
		headers: header("ETag", "string", "Another one as soon as anything in the answer differs."),
	},
	"getEvents": {
		summary: "The events of a run", outcome: reflect.TypeFor[api.EventPage](),
		about: "A page of those that are stored, or with `Accept: text/event-stream` all there are and then those that " +
			"come, until the completion. Each server-sent event has the sequence as its `id`, the kind as its `event` and " +
			"the envelope as its `data`. What has aged out of the stream is not there.",
		answers: map[int]string{200: "Events.", 204: "The completion lies at or before `after`: no event will come any " +
			"more. Only for streams.", 409: ""},
	},
	"getDetail": {
		about: "The events of a run with what they omit: commands and their output, changed files, plans, prompts, the " +
			"end of stderr. Derived from the raw log on demand. A page, or with `Accept: text/event-stream` all there is " +
			"and then what comes, until the completion: each server-sent event has the position as its `id`, the kind as " +
			"its `event` and the item as its `data`. What has aged out of the raw log is not there.",
		answers: map[int]string{
			0:   "Any other error: 405, 500 where linesman itself failed, and 501 where this responder derives no details.",
			200: "Items.",
			204: "The run has ended, and there is nothing behind the position, or nothing is left. Only for streams.",
			409: "The raw log ends before the position: it was recreated. Begin again without one.",
		},
	},
	"getOutput": {
		about: "Bytes as the agent wrote them, from an offset on, without a hole. Where the raw log does not hold the " +
			"first of them the answer begins with the next one that it holds.",
		answers: map[int]string{200: "The bytes; none at or behind the end of what is known."},
		headers: map[string]object{
			"X-Linesman-Offset": value("integer", "Position of the first byte of the answer."),
			"X-Linesman-Size":   value("integer", "Bytes of the whole stream so far."),
		},
	},
	"getDiff": {
		about: "The difference between the directory before the agent started and after it ended, if the directory is in " +
			"a git work tree. Changes by others at that time are included. A run without a diff has the reason in the " +
			"answer; as `text/x-diff` that is a 409.",
		answers: map[int]string{
			200: "The diff, or the reason why there is none.",
			409: "The run has not ended; or, as `text/x-diff`, there is no diff: `detail` says why.",
		},
	},
	"waitForRun": {
		about:   "Answers once the run has ended or the time is over: `state` says which.",
		answers: map[int]string{200: "The run, whether it has ended or not."},
	},
	"seen": {
		id: "markSeen",
		about: "Lists no longer show the run as `unseen`. Repeating it changes nothing. It needs the scope read only, so " +
			"that a page that can only read can call it: it changes neither the run nor what others may do.",
		answers: map[int]string{200: "It is marked.", 409: "The run has not ended."},
	},
	"cancelRun": {
		outcome: run, request: "CancelRequest", body: request.CancelParams, without: []string{"task_id"},
		answers: map[int]string{
			200: "The run is cancelled.", 202: "Its agent is being ended.", 501: "",
		},
	},
	"resumeRun": {
		summary: "Queue a new turn on the thread of a run",
		about:   "The new run is of the same agent, and works in the directory of the newest run of the thread.",
		outcome: run, request: "ResumeRequest", body: request.ContinueParams, without: []string{"threadId", "agent"},
		answers: map[int]string{202: "The task is queued, as a run of its own.", 413: tooLong, 501: ""},
		headers: header("Location", "string", "Path of the new run."),
	},
	"listEvents": {
		about: "A page of the stored events in the order of the stream, or with `Accept: text/event-stream` the stored " +
			"ones and then new ones as they come. Each server-sent event has the sequence as its `id`, the kind as its " +
			"`event` and an `Event` as its `data`. Filters are joined by and; runs that start later are included. A page " +
			"reads at most 100,000 stored events, so it may be empty although more follow: continue with `next` until " +
			"`next` is the `after` of the request.",
		answers: map[int]string{
			200: "Events.",
			204: "With `run`: its completion lies at or before `after`: no event will come. Only for streams.",
			404: "There is no run of the id in `run`.", 409: "",
		},
	},
	"listQuestions": {
		about: "Open questions, the oldest first: of live runs, and of file bridges. Their texts are not redacted. `unlisted` " +
			"counts those that do not fit.",
		answers: map[int]string{200: "The questions."},
	},
	"getRequest": {
		about:   "A piece of at most 128 KiB. The pieces together are the JSON whose SHA-256 is `digest`.",
		answers: map[int]string{200: "A piece.", 409: "The question is not open."},
	},
	"answerQuestion": {
		about: "The first answer counts, however many there are: a repeated one is no error, another one is a 409 that " +
			"says who decided. It holds for this call alone, unless the option says otherwise. A question of a file bridge " +
			"takes " +
			"`text` or `error`.",
		request: "Answer", body: rest.AnswerParams,
		answers: map[int]string{
			200: "The decision. `delivered` says that the agent has it.",
			409: "The question was answered otherwise, or the agent does not wait for it any more.",
		},
	},
	"sendMessage": {request: "SendRequest", body: rest.MessageParams},
	"editMessage": {
		request: "EditRequest", body: rest.EditParams,
		answers: map[int]string{409: "The message does not wait any more."},
	},
	"unsendMessage": {answers: map[int]string{409: "The message does not wait any more."}},
	"setOptions": {
		request: "SetRequest", body: rest.OptionParams,
		answers: map[int]string{409: "The mode may do more than that of the task, or the agent has none that can be set."},
	},
	"cancelTurn": {request: "TurnRequest", body: rest.TurnParams},
	"workers":    {id: "listWorkers", answers: map[int]string{200: "Those that were heard of lately."}},
}

func header(name, kind, about string) map[string]object {
	return map[string]object{name: value(kind, about)}
}

func value(kind, about string) object {
	schema := object{"type": kind}
	if kind == "integer" {
		schema["minimum"] = 0
	}
	return object{"required": true, "description": about, "schema": schema}
}

// parameters are those of several operations.
var parameters = object{
	"idempotencyKey": parameter("Idempotency-Key", "header", "As `idempotencyKey` in the body: the same request with "+
		"the same key is carried out once. May be in double quotes. Where the body has a key too, both must be the same.",
		object{"type": "string", "pattern": `^"?[A-Za-z0-9_.:-]{16,255}"?$`}),
	"question": object{
		"name": "question", "in": "path", "required": true, "description": "Id of the question.",
		"schema": object{"type": "string", "pattern": "^q[1-9][0-9]*$"},
	},
	"message": object{
		"name": "message", "in": "path", "required": true, "description": "Id of the message.",
		"schema": object{"type": "string"},
	},
	"id": object{
		"name": "id", "in": "path", "required": true, "description": "Id of the run.",
		"schema": object{"type": "string", "pattern": runID},
	},
}
