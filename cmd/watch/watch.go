package watch

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/internal/delivery"
	"github.com/linesman/linesman/runs"
)

// service is what a watcher asks linesman. A [*client.Client] answers it.
type service interface {
	List(ctx context.Context, q api.List) (api.RunPage, error)
	Status(ctx context.Context, run string) (*api.Run, error)
	Questions(ctx context.Context, q api.QuestionsRequest) (api.Questions, error)
	Cancel(ctx context.Context, q api.Cancel) (api.Cancelled, error)
	Follow(ctx context.Context, f client.Filter) iter.Seq2[client.Event, error]
}

// Config configures a [watcher].
type Config struct {
	Runs   service
	Rules  rules
	Sink   sink
	State  string        // path of the state file; "": none
	GiveUp time.Duration // a notice this old is not delivered any more; default 24 h
	Log    *zap.Logger   // default: none
}

// watcher reports what its rules say.
type watcher struct {
	cfg      Config
	log      *zap.Logger
	out      *outbox
	activity activity
	again    end // of a stream that was recreated: up to it all ends were handled

	sawAt time.Time // when what was seen of the open runs was to be saved last, see [watcher.saw]

	mu  sync.Mutex
	day *day
}

// Times of a watcher.
const (
	maxPoll  = 5 * time.Second // between two looks at the open runs
	minPoll  = 250 * time.Millisecond
	pageSize = 100             // runs
	slots    = 4               // deliveries at a time
	maxPause = 5 * time.Minute // before the next attempt
	rowLag   = time.Minute     // for which other ends wait for the record of a run, which follows its completion
)

// newWatcher returns a watcher. The error is about the state file. Close it after use.
func newWatcher(cfg Config) (*watcher, error) {
	cfg.Log, cfg.GiveUp = cmp.Or(cfg.Log, zap.NewNop()), cmp.Or(cfg.GiveUp, 24*time.Hour)
	now := time.Now()
	log := cfg.Log.Named("watch")
	out, err := openOutbox(cfg.State, now, log)
	if err != nil {
		return nil, err
	}
	w := &watcher{cfg: cfg, log: log, out: out, activity: seenBefore(out.state.Seen, now)}
	w.day = newDay(cfg.Rules.Budgets, now, nil)
	if out.state.Day == w.day.Date() {
		w.day = newDay(cfg.Rules.Budgets, now, out.state.Before)
	}
	return w, nil
}

// Run watches with a new watcher until ctx ends, or looks once.
func Run(ctx context.Context, cfg Config, once bool) error {
	w, err := newWatcher(cfg)
	if err != nil {
		return err
	}
	do := w.Run
	if once {
		do = w.Once
	}
	return errors.Join(do(ctx), w.Close())
}

// Close saves what was seen, and releases the state file.
func (w *watcher) Close() error {
	w.out.mu.Lock()
	w.out.unsaved = w.out.unsaved || len(w.out.state.Seen) > 0
	w.out.mu.Unlock()
	return w.out.close()
}

// Run watches until ctx ends; then it returns nil. It waits while linesman is
// unreachable, and while the state file cannot be written. The error reports that linesman
// denies the requests, or that the sink is a [printer] that cannot print.
func (w *watcher) Run(outer context.Context) error {
	group, ctx := errgroup.WithContext(outer)
	group.Go(func() error { return w.deliver(ctx) })
	group.Go(func() error {
		if err := w.patiently(ctx, w.fill); err != nil {
			return err
		}
		w.log.Info("watching", zap.Time("since", time.UnixMilli(w.out.state.At)))
		group.Go(func() error { return w.follow(ctx) })
		return w.poll(ctx)
	})
	err := group.Wait()
	if outer.Err() != nil && errors.Is(err, outer.Err()) {
		return nil
	}
	return err
}

// Once looks once, at the open runs and at the ends since the time in the state file, and
// makes one attempt to deliver each notice, or more if the outbox is full. The error reports
// what was not delivered. If the outbox stays full, it ends, and the next time continues there.
func (w *watcher) Once(ctx context.Context) error {
	w.out.deliver = w.attempts
	for _, step := range []func(context.Context) error{
		w.fill, w.look, func(ctx context.Context) error { return w.ends(ctx, false) },
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return w.attempts(ctx)
}

// attempts makes one attempt to deliver each notice. Those of a run wait for an earlier one that is tried again, as in
// [outbox.take].
func (w *watcher) attempts(ctx context.Context) error {
	var errs []error
	waits := map[string]bool{} // by run
	for _, n := range w.out.pending() {
		if waits[n.Run] && !n.Cancel {
			continue
		}
		again, err := w.attempt(ctx, n)
		if err != nil {
			errs = append(errs, err)
		}
		waits[n.Run] = waits[n.Run] || n.Run != "" && again
	}
	return errors.Join(errs...)
}

// patiently calls do until it succeeds, and waits while linesman is unreachable.
func (w *watcher) patiently(ctx context.Context, do func(context.Context) error) error {
	said := ""
	for {
		err := do(ctx)
		switch {
		case err == nil:
			if said != "" {
				w.log.Info("watching again")
			}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, client.ErrDenied), errors.Is(err, client.ErrRefused), !errors.As(err, new(*api.Error)):
			return err
		case said == "":
			said = err.Error()
			w.log.Warn("linesman does not answer, trying again", zap.String("why", said))
		}
		if err := sleep(ctx, w.interval()); err != nil {
			return err
		}
	}
}

