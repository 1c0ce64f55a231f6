package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// sleeping returns a run whose agent sleeps as soon as it can.
func sleeping(t *testing.T, does ...string) *stage {
	s := keeping(t, does...)
	s.spec.Limits.Sleep = time.Millisecond
	return s
}

const (
	wentToSleep = " limit- >close5 <5 process-end"
	awoken      = " process-start >initialize1 <1 >resume2 <2 >set_mode3 <3 >prompt4 <update <4"
)

// say sends a message, and fails the test unless it is accepted.
func (s *stage) say(r *Run, id string) {
	s.t.Helper()
	if got, err := r.Answer(s.t.Context(), message(id, "text "+id)); err != nil || !got.Holds {
		s.t.Fatalf("message %s: %+v, error %v", id, got, err)
	}
}

// kill kills the agent that runs.
func (s *stage) kill(n int) {
	s.t.Helper()
	id, _ := readIdentity((&Dir{path: filepath.Join(s.root, "r")}).processDir(n))
	killAgent(id.Agent)
}

// over ends a run.
func (s *stage) over(r *Run, done <-chan result) {
	s.t.Helper()
	if got, err := r.Answer(s.t.Context(), runs.Command{ID: "over", Do: runs.DoEnd, By: "ann"}); err != nil || !got.Holds {
		s.t.Errorf("end: %+v, error %v", got, err)
	}
	if res := <-done; res.err != nil || res.Exit.Reason != runs.ReasonEOF {
		s.t.Errorf("%+v\n%s", res, s.transcript())
	}
}

// stderr is what the raw log has of it.
func (s *stage) stderr() string {
	s.t.Helper()
	var all []byte
	for _, e := range s.entries("r") {
		if e.Kind == runs.ErrOut {
			all = append(all, e.Body...)
		}
	}
	return string(all)
}

