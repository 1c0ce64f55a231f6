package runtable_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/test/fixture"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
	"github.com/linesman/linesman/worker/launch"
)

// The test binary is also the shim that a worker starts.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "shim" {
		if err := worker.Shim(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	fixture.VerifyGoroutines(m)
}

// lab is a server with a normalizer and a responder at work.
type lab struct {
	*testing.T
	server *embedded.Server
	table  *runtable.Table
	log    *zap.Logger
	dir    string

	ackWait time.Duration // of the queue; 0: the default
}

func newLab(t *testing.T, change func(*runtable.Config)) *lab {
	t.Helper()
	return newSite(t, change).lab
}

func (l *lab) respond(change func(*runtable.Config)) *runtable.Table {
	l.Helper()
	cfg := runtable.Config{Streams: l.bus(embedded.ResponderUser), Queue: bus.DefaultQueue, LostAfter: time.Minute,
		Log: l.log}
	if change != nil {
		change(&cfg)
	}
	table := runtable.New(cfg)
	l.start(table.Run)
	if err := table.Ready(l.soon(), time.Minute); err != nil {
		l.Fatal(err)
	}
	return table
}

// bus connects like another process, and so to a later server at the same address, too.
func (l *lab) bus(user string) *bus.Bus {
	l.Helper()
	inside, public := l.server.Credentials.Logins(l.server.URL(), user)
	b, err := bus.Connect(l.Context(), inside, public, bus.Names{Prefix: bus.DefaultPrefix}, l.log)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(b.Close)
	return b
}

// start runs f until the test ends, or the caller stops it before.
func (l *lab) start(f func(context.Context) error) (stop func()) {
	l.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			l.Error(err)
		}
	})
	l.Cleanup(stop)
	return stop
}

func (l *lab) soon() context.Context {
	ctx, cancel := context.WithTimeout(l.Context(), fixture.Patience)
	l.Cleanup(cancel)
	return ctx
}

type logs struct{ *bus.Bus }

func (l logs) Open(ctx context.Context, agent, run string, m runs.Mark) (worker.Log, error) {
	return l.OpenLog(ctx, agent, run, m)
}

type queue struct{ *bus.Queue }

func (q queue) Next(ctx context.Context) (worker.Delivery, error) {
	d, err := q.Queue.Next(ctx)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// work runs a worker with so many slots. Its agent is a shell script, which
// finds what it was asked in $prompt.
func (l *lab) work(name string, slots int, script string) (stop func()) {
	l.Helper()
	return l.beating(name, slots, time.Minute, script)
}

// beating is one whose beats last for ttl.
func (l *lab) beating(name string, slots int, ttl time.Duration, script string) (stop func()) {
	l.Helper()
	script = "for prompt; do :; done\n" + script
	program := filepath.Join(l.dir, name+".sh")
	if err := os.WriteFile(program, []byte(script), 0o600); err != nil {
		l.Fatal(err)
	}
	how := codex.Agent.Launch
	how.Command = []string{"/bin/sh", program}
	b := l.bus(embedded.WorkerUser)
	w, err := worker.New(worker.Config{
		Root: filepath.Join(l.dir, name), Logs: logs{b}, Control: b, Shim: []string{os.Args[0], "shim"}, Name: name,
		Log: l.log,
	})
	if err != nil {
		l.Fatal(err)
	}
	stops := []func(){
		l.start(w.Adopt),
		l.start(func(ctx context.Context) error {
			tasks := b.Queue(bus.DefaultQueue)
			tasks.AckWait = cmp.Or(l.ackWait, tasks.AckWait)
			return w.Serve(ctx, worker.Tasks{
				Queue: queue{tasks}, Name: bus.DefaultQueue, Slots: slots,
				Agents: map[string]agent.Launch{"codex": how}, Rules: launch.Rules{Dir: l.dir, Roots: []string{l.dir}},
				Environ: os.Environ(), Limits: worker.Limits{Idle: time.Minute, Hard: time.Minute, Grace: time.Second},
				MaxLimit: time.Hour,
			})
		}),
		l.start(func(ctx context.Context) error {
			b.SendHeartbeats(ctx, ttl, func() runs.Heartbeat {
				return runs.Heartbeat{ID: name, Name: name, Queue: bus.DefaultQueue, Slots: slots, Busy: w.Tasks()}
			})
			return nil
		}),
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// submit submits a task. A request may be lost where the server has just come back, or be late.
func (l *lab) submit(prompt string) (ticket runtable.Ticket) {
	l.Helper()
	fixture.Eventually(l, fixture.Patience, "no submission", func() bool {
		var err error
		ticket, err = l.table.Submit(l.soon(), "",
			queued(runs.Task{Attributes: runs.Attributes{Agent: "codex", Mode: runs.ReadOnly}, Prompt: prompt}))
		return err == nil
	})
	return ticket
}

// reaches waits until a run is as is wants it.
func (l *lab) reaches(run string, is func(runs.Header) bool) runs.Header {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), fixture.Patience)
	defer cancel()
	v, err := l.table.Wait(ctx, run, func(v runs.Header) {
		if is(v) {
			cancel()
		}
	})
	if !is(v) {
		l.Fatalf("run %s: %+v, %v", run, v, err)
	}
	return v
}

func in(state runs.State) func(runs.Header) bool {
	return func(v runs.Header) bool { return v.State == state }
}

// done is what an agent prints that is well.
const done = `echo '{"type":"turn.completed","usage":{"input_tokens":1}}'` + "\n"

// gate makes an agent wait until a file with its prompt's name is there.
const gate = `while ! [ -e "$prompt" ]; do sleep 0.02; done` + "\n"

func (l *lab) open(gate string) {
	l.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, gate), nil, 0o600); err != nil {
		l.Fatal(err)
	}
}

