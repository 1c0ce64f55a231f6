package top

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
)

// server answers as a responder does, from memory, and counts the bytes of its answers.
type server struct {
	runs     map[string]*api.Run
	lists    map[string][]*api.Run // by their names
	requests int
	bytes    int
	err      error
	lost     int // how many of the next orders get no answer, and are carried out
	seen     []string

	cancelled []string
	asked     []api.Question
	answers   []api.AnswerRequest
	ordered   []string // verbs with their requests
	keys      []string // of messages
	submitted []api.Submission
}

func (s *server) Call(_ context.Context, op api.Entry, request, outcome any) error {
	if q, is := request.(api.SendRequest); is {
		s.keys = append(s.keys, q.Key)
		q.Key = "" // another one in each test
		request = q
	}
	s.ordered = append(s.ordered, fmt.Sprintf("%s %+v", op.Name, request))
	switch outcome := outcome.(type) {
	case *api.Sent:
		*outcome = api.Sent{Run: askingRun, State: runs.StateWorking, Message: "m1", Turn: 3}
	case *api.Submitted:
		*outcome = api.Submitted{Run: "T-local-0copy0000000001"}
		s.submitted = append(s.submitted, request.(api.Submission))
	}
	if s.lost > 0 {
		s.lost--
		return &api.Error{Code: api.Unavailable, Retryable: true, Err: context.DeadlineExceeded}
	}
	return s.err
}

func (s *server) Questions(_ context.Context, q api.QuestionsRequest) (api.Questions, error) {
	all := slices.DeleteFunc(slices.Clone(s.asked), func(one api.Question) bool {
		return q.Request != "" && q.Request != one.Run
	})
	return answered(s, api.Questions{Requests: all})
}

func (s *server) Answer(_ context.Context, q api.AnswerRequest) (api.Answered, error) {
	s.answers = append(s.answers, q)
	return answered(s, api.Answered{
		Run: q.Request, Question: q.Question, Option: q.Option, Outcome: "allow", Delivered: true,
	})
}

func newServer(n int) *server {
	s := &server{runs: map[string]*api.Run{}, lists: map[string][]*api.Run{}}
	for i := range n {
		s.put(oneRun(fmt.Sprintf("T-local-%015d", i), runs.StateCompleted, func(r *api.Run) {
			r.QueuedAt, r.StartedAt, r.EndedAt = at(-100_000+i), at(-100_000+i), at(-100_000+i+3)
			r.Model, r.Reason, r.Labels = "gpt-5-codex", "", runs.LabelsOf(map[string]string{"ticket": strconv.Itoa(i)})
		}))
	}
	return s
}

func (s *server) put(run *api.Run) {
	s.runs[run.ID] = run
	clear(s.lists)
}

func (s *server) remove(id string) {
	delete(s.runs, id)
	clear(s.lists)
}

func answered[T any](s *server, a T) (T, error) {
	b, err := json.Marshal(a)
	s.requests, s.bytes = s.requests+1, s.bytes+len(b)
	return a, cmp.Or(s.err, err)
}

// sorted returns the runs that a condition selects, the newest first. Name is that of the list.
func (s *server) sorted(name string, by func(*api.Run) runs.Time, is func(*api.Run) bool) (all []*api.Run) {
	if all, ok := s.lists[name]; ok {
		return all
	}
	defer func() { s.lists[name] = all }()
	for _, run := range s.runs {
		if is(run) {
			all = append(all, run)
		}
	}
	slices.SortFunc(all, func(a, b *api.Run) int { return cmp.Or(cmp.Compare(by(b), by(a)), cmp.Compare(b.ID, a.ID)) })
	return all
}

const openOfOverview = 400 // runs that fit into a list of it

func (s *server) Overview(_ context.Context, q api.OverviewRequest) (*api.Overview, error) {
	local := func(r *api.Run, state bool) bool { return state && !isCloud(r) }
	working := s.sorted("working", changedAt, func(r *api.Run) bool { return local(r, r.State == runs.StateWorking) })
	queued := s.sorted("queued", changedAt, func(r *api.Run) bool { return local(r, r.State == runs.StateQueued) })
	ended := s.sorted("ended", changedAt, func(r *api.Run) bool { return local(r, r.State.Final()) })
	return answered(s, &api.Overview{
		Counts:  api.Counts{Working: len(working), Queued: len(queued), Ended: len(ended)},
		Working: working[:min(len(working), openOfOverview)], Queued: queued[:min(len(queued), openOfOverview)],
		Ended: ended[:min(len(ended), q.Limit)],
	})
}