// opened opens the directory of the run, as a worker that adopts it does.
func (s *stage) opened() *Dir {
	s.t.Helper()
	d, err := open(filepath.Join(s.root, "r"))
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// keepOnly loses all but the first n entries of the log.
func (s *stage) keepOnly(n int) {
	s.t.Helper()
	var body []byte
	for _, e := range s.entries("r")[:n] {
		body = append(body, fileEntry(e)...)
	}
	s.logs.lossy = true
	if err := os.WriteFile(filepath.Join(s.logs.dir, "r"), body, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func TestRunSleepsBetweenTurns(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes")
	r, done := s.driven(t.Context(), s.create(s.spec))
	log := firstTurn + wentToSleep
	s.lasts(log)
	for _, id := range []string{"m1", "m2"} {
		s.say(r, id)
		log += " ann-" + awoken + wentToSleep
		s.lasts(log)
	}
	s.over(r, done)
	s.reads(log + " ann- exit")
	if got := strings.Count(s.did("started"), "x"); got != 3 {
		t.Errorf("%d processes", got)
	}
}

// An agent that only offers to load a session sends it again: that is no output of the turn.
func TestRunThatSleepsIsLoaded(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "loads")
	r, done := s.driven(t.Context(), s.create(s.spec))
	s.lasts(firstTurn + wentToSleep)
	s.say(r, "m1")
	s.lasts(firstTurn + wentToSleep +
		" ann- process-start >initialize1 <1 >load2 <update <2 >set_mode3 <3 >prompt4 <update <4" + wentToSleep)
	s.over(r, done)
}

// rests has a run get n messages, each while it sleeps, then ends its worker, and returns the log.
func (s *stage) rests(n int) (log string) {
	s.t.Helper()
	ctx, end := context.WithCancel(s.t.Context())
	r, done := s.driven(ctx, s.create(s.spec))
	log = firstTurn + wentToSleep
	s.lasts(log)
	for i := range n {
		s.say(r, fmt.Sprint("m", i))
		log += " ann-" + awoken + wentToSleep
		s.lasts(log)
	}
	end()
	<-done
	return log
}

// A run keeps the files of its last processes, and knows the newest one without those between.
func TestRunKeepsFewProcesses(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes")
	s.w.oldDirs = 3
	log := s.rests(8)
	kept := func() (names []string) {
		found, err := filepath.Glob(filepath.Join(s.root, "r", "p*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			names = append(names, filepath.Base(path))
		}
		return names
	}
	if got := strings.Join(kept(), " "); got != "p1 p6 p7 p8 p9" || exists(filepath.Join(s.root, "r", "p1", outFile)) {
		t.Errorf("it keeps %s", got)
	}
	for _, name := range []string{"p6", "p7"} {
		files, err := os.ReadDir(filepath.Join(s.root, "r", name))
		if err != nil || len(files) == 0 || len(files) > len(printed) {
			t.Errorf("of %s it keeps %v, error %v", name, files, err)
		}
	}
	s.adopt()
	if got, err := s.absent(message("m9", "text m9")); err != nil || !got.Holds {
		t.Fatalf("without an owner: %+v, error %v", got, err)
	}
	s.lasts(log + " ann-" + awoken + wentToSleep)
	if got := strings.Join(kept(), " "); got != "p1 p10 p7 p8 p9" {
		t.Errorf("after another message it keeps %s", got)
	}
	if got, err := s.absent(runs.Command{ID: "e", Do: runs.DoEnd, By: "ann"}); err != nil || !got.Holds {
		t.Fatalf("end without an owner: %+v, error %v", got, err)
	}
	s.lasts(log + " ann-" + awoken + wentToSleep + " ann- exit")
}

func TestRunWhoseSessionIsLostEnds(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes", "loads", "lost")
	r, done := s.driven(t.Context(), s.create(s.spec))
	s.lasts(firstTurn + wentToSleep)
	s.say(r, "m1")
	res := <-done
	const why = "the agent refused to continue the session"
	if res.err != nil || res.Exit.Reason != runs.ReasonSession || res.Exit.Why != why {
		t.Errorf("%+v", res)
	}
	s.reads(firstTurn + wentToSleep +
		" ann- process-start >initialize1 <1 >resume2 <2! >load3 <3! >close4 <4 process-end exit")
}

// The workers after this one know that the run sleeps, and that a message came while no worker was there.
func TestRunSleepsThroughARestartOfTheWorker(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes")
	ctx, end := context.WithCancel(t.Context())
	_, done := s.driven(ctx, s.create(s.spec))
	s.lasts(firstTurn + wentToSleep)
	end()
	<-done
	if got, err := s.absent(message("m1", "text m1")); err != nil || !got.Holds {
		t.Fatalf("without an owner: %+v, error %v", got, err)
	}
	s.adopt()
	log := firstTurn + wentToSleep + " ann-" + awoken + wentToSleep
	s.lasts(log)
	if got, err := s.absent(runs.Command{ID: "e", Do: runs.DoEnd, By: "ann"}); err != nil || !got.Holds {
		t.Fatalf("end without an owner: %+v, error %v", got, err)
	}
	waitFor(t, "the end", func() bool { return s.ended("r") })
	s.reads(log + " ann- exit")
}

// A worker that was killed right after it had made the directory of a process has the mark of the one before.
func TestOutputOfAProcessIsNotTakenForThatOfTheOneBefore(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes")
	ctx, end := context.WithCancel(t.Context())
	_, done := s.driven(ctx, s.create(s.spec))
	s.lasts(firstTurn + wentToSleep)
	end()
	<-done
	if got, err := s.absent(message("m1", "text m1")); err != nil || !got.Holds {
		t.Fatalf("without an owner: %+v, error %v", got, err)
	}
	log, err := s.logs.Open(t.Context(), "codex", "r", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	start := runs.Encode(runs.Process{N: 2, Do: runs.ProcessStart, How: "resume"})
	if err := log.Append(t.Context(), runs.Entry{Kind: runs.Proc, Time: log.Mark().At, Body: start}); err != nil {
		t.Fatal(err)
	}
	if err := makeProcessFiles(filepath.Join(s.root, "r", "p2")); err != nil {
		t.Fatal(err)
	}
	s.adopt()
	s.lasts(firstTurn + wentToSleep + " ann-" + awoken + wentToSleep)
	if got, err := s.absent(runs.Command{ID: "e", Do: runs.DoEnd, By: "ann"}); err != nil || !got.Holds {
		t.Fatalf("end without an owner: %+v, error %v", got, err)
	}
	waitFor(t, "the end", func() bool { return s.ended("r") })
}

func TestRunThatSleepsIsCancelled(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes")
	r, done := s.driven(t.Context(), s.create(s.spec))
	s.lasts(firstTurn + wentToSleep)
	if err := r.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.err != nil || res.Exit.Reason != runs.ReasonCancelled {
		t.Errorf("%+v", res)
	}
	s.reads(firstTurn + wentToSleep + " cancel exit")
}

// stopsBeforeTheExit has the first worker stop between the end of the last process and the exit entry, does something
// in the run and before the end of the process, and returns the exit that the next worker stored.
func (s *stage) stopsBeforeTheExit(does func(r *Run), before func()) runs.Exit {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	before = sync.OnceFunc(before)
	s.logs.hook = func(_ *fileLog, e runs.Entry) runs.Entry {
		var p runs.Process
		switch {
		case e.Kind == runs.Exited:
			stop()
		case e.Kind == runs.Proc && json.Unmarshal(e.Body, &p) == nil && p.Do == runs.ProcessEnd:
			before()
		}
		return e
	}
	r, done := s.driven(ctx, s.create(s.spec))
	does(r)
	if res := <-done; !errors.Is(res.err, context.Canceled) || !strings.HasSuffix(s.transcript(), " process-end") {
		s.t.Fatalf("error %v\n%s", res.err, s.transcript())
	}
	s.adopt()
	waitFor(s.t, "the end", func() bool { return s.ended("r") })
	return s.exit("r")
}

// The end of the last process is that of the run, also where another worker stores it.
func TestNextWorkerKnowsHowTheLastProcessEnded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		does string
		idle time.Duration
		want runs.Exit
	}{
		{"waits", 0, runs.Exit{Reason: runs.ReasonExited, Signal: 9}},
		{"silent", 400 * time.Millisecond, runs.Exit{Reason: runs.ReasonIdle, Signal: 15}},
		{"", 0, runs.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnNotFound}},
	} {
		t.Run(string(test.want.Reason), func(t *testing.T) {
			t.Parallel()
			s := keeping(t, strings.Fields(test.does)...)
			if s.spec.Limits.Idle = test.idle; test.does == "" {
				s.spec.Argv = []string{"/no/such/program"}
			}
			ex := s.stopsBeforeTheExit(func(*Run) {
				if test.does == "waits" {
					waitFor(t, "the turn", func() bool { return strings.HasSuffix(s.transcript(), "<update") })
					s.kill(1)
				}
			}, func() {})
			all := s.entries("r")
			var p runs.Process
			for _, e := range all {
				if e.Kind == runs.Proc {
					_ = json.Unmarshal(e.Body, &p)
				}
			}
			if at := runs.DecodeExit(all[len(all)-1].Body).At; !sameExit(ex, test.want) || at != p.At || at == 0 {
				t.Errorf("exit %s at %d, want %s at %d\n%s", runs.Encode(ex), at, runs.Encode(test.want), p.At, s.transcript())
			}
		})
	}
}

// The next worker knows that a cancel came after the last turn: its journal says so where it does not read the log.
func TestNextWorkerKnowsThatACancelWasLate(t *testing.T) {
	t.Parallel()
	s := keeping(t)
	ex := s.stopsBeforeTheExit(func(r *Run) {
		s.lasts(firstTurn)
		if got, err := r.Answer(t.Context(), runs.Command{ID: "over", Do: runs.DoEnd, By: "ann"}); err != nil || !got.Holds {
			t.Errorf("end: %+v, error %v", got, err)
		}
	}, s.cancels)
	if ex.Reason != runs.ReasonEOF {
		t.Errorf("exit %s\n%s", runs.Encode(ex), s.transcript())
	}
}

// After a restart of the system nobody knows what an agent had got.
func TestNobodyKnowsWhatAnAgentGotBeforeAReboot(t *testing.T) {
	s := keeping(t)
	d := s.create(s.spec)
	if err := d.makeProcess(1); err != nil {
		t.Fatal(err)
	}
	r := s.w.Run(d)
	r.talk = &dialog{place: begins{in: 100}}
	for boot, want := range map[string]int64{bootID(): 100, "another": math.MaxInt64} {
		write(t, r.file(startedFile), "")
		if err := addIdentity(r.files(), identity{Boot: boot}); err != nil {
			t.Fatal(err)
		}
		if got := r.fed(); got != want {
			t.Errorf("started in boot %q: %d bytes, want %d", boot, got, want)
		}
	}
	write(t, r.file(startedFile), "")
	slots := newFed()
	inLine, at, err := fed{N: 3, Phase: phaseEnd}.slot()
	if err != nil {
		t.Fatal(err)
	}
	copy(slots[at:], inLine[:])
	for _, name := range []string{inFile, fedFile} {
		if err := errors.Join(os.WriteFile(r.file(fedFile), slots, 0o600), os.Remove(r.file(name))); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(r.file(name), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := r.fed(); got != math.MaxInt64 {
			t.Errorf("the agent has replaced %s by a FIFO: %d bytes", name, got)
		}
		if err := os.Remove(r.file(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Remove(); err != nil {
		t.Fatal(err)
	}
}

// A turn that its agent did not survive is not sent again: nobody knows what it did. What waits is held.
func TestAgentThatDiesInATurnIsStartedForTheNextMessage(t *testing.T) {
	t.Parallel()
	s := keeping(t, "resumes", "once-waits", "once-dies")
	r, done := s.driven(t.Context(), s.create(s.spec))
	waitFor(t, "the turn", func() bool { return strings.HasSuffix(s.transcript(), "<update") })
	s.say(r, "m1")
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	log := strings.TrimSuffix(firstTurn, " <4") + " ann- process-end"
	s.lasts(log)
	if got, err := r.Answer(t.Context(), runs.Command{ID: "r", Do: runs.DoRelease, By: "ann"}); err != nil || !got.Holds {
		t.Fatalf("release: %+v, error %v", got, err)
	}
	s.lasts(log + " ann-" + awoken)
	s.over(r, done)
}

// A run that waits for a message after a turn that its agent did not survive is ended by a person, not lost.
func TestRunIsEndedAfterAnInterruptedTurn(t *testing.T) {
	t.Parallel()
	s := keeping(t, "resumes", "waits")
	r, done := s.driven(t.Context(), s.create(s.spec))
	waitFor(t, "the turn", func() bool { return strings.HasSuffix(s.transcript(), "<update") })
	s.kill(1)
	log := strings.TrimSuffix(firstTurn, " <4") + " process-end"
	s.lasts(log)
	s.over(r, done)
	s.reads(log + " ann- exit")
}

// Processes that a killed agent left behind are killed, too: what they did would not be in the log.
func TestWhatAKilledAgentLeftIsKilled(t *testing.T) {
	t.Parallel()
	s := keeping(t, "resumes", "once-dies", "once-helper")
	s.spec.Limits.Grace = time.Hour
	helper := filepath.Join(s.dir, "helper")
	killAtEnd(t, helper)
	r, done := s.driven(t.Context(), s.create(s.spec))
	log := strings.TrimSuffix(firstTurn, " <4") + " process-end"
	s.lasts(log)
	waitFor(t, "the end of its helper", func() bool { return gone(t, helper) })
	s.say(r, "m1")
	s.lasts(log + " ann-" + awoken)
	s.over(r, done)
}

// A prompt that the agent had certainly not got is sent to the next process.
func TestPromptThatWasNotTakenIsSentAgain(t *testing.T) {
	t.Parallel()
	s := keeping(t, "resumes", "once-numb")
	s.prompts(strings.Repeat("long ", 60_000)) // more than fits into a pipe
	r, done := s.driven(t.Context(), s.create(s.spec))
	waitFor(t, "the prompt", func() bool { return strings.HasSuffix(s.transcript(), ">prompt4") })
	s.say(r, "m1")
	s.kill(1)
	s.lasts("start process-start >initialize1 <1 >new2 <2 >set_mode3 <3 >prompt4 ann- process-end" + awoken +
		" >prompt5 <update <5")
	if got := strings.Count(s.did("accepted"), `"text":"`); got != 2 {
		t.Errorf("the agent has accepted %d prompts", got)
	}
	s.over(r, done)
}

// An agent that does not start any more ends the run.
func TestAgentThatDoesNotWakeEndsTheRun(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes", "later-stillborn", "later-complains")
	r, done := s.driven(t.Context(), s.create(s.spec))
	s.lasts(firstTurn + wentToSleep)
	s.say(r, "m1")
	res := <-done
	if res.err != nil || res.Exit.Reason != runs.ReasonSession {
		t.Errorf("%+v", res)
	}
	if got := strings.Count(s.did("started"), "x"); got != 4 {
		t.Errorf("%d processes", got)
	}
	if got := s.stderr(); got != strings.Repeat(complaint, 3) {
		t.Errorf("stderr: %q", got)
	}
}

// The next worker knows the stderr of a process from that of the one before, although neither has printed to stdout.
func TestStderrOfAProcessIsNotTakenForThatOfTheOneBefore(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes", "later-stillborn", "later-complains")
	ctx, end := context.WithCancel(t.Context())
	s.logs.hook = func(_ *fileLog, e runs.Entry) runs.Entry {
		var p runs.Process
		if e.Kind == runs.Proc && json.Unmarshal(e.Body, &p) == nil && p.N == 3 && p.Do == runs.ProcessStart {
			end() // before it has a directory
		}
		return e
	}
	r, done := s.driven(ctx, s.create(s.spec))
	s.lasts(firstTurn + wentToSleep)
	s.say(r, "m1")
	if res := <-done; !errors.Is(res.err, context.Canceled) {
		t.Fatalf("error %v\n%s", res.err, s.transcript())
	}
	s.adopt()
	waitFor(t, "the end", func() bool { return s.ended("r") })
	if got := s.stderr(); got != strings.Repeat(complaint, 3) {
		t.Errorf("stderr: %q", got)
	}
}

// A raw log that was lost gets the entries of all processes again.
func TestLostLogOfSeveralProcessesIsFilledAgain(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string]func(n int) int{
		"all": func(int) int { return 0 }, "half": func(n int) int { return n / 2 },
		"the end": func(n int) int { return n - 3 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sleeping(t, "resumes")
			ctx, end := context.WithCancel(t.Context())
			r, done := s.driven(ctx, s.create(s.spec))
			s.lasts(firstTurn + wentToSleep)
			s.say(r, "m1")
			log := firstTurn + wentToSleep + " ann-" + awoken + wentToSleep
			s.lasts(log)
			end()
			<-done
			s.keepOnly(drop(len(s.entries("r"))))
			s.adopt()
			s.lasts(log)
			if got, err := s.absent(message("m2", "text m2")); err != nil || !got.Holds {
				t.Fatalf("%+v, error %v", got, err)
			}
			s.lasts(log + " ann-" + awoken + wentToSleep)
			if got, err := s.absent(runs.Command{ID: "e", Do: runs.DoEnd, By: "ann"}); err != nil || !got.Holds {
				t.Fatalf("end: %+v, error %v", got, err)
			}
			waitFor(t, "the end", func() bool { return s.ended("r") })
		})
	}
}

// A raw log that is lost right before a worker first reads it is filled again: it is none whose beginning has expired.
func TestLogThatIsLostBeforeItsFirstReadIsFilledAgain(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]int{"all": 0, "its end": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sleeping(t, "resumes")
			ctx, end := context.WithCancel(t.Context())
			_, done := s.driven(ctx, s.create(s.spec))
			s.lasts(firstTurn + wentToSleep)
			end()
			<-done
			r, again := s.w.Run(s.opened()), make(chan result, 1)
			r.onStarted = func() { s.keepOnly(kept) }
			go func() {
				ex, err := r.Drive(t.Context())
				again <- result{ex, err}
			}()
			s.lasts(firstTurn + wentToSleep)
			s.say(r, "m1")
			s.lasts(firstTurn + wentToSleep + " ann-" + awoken + wentToSleep)
			s.over(r, again)
		})
	}
}