func TestTasksWaitForSlotsInTheirOrder(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	var tickets []runtable.Ticket
	for i := range 4 {
		ticket := l.submit(fmt.Sprintf("go-%d", i))
		if ticket.Position != i {
			t.Errorf("task %d: position %d", i, ticket.Position)
		}
		tickets = append(tickets, ticket)
	}
	l.work("w", 2, gate+done)
	l.reaches(tickets[0].Run, in(runs.StateWorking))
	l.reaches(tickets[1].Run, in(runs.StateWorking))
	for i, want := range []int{0, 1} {
		if v, _ := l.table.Get(tickets[2+i].Run); v.State != runs.StateQueued || v.Before() != want {
			t.Errorf("task %d: %s at %d, want queued at %d", 2+i, v.State, v.Before(), want)
		}
	}
	s := l.table.Snapshot(5, nil)
	if len(s.Working) != 2 || len(s.Queued) != 2 || len(s.Ended) != 0 || s.Queued[0].ID != tickets[2].Run ||
		s.Queued[1].Before() != 1 {
		t.Errorf("snapshot %+v", s)
	}
	l.open("go-1")
	if v := l.reaches(tickets[1].Run, func(v runs.Header) bool {
		return v.State.Final()
	}); v.State != runs.StateCompleted {
		t.Errorf("the second: %+v", v)
	}
	l.reaches(tickets[2].Run, in(runs.StateWorking))
	if v, _ := l.table.Get(tickets[3].Run); v.State != runs.StateQueued || v.Before() != 0 {
		t.Errorf("the fourth: %s at %d", v.State, v.Before())
	}
	for i := range 4 {
		l.open(fmt.Sprintf("go-%d", i))
	}
	for _, ticket := range tickets {
		if v, err := l.table.Wait(l.soon(), ticket.Run, nil); err != nil || v.State != runs.StateCompleted {
			t.Errorf("%s: %+v %v", ticket.Run, v, err)
		}
	}
	if s := l.table.Snapshot(2, nil); len(s.Ended) != 2 || s.Total != 4 {
		t.Errorf("at the end: %+v", s)
	}
}

