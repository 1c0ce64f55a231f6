package runtable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/external"
	"github.com/linesman/linesman/responder/natsapi"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/worker"
)

// site is a lab whose server can be away for a while, whose normalizer can be
// stopped, and makes streams that are missing, as that of `linesman up` does.
type site struct {
	*lab
	store     string
	address   string
	operator  *bus.Bus
	admin     jetstream.JetStream
	normalize func() (stop func())
	halt      func() // the first normalizer
}

func newSite(t *testing.T, change func(*runtable.Config)) *site {
	t.Helper()
	s := &site{lab: &lab{T: t, log: zap.NewNop(), dir: t.TempDir()}, store: t.TempDir()}
	t.Cleanup(func() { fixture.EndShims(s.dir) })
	if testing.Verbose() {
		s.log = zaptest.NewLogger(t)
	}
	var err error
	if s.server, err = embedded.StartServer(s.store, fixture.FreeAddresses(t, 1)[0], bus.Names{Prefix: bus.DefaultPrefix},
		s.log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.server.Stop() })
	s.address = strings.TrimPrefix(s.server.URL(), "nats://")
	s.operator = s.bus(embedded.OperatorUser)
	if s.admin, err = jetstream.New(s.operator.Inside(), jetstream.WithDefaultTimeout(fixture.Patience)); err != nil {
		t.Fatal(err)
	}
	s.ensure()
	office := s.bus(embedded.NormalizerUser)
	s.normalize = func() func() {
		return s.start(func(ctx context.Context) error {
			return (&pipeline.Normalizer{
				Bus: office, Out: office.Names, Backends: []normalizer.Backend{codex.Backend{}, external.Backend{}}, Log: s.log,
				Prepare: func(ctx context.Context) error { _, err := s.operator.Ensure(ctx, s.limits()); return err },
			}).Run(ctx)
		})
	}
	s.halt = s.normalize()
	s.table = s.respond(change)
	return s
}

func (s *site) limits() bus.Limits {
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<28, 1<<28, 1<<27
	return limits
}

func (s *site) ensure() {
	s.Helper()
	if _, err := s.operator.Ensure(s.Context(), s.limits()); err != nil {
		s.Fatal(err)
	}
}

// age removes from RAW all that it holds, as after its 72 hours, or by its
// size under load, once the normalizer has read it.
func (s *site) age() {
	s.Helper()
	raw, err := s.admin.Stream(s.Context(), s.operator.Raw())
	if err == nil {
		err = raw.Purge(s.Context())
	}
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) until(what string, holds func() bool) {
	s.Helper()
	fixture.Eventually(s, fixture.Patience, "not yet: "+what, holds)
}

func (s *site) has(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

// 1. A worker runs an agent and beats. 2. NATS goes away, for longer than
// LostAfter and StuckAfter; the agent does its work and ends well, its output
// is in the spool. 3. The responder, which has heard nobody because it was cut
// off itself, does what keepHouse does every minute: the run is taken for
// stuck, and its exit entry (lost) waits up to 5 s for RAW. 4. NATS comes back.
//
// Consequence: a healthy run is failed (lost); its worker finds the exit entry
// and throws the spool away: the whole result is gone. An agent that still ran
// would be killed. With a dozen silent runs the attempts follow each other
// without a pause, so that one of them hits every outage of an hour.
func TestAnOutageOfNATSEndsNoHealthyRun(t *testing.T) {
	t.Parallel()
	const most = 32 * time.Second
	stopped := func(s *site) (over func()) {
		s.server.Stop()
		return func() {
			var err error
			names := bus.Names{Prefix: bus.DefaultPrefix}
			if s.server, err = embedded.StartServer(s.store, s.address, names, s.log); err != nil {
				t.Fatal(err)
			}
		}
	}
	full := func(s *site) (over func()) { return s.refuse(s.operator.Raw(), bucket.Stream(s.operator.State())) }
	leaderless := func(s *site) (over func()) { return s.refuse(bucket.Stream(s.operator.State())) }
	for name, o := range map[string]outage{
		"no server": {stopped, true}, "disk full": {full, true}, "heartbeats without a leader": {leaderless, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for lost := most / 16; ; lost *= 4 { // on a busy machine the worker is heard late after the outage
				ended := outageEnds(t, lost, o)
				if ended == "" {
					return
				}
				if t.Logf("with a limit of %v %s", lost, ended); lost == most {
					t.Fatal("a healthy run was ended; its worker was alive all the time")
				}
			}
		})
	}
}

