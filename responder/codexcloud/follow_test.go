package codexcloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"

	"github.com/linesman/linesman/normalizer"
	backend "github.com/linesman/linesman/normalizer/cloud"
	"github.com/linesman/linesman/runs"
	standin "github.com/linesman/linesman/test/lab/cloud"
)

func memDriver(logs logs, s *memService) *Driver {
	d := &Driver{logs: logs, minInterval: 5 * time.Second, maxInterval: time.Minute, log: zap.NewNop(), call: s.call}
	d.stopping, d.stop = context.WithCancel(context.Background())
	return d
}

func submit(t testing.TB, d *Driver) Submitted {
	t.Helper()
	s, err := d.Submit(context.Background(), Request{Prompt: "Go.", Environment: "env"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// follow follows until no run is open or the time limit is over.
func follow(ctx context.Context, d *Driver, logs *memLogs, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return d.Follow(ctx, func(ctx context.Context) ([]Open, error) {
		all, err := logs.open(ctx)
		if len(all) == 0 {
			cancel()
		}
		return all, err
	})
}

// fold derives events and the record from a log.
func fold(entries []runs.Entry) ([]string, *runs.Record) {
	var events []string
	f := normalizer.NewFold(backend.Backend{}, "T-cloud-x", 0)
	for i, e := range entries {
		f.Apply(uint64(i+1), e, func(m normalizer.Message) {
			text := m.Token
			if _, message, ok := strings.Cut(string(m.Body), `"message":"`); ok && m.Token != normalizer.CompletionToken {
				text, _, _ = strings.Cut(message, `"`)
			}
			events = append(events, text)
		})
	}
	return events, f.Record
}

const bigDiff = "diff --git a/x.go b/x.go\n--- a/x.go\n+++ b/x.go\n@@ -1 +1,2 @@\n-old\n+new \\ \"quoted\"\n+more\n"

func TestPollsBackOffUntilAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemService("PENDING")
		logs := newMemLogs()
		d := memDriver(logs, s)
		run := submit(t, d).Run
		began := time.Now()
		var looks []time.Duration
		s.looks = func() {
			looks = append(looks, time.Since(began))
			if len(looks) == 9 {
				s.state.Tasks[0].Plan = []string{"READY"}
			}
		}
		if err := follow(t.Context(), d, logs, time.Hour); err != nil {
			t.Fatal(err)
		}
		var want []time.Duration
		at := time.Duration(0) // the first poll finds a change, so Min comes twice
		for _, wait := range []time.Duration{0, 5, 5, 10, 20, 40, 60, 60, 60} {
			at += wait * time.Second
			want = append(want, at)
		}
		if fmt.Sprint(looks) != fmt.Sprint(want) {
			t.Errorf("looked at %v, want %v", looks, want)
		}
		events, record := fold(logs.entries[run])
		if fmt.Sprint(events) != "[cloud task submitted cloud task pending cloud task ready completion]" ||
			record.State != runs.StateCompleted {
			t.Errorf("%q, %s", events, record.State)
		}
	})
}

func TestManyTasksAreLookedUpInTheList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemService("PENDING", "PENDING", "READY")
		logs := newMemLogs()
		d := memDriver(logs, s)
		for range 45 {
			submit(t, d)
		}
		for range 300 { // newer tasks of others: ours are not on the first pages
			s.state.Submit("", "", 1)
		}
		for range 25 {
			submit(t, d)
		}
		if err := follow(t.Context(), d, logs, 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		open, _ := logs.open(t.Context())
		if len(open) != 0 {
			t.Errorf("%d runs have not ended", len(open))
		}
		if s.count("list") == 0 || s.count("status") == 0 || s.count("status") > 45*3 {
			t.Errorf("%d lists, %d single looks", s.count("list"), s.count("status"))
		}
	})
}

func TestUnreadableListIsReplacedByPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemService("READY")
		s.fail["list"] = &Failure{Command: "list", Reason: reasonUnreadable}
		logs := newMemLogs()
		d := memDriver(logs, s)
		for range 12 {
			submit(t, d)
		}
		if err := follow(t.Context(), d, logs, time.Minute); err != nil {
			t.Fatal(err)
		}
		if open, _ := logs.open(t.Context()); len(open) != 0 {
			t.Errorf("%d runs have not ended", len(open))
		}
	})
}