func TestACancelledTaskIsNeverStarted(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	first, second := l.submit("one"), l.submit("two")
	c, err := l.table.Cancel(l.soon(), first.Run, "changed my mind")
	if err != nil || c.State != runs.StateCancelled || c.Before != runs.StateQueued {
		t.Fatalf("cancel: %+v %v", c, err)
	}
	l.work("w", 1, `: >"ran-$prompt"`+"\n"+done)
	if v, err := l.table.Wait(l.soon(), second.Run, nil); err != nil || v.State != runs.StateCompleted {
		t.Fatalf("%+v %v", v, err)
	}
	v := l.reaches(first.Run, in(runs.StateCancelled))
	if v.StartedAt != 0 {
		t.Errorf("it was started: %+v", v)
	}
	if _, err := os.Stat(filepath.Join(l.dir, "ran-one")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its agent ran: %v", err)
	}
	var ended *runtable.EndedError
	if _, err := l.table.Cancel(l.soon(), first.Run, ""); !errors.As(err, &ended) || ended.State != runs.StateCancelled {
		t.Errorf("cancelled again: %v", err)
	}
	if _, err := l.table.Cancel(l.soon(), second.Run, ""); !errors.As(err, &ended) || ended.State != runs.StateCompleted {
		t.Errorf("one that has ended: %v", err)
	}
	if _, err := l.table.Cancel(l.soon(), "T-none", ""); !errors.Is(err, runs.ErrNoRun) {
		t.Errorf("one that is not: %v", err)
	}
}

func TestARunningTaskIsEndedByItsOwner(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.work("w", 1, "echo $$ >pid\nsleep 1000 &\necho $! >child\nwait\n")
	ticket := l.submit("long")
	l.reaches(ticket.Run, in(runs.StateWorking))
	for _, name := range []string{"pid", "child"} {
		l.appears(name)
	}
	c, err := l.table.Cancel(l.soon(), ticket.Run, "enough")
	if err != nil || c.Before != runs.StateWorking {
		t.Fatalf("cancel: %+v %v", c, err)
	}
	if v, err := l.table.Wait(l.soon(), ticket.Run, nil); err != nil || v.State != runs.StateCancelled {
		t.Fatalf("%+v %v", v, err)
	}
	for _, name := range []string{"pid", "child"} {
		pid := strings.TrimSpace(l.read(name))
		if state, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(state), ") Z ") {
			t.Errorf("process %s (%s) lives on: %.60s", name, pid, state)
		}
	}
}

func (l *lab) read(name string) string {
	l.Helper()
	b, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		l.Fatal(err)
	}
	return string(b)
}

// appears waits for a file with something in it.
func (l *lab) appears(name string) {
	l.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(fixture.Patience); ; <-tick.C {
		if b, err := os.ReadFile(filepath.Join(l.dir, name)); err == nil && len(b) > 0 {
			return
		} else if time.Now().After(end) {
			l.Fatalf("%s is not there: %v", name, err)
		}
	}
}

func TestWhatAWorkerRefusesHasFailed(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.work("w", 1, done)
	ticket, err := l.table.Submit(t.Context(), "",
		queued(runs.Task{Attributes: runs.Attributes{Agent: "codex", Mode: runs.ReadOnly, Dir: "/"},
			Prompt: "x"}))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := l.table.Wait(l.soon(), ticket.Run, nil); err != nil || v.State != runs.StateFailed ||
		v.Reason != "spawn" {
		t.Fatalf("%+v %v", v, err)
	}
	record, err := l.table.Record(t.Context(), ticket.Run)
	if err != nil || record.Exit == nil || record.Exit.Spawn != runs.SpawnNoDir {
		t.Errorf("%+v %v", record, err)
	}
}

// queued is a task with a run of its own.
func queued(t runs.Task) runs.QueuedTask {
	return runs.QueuedTask{Run: runs.NewID(time.Now().UnixMilli(), rand.Uint64()), Task: t}
}

func TestTasksThatNoWorkerTakesAreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *runtable.Config) { c.MaxHard = time.Minute })
	_, err := l.table.Submit(t.Context(), "", queued(runs.Task{Attributes: runs.Attributes{Agent: "codex",
		Mode: runs.ReadOnly}, Prompt: "x", Hard: 61}))
	if err == nil || !strings.Contains(err.Error(), "timeoutSec: ") {
		t.Errorf("the time limit is not named: %v", err)
	}
	if _, err := l.table.Submit(t.Context(), "", queued(runs.Task{Attributes: runs.Attributes{Agent: "codex",
		Mode: runs.DangerFull}, Prompt: "x"})); err == nil {
		t.Error("a task without a sandbox was taken")
	}
	if s := l.table.Snapshot(5, nil); len(s.Queued) != 0 {
		t.Errorf("queued: %+v", s.Queued)
	}
}