type outage struct {
	begin   func(*site) (over func())
	spooled bool // of RAW, too
}

// refuse makes streams refuse all writes, until over is called.
func (s *site) refuse(streams ...string) (over func()) {
	s.Helper()
	var former []jetstream.StreamConfig
	update := func(c jetstream.StreamConfig) {
		s.Helper()
		if _, err := s.admin.UpdateStream(s.soon(), c); err != nil {
			s.Fatal(err)
		}
	}
	for _, name := range streams {
		stream, err := s.admin.Stream(s.soon(), name)
		if err != nil {
			s.Fatal(err)
		}
		c := stream.CachedInfo().Config
		former = append(former, c)
		if c.MaxMsgsPerSubject == 1 { // a message that replaces another one always fits
			c.MaxMsgSize = 1
		} else {
			c.MaxBytes = 1
		}
		update(c)
	}
	return func() {
		s.Helper()
		for _, c := range former {
			update(c)
		}
	}
}

// outageEnds returns how a healthy run has ended by an outage, "" if it was completed.
func outageEnds(t *testing.T, lost time.Duration, o outage) string {
	t.Helper()
	s := newSite(t, func(c *runtable.Config) { c.LostAfter = lost })
	s.beating("w", 1, lost, gate+done+": >ended\n")
	ticket := s.submit("go")
	s.reaches(ticket.Run, in(runs.StateWorking))
	s.until("the worker is heard", func() bool { return len(s.table.Workers()) == 1 })

	over := o.begin(s)
	if o.spooled {
		s.lab.open("go")
		s.until("the agent's end", func() bool { return s.has("ended") })
	}
	away := time.Now()
	s.until("silence", func() bool { return time.Since(away) > lost+lost/2 })
	var tried atomic.Int32
	s.start(func(ctx context.Context) error { // what maintain does, all the time
		for ctx.Err() == nil {
			report, _ := s.table.Cleanup(ctx, api.Cleanup{Stuck: lost / 2, Old: time.Hour})
			if tried.Add(1); len(report.Ended) > 0 {
				break
			}
		}
		return nil
	})
	s.until("it is tried", func() bool { return tried.Load() > 0 })
	if v, _ := s.table.Get(ticket.Run); v.WorkerLost {
		t.Error("who was cut off says that the worker is gone")
	}
	over()
	s.until("the worker is heard again", func() bool { return len(s.table.Workers()) == 1 })
	s.lab.open("go")
	v, err := s.table.Wait(s.soon(), ticket.Run, nil)
	if err != nil || v.State != runs.StateCompleted {
		record, _ := s.table.Record(s.soon(), ticket.Run)
		return fmt.Sprintf("the run is %s (%s), %v, with %d bytes of output", v.State, v.Reason, err, record.Bytes)
	}
	return ""
}

