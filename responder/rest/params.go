package rest

import (
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/runs"
)

// The parameters of queries, which the handlers read and the document describes.
var (
	listParams = []request.Param{
		request.Names("state", 0, "Only runs in this state. It may be repeated: then any of them.",
			string(runs.StateQueued), string(runs.StateWorking), string(runs.StateInputRequired),
			string(runs.StateCompleted), string(runs.StateFailed), string(runs.StateCancelled), string(runs.StateTimeout)),
		agentParam("runs"),
		request.Text("workingDir", 0, "Only runs that work in this directory."),
		request.Text("threadId", 0, "Only runs of this thread."),
		labelParam("runs"),
		request.Names("word", 16, "Only runs with this text in their id, title, directory, agent, thread, worker, model, "+
			"labels, state, activity, answer or cause, without regard to capitals. It may be repeated: then all of them."),
		timeParam("since", "Only runs that entered their state at this time or later."),
		timeParam("until", "Only runs that entered their state before this time."),
		request.Choice("unseen", "false",
			"Only runs that are unseen: they ended in the last 7 days, and their owner has not opened them.", "true", "false"),
		request.Integer("limit", 1, maxPage, responder.DefaultPage, "Maximum number of runs of a page. Not for a stream."),
		request.Text("cursor", 0, "`next` of the page before, with the same filters. Not for a stream."),
		request.Choice("order", "", "`changed`: by when runs entered their states, so a run that changes moves to the "+
			"front. Not for a stream.", string(api.ByChange)),
		request.Integer("recent", 1, maxRecent, 0, "Only for a stream: of the runs that have ended it begins with so "+
			"many, the newest. `next` of `synced` is then the `cursor` of the pages with the others, with `order=changed` "+
			"and the same filters."),
	}
	sessionParams = []request.Param{
		agentParam("sessions"), request.Text("workingDir", 0, "Only sessions in this directory."),
		request.Integer("limit", 1, maxPage, responder.DefaultPage, "Maximum number of sessions of a page."),
		request.Text("cursor", 0, "`next` of the page before, with the same filters."),
	}
	eventParams = []request.Param{
		request.Integer("after", 0, maxSequence, 0, "Begin after this sequence. Default: 0."),
		request.Integer("limit", 1, maxEvents, 100,
			"Maximum number of events of a page; fewer if they take more than 4 MiB. Not for a stream."),
	}
	allEventParams = append([]request.Param{
		request.Text("run", 0, "Only events of this run."), agentParam("events"),
		request.Names("kind", 0, "Only events of this kind. It may be repeated: then any of them.", api.EventKinds...),
		labelParam("events of runs"),
	}, eventParams...)
	detailParams = []request.Param{
		request.Text("after", 64, "Begin after this position: `pos` of an item, or `next` of a page."),
		request.Integer("last", 1, api.MaxDetailItems, 0, "Without `after`: begin with so many of the newest items."),
		request.Integer("limit", 1, api.MaxDetailItems, 100,
			"Maximum number of items of a page; fewer if they take more than 4 MiB. Not for a stream."),
	}
	outputParams = []request.Param{
		request.Choice("stream", "stdout", "Which of the two streams.", "stdout", "stderr"),
		request.Integer("offset", 0, maxOffset, 0, "Position of the first byte. Default: 0."),
		request.Integer("limit", 1, maxOutput, responder.DefaultOutput, "Maximum number of bytes of the answer."),
	}
	questionParams = []request.Param{request.Text("run", 0, "Only questions of this run.")}
	requestParams  = []request.Param{
		request.Integer("offset", 0, maxOffset, 0, "Position of the first byte: `next` of the piece before. Default: 0."),
	}
	waitParams = []request.Param{
		request.Integer("timeout", 0, int64(maxWait/time.Second), 60, "How long to wait, in seconds."),
		{Name: "until", Words: []string{api.UntilEnd, api.UntilTurn, api.UntilInput}, Default: api.UntilEnd,
			About: "`end` of the run; `turn`: no turn of a live run runs, and no message waits that is not held; `input`: the " +
				"same, or a question is open."},
		request.Integer("after", 1, 1<<53, 0, "`entry` of a message that was sent: an earlier state does not count."),
	}
)

func agentParam(of string) request.Param {
	p := request.Text("agent", 64, "Only "+of+" of this agent: its kind or its short name.")
	p.Form = agentForm
	return p
}

var agentForm = lazy.Regexp(`^[a-z][a-z0-9_]*$`)

func labelParam(of string) request.Param {
	return request.Names("label", 16, "Only "+of+" with this label, `KEY=VALUE`. It may be repeated: then all of them.")
}

func timeParam(name, about string) request.Param {
	p := request.Text(name, 0, about)
	p.Format = "date-time"
	return p
}