// TestALostRunIsEndedAndItsWorkerStops has a worker that goes while its agent
// runs, is missed, and comes back.
func TestALostRunIsEndedAndItsWorkerStops(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *runtable.Config) { c.LostAfter = 300 * time.Millisecond })
	stop := l.work("w", 1, "echo $$ >pid\nexec sleep 1000\n")
	ticket := l.submit("long")
	l.reaches(ticket.Run, in(runs.StateWorking))
	l.appears("pid")
	stop() // the agent goes on

	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(fixture.Patience); ; <-tick.C {
		if v, _ := l.table.Get(ticket.Run); v.WorkerLost {
			break
		} else if time.Now().After(end) {
			t.Fatalf("it is not missed: %+v", v)
		}
	}
	report, err := l.table.Cleanup(l.soon(), api.Cleanup{Stuck: time.Hour, Old: time.Hour})
	if err != nil || len(report.Stuck) != 0 {
		t.Fatalf("too early: %+v %v", report, err)
	}
	for _, dry := range []bool{true, false} { // a late heartbeat delays it
		fixture.Eventually(t, fixture.Patience, "it is stuck", func() bool {
			report, err = l.table.Cleanup(l.soon(), api.Cleanup{Old: time.Hour, DryRun: dry})
			return err != nil || len(report.Stuck) == 1
		})
		if ended := len(report.Ended) == 1; err != nil || ended == dry {
			t.Fatalf("cleanup, dry %v: %+v %v", dry, report, err)
		}
	}
	if v, err := l.table.Wait(l.soon(), ticket.Run, nil); err != nil || v.State != runs.StateFailed || v.Reason != "lost" {
		t.Fatalf("%+v %v", v, err)
	}
	l.work("w", 1, done) // it is back
	pid := strings.TrimSpace(l.read("pid"))
	for end := time.Now().Add(fixture.Patience); ; <-tick.C {
		state, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(state), ") Z ") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("its agent lives on: %.60s", state)
		}
	}
}

func TestOldRunsAreRemovedOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	other := l.respond(nil)
	l.work("w", 1, done)
	ticket := l.submit("x")
	if _, err := l.table.Wait(l.soon(), ticket.Run, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []api.CleanedUp{{Old: 1, Removed: 1}, {}} {
		report, err := l.table.Cleanup(l.soon(), api.Cleanup{Stuck: time.Hour})
		if err != nil || report.Old != want.Old || report.Removed != want.Removed {
			t.Errorf("%+v %v, want %+v", report, err, want)
		}
	}
	if _, ok := l.table.Get(ticket.Run); ok {
		t.Error("it is still there")
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(fixture.Patience); ; <-tick.C {
		if _, ok := other.Get(ticket.Run); !ok {
			return
		} else if time.Now().After(end) {
			t.Fatal("another responder still has it")
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	ticket := l.submit("go")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if v, err := l.table.Wait(ctx, ticket.Run, nil); !errors.Is(err, context.DeadlineExceeded) ||
		v.State != runs.StateQueued {
		t.Errorf("%+v %v", v, err)
	}
	if _, err := l.table.Wait(l.soon(), "T-none", nil); !errors.Is(err, runs.ErrNoRun) {
		t.Errorf("an unknown run: %v", err)
	}
	l.work("w", 1, done)
	if v, err := l.table.Wait(l.soon(), ticket.Run, nil); err != nil || v.State != runs.StateCompleted {
		t.Errorf("%+v %v", v, err)
	}
}

// TestTheTableIsThatOfTheStreams compares a responder that was there all the
// time with one that begins when all is over.
func TestTheTableIsThatOfTheStreams(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.work("w", 3, done)
	var all []string
	for i := range 12 {
		all = append(all, l.submit(fmt.Sprint(i)).Run)
	}
	for _, run := range all {
		if _, err := l.table.Wait(l.soon(), run, nil); err != nil {
			t.Fatal(err)
		}
	}
	other := l.respond(nil)
	for _, run := range all {
		old, _ := l.table.Get(run)
		fresh, ok := other.Get(run)
		if !ok || old.State != fresh.State || old.EndedAt != fresh.EndedAt || old.Work != fresh.Work {
			t.Errorf("%s: %+v and %+v", run, old, fresh)
		}
	}
	a, b := l.table.Snapshot(100, nil), other.Snapshot(100, nil)
	for i := range a.Ended {
		if a.Ended[i].ID != b.Ended[i].ID {
			t.Errorf("place %d: %s and %s", i, a.Ended[i].ID, b.Ended[i].ID)
		}
	}
}