// Where the raw log is lost, and the output of some processes was dropped, the run ends and says why.
func TestLostLogOfDroppedProcesses(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes")
	s.w.oldDirs = 1
	s.rests(5)
	s.keepOnly(0)
	s.adopt()
	waitFor(t, "its end", func() bool { return s.ended("r") })
	all := s.entries("r")
	if ex := runs.DecodeExit(all[len(all)-1].Body); ex.Reason != runs.ReasonSession || ex.Why == "" {
		t.Errorf("%+v\n%s", ex, s.transcript())
	}
}

// A worker whose log has lost its beginning by age knows the former processes by the journal and their output.
func TestJournalHasFormerProcesses(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes")
	ctx, end := context.WithCancel(t.Context())
	r, done := s.driven(ctx, s.create(s.spec))
	s.lasts(firstTurn + wentToSleep)
	s.say(r, "m1")
	log := firstTurn + wentToSleep + " ann-" + awoken + wentToSleep
	s.lasts(log)
	end()
	<-done
	s.logs.expired = uint64(len(s.entries("r")) - 4)
	r, done = s.driven(t.Context(), s.opened())
	s.say(r, "m2")
	log += " ann-" + awoken + wentToSleep
	s.lasts(log)
	s.over(r, done)
}

// A model that people choose while the run sleeps is that of its next process.
func TestModelIsChosenWhileTheRunSleeps(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes")
	r, done := s.driven(t.Context(), s.create(s.spec))
	s.lasts(firstTurn + wentToSleep)
	chosen := runs.Command{ID: "chosen", Do: runs.DoSet, Model: "m1", By: "ann"}
	if got, err := r.Answer(t.Context(), chosen); err != nil || !got.Holds {
		t.Fatalf("%+v, error %v", got, err)
	}
	s.say(r, "m1")
	s.lasts(firstTurn + wentToSleep + " ann- ann- process-start >initialize1 <1 >resume2 <2 >set_mode3 <3 >set_model4 <4" +
		" >prompt5 <update <5 limit- >close6 <6 process-end")
	s.over(r, done)
}