func TestGeneralFailureIsLoggedOnceAndPolledRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemService("READY")
		logs := newMemLogs()
		core, seen := observer.New(zap.InfoLevel)
		d := memDriver(logs, s)
		for range 3 {
			submit(t, d)
		}
		d.log = zap.New(core)
		s.fail["status"] = &Failure{Command: "status", Exit: 1, Reason: reasonNotSignedIn, Stderr: "S3CR3T"}
		go func() {
			time.Sleep(30 * time.Minute)
			s.mu.Lock()
			defer s.mu.Unlock()
			clear(s.fail)
		}()
		if err := follow(t.Context(), d, logs, time.Hour); err != nil {
			t.Fatal(err)
		}
		if n := s.count("status"); n > 100 {
			t.Errorf("%d looks in half an hour", n)
		}
		if n := seen.FilterMessage("tasks cannot be polled").Len(); n != 1 {
			t.Errorf("said %d times", n)
		}
		if seen.FilterMessage("it works again").Len() != 1 {
			t.Error("not said that it is over")
		}
		if open, _ := logs.open(t.Context()); len(open) != 0 {
			t.Errorf("%d runs have not ended", len(open))
		}
		for _, e := range seen.All() {
			if strings.Contains(fmt.Sprint(e.Message, e.ContextMap()), "S3CR3T") {
				t.Errorf("the log quotes the program: %v", e)
			}
		}
	})
}

func TestMissingTaskDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemService("READY")
		logs := newMemLogs()
		d := memDriver(logs, s)
		gone, other := submit(t, d), submit(t, d)
		s.state.Tasks = s.state.Tasks[1:]
		if err := follow(t.Context(), d, logs, time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, r := fold(logs.entries[other.Run]); r.State != runs.StateCompleted {
			t.Errorf("the other is %s", r.State)
		}
		if _, r := fold(logs.entries[gone.Run]); r.State != runs.StateWorking {
			t.Errorf("the one that is gone is %s: nobody knows that", r.State)
		}
	})
}

// TestFailingTaskDoesNotStopOthers: also if it fails as if all would, and if the list is of no help.
func TestFailingTaskDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{reasonTimeout, reasonPermission, reasonNetwork, reasonRateLimit} {
		for n := 2; n <= 12; n += 2 { // the order of new tasks is random
			synctest.Test(t, func(t *testing.T) {
				s := newMemService("PENDING", "PENDING", "PENDING", "READY")
				s.fail["list"] = &Failure{Command: "list", Reason: reasonUnreadable}
				logs := newMemLogs()
				d := memDriver(logs, s)
				bad := submit(t, d)
				s.fail["status "+bad.ID] = &Failure{Command: "status", Reason: reason}
				for range n - 1 {
					submit(t, d)
				}
				if err := follow(t.Context(), d, logs, 4*time.Minute); err != nil {
					t.Fatal(err)
				}
				if open, _ := logs.open(t.Context()); len(open) != 1 || open[0].Run != bad.Run {
					t.Errorf("%s, %d tasks: open are %v", reason, n, open)
				}
			})
		}
	}
}

func TestRunWithoutATaskEndsAsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		logs := newMemLogs()
		logs.entries["T-cloud-orphan"] = []runs.Entry{{Kind: runs.Started, Body: runs.Encode(runs.Start{Source: "cloud"})}}
		began := time.Now()
		if err := follow(t.Context(), memDriver(logs, newMemService()), logs, time.Hour); err != nil {
			t.Fatal(err)
		}
		if after := time.Since(began); after < orphanAfter || after > orphanAfter+time.Minute+5*time.Second {
			t.Errorf("ended after %v", after)
		}
		if _, r := fold(logs.entries["T-cloud-orphan"]); r.State != runs.StateFailed || r.Reason != "lost" {
			t.Errorf("%s (%s)", r.State, r.Reason)
		}
	})
}

func TestCancelEntryEndsTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		logs := newMemLogs()
		d := memDriver(logs, newMemService("PENDING"))
		run := submit(t, d).Run
		logs.entries[run] = append(logs.entries[run], runs.Entry{Kind: runs.Cancelled})
		if err := follow(t.Context(), d, logs, time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, r := fold(logs.entries[run]); r.State != runs.StateCancelled {
			t.Errorf("%s", r.State)
		}
	})
}

// TestMissingDiffIsOmitted: after some attempts a missing diff is
// omitted, and the run ends.
func TestMissingDiffIsOmitted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		tries int
	}{
		"there is none": {nil, 1},
		"it fails":      {&Failure{Command: "diff", Reason: reasonTimeout}, maxTries},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newMemService("READY")
				s.state.Next.Files = 1
				s.fail["diff"] = c.err
				logs := newMemLogs()
				d := memDriver(logs, s)
				run := submit(t, d).Run
				if err := follow(t.Context(), d, logs, time.Hour); err != nil {
					t.Fatal(err)
				}
				if n := s.count("diff"); n != c.tries {
					t.Errorf("asked %d times, want %d", n, c.tries)
				}
				if events, r := fold(logs.entries[run]); r.State != runs.StateCompleted || len(events) != 3 {
					t.Errorf("%s, %q", r.State, events)
				}
			})
		})
	}
}

// TestExpiredLogContinuesAtItsRecord: the normalizer has folded bytes
// that have since expired from RAW, so later ones need higher offsets.
func TestExpiredLogContinuesAtItsRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemService("READY")
		logs := newMemLogs()
		d := memDriver(logs, s)
		run := submit(t, d)
		before := logs.entries[run.Run]
		f := normalizer.NewFold(backend.Backend{}, run.Run, 0)
		for i, e := range before {
			f.Apply(uint64(i+1), e, func(normalizer.Message) {})
		}
		delete(logs.entries, run.Run)
		ctx, cancel := context.WithCancel(t.Context())
		err := d.Follow(ctx, func(context.Context) ([]Open, error) {
			if e := logs.entries[run.Run]; len(e) > 0 && e[len(e)-1].Kind == runs.Exited {
				cancel()
			}
			return []Open{{Run: run.Run, ID: run.ID, Bytes: f.Record.Bytes}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range logs.entries[run.Run] {
			f.Apply(uint64(100+i), e, func(normalizer.Message) {})
		}
		if r := f.Record; r.State != runs.StateCompleted || r.Gaps != 0 || r.Malformed != 0 {
			t.Errorf("%s, %d gaps, %d malformed", r.State, r.Gaps, r.Malformed)
		}
	})
}

// TestKilledAtEveryAppend: a driver dies before or after any append, and
// another one goes on. The log ends up as if nothing had happened.
func TestKilledAtEveryAppend(t *testing.T) {
	t.Parallel()
	long := bigDiff + strings.Repeat("\\ \"é𝄞\x01\n", 30_000) // several chunks of escapes
	carry := func(killAt int, stored bool) (out []byte, kinds string, appends int) {
		synctest.Test(t, func(t *testing.T) {
			s := newMemService("PENDING", "PENDING", "READY")
			s.state.Next.Diff, s.state.Next.Files, s.state.Next.Added, s.state.Next.Lost = long, 1, 2, 1
			logs := newMemLogs()
			run := submit(t, memDriver(logs, s)).Run
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			logs.appends, logs.killAt, logs.stored, logs.kill = 0, killAt, stored, cancel
			if err := follow(ctx, memDriver(logs, s), logs, time.Hour); err != nil {
				t.Fatal(err)
			}
			if died := ctx.Err() != nil; died != (killAt > 0) {
				t.Fatalf("killed at append %d: %v", killAt, died)
			}
			if err := follow(t.Context(), memDriver(logs, s), logs, time.Hour); err != nil {
				t.Fatal(err)
			}
			for _, e := range logs.entries[run] {
				kinds += string(e.Kind) + " "
			}
			out, appends = output0(logs.entries[run]), logs.appends
			if _, r := fold(logs.entries[run]); r.State != runs.StateCompleted || r.Gaps+r.Malformed+r.Unknown != 0 {
				t.Errorf("killed at append %d: %s, %d gaps, %d malformed", killAt, r.State, r.Gaps, r.Malformed)
			}
		})
		return out, kinds, appends
	}
	want, wantKinds, appends := carry(0, false)
	if appends < 8 || !bytes.Contains(want, []byte(`"type":"cloud.diff"`)) {
		t.Fatalf("%d appends, %d bytes", appends, len(want))
	}
	for at := 1; at <= appends; at++ {
		for _, stored := range []bool{false, true} {
			out, kinds, _ := carry(at, stored)
			if !bytes.Equal(out, want) || kinds != wantKinds {
				t.Errorf("killed at append %d, stored %v: %d bytes, want %d; %s, want %s", at, stored, len(out), len(want), kinds,
					wantKinds)
			}
		}
	}
}

