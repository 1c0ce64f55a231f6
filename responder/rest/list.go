package rest

import (
	"cmp"
	"encoding/base64"
	"hash/fnv"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// RunList is a page of runs, the newest first.
type RunList struct {
	Runs []*Run `json:"runs"`
	Next string `json:"next,omitempty"` // cursor of the next page; "": there is none
}

// place is a run's place in the list, which stays while the run goes on: by
// when it was queued or, without a queue, began, and among those of one
// millisecond by its id.
type place struct {
	at int64
	id string
}

func placeOf(r runs.Row) place { return place{cmp.Or(r.QueuedAt, r.StartedAt), r.ID} }

// newer orders places from the newest on.
func newer(a, b place) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.id, a.id)) }

func listRuns(q *request) (*Answer, error) {
	keep, err := q.filter()
	if err != nil {
		return nil, err
	}
	limit, err := q.query.number("limit", 1, MaxPage, 20)
	if err != nil {
		return nil, err
	}
	after, err := q.cursor()
	if err != nil {
		return nil, err
	}
	// The newest ones behind the cursor, and one more, which says that there
	// is a next page. All rows are looked at, none is kept by the snapshot.
	var page []place
	q.Responder.Snapshot(0, func(r runs.Row) bool {
		p := placeOf(r)
		if !keep(r) || after != nil && newer(*after, p) >= 0 {
			return false
		}
		at, _ := slices.BinarySearchFunc(page, p, newer)
		if at > int(limit) {
			return false
		}
		if page = slices.Insert(page, at, p); len(page) > int(limit)+1 {
			page = page[:limit+1]
		}
		return false
	})
	answer := &RunList{Runs: []*Run{}}
	if len(page) > int(limit) {
		page = page[:limit]
		answer.Next = q.encodeCursor(page[limit-1])
	}
	for _, p := range page {
		if v, ok := q.Responder.Get(p.id); ok { // else it was removed meanwhile
			answer.Runs = append(answer.Runs, summarize(v))
		}
	}
	return &Answer{Status: http.StatusOK, Body: answer}, nil
}

// filter is what the query asks of a run.
func (q *request) filter() (func(runs.Row) bool, error) {
	word, err := q.query.word("state", string(runs.StateQueued), string(runs.StateWorking), string(runs.StateInputRequired), string(runs.StateCompleted), string(runs.StateFailed),
		string(runs.StateCancelled), string(runs.StateTimeout))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"agent", "workingDir", "threadId"} {
		if q.query.values.Has(name) && q.query.text(name) == "" {
			return nil, invalid(name, "must not be blank")
		}
	}
	agent, dir, thread := q.query.text("agent"), q.query.text("workingDir"), q.query.text("threadId")
	if agent != "" && runs.CheckAgent(agent) != nil {
		return nil, invalid("agent", "must be a kind of agent: a-z first, then a-z, 0-9 and '_', at most 64")
	}
	if dir != "" {
		dir = path.Clean(dir)
	}
	return func(r runs.Row) bool {
		return (word == "" || string(r.State) == word) && (agent == "" || r.Agent == agent) && (dir == "" || r.Dir != "" && path.Clean(r.Dir) == dir) &&
			(thread == "" || strings.EqualFold(r.Thread, thread))
	}, nil
}

// A cursor is the place of the last run of a page, and of which list: it
// fits no other filters.
func (q *request) encodeCursor(p place) string {
	text := q.listed() + " " + strconv.FormatInt(p.at, 10) + " " + p.id
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func (q *request) cursor() (*place, error) {
	if !q.query.values.Has("cursor") {
		return nil, nil
	}
	wrong := invalid("cursor", "must be next of an answer to the same filters")
	text, err := base64.RawURLEncoding.DecodeString(q.query.text("cursor"))
	if err != nil {
		return nil, wrong
	}
	part := strings.Split(string(text), " ")
	if len(part) != 3 || part[0] != q.listed() || runs.CheckID(part[2]) != nil {
		return nil, wrong
	}
	at, err := strconv.ParseInt(part[1], 10, 64)
	if err != nil {
		return nil, wrong
	}
	return &place{at, part[2]}, nil
}

// listed names the list that the query asks for.
func (q *request) listed() string {
	h := fnv.New64a()
	for _, name := range []string{"state", "agent", "workingDir", "threadId"} {
		text := q.query.text(name)
		_, _ = h.Write([]byte(strconv.Itoa(len(text)) + ":" + text)) // it never fails
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// WorkerList is the workers that take tasks.
type WorkerList struct {
	Workers []Worker `json:"workers"`
}

// Worker is one process of a worker.
type Worker struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Version  string   `json:"version,omitempty"`
	Queue    string   `json:"queue"`
	Slots    int      `json:"slots"`
	Busy     int      `json:"busy"`
	Agents   []string `json:"agents"`
	LastSeen string   `json:"lastSeenAt"`
}

func listWorkers(q *request) (*Answer, error) {
	answer := &WorkerList{Workers: []Worker{}}
	for _, w := range q.Responder.Workers() {
		answer.Workers = append(answer.Workers, workerOf(w))
	}
	return &Answer{Status: http.StatusOK, Body: answer}, nil
}

func workerOf(w responder.Worker) Worker {
	return Worker{w.ID, w.Name, w.Version, w.Queue, w.Slots, w.Busy, list(w.Agents), stamp(w.At.UnixMilli())}
}