// An agent that ended before it got the prompt of its task gets it in its next process.
func TestFirstPromptIsSentByTheNextProcess(t *testing.T) {
	t.Parallel()
	s := keeping(t, "resumes", "once-faints")
	r, done := s.driven(t.Context(), s.create(s.spec))
	s.lasts("start process-start >initialize1 <1 >new2 <2 >set_mode3 process-end" + awoken)
	s.over(r, done)
}

// Of more runs than may be awake, the one that waits for longest sleeps first.
func TestFewRunsAreAwake(t *testing.T) {
	t.Parallel()
	s := keeping(t, "resumes")
	s.w.cfg.Awake = 1
	first, done := s.driven(t.Context(), s.create(s.spec))
	s.lasts(firstTurn)
	other := s.spec
	other.Run = "r2"
	s.prompts("hello")
	other.Input = s.spec.Input
	second, secondDone := s.driven(t.Context(), s.create(other))
	s.lasts(firstTurn + wentToSleep)
	s.say(first, "m1")
	s.lasts(firstTurn + wentToSleep + " ann-" + awoken)
	s.over(first, done)
	s.over(second, secondDone)
}

// A queue that waits for a slot goes on when a run sleeps, which has none any more.
func TestRunThatSleepsFreesItsSlot(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes")
	s.spec.Source = runs.SourceQueue
	r, done := s.driven(t.Context(), s.create(s.spec))
	waitFor(t, "a slot", func() bool {
		select {
		case <-s.w.slotFreed:
			return true
		default:
			return false
		}
	})
	if n := s.w.Tasks(); n != 0 {
		t.Errorf("%d tasks", n)
	}
	s.over(r, done)
}