// 1. Some runs; the table has their rows with revisions up to R. 2. RUNS is
// deleted, and made anew by the normalizer ("later") or by somebody quicker
// ("at once"); all records are made again, with revisions from 1. 3. A run
// that worked ends.
//
// Consequence: the table takes every row for one "told again", since its
// revision is below the old one; at once, moreover, the ordered consumer goes
// on beyond the new stream's end and brings nothing. The run works for ever in
// every answer, Wait never returns, Cleanup fails at each revision, until the
// responder is started again.
func TestTableFollowsARecreatedRunTable(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"later", "at once"} {
		t.Run(how, func(t *testing.T) {
			s := newSite(t, nil)
			s.work("w", 1, `case $prompt in go) `+strings.TrimSpace(gate)+";; esac\n"+done)
			for i := range 8 {
				if _, err := s.table.Wait(s.soon(), s.submit(fmt.Sprint(i)).Run, nil); err != nil {
					t.Fatal(err)
				}
			}
			s.age() // so that the records made again are fewer than those there were
			ticket := s.submit("go")
			s.reaches(ticket.Run, in(runs.StateWorking))
			if err := s.admin.DeleteStream(t.Context(), "KV_linesman_runs"); err != nil {
				t.Fatal(err)
			}
			if how == "at once" {
				s.ensure()
			}
			s.until("the record is made again", func() bool {
				r, ok, err := s.operator.Record(t.Context(), ticket.Run)
				return err == nil && ok && r.State == runs.StateWorking
			})
			s.lab.open("go")
			s.until("the record says that it ended", func() bool {
				r, ok, err := s.operator.Record(t.Context(), ticket.Run)
				return err == nil && ok && r.State == runs.StateCompleted
			})
			ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
			defer cancel()
			if v, err := s.table.Wait(ctx, ticket.Run, nil); err != nil || v.State != runs.StateCompleted {
				t.Errorf("20 s after the record says completed the responder says %s (%v)", v.State, err)
			}
		})
	}
}

// 1. Responder A takes a submission. 2. No normalizer works for more than 3 s:
// it restarts, or its lease (4 s) passes to a standby. 3. The client's next
// request comes to responder B, as natsapi shares them out.
//
// Consequence: RAW knows the run, and B says that there is no such run: status
// is NOT_FOUND, and a cancel is refused although it could be written to the
// log: the task is started later.
func TestRunInRawIsNeverUnknown(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	other := s.respond(nil)
	s.halt()
	ticket := s.submit("x")
	if v, err := other.Look(s.soon(), ticket.Run); errors.Is(err, runs.ErrNoRun) {
		t.Errorf("look: %+v %v", v, err)
	}
	if c, err := other.Cancel(s.soon(), ticket.Run, "no"); err != nil {
		t.Errorf("cancel: %+v %v", c, err)
	}
	s.work("w", 1, `: >"ran-$prompt"`+"\n"+done)
	s.normalize()
	s.until("its end", func() bool { v, ok := s.table.Get(ticket.Run); return ok && v.State.Final() })
	if s.has("ran-x") {
		t.Error("the task that was to be cancelled ran")
	}
}

// 1. RAW is full (spools wait, as designed), a worker has a free slot. 2. A
// task is submitted: it is in WORK at once, and in the worker's hands. 3. The
// queued entry is not stored within 5 s: the submission fails, its task is
// taken off WORK. 4. RAW takes entries again.
//
// Consequence: the worker, which has the run directory and waits with its start
// entry, starts the agent of a submission that was refused. Who was told that
// it failed has submitted it again: the work is done twice.
func TestASubmissionThatFailedIsNotRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.work("w", 1, `: >"ran-$prompt"`+"\n"+done)
	room := func(bytes int64) {
		raw, err := s.admin.Stream(t.Context(), s.operator.Raw())
		if err != nil {
			t.Fatal(err)
		}
		config := raw.CachedInfo().Config
		config.MaxBytes = bytes
		if _, err := s.admin.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	// an empty stream takes one message of any size
	if _, err := s.table.Wait(s.soon(), s.submit("zero").Run, nil); err != nil {
		t.Fatal(err)
	}
	room(1)
	if _, err := s.table.Submit(s.soon(), "", queued(runs.Task{Attributes: runs.Attributes{Agent: "codex",
		Mode: runs.ReadOnly}, Prompt: "one"})); err == nil {
		t.Fatal("a submission to a full RAW is taken")
	} else {
		t.Logf("told to the caller: %v", err)
	}
	room(1 << 28)
	second := s.submit("two")
	if _, err := s.table.Wait(s.soon(), second.Run, nil); err != nil {
		t.Fatal(err)
	}
	if s.has("ran-one") {
		t.Error("the task of the submission that failed was run")
	}
}

// filling is an owner that has lost its raw log, and fills it again.
type filling struct{ bus.Owner }

func (filling) Answer(context.Context, runs.Command) (runs.Ruling, error) {
	return runs.Ruling{}, fmt.Errorf("now: %w", runs.ErrFilling)
}

