package top

import (
	"context"
	"reflect"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Service is what this package needs of a client.
type Service interface {
	api.Caller
	Overview(ctx context.Context, q api.OverviewRequest) (*api.Overview, error)
	List(ctx context.Context, q api.List) (api.RunPage, error)
	Detail(ctx context.Context, q api.DetailRequest) (api.DetailPage, error)
	Events(ctx context.Context, q api.EventsRequest) (api.EventPage, error)
	Cancel(ctx context.Context, q api.Cancel) (api.Cancelled, error)
	Seen(ctx context.Context, run string) error
	Questions(ctx context.Context, q api.QuestionsRequest) (api.Questions, error)
	Answer(ctx context.Context, q api.AnswerRequest) (api.Answered, error)
}

// Limits of a [feed].
const (
	maxRuns     = 20_000           // runs that are kept; of more of them the newest
	pageSize    = 100              // runs of a page: the largest one that responders allow
	fewChanges  = 20               // runs of a page of changes, if no change is expected
	pagesAtOnce = 5                // pages that are loaded between two looks at the open runs
	maxPages    = 20               // pages of changed runs that are read at once
	newestEvery = 10               // looks between two pages of the newest changes
	openEvery   = 5                // looks between two pages of open runs that an overview omits
	patience    = 3                // looks with other counts than ours before everything is loaded again
	reloadAfter = 10 * time.Second // least time between two loads
	reloadEvery = 10 * time.Minute // the list is loaded again, for what changes without a trace in overviews
	askTime     = 5 * time.Second  // of one request
)

// update is what a look at the runs has found.
type update struct {
	at      time.Time
	runs    []*api.Run // new ones, and changed ones
	gone    []string   // ids of removed ones
	loading bool       // runs that are wanted were not read yet
	full    bool       // there are older runs, of those that the filter selects, than those that are wanted
	older   bool       // there are any older ones
	want    wanted     // what was looked for
	err     error      // nothing else is set but at and want
}

// wanted is what the screen shows beside the open runs.
type wanted struct {
	all    int    // of all runs so many, the newest
	filter string // as it is typed
	fit    int    // of those that it may select so many, the newest
}

// load is the reading of a list of runs, page by page, as far as it is wanted.
type load struct {
	q      api.List
	cursor string // of the next page; "": it has ended, or has not begun
	rest   string // of the page behind what was wanted
	got    int    // runs
}

// knownRun is what a feed remembers of a run.
type knownRun struct {
	run  *api.Run
	load int // number of the load that found it
}

// feed reads the runs: the open ones, of the others those that are wanted, and then what changes.
// A look at them costs one request, whose answer has the open runs and a few that ended last.
// Others are read only if these are not enough. It is for one goroutine.
type feed struct {
	svc  Service
	now  func() time.Time
	most int // runs that are kept
	want wanted

	runs   map[string]*knownRun
	ended  int // of runs, without those of the cloud
	looks  int
	load   int
	all    load
	fit    load      // of the filter, unless all runs are known
	loaded time.Time // when the last load of all began
	wrong  int       // looks in a row that counted other runs than ours

	found update // since the last look that did not fail
}

func newFeed(svc Service, now func() time.Time) *feed {
	return &feed{svc: svc, now: now, most: maxRuns, want: wanted{all: pageSize}, runs: map[string]*knownRun{}}
}

// next looks at the runs. What a look found before it failed is in the next update.
func (f *feed) next(ctx context.Context) update {
	f.proceed()
	if err := f.look(ctx); err != nil {
		return update{at: f.now(), want: f.want, err: err}
	}
	found := f.found
	f.found = update{}
	found.at, found.want, found.loading, found.full = f.now(), f.want, f.loading(), f.all.rest != ""
	if found.older = found.full; f.want.filter != "" {
		found.full = f.fit.rest != ""
	}
	return found
}

// proceed begins to read what is wanted more than before.
func (f *feed) proceed() {
	if f.loaded.IsZero() {
		return
	}
	q, asks := parseFilter(f.want.filter).list()
	switch {
	case f.all.cursor == "" && f.all.rest == "", !asks: // all are known
		f.fit = load{}
	case !reflect.DeepEqual(f.fit.q, q):
		f.fit = load{q: q, cursor: firstPage}
	}
	f.all.proceed(f.want.all, f.most)
	f.fit.proceed(f.want.fit, f.most)
}

// proceed requests the next page of a load that has fewer runs than are wanted.
func (l *load) proceed(want, most int) {
	if l.rest != "" && l.got < min(want, most) {
		l.cursor, l.rest = l.rest, ""
	}
}

func (f *feed) loading() bool { return f.all.cursor+f.fit.cursor != "" }

func (f *feed) look(ctx context.Context) error {
	few := 5
	if f.loaded.IsZero() {
		few = pageSize
	}
	all, err := ask(ctx, func(ctx context.Context) (*api.Overview, error) {
		return f.svc.Overview(ctx, api.OverviewRequest{Limit: few})
	})
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for _, some := range [][]*api.Run{all.Working, all.Queued, all.Ended} {
		for _, run := range some {
			listed[run.ID] = true
			f.put(run)
		}
	}
	f.looks++
	complete := len(all.Working) == all.Counts.Working && len(all.Queued) == all.Counts.Queued
	full := f.all.rest != ""
	switch lost := complete && f.lost(listed) || all.Counts.Ended != f.ended && !full; {
	case f.loaded.IsZero(), !f.loading() && (f.now().Sub(f.loaded) > reloadEvery || len(f.runs) > 2*f.most):
		return f.reload(ctx)
	case f.loading():
		return f.pages(ctx)
	case !complete && f.looks%openEvery == 1:
		return f.list(ctx, api.List{States: open, Limit: pageSize}, maxPages, func() bool { return true })
	case lost || f.looks%newestEvery == 0:
		few := fewChanges
		if lost {
			few = pageSize
		}
		err = f.changes(ctx, few)
		lost = complete && f.lost(listed) || all.Counts.Ended != f.ended && !full
		if f.wrong++; !lost {
			f.wrong = 0
		}
		if err == nil && f.wrong >= patience && f.now().Sub(f.loaded) > reloadAfter {
			err = f.reload(ctx)
		}
		return err
	}
	f.wrong = 0
	return nil
}

// open are the states of runs that have not ended.
var open = []runs.State{runs.StateWorking, runs.StateInputRequired, runs.StateQueued}

// lost reports whether a run that had not ended is not listed any more.
func (f *feed) lost(listed map[string]bool) bool {
	for id, k := range f.runs {
		if !k.run.State.Final() && !isCloud(k.run) && !listed[id] {
			return true
		}
	}
	return false
}

// changes reads the runs whose state changed last, until one page has none that is new.
func (f *feed) changes(ctx context.Context, atOnce int) error {
	before := len(f.found.runs)
	return f.list(ctx, api.List{Order: api.ByChange, Limit: atOnce}, maxPages, func() bool {
		more := len(f.found.runs) > before
		before = len(f.found.runs)
		return more
	})
}

// list puts pages of a list, at most so many, while more returns true.
func (f *feed) list(ctx context.Context, q api.List, pages int, more func() bool) error {
	for range pages {
		page, err := ask(ctx, func(ctx context.Context) (api.RunPage, error) { return f.svc.List(ctx, q) })
		if err != nil {
			return err
		}
		for _, run := range page.Runs {
			f.put(run)
		}
		if q.Cursor = page.Next; q.Cursor == "" || !more() {
			break
		}
	}
	return nil
}

// reload begins to read again what is wanted.
func (f *feed) reload(ctx context.Context) error {
	f.load++
	f.wrong, f.all, f.loaded = 0, load{q: api.List{Order: api.ByChange}, cursor: firstPage}, f.now()
	if f.fit.q.Order != "" {
		f.fit = load{q: f.fit.q, cursor: firstPage}
	}
	return f.pages(ctx)
}

// firstPage stands for the cursor of the first page of a load.
const firstPage = "-"

// pages continues the loads. At their end it forgets the runs that were not found.
func (f *feed) pages(ctx context.Context) error {
	for range pagesAtOnce {
		l, want := &f.all, f.want.all
		if l.cursor == "" {
			l, want = &f.fit, f.want.fit
		}
		if err := f.page(ctx, l, min(want, f.most)); err != nil {
			return err
		}
		if !f.loading() {
			f.forget()
			return nil
		}
	}
	return nil
}

// page reads a page of a load that ends with so many runs.
func (f *feed) page(ctx context.Context, l *load, want int) error {
	q := l.q
	q.Limit, q.Cursor = pageSize, strings.TrimPrefix(l.cursor, firstPage)
	page, err := ask(ctx, func(ctx context.Context) (api.RunPage, error) { return f.svc.List(ctx, q) })
	if err != nil {
		if api.Is(err, api.Validation) { // of a list that another responder began
			l.cursor = firstPage
		}
		return err
	}
	for _, run := range page.Runs {
		f.put(run)
	}
	l.cursor, l.got = page.Next, l.got+len(page.Runs)
	if l.got >= want {
		l.cursor, l.rest = "", l.cursor
	}
	return nil
}

// forget removes the runs that the load, and what was read since, did not find.
func (f *feed) forget() {
	for id, k := range f.runs {
		if k.load != f.load {
			if k.run.State.Final() && !isCloud(k.run) {
				f.ended--
			}
			delete(f.runs, id)
			f.found.gone = append(f.found.gone, id)
		}
	}
}

// put keeps a run.
func (f *feed) put(run *api.Run) {
	if run == nil || run.ID == "" {
		return
	}
	k := f.runs[run.ID]
	if k == nil {
		k = &knownRun{run: &api.Run{}}
		f.runs[run.ID] = k
	}
	k.load = f.load
	if reflect.DeepEqual(k.run, run) {
		return
	}
	if now, was := run.State.Final(), k.run.State.Final(); now != was && !isCloud(run) {
		f.ended++
		if was { // it is continued
			f.ended -= 2
		}
	}
	k.run = run
	f.found.runs = append(f.found.runs, run)
}

// isCloud reports whether an overview leaves a run out.
func isCloud(run *api.Run) bool { return strings.HasPrefix(run.ID, "T-cloud-") }

// ask is a request with a time limit.
func ask[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return do(ctx)
}