func (s *server) List(_ context.Context, q api.List) (api.RunPage, error) {
	by := func(r *api.Run) runs.Time { return cmp.Or(r.QueuedAt, r.StartedAt) }
	if q.Order == api.ByChange {
		by = changedAt
	}
	is := func(r *api.Run) bool {
		text := strings.ToLower(fmt.Sprint(r.ID, r.Title, r.Dir, r.Agent, r.Model, r.Labels))
		return (len(q.States) == 0 || slices.Contains(q.States, r.State)) &&
			!slices.ContainsFunc(q.Words, func(word string) bool { return !strings.Contains(text, word) })
	}
	all := s.sorted(fmt.Sprint(q.Order, q.States, q.Words), by, is)
	from, _ := strconv.Atoi(q.Cursor)
	page := api.RunPage{Runs: all[min(from, len(all)):min(from+q.Limit, len(all))]}
	if from+q.Limit < len(all) {
		page.Next = strconv.Itoa(from + q.Limit)
	}
	return answered(s, page)
}

func (s *server) Detail(context.Context, api.DetailRequest) (api.DetailPage, error) {
	return answered(s, api.DetailPage{})
}

func (s *server) Events(context.Context, api.EventsRequest) (api.EventPage, error) {
	return answered(s, api.EventPage{})
}

func (s *server) Cancel(_ context.Context, q api.Cancel) (api.Cancelled, error) {
	s.cancelled = append(s.cancelled, q.Run)
	return answered(s, api.Cancelled{Run: q.Run})
}

func (s *server) Seen(_ context.Context, run string) error {
	s.seen = append(s.seen, run)
	return nil
}

// follower is a feed with the table that its updates make.
type follower struct {
	*feed
	table table
	clock time.Time
}

func follow(s *server) *follower {
	f := &follower{table: table{all: map[string]*api.Run{}}, clock: time.UnixMilli(noon)}
	f.feed = newFeed(s, func() time.Time { return f.clock })
	f.want.all = maxRuns
	return f
}

// look looks so many times, a second apart.
func (f *follower) look(n int) (u update) {
	for range n {
		f.clock = f.clock.Add(time.Second)
		u = f.next(context.Background())
		f.table.apply(u)
	}
	return u
}

// check compares the table with the server.
func (f *follower) check(t *testing.T, s *server, when string) {
	t.Helper()
	if len(f.table.all) != len(s.runs) {
		t.Errorf("%s: %d runs, want %d", when, len(f.table.all), len(s.runs))
	}
	for id, run := range s.runs {
		if f.table.all[id] != run {
			t.Errorf("%s: run %s is not as the server has it", when, id)
			return
		}
	}
}

// All runs are loaded once; then a look costs one small request, whatever the number of runs.
func TestLooksAtManyRunsAreCheap(t *testing.T) {
	const n = 10_000
	s := newServer(n)
	f := follow(s)
	for u := f.look(1); u.loading; u = f.look(1) {
	}
	f.check(t, s, "loaded")
	t.Logf("loaded %d runs: %d requests, %d bytes", n, s.requests, s.bytes)
	s.requests, s.bytes = 0, 0
	const seconds = 60
	f.look(seconds)
	t.Logf("idle for %d looks: %d requests, %d bytes each", seconds, s.requests, s.bytes/seconds)
	if s.requests > seconds+seconds/newestEvery || s.bytes/seconds > 12_000 {
		t.Errorf("%d requests and %d bytes for %d looks", s.requests, s.bytes, seconds)
	}
	f.check(t, s, "idle")
}

// TestGrowthOfTheList counts what the first looks at ten times the runs ask for: it is what is on the screen. The end
// of the list, a filter and an order ask for more.
func TestGrowthOfTheList(t *testing.T) {
	var bytes, requests []int
	for _, n := range []int{1_000, 10_000} {
		s := newServer(n)
		s.put(oneRun("T-local-0work0000000001", runs.StateWorking, nil))
		m := stage(100, 24, false)
		m.feed = newFeed(s, func() time.Time { return time.UnixMilli(noon) })
		look := func() {
			m.feed.want = m.want
			m.update(m.feed.next(t.Context()))
		}
		for range 10 {
			look()
		}
		bytes, requests = append(bytes, s.bytes), append(requests, s.requests)
		if have := len(m.table.all); have != pageSize || !strings.Contains(screen(m), "99+ ended") {
			t.Errorf("of %d runs %d are here:\n%s", n, have, screen(m))
		}
		press(m, "G") // the end
		for range 3 {
			look()
		}
		if have := len(m.table.all); have != 2*pageSize {
			t.Errorf("at the end of the list %d runs are here", have)
		}
		before := s.requests
		m.filter("label:ticket=77 agent:codex")
		m.more()
		for range 4 {
			look()
		}
		fit := min(n/90, pageSize) // 77, 770 to 779, and so on
		if m.full != (fit < n/90) || len(m.table.shown) != fit || s.requests > before+5 {
			t.Errorf("%d of %d runs are found by %d requests, full: %v", len(m.table.shown), n, s.requests-before, m.full)
		}
		m.filter("state:working")
		m.more()
		for range 5 {
			look()
		}
		if m.more() || m.full || len(m.table.shown) != 1 || len(m.table.all) > 2*pageSize+n/90+1 {
			t.Errorf("%d open runs of %d that are here", len(m.table.shown), len(m.table.all))
		}
		m.filter("")
		m.table.order = byTokens
		for m.more() || m.loading {
			look()
		}
		if have := len(m.table.all); have != n+1 || m.full {
			t.Errorf("in another order %d runs are here", have)
		}
	}
	if bytes[1] > bytes[0]+bytes[0]/10 || requests[1] > requests[0] {
		t.Errorf("%d bytes, %d requests; of ten times the runs %d, %d", bytes[0], requests[0], bytes[1], requests[1])
	}
}