// Workers and shims are killed again and again while a run sleeps and wakes: each process gets its lines once, and
// each message has one turn.
func TestRunThatSleepsSurvivesItsWorkersAndShims(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		env  []string
	}{
		{"before the second append", []string{"TEST_KILL_AT=2"}},
		{"after the first append", []string{"TEST_KILL_AT=1", "TEST_KILL_WHEN=after"}},
		{"with shims", []string{"TEST_KILL_AT=3", "TEST_KILL_WHEN=after", "TEST_KILL_FEED=7"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := sleeping(t, "resumes")
			s.create(s.spec).Close()
			log, next := firstTurn+wentToSleep, 0
			over := func() bool {
				if s.transcript() == log && next < 3 {
					c := message(fmt.Sprint("m", next), fmt.Sprint("text ", next))
					if next++; next == 3 {
						c = runs.Command{ID: "e", Do: runs.DoEnd, By: "ann"}
					}
					if got, err := s.absent(c); err != nil || !got.Holds {
						t.Fatalf("%s: %+v, error %v", c.ID, got, err)
					}
					if log += " ann-"; next < 3 {
						log += awoken + wentToSleep
					}
				}
				return s.ended("r") && s.empty()
			}
			for workers := 0; !over(); workers++ {
				worker := s.process(nil, test.env, "live")
				dead := make(chan error, 1)
				go func() { dead <- worker.Wait() }()
				waitFor(t, "the end of the worker or of the run", func() bool { return len(dead) > 0 || over() })
				_ = worker.Process.Kill()
				if err := <-dead; !isKilled(err) {
					t.Fatalf("worker %d was not killed: %v", workers, err)
				}
			}
			s.reads(log + " exit")
			if accepted := s.did("accepted"); accepted != s.told() {
				t.Errorf("the agents have taken %d bytes, not those of the log", len(accepted))
			}
			if got := strings.Count(s.did("started"), "x"); got != 3 {
				t.Errorf("%d processes", got)
			}
		})
	}
}