// 1. RAW is lost. 2. The owner of a live run stores its entries again. 3. Somebody answers a question, or sends a
// message, before all of them are there.
//
// Consequence: a responder that takes the owner for one that is away reads half of the log: there is no such question,
// or the message is stored in the middle of what is filled, where the owner's journal does not have it.
func TestNobodyRulesOverALogThatIsBeingFilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *runtable.Config) {
		c.Absent = func(context.Context, string, string, runs.Command) (runs.Ruling, error) {
			t.Error("the log is read")
			return runs.Ruling{Holds: true}, nil
		}
	})
	run := s.submit("one").Run
	worker := s.bus(embedded.WorkerUser)
	stop, err := worker.Listen(run, filling{})
	if err == nil {
		err = worker.Inside().FlushTimeout(fixture.Patience)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	c := runs.Command{ID: "c", Do: runs.DoSend, Text: "Go on."}
	if ruling, err := s.table.Decide(s.soon(), run, c); !errors.Is(err, runs.ErrFilling) {
		t.Errorf("%+v, %v", ruling, err)
	}
}

// back is an owner that is not to be reached at first.
type back struct{ bus.Owner }

func (back) Answer(_ context.Context, c runs.Command) (runs.Ruling, error) {
	return runs.Ruling{Holds: true, By: c.ID, Delivered: true}, nil
}

// A command that was stored because the owner was away is sent to it once more: it reads the log only at intervals.
func TestAnOwnerThatIsBackLearnsWhatWasStored(t *testing.T) {
	t.Parallel()
	var run string
	var worker *bus.Bus
	s := newSite(t, func(c *runtable.Config) {
		c.Absent = func(context.Context, string, string, runs.Command) (runs.Ruling, error) {
			stop, err := worker.Listen(run, back{})
			if err == nil {
				t.Cleanup(stop)
				err = worker.Inside().FlushTimeout(fixture.Patience)
			}
			return runs.Ruling{Holds: true}, err
		}
	})
	run, worker = s.submit("one").Run, s.bus(embedded.WorkerUser)
	c := runs.Command{ID: "c", Do: runs.DoStop, Turn: 1}
	if ruling, err := s.table.Decide(s.soon(), run, c); err != nil || ruling.By != c.ID || !ruling.Delivered {
		t.Errorf("%+v, %v", ruling, err)
	}
}

// 1. A queued task is cancelled; the responder is killed, or cut off, between
// the cancel entry and the purge of WORK (Cancel only logs that). Nobody else
// ever takes the task off WORK, which keeps it without limit. 2. No worker
// comes until RAW has aged out (72 h, or sooner by size). 3. A worker comes.
//
// Consequence: the log that decides is empty, the agent of a cancelled task is
// started. Its record says cancelled, so nothing of what it does is recorded,
// nor can it be cancelled. Until then it takes one of the 10 000 places.
func TestACancelledTaskIsNotStartedWhenRawHasAgedOut(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	first := s.submit("one")
	if _, err := s.operator.AppendIf(t.Context(), "codex", first.Run, runs.Mark{}, func(m runs.Mark) *runs.Entry {
		if m.Cancelled {
			return nil
		}
		return &runs.Entry{Kind: runs.Cancelled, Time: time.Now().UnixMilli(), Body: runs.Encode(runs.Remark{})}
	}); err != nil {
		t.Fatal(err)
	}
	s.reaches(first.Run, in(runs.StateCancelled))
	s.age()
	second := s.submit("two")
	s.work("w", 1, `: >"ran-$prompt"`+"\n"+done)
	if v, err := s.table.Wait(s.soon(), second.Run, nil); err != nil || v.State != runs.StateCompleted {
		t.Fatalf("%+v %v", v, err)
	}
	if v, _ := s.table.Get(first.Run); s.has("ran-one") {
		t.Errorf("the agent of a task that is %s was started", v.State)
	}
}