// interval returns the time between two looks at the open runs: a quarter of the shortest
// time that the rules name, within bounds.
func (w *watcher) interval() time.Duration {
	d := w.cfg.Rules.StalledAfter
	for _, b := range w.cfg.Rules.Budgets {
		if b.Unit == unitTime {
			d = min(d, time.Duration(b.Limit))
		}
	}
	return min(max(d/4, minPoll), maxPoll)
}

// fill adds the runs that have ended on this day to the day.
func (w *watcher) fill(ctx context.Context) error {
	if !slices.ContainsFunc(w.cfg.Rules.Budgets, func(b budget) bool { return b.Daily }) {
		return nil
	}
	q := api.List{Order: api.ByChange, Since: runs.Time(w.day.from.UnixMilli()), States: []runs.State{
		runs.StateCompleted, runs.StateFailed, runs.StateCancelled, runs.StateTimeout,
	}}
	return w.each(ctx, q, func(run *api.Run) { w.endedToday(run, time.Now()) })
}

func (w *watcher) endedToday(run *api.Run, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.day.Ended(run, now)
}

// each calls do with the runs of a list.
func (w *watcher) each(ctx context.Context, q api.List, do func(*api.Run)) error {
	for q.Limit = pageSize; ; {
		page, err := w.cfg.Runs.List(ctx, q)
		if err != nil {
			return err
		}
		for _, run := range page.Runs {
			do(run)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// poll looks at the open runs again and again.
func (w *watcher) poll(ctx context.Context) error {
	for {
		if err := w.patiently(ctx, w.look); err != nil {
			return err
		}
		if err := sleep(ctx, w.interval()); err != nil {
			return err
		}
	}
}

// look looks at the open runs and the day, and adds what is to be reported.
func (w *watcher) look(ctx context.Context) error {
	var open []*api.Run
	q := api.List{States: []runs.State{runs.StateWorking, runs.StateInputRequired}}
	if err := w.each(ctx, q, func(run *api.Run) { open = append(open, run) }); err != nil {
		return err
	}
	var all []notice
	now, known := time.Now(), map[string]bool{}
	for _, run := range open {
		known[run.ID] = true
		all = append(all, w.measured(w.cfg.Rules.Run(run, w.activity.Observe(run, now), now), now)...)
	}
	for run := range w.activity {
		if !known[run] {
			delete(w.activity, run)
		}
	}
	w.saw(now)
	w.mu.Lock()
	today := w.day.Look(open, time.Now()) // an end may have begun the day after now
	date, before := w.day.Date(), w.day.Before()
	w.mu.Unlock()
	if w.cfg.Rules.on(kindBudget) {
		all = append(all, today...)
	}
	if err := w.out.holding(ctx, all, known, date, before); err != nil {
		return err
	}
	err := w.lookAtLate(ctx, open)
	w.out.flush()
	return err
}

// follow reads ends as they come.
func (w *watcher) follow(ctx context.Context) error {
	for {
		err := w.patiently(ctx, func(ctx context.Context) error { return w.ends(ctx, true) })
		if err == nil {
			err = sleep(ctx, time.Second)
		}
		if err != nil {
			return err
		}
	}
}

// ends reads completions from where the state file is. With follow it continues with new
// ones.
func (w *watcher) ends(ctx context.Context, follow bool) error {
	f, err := w.resume(ctx)
	if err != nil {
		return err
	}
	f.Follow = follow
	for e, err := range w.cfg.Runs.Follow(ctx, f) {
		if err == nil && !w.again.covers(e) {
			w.out.reads(e)
			err = w.ended(ctx, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resume returns the filter of the completions that were not handled. If the last one that
// was handled is no longer in the stream, which then is another one or has lost it, all count
// that are later, in the raw log or by their time.
func (w *watcher) resume(ctx context.Context) (client.Filter, error) {
	f := client.Filter{Kinds: []string{api.Completion}}
	last := w.out.last()
	if w.again = (end{}); last.seq == 0 {
		f.Since = time.UnixMilli(w.out.state.At)
		return f, nil
	}
	f.After = last.seq - 1
	for e, err := range w.cfg.Runs.Follow(ctx, f) {
		if err != nil {
			return f, err
		}
		if endOf(e) == last {
			f.After = last.seq
			return f, nil
		}
		break
	}
	w.log.Warn("the last end that was handled is no longer in the stream: later ones are found by their time")
	w.again, f.After = last, 0
	return f, nil
}

// ended handles the completion of a run: it waits for the record, which follows it, but not for long.
func (w *watcher) ended(ctx context.Context, e client.Event) error {
	late := time.Now().Add(rowLag)
	for {
		run, all, known, err := w.end(ctx, e.Run)
		now := time.Now()
		switch {
		case err != nil:
			return err
		case known:
			return w.out.ended(ctx, run, all, e.Seq, now)
		case now.After(late):
			w.log.Warn("a run has a completion, and has not ended: its end is reported later", zap.String("run", e.Run))
			w.out.isLate(e.Run, e.Seq, now)
			return nil
		}
		if err := sleep(ctx, minPoll); err != nil {
			return err
		}
	}
}

// deliver delivers notices, several at a time, until ctx ends. Deliveries that have begun
// may end.
func (w *watcher) deliver(ctx context.Context) error {
	most := slots
	if isPrinter(w.cfg.Sink) {
		most = 1 // in their order
	}
	err := delivery.Run(ctx, most, w.out.next, func(ctx context.Context, n notice) error {
		if _, err := w.attempt(ctx, n); err != nil && isPrinter(w.cfg.Sink) {
			return err
		}
		return nil
	})
	return cmp.Or(err, ctx.Err())
}

func isPrinter(s sink) bool {
	_, is := s.(printer)
	return is
}

// attempt makes one attempt to deliver a notice, after the run is cancelled if the rules want that. The error says why
// it was not delivered; again tells that it is tried again.
func (w *watcher) attempt(ctx context.Context, n notice) (again bool, err error) {
	log := w.log.With(zap.String("run", n.Run), zap.String("kind", string(n.Kind)))
	if n.Question != "" && !w.asked(ctx, &n) {
		log.Debug("a question was answered before its notice was delivered")
		w.out.done(n.ID)
		return false, nil
	}
	err = w.cancel(ctx, &n)
	cancelled := err == nil // or nothing was to be cancelled; else it is tried again, however old the notice is
	if cancelled {
		err = w.cfg.Sink.Deliver(ctx, n)
	}
	if err == nil {
		log.Debug("a notice was delivered")
		w.out.done(n.ID)
		return false, nil
	}
	refused, _ := errors.AsType[*delivery.Refusal](err)
	refused = cmp.Or(refused, &delivery.Refusal{})
	age := time.Since(at(n.Time))
	if cancelled && (refused.Final || age > w.cfg.GiveUp) {
		log.Warn("a notice is given up", zap.String("why", err.Error()))
		w.out.done(n.ID)
		return false, err
	}
	log.Warn("a notice was not accepted, trying again", zap.String("why", err.Error()))
	w.out.again(n.ID, func(times int) time.Duration {
		return delivery.Rule{Pace: time.Second, Pause: maxPause, GiveUp: w.cfg.GiveUp}.Again(refused, age, times)
	})
	return true, err
}

// asked completes the text of a notice about a question, and reports whether the question is open, as far as is known.
func (w *watcher) asked(ctx context.Context, n *notice) bool {
	run, err := w.cfg.Runs.Status(ctx, n.Run)
	switch {
	case api.Is(err, api.NotFound), err == nil && run.State.Final():
		return false
	case err != nil:
		return true
	case !slices.Contains(run.Questions, n.Question):
		return n.Status != nil && run.Seq < n.Status.Seq // a responder that lags behind
	}
	if open, err := w.cfg.Runs.Questions(ctx, api.QuestionsRequest{Request: n.Run}); err == nil {
		for _, q := range open.Requests {
			if q.ID == n.Question {
				n.Text = asks(run, q)
			}
		}
	}
	return true
}

// cancel cancels the run of a notice, if the rules want that. Of a run that cannot be cancelled, such as one of Codex
// Cloud, or that is not stalled any more, the notice says so.
func (w *watcher) cancel(ctx context.Context, n *notice) error {
	if !n.Cancel {
		return nil
	}
	spare := func(why string) { n.Cancel, n.Text = false, n.Text+"; it is not cancelled: "+why }
	if n.Kind == kindStalled {
		run, err := w.cfg.Runs.Status(ctx, n.Run)
		switch {
		case api.Is(err, api.NotFound):
		case err != nil:
			return err
		case n.Status != nil && run.Seq != n.Status.Seq && !run.CancelRequested && !run.State.Final():
			spare("it has output again")
			return nil
		}
	}
	reason := "linesman watch: " + strings.TrimPrefix(n.ID, n.Run+"/")
	_, err := w.cfg.Runs.Cancel(ctx, api.Cancel{Run: n.Run, Reason: reason})
	e, known := errors.AsType[*api.Error](err)
	switch {
	case !known || e.Retryable || e.Code == api.Internal:
		return err
	case e.Code != api.Ended && e.Code != api.NotFound:
		w.log.Warn("a run is not cancelled", zap.String("run", n.Run), zap.String("why", e.Message))
		spare(console.Safe(e.Message))
	}
	return nil
}