func TestChangesArrive(t *testing.T) {
	s := newServer(250)
	f := follow(s)
	f.look(3)
	f.check(t, s, "loaded")
	working := oneRun("T-local-new000000000001", runs.StateWorking, func(r *api.Run) { r.StartedAt = at(1) })
	s.put(working)
	f.look(1)
	f.check(t, s, "a run began")
	for i := range 300 { // more than an overview lists
		s.put(oneRun(fmt.Sprintf("T-local-burst%010d", i), runs.StateFailed, func(r *api.Run) { r.EndedAt = at(2 + i) }))
	}
	s.put(oneRun(working.ID, runs.StateCompleted, func(r *api.Run) { r.StartedAt, r.EndedAt = at(1), at(1) }))
	f.look(1)
	f.check(t, s, "many ended at once")
	s.put(oneRun("T-cloud-1", runs.StateWorking, func(r *api.Run) { r.StartedAt = at(400) }))
	f.look(newestEvery)
	f.check(t, s, "a run of the cloud began")
	s.remove("T-local-burst0000000007")
	f.look(patience + int(reloadAfter/time.Second) + 3)
	f.check(t, s, "one was removed")
}

// More open runs than an overview lists are known, too.
func TestManyOpenRunsAreKnown(t *testing.T) {
	s := newServer(10)
	for i := range openOfOverview + 250 {
		s.put(oneRun(fmt.Sprintf("T-local-work%011d", i), runs.StateWorking, nil))
	}
	f := follow(s)
	f.look(5)
	f.check(t, s, "loaded")
	for id, run := range s.runs {
		if run.State == runs.StateWorking {
			s.put(oneRun(id, runs.StateWorking, func(r *api.Run) { r.Tokens.Output = 7 }))
		}
	}
	f.look(openEvery)
	f.check(t, s, "all have news")
}

// Of more runs than are kept the newest are there, and memory stays bounded.
func TestRunsAreBounded(t *testing.T) {
	const most = 1000
	s := newServer(most + 700)
	f := follow(s)
	f.most = most
	var u update
	for u = f.look(1); u.loading; u = f.look(1) {
	}
	if n := len(f.table.all); !u.full || n < most || n > most+pageSize || len(f.runs) != n {
		t.Errorf("%d runs are kept, full: %v", n, u.full)
	}
	s.requests = 0
	if f.look(20); s.requests > 25 {
		t.Errorf("%d requests for 20 looks", s.requests)
	}
}

func TestFailedLookIsRepeated(t *testing.T) {
	s := newServer(5)
	s.err = errors.New("away")
	f := follow(s)
	if u := f.look(1); u.err == nil {
		t.Error("no error")
	}
	s.err = nil
	f.look(1)
	f.check(t, s, "back")
}

// without answers an overview, and no list.
type without struct {
	*server
	lists bool
}

func (s *without) List(ctx context.Context, q api.List) (api.RunPage, error) {
	if !s.lists {
		return api.RunPage{}, errors.New("away")
	}
	return s.server.List(ctx, q)
}

// What a look found before it failed is shown after the next one.
func TestLookThatFailsHalfwayLosesNothing(t *testing.T) {
	s := &without{server: newServer(5), lists: true}
	m := stage(100, 24, false)
	m.feed = newFeed(s, func() time.Time { return time.UnixMilli(noon) })
	look := func() { m.Update(updateMsg(m.feed.next(t.Context()))) }
	s.put(oneRun("T-local-0work0000000001", runs.StateWorking, nil))
	for m.feed.looks < newestEvery-1 {
		look()
	}
	s.put(oneRun("T-local-0work0000000001", runs.StateCompleted, nil))
	s.lists = false
	look()
	if m.failing == nil {
		t.Fatal("the look did not fail")
	}
	s.lists = true
	look()
	if run := m.table.all["T-local-0work0000000001"]; run.State != runs.StateCompleted {
		t.Errorf("the run is %s", run.State)
	}
}

// Without the right to list runs there is nothing to show; whatever else is wrong is shown.
func TestRightsThatAreRequired(t *testing.T) {
	s := newServer(1)
	s.err = &api.Error{Code: api.Unavailable, Err: client.ErrDenied}
	if err := allowed(t.Context(), s); err == nil || !strings.Contains(err.Error(), "linesman events --follow") {
		t.Errorf("denied: %v", err)
	}
	s.err = &api.Error{Code: api.Unavailable, Err: client.ErrNoResponder}
	if err := allowed(t.Context(), s); err != nil {
		t.Errorf("no responder: %v", err)
	}
}