// TestDiffThatChangedMeanwhileIsClosed: what the killed driver began cannot
// be completed, and is told as truncated.
func TestDiffThatChangedMeanwhileIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemService("READY")
		s.state.Next.Files, s.state.Next.Diff = 1, strings.Repeat("+\\\n", 60_000)
		logs := newMemLogs()
		run := submit(t, memDriver(logs, s)).Run
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		logs.killAt, logs.stored, logs.kill = logs.appends+3, true, cancel // the second chunk of the diff
		if err := follow(ctx, memDriver(logs, s), logs, time.Hour); err != nil {
			t.Fatal(err)
		}
		s.state.Tasks[0].Diff = "another one"
		if err := follow(t.Context(), memDriver(logs, s), logs, time.Hour); err != nil {
			t.Fatal(err)
		}
		out := output0(logs.entries[run])
		if _, r := fold(logs.entries[run]); r.State != runs.StateCompleted || r.Malformed != 0 ||
			bytes.Count(out, []byte("cloud.diff")) != 1 || !bytes.Contains(out, []byte(`"truncated":true}`)) {
			t.Errorf("%s, %d malformed, %d bytes", r.State, r.Malformed, len(out))
		}
	})
}

// TestAnyDriversTellEachChangeOnce: drivers come and go at any time, several
// at once; every change is told once and in order.
func TestAnyDriversTellEachChangeOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		end := rapid.SampledFrom([]string{"READY", "APPLIED", "ERROR"}).Draw(rt, "end")
		endsAfter := time.Duration(rapid.IntRange(10_000, 200_000).Draw(rt, "ends after")) * time.Millisecond
		diff := strings.Repeat(rapid.SampledFrom([]string{"+x\n", "\\\n", "\x01"}).Draw(rt, "piece"),
			rapid.IntRange(0, 60_000).Draw(rt, "pieces"))
		type life struct{ from, to time.Duration }
		lives := []life{{0, time.Hour}}
		for range rapid.IntRange(0, 4).Draw(rt, "drivers") {
			from := time.Duration(rapid.IntRange(0, 120_000).Draw(rt, "from")) * time.Millisecond
			lives = append(lives, life{from, from + time.Duration(rapid.IntRange(1, 60_000).Draw(rt,
				"lasting"))*time.Millisecond})
		}
		late := rapid.Bool().Draw(rt, "the first comes late")
		if late {
			lives[0].from = 3 * time.Minute
		}
		delay := time.Duration(rapid.IntRange(0, 3000).Draw(rt, "delay")) * time.Millisecond
		var entries []runs.Entry
		var wrong error
		synctest.Test(t, func(t *testing.T) {
			s := newMemService("PENDING")
			s.state.Next.Diff, s.state.Next.Files = diff, 1
			logs := newMemLogs()
			run := submit(t, memDriver(logs, s)).Run
			began := time.Now()
			s.looks = func() {
				time.Sleep(delay)
				if time.Since(began) >= endsAfter {
					s.mu.Lock()
					defer s.mu.Unlock()
					s.state.Tasks[0].Plan = []string{end}
				}
			}
			var group sync.WaitGroup
			for _, l := range lives {
				group.Go(func() {
					time.Sleep(l.from)
					if err := follow(t.Context(), memDriver(logs, s), logs, l.to-l.from); err != nil {
						wrong = err
					}
				})
			}
			group.Wait()
			entries = logs.entries[run]
		})
		events, r := fold(entries)
		want := []string{"cloud task submitted", "cloud task pending", "cloud task " + strings.ToLower(end)}
		if late && len(events) > 1 && events[1] != want[1] { // nobody looked while it was
			want = slices.Delete(want, 1, 2)
		}
		if end != "ERROR" && diff != "" {
			want = append(want, "cloud task diff")
		}
		want = append(want, "completion")
		if fmt.Sprint(events) != fmt.Sprint(want) || r.Gaps+r.Malformed != 0 || wrong != nil {
			rt.Fatalf("got %q, want %q; %d gaps, %d malformed, %v", events, want, r.Gaps, r.Malformed, wrong)
		}
		if state := map[bool]runs.State{true: runs.StateFailed,
			false: runs.StateCompleted}[end == "ERROR"]; r.State != state {
			rt.Fatalf("%s, want %s", r.State, state)
		}
	})
}

