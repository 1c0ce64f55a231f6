package rest

import (
	"net/http"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

func listRuns(q *exchange) (*Answer, error) {
	list, err := q.list()
	if err != nil {
		return nil, err
	}
	page, err := q.Service.List(list)
	if err != nil {
		return nil, wrongCursor() // everything else was valid
	}
	answer := &api.RunPage{Runs: []*api.Run{}, Next: page.Next}
	for _, v := range page.Runs {
		answer.Runs = append(answer.Runs, responder.Summarize(v))
	}
	return &Answer{Status: http.StatusOK, Body: answer}, nil
}

// list is the parsed query.
func (q *exchange) list() (l api.List, err error) {
	state, err := q.query.word("state", string(runs.StateQueued), string(runs.StateWorking),
		string(runs.StateInputRequired), string(runs.StateCompleted), string(runs.StateFailed),
		string(runs.StateCancelled), string(runs.StateTimeout))
	if err != nil {
		return l, err
	}
	if state != "" {
		l.States = []runs.State{runs.State(state)}
	}
	for _, name := range []string{"agent", "workingDir", "threadId"} {
		if q.query.values.Has(name) && q.query.text(name) == "" {
			return l, invalid(name, "must not be blank")
		}
	}
	l.Agent, l.Dir, l.Thread = q.query.text("agent"), q.query.text("workingDir"), q.query.text("threadId")
	if l.Agent != "" && runs.CheckAgent(l.Agent) != nil {
		return l, invalid("agent", "must be a kind of agent: a-z first, then a-z, 0-9 and '_', at most 64")
	}
	limit, err := q.query.number("limit", 1, maxPage, responder.DefaultPage)
	if err != nil {
		return l, err
	}
	l.Limit = int(limit)
	if l.Cursor = q.query.text("cursor"); l.Cursor == "" && q.query.values.Has("cursor") {
		return l, wrongCursor()
	}
	return l, nil
}

func wrongCursor() *Problem {
	return invalid("cursor", "must be next of an answer to the same filters")
}

// WorkerList lists the workers that take tasks.
type WorkerList struct {
	Workers []api.Worker `json:"workers"`
}

func listWorkers(q *exchange) (*Answer, error) {
	return &Answer{Status: http.StatusOK, Body: &WorkerList{Workers: q.Service.Workers()}}, nil
}