// The agent is killed at any moment, again and again: no message is taken twice, and each has its turn in the log.
func TestRunSurvivesAnAgentThatIsKilled(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes")
	r, done := s.driven(t.Context(), s.create(s.spec))
	s.lasts(firstTurn + wentToSleep)
	random := rand.New(rand.NewPCG(1, 2))
	const messages = 10
	for i := range messages {
		s.say(r, fmt.Sprint("m", i))
		<-time.After(time.Duration(random.IntN(30)) * time.Millisecond) // the moment
		n := 1
		for exists((&Dir{path: filepath.Join(s.root, "r")}).processDir(n + 1)) {
			n++
		}
		s.kill(n)
		waitFor(t, "the message has its turn", func() bool {
			release := runs.Command{ID: fmt.Sprint("r", i, time.Now().UnixNano()), Do: runs.DoRelease, By: "ann"}
			if got, err := r.Answer(t.Context(), release); err != nil {
				t.Fatalf("release: %+v, error %v", got, err)
			}
			return strings.Contains(s.told(), fmt.Sprintf(`"text":"text m%d"`, i))
		})
	}
	waitFor(t, "the process that was killed has ended", func() bool {
		return strings.HasSuffix(s.transcript(), " process-end")
	})
	s.over(r, done)
	accepted := s.did("accepted")
	for i := range messages {
		if got := strings.Count(accepted, fmt.Sprintf(`"text":"text m%d"`, i)); got > 1 {
			t.Errorf("message %d was taken %d times", i, got)
		}
	}
}

// Where no end of a process is known, a run that does not go on has ended now, with a reason.
func TestExitOfARunWithoutAProcess(t *testing.T) {
	now := time.UnixMilli(1_750_000_000_000)
	for _, last := range []runs.Process{{}, {Stays: true, Reason: runs.ReasonExited, At: 1}} {
		r := &Run{talk: &dialog{last: last}}
		ex, err := r.exitAsleep(now)
		if err != nil || ex.Reason != runs.ReasonEOF || ex.At != now.UnixMilli() {
			t.Errorf("after %+v: %+v %v", last, ex, err)
		}
	}
}
