package api

import (
	"context"
	"time"

	"github.com/linesman/linesman/runs"
)

// Op is an operation: what callers can ask for, by a request of type Q that has an outcome of type A. A
// responder binds it to a function, which makes it a verb of the NATS service and, with a route, a part of
// the HTTP API; [Op.Call] asks for it.
type Op[Q, A any] Entry

// Entry describes an operation.
type Entry struct {
	Name  string // the verb: the last token of its subject
	About string // in one line

	Route string // over HTTP: method, and path, in which {id} is the run; "": only over NATS
	Scope string // that a token needs for the route: read, submit, raw or answer

	Within time.Duration // that a client waits for the outcome; 0: 15 s
}

// Caller sends a request of an operation, and decodes its outcome. An outcome with a method Formed that
// returns false is not of the known form. The error is an [*Error], or that of ctx.
type Caller interface {
	Call(ctx context.Context, op Entry, request, outcome any) error
}

// Call asks for the operation.
func (o Op[Q, A]) Call(ctx context.Context, c Caller, q Q) (outcome A, err error) {
	err = c.Call(ctx, Entry(o), q, &outcome)
	return outcome, err
}

// slow is how long a client waits for what starts programs, or visits all runs.
const slow = 5 * time.Minute

// The operations. A responder has all of them: see package responder.
var (
	OpStatus   = Op[RunRequest, *Run]{Name: "status", About: "State of a run, from memory"}
	OpDescribe = Op[RunRequest, *Run]{
		Name: "describe", About: "State of a run, with the details of its record", Route: "GET /v1/runs/{id}", Scope: "read",
	}
	OpOverview = Op[OverviewRequest, *Overview]{Name: "overview", About: "Runs that work, that wait and that ended last"}
	OpResolve  = Op[ResolveRequest, Resolved]{Name: "resolve", About: "Id of the run that a reference names"}
	OpSeen     = Op[RunRequest, Seen]{
		Name: "seen", About: "Mark a run that has ended as opened by its owner", Route: "PUT /v1/runs/{id}/seen",
		Scope: "read",
	}
	OpList = Op[List, RunPage]{Name: "list", About: "Page of runs, the newest first", Route: "GET /v1/runs", Scope: "read"}

	OpSessions = Op[List, Sessions]{
		Name: "sessions", About: "Threads that can be continued, the newest first", Route: "GET /v1/sessions", Scope: "read",
	}

	OpSubmit = Op[Submission, Submitted]{Name: "submit", About: "Queue a task", Route: "POST /v1/runs",
		Scope: "submit"}
	OpSubmitCloud = Op[CloudSubmission, Submitted]{
		Name: "submit_cloud", About: "Submit a task to Codex Cloud", Within: slow,
	}
	OpCancel = Op[Cancel, Cancelled]{
		Name: "cancel", About: "End a run", Route: "POST /v1/runs/{id}/cancel", Scope: "submit",
	}
	OpWait = Op[WaitRequest, *Run]{
		Name: "wait", About: "Wait for the end of a run", Route: "GET /v1/runs/{id}/wait", Scope: "read",
	}
	OpResults = Op[ResultsRequest, *Result]{Name: "results", About: "What came of a run"}
	OpEvents  = Op[EventsRequest, EventPage]{
		Name: "events", About: "Page of the events of a run, or of all runs", Route: "GET /v1/events", Scope: "read",
	}
	OpDetail = Op[DetailRequest, DetailPage]{
		Name: "detail", About: "Page of what the events of a run omit", Route: "GET /v1/runs/{id}/detail", Scope: "raw",
	}
	OpOutput = Op[OutputRequest, OutputPart]{
		Name: "output", About: "Part of what the agent of a run printed", Route: "GET /v1/runs/{id}/output", Scope: "raw",
	}
	OpDiff = Op[RunRequest, *Diff]{
		Name: "diff", About: "What a run changed in its directory", Route: "GET /v1/runs/{id}/diff", Scope: "raw",
	}
	OpWaiting = Op[QuestionsRequest, Questions]{
		Name: "waiting", About: "Questions that wait for an answer", Route: "GET /v1/questions", Scope: "answer",
	}
	OpRequest = Op[RequestRequest, Request]{
		Name: "request", About: "The whole request of an open question", Scope: "answer",
		Route: "GET /v1/runs/{id}/questions/{question}/request",
	}
	OpAnswer = Op[AnswerRequest, Answered]{
		Name: "answer", About: "Answer a question", Route: "POST /v1/runs/{id}/questions/{question}/answer",
		Scope: "answer",
	}
	OpAsk = Op[AskRequest, Submitted]{
		Name: "ask", About: "Ask a question that is answered from outside, as the file bridge does",
	}
	OpAnswerLate = Op[LateAnswer, Answered]{
		Name: "answer_late", About: "Store the answer that the asking program has, also after its time",
	}
	OpExpire = Op[RunRequest, Nothing]{Name: "expire", About: "End a question from outside whose time is over"}
	OpReply  = Op[ReplyRequest, Reply]{Name: "reply", About: "Whole reply of a run that has ended, in pieces"}

	OpSend = Op[SendRequest, Sent]{
		Name: "send", About: "Send a message to a live run", Route: "POST /v1/runs/{id}/messages", Scope: "submit",
	}
	OpMessages = Op[RunRequest, Messages]{
		Name: "messages", About: "Messages that wait", Route: "GET /v1/runs/{id}/messages", Scope: "raw",
	}
	OpEdit = Op[SendRequest, Sent]{
		Name: "edit", About: "Change a message that waits", Route: "PATCH /v1/runs/{id}/messages/{message}", Scope: "submit",
	}
	OpUnsend = Op[MessageRequest, Sent]{
		Name: "unsend", About: "Take back a message that waits", Route: "DELETE /v1/runs/{id}/messages/{message}",
		Scope: "submit",
	}
	OpRelease = Op[RunRequest, Sent]{
		Name: "release", About: "Send what is held", Route: "POST /v1/runs/{id}/messages/release", Scope: "submit",
	}
	OpStop = Op[TurnRequest, Sent]{
		Name: "stop", About: "Cancel the turn of a live run", Route: "POST /v1/runs/{id}/turn/cancel", Scope: "submit",
	}
	OpSet = Op[SetRequest, Sent]{
		Name: "set", About: "Change mode and model of a live run", Route: "PATCH /v1/runs/{id}/options", Scope: "submit",
	}
	OpEnd = Op[RunRequest, Sent]{
		Name: "end", About: "End a live run after its turn", Route: "POST /v1/runs/{id}/end", Scope: "submit",
	}
	OpWorkers = Op[Nothing, Workers]{
		Name: "workers", About: "Workers that take tasks", Route: "GET /v1/workers", Scope: "read",
	}
	OpEnvironments = Op[Nothing, Environments]{
		Name: "environments", About: "Environments of Codex Cloud that a local file names",
	}
	OpForget = Op[RunRequest, runs.Forgotten]{
		Name: "forget", About: "Erase a run that has ended; only a responder of linesman up can", Within: time.Minute,
	}
	OpTools   = Op[ToolsRequest, Tools]{Name: "tools", About: "Tools for clients of MCP"}
	OpCleanup = Op[CleanupRequest, CleanedUp]{Name: "cleanup", About: "End stuck runs and remove old ones", Within: slow}
)

// Formed reports whether a run has what every run has.
func (r *Run) Formed() bool { return r != nil && r.ID != "" }

// Formed reports whether there is an overview.
func (o *Overview) Formed() bool { return o != nil }

// Formed reports whether a run is named.
func (r Resolved) Formed() bool { return runs.CheckID(r.Run) == nil }

// Formed reports whether there is a diff, or the reason why there is none.
func (d *Diff) Formed() bool { return d != nil }

// Formed reports whether a result has its run.
func (r *Result) Formed() bool { return r != nil && r.Run.Formed() }