func TestSubmitChecksEverythingAtOnce(t *testing.T) {
	d := memDriver(newMemLogs(), newMemService())
	_, err := d.Submit(t.Context(), Request{Prompt: " \n", Environment: "", Attempts: 5})
	for _, field := range []string{"prompt", "environment", "attempts"} {
		if !strings.Contains(fmt.Sprint(err), field+": ") {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
	var wrong *runs.FieldError
	if !errors.As(err, &wrong) {
		t.Errorf("%T", err)
	}
	for _, r := range []Request{
		{Prompt: strings.Repeat("é", runs.MaxShortPrompt+1), Environment: "e"}, {Prompt: "a\x00", Environment: "e"},
		{Prompt: "\xff", Environment: "e"},
		{Prompt: "x", Environment: " e"}, {Prompt: "x", Environment: strings.Repeat("e", MaxEnvironment+1)},
		{Prompt: "x", Environment: "e", Attempts: -1},
	} {
		if r.Check() == nil {
			t.Errorf("%.40q, %q, %d are taken", r.Prompt, r.Environment, r.Attempts)
		}
	}
	longest := &Request{Prompt: strings.Repeat("é", runs.MaxShortPrompt), Environment: "-e", Attempts: 4}
	if err := longest.Check(); err != nil {
		t.Error(err)
	}
}

// TestAcceptedTaskGetsARunAfterADisconnect: the client disconnects while the program hands the task over.
func TestAcceptedTaskGetsARunAfterADisconnect(t *testing.T) {
	logs, s := newMemLogs(), newMemService("PENDING")
	ctx, cancel := context.WithCancel(t.Context())
	d := memDriver(logs, s)
	d.call = func(ctx context.Context, c call) (output, error) {
		cancel()
		<-c.waiting.Done()
		if ctx.Err() != nil {
			return output{exit: -1}, ctx.Err()
		}
		return s.call(ctx, c)
	}
	got, err := d.Submit(ctx, Request{Prompt: "Go.", Environment: "env"})
	if err != nil {
		t.Fatal(err)
	}
	_, r := fold(logs.entries[got.Run])
	if r.State != runs.StateWorking || r.Source != "cloud" || r.Cloud == nil ||
		r.Cloud.ID != got.ID || r.Cloud.URL != standin.URL(got.ID) || r.StartedAt != got.At {
		t.Errorf("%s", r.JSON())
	}
}

// TestStopEndsWhatNobodyWaitsFor: a program that hands a task over, once its client has disconnected, too.
func TestStopEndsWhatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, first := range []string{"stop", "disconnect"} {
			ctx, disconnect := context.WithCancel(t.Context())
			d := memDriver(newMemLogs(), newMemService())
			ends := []func(){disconnect, d.Stop}
			if first == "stop" {
				slices.Reverse(ends)
			}
			d.call = func(ctx context.Context, c call) (output, error) {
				ends[0]()
				synctest.Wait()
				if err := ctx.Err(); err != nil {
					t.Errorf("%s: it has ended too early", first)
				}
				ends[1]()
				<-ctx.Done()
				return output{exit: -1}, ctx.Err()
			}
			if got, err := d.Submit(ctx, Request{Prompt: "Go.", Environment: "env"}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %+v, %v", first, got, err)
			}
		}
	})
}