// 1. Worker A gets a task, makes its directory and is killed, switched off or
// suspended before its start entry (the time in between is as long as RAW is
// full or away). 2. The task comes to worker B, which runs it to its end. 3.
// RAW ages out. 4. A comes back and adopts the directory.
//
// Consequence: A's log is empty, so A starts the agent: a task is run twice, by
// two workers, and nothing of the second time is recorded.
func TestATaskThatRanElsewhereIsNotStartedWhenRawHasAgedOut(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	ticket := s.submit("x")
	d, err := worker.Create(filepath.Join(s.dir, "a"), worker.Spec{ // as A's Serve does, and is killed
		Run: ticket.Run, Attributes: runs.Attributes{Agent: "codex", Dir: s.dir}, Source: runs.SourceQueue,
		Queue: bus.DefaultQueue, Work: 1,
		Argv: []string{"/bin/sh", "-c", ": >twice"}, Env: []string{"PATH=" + os.Getenv("PATH")},
	})
	if err == nil {
		err = d.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.work("b", 1, done)
	if v, err := s.table.Wait(s.soon(), ticket.Run, nil); err != nil || v.State != runs.StateCompleted {
		t.Fatalf("%+v %v", v, err)
	}
	s.age()
	s.work("a", 1, done)
	s.until("A has dealt with its directory", func() bool {
		entries, err := os.ReadDir(filepath.Join(s.dir, "a"))
		return err == nil && len(entries) == 0
	})
	if s.has("twice") {
		t.Error("the task was run a second time")
	}
}

// 1. A task waits; the server's disk is as of now. 2. Worker A takes it, its
// start entry and the ack are acknowledged but not yet synced (JetStream syncs
// every two minutes), its agent works. 3. The server's machine loses its power;
// it comes back with the disk as it was. A, on another machine, lives on. 4. The
// task is in WORK again, and goes to worker B.
//
// Consequence: RAW has no start entry, so B starts a second agent. A sees that
// the log was moved, and went on in it all the same: their output was mixed by
// offset in one run. Now whose start entry the log has goes on, and the other
// one's agent is stopped. (What a server acknowledged and lost nobody can know:
// for a moment there are two.)
func TestALogThatLostItsEndDoesNotStartATaskTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.ackWait = 3 * time.Second
	ticket := s.submit("go")
	s.reaches(ticket.Run, in(runs.StateQueued))
	lose := s.sync()
	agent := func(name string) string {
		return "echo '{\"from\":\"" + name + "\"}'; : >ran-" + name + "-$prompt\n" + gate + done
	}
	s.beating("a", 1, time.Minute, agent("a"))
	s.until("the agent of A", func() bool { return s.has("ran-a-go") })
	s.reaches(ticket.Run, in(runs.StateWorking))

	lose()
	s.beating("b", 1, time.Minute, agent("b"))
	second := s.submit("two") // B's one slot comes to it when it is done with the first
	s.lab.open("two")
	s.until("B's or A's turn at the first", func() bool {
		waits, err := s.operator.Queued(t.Context(), bus.DefaultQueue, ticket.Run)
		return err == nil && !waits
	})
	s.lab.open("go")
	if v, err := s.table.Wait(s.soon(), second.Run, nil); err != nil || v.State != runs.StateCompleted {
		t.Errorf("the second task: %s, %v", v.State, err)
	}
	record, err := s.table.Record(s.soon(), ticket.Run)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := s.operator.Output(t.Context(), "codex", ticket.Run, 1<<16, false)
	if a, b := strings.Count(string(out.Head), `"a"`), strings.Count(string(out.Head), `"b"`); err != nil || a+b != 1 ||
		record.Gaps != 0 {
		t.Errorf("its output: %q (%v), %d gaps, worker %s", out.Head, err, record.Gaps, record.Worker)
	}
}

// 1. The server's disk is as of now. 2. Some runs; the responder's table and its
// ordered consumer have come to revision N. 3. The server's machine loses its
// power, and comes back with the disk as it was: RUNS is the same stream, made
// at the same time, and ends before N. The responder is on another machine. 4. A
// task is submitted, done and recorded.
//
// Consequence: the client library makes the consumer again at N+1, beyond the
// stream's end: nothing comes, and no error; what comes has revisions that the
// table takes for known. The task is queued in every answer, for as long as it
// takes RUNS to pass N, and Wait does not return. The beats' watch is as deaf.
func TestTableFollowsATruncatedRunTable(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	lose := s.sync()
	s.work("w", 1, done)
	for range 8 {
		if _, err := s.table.Wait(s.soon(), s.submit("x").Run, nil); err != nil {
			t.Fatal(err)
		}
	}
	lose()
	ticket := s.submit("x")
	s.until("the record says that it ended", func() bool {
		r, ok, err := s.operator.Record(t.Context(), ticket.Run)
		return err == nil && ok && r.State == runs.StateCompleted
	})
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	if v, err := s.table.Wait(ctx, ticket.Run, nil); err != nil || v.State != runs.StateCompleted {
		t.Errorf("20 s after the record says completed the responder says %s (%v)", v.State, err)
	}
	if n := len(s.table.Snapshot(100, nil).Ended); n != 1 {
		t.Errorf("%d runs have ended, of which the streams know 1", n)
	}
}

// sync remembers the server's disk as of now. The returned function has the
// server lose its power: it comes back with that disk.
func (s *site) sync() (lose func()) {
	s.Helper()
	back := func() {
		s.Helper()
		var err error
		if s.server, err = embedded.StartServer(s.store, s.address, bus.Names{Prefix: bus.DefaultPrefix}, s.log); err != nil {
			s.Fatal(err)
		}
		s.until("the connection", s.operator.Connected)
	}
	stop := func() {
		s.Helper()
		s.server.Stop()
		s.until("the loss of the connection", func() bool { return !s.operator.Connected() }) // its client may be late
	}
	store, synced := filepath.Join(s.store, "jetstream"), filepath.Join(s.TempDir(), "synced")
	stop()
	if err := os.CopyFS(synced, os.DirFS(store)); err != nil {
		s.Fatal(err)
	}
	back()
	return func() {
		s.Helper()
		stop()
		err := os.RemoveAll(store)
		if err == nil {
			err = os.CopyFS(store, os.DirFS(synced))
		}
		if err != nil {
			s.Fatal(err)
		}
		back()
	}
}

// clerk counts the calls that begin after the service is said to have ended.
type clerk struct {
	over        atomic.Bool
	calls, late atomic.Int64
}

func (c *clerk) Call(context.Context, string, json.RawMessage, func(v36.Progress)) (v36.Answer, error) {
	c.count()
	return v36.Answer{Envelope: []byte("{}")}, nil
}

// Quick does every other one.
func (c *clerk) Quick(string, json.RawMessage) (v36.Answer, bool) {
	return v36.Answer{Envelope: []byte("{}")}, c.count()%2 == 0
}

func (c *clerk) count() int64 {
	if c.over.Load() {
		c.late.Add(1)
	}
	return c.calls.Add(1)
}

// 1. Requests come. 2. The responder ends: Serve stops the micro service, which
// drains its subscriptions in the background, and waits for the calls. 3. What
// the drain still brings begins new calls beside and after that wait.
//
// Consequence: WaitGroup.Go races with Wait, and calls run after Serve has
// returned, on a responder that is being taken apart.
func TestNoRequestStartsAfterTheServiceStopped(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	b, client := s.bus(embedded.ResponderUser), s.operator.Inside()
	for range 20 {
		c := &clerk{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- natsapi.Serve(ctx, natsapi.Config{
				Conn: b.Inside(), Root: b.API(), Endpoints: natsapi.ToolEndpoints(c, tools.List()), Version: "1.0.0", Log: s.log,
			})
		}()
		s.until("the service", func() bool {
			_, err := client.Request(b.API()+"._codex_local_status", nil, time.Second)
			return err == nil && c.calls.Load() > 0 // the one before may still refuse requests
		})
		for range 2000 {
			if err := client.PublishRequest(b.API()+"._codex_local_status", "_INBOX_operator.nobody", nil); err != nil {
				t.Fatal(err)
			}
		}
		s.until("calls", func() bool { return c.calls.Load() > 100 })
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		c.over.Store(true)
		before := int64(-1)
		s.until("silence", func() bool { n := c.calls.Load(); same := n == before; before = n; return same })
		if n := c.late.Load(); n > 0 {
			t.Fatalf("%d calls began after Serve had returned", n)
		}
	}
}
