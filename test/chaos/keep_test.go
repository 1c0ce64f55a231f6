package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// writer is somebody who sends messages to runs, changes them and takes them back, and cancels turns. No text is that
// of another one.
type writer struct {
	s   *site
	rng *rand.Rand
	n   int
	all []*written

	accepted                 atomic.Int64
	edited, removed, refused int
}

// written is a message, as far as its writer knows.
type written struct {
	run, id string
	may     []string // texts that may be its last one; several: nobody knows whether a change was taken
	never   []string // texts that were refused, or replaced
	taken   bool     // it was accepted
	back    bool     // it was taken back
	unsure  bool     // nobody knows whether it was
}

func (w *writer) text() string {
	w.n++
	return fmt.Sprintf("%s-%d %s", w.s.t.Name(), w.rng.Uint64(), Sentinel)
}

// try makes a request. Refused says that it has no effect; neither: nobody knows.
func (w *writer) try(op string, args map[string]any) (told gjson.Result, done, refused bool) {
	told, err := w.s.ask(op, args)
	switch code := told.Get("code").String() + told.Get("error.code").String(); {
	case err != nil:
		return told, false, false
	case code != "":
		return told, false, code == "CONFLICT" || code == "ENDED" || code == "VALIDATION"
	}
	return told, told.Get("run").Exists(), false
}

// write does so until ctx ends.
func (w *writer) write(ctx context.Context, all []string) {
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		run := all[w.rng.IntN(len(all))]
		mine := slices.DeleteFunc(slices.Clone(w.all), func(m *written) bool { return !m.taken || m.back || m.unsure })
		switch what := w.rng.IntN(10); {
		case what < 4:
			w.send(run)
		case what < 6 && len(mine) > 0:
			w.edit(mine[len(mine)-1]) // the newest, which perhaps waits
		case what < 8 && len(mine) > 0:
			w.unsend(mine[len(mine)-1])
		case what == 8:
			w.try("release", map[string]any{"run": run})
			w.try("unsend", map[string]any{"run": run, "message": Sentinel + "id"})
		case what == 9:
			w.try("stop", map[string]any{"run": run})
		}
	}
}

func (w *writer) send(run string) {
	m := &written{run: run, may: []string{w.text()}}
	w.all = append(w.all, m)
	args := map[string]any{"run": run, "text": m.may[0], "key": Sentinel + "key" + m.may[0]}
	if w.rng.IntN(5) == 0 {
		args["when"] = "now"
	}
	for range 3 { // the same again is sent once
		told, done, refused := w.try("send", args)
		if done {
			m.taken, m.id = true, told.Get("message").String()
			w.accepted.Add(1)
			return
		}
		if refused {
			m.never, m.may = m.may, nil
			w.refused++
			return
		}
	}
}

func (w *writer) edit(m *written) {
	text := w.text()
	_, done, refused := w.try("edit", map[string]any{"run": m.run, "message": m.id, "text": text})
	switch {
	case done:
		m.never, m.may = append(m.never, m.may...), []string{text}
		w.edited++
	case refused:
		m.never = append(m.never, text)
		w.refused++
	default:
		m.may = append(m.may, text)
	}
}

func (w *writer) unsend(m *written) {
	_, done, refused := w.try("unsend", map[string]any{"run": m.run, "message": m.id})
	if m.back, m.unsure = done, !done && !refused; done {
		w.removed++
	}
}

// check compares what the writer was told with the prompts of each run.
func (w *writer) check(prompts map[string][]string) {
	for _, m := range w.all {
		sent := 0
		for _, text := range prompts[m.run] {
			if slices.Contains(m.never, text) || m.back && slices.Contains(m.may, text) {
				w.s.t.Errorf("run %s: message %s was sent as a text that was refused, replaced or taken back", m.run, m.id)
			}
			if slices.Contains(m.may, text) {
				sent++
			}
		}
		if sent > 1 || m.taken && !m.back && !m.unsure && sent == 0 {
			w.s.t.Errorf("run %s: message %s was sent %d times: %+v", m.run, m.id, sent, m)
		}
	}
}

// promptsOf returns the texts of the prompts among lines for an agent.
func promptsOf(in []byte) (texts []string) {
	for line := range strings.Lines(string(in)) {
		if gjson.Get(line, "method").String() == "session/prompt" {
			texts = append(texts, gjson.Get(line, "params.prompt.0.text").String())
		}
	}
	return texts
}

// sentOf returns the texts that the log of a run has in its queue when they are sent, by a queue of its own; problem: a
// prompt is not the first of them.
func sentOf(e Evidence, run string) (texts []string, problem string) {
	var waiting []runs.Command
	var in []byte
	known := map[string]bool{}
	for _, m := range e.Raw {
		if runOf(m) != run {
			continue
		}
		switch runs.Kind(m.Header.Get(bus.HeaderRecord)) {
		case runs.Ordered:
			var c runs.Command
			if json.Unmarshal(m.Body, &c) != nil || known[c.ID] {
				return nil, fmt.Sprintf("command %s is there twice", c.ID)
			}
			known[c.ID] = true
			at := slices.IndexFunc(waiting, func(w runs.Command) bool { return w.ID == c.Message })
			switch {
			case c.Do == runs.DoSend && c.When == runs.WhenNow:
				waiting = slices.Insert(waiting, 0, c)
			case c.Do == runs.DoSend:
				waiting = append(waiting, c)
			case c.Do == runs.DoEdit && at >= 0:
				waiting[at].Text = c.Text
			case c.Do == runs.DoUnsend && at >= 0:
				waiting = slices.Delete(waiting, at, at+1)
			case at < 0 && (c.Do == runs.DoEdit || c.Do == runs.DoUnsend):
				return nil, "a change of a message that does not wait is in the log"
			}
		case runs.Sent:
			in = append(in, m.Body...)
			end := strings.LastIndexByte(string(in), '\n') + 1
			for _, text := range promptsOf(in[:end]) {
				if texts = append(texts, text); len(texts) == 1 {
					continue // of the task
				}
				if len(waiting) == 0 || waiting[0].Text != text {
					return nil, fmt.Sprintf("prompt %d is not the first that waits", len(texts))
				}
				waiting = waiting[1:]
			}
			in = in[end:]
		}
	}
	if len(waiting) > 0 {
		problem = fmt.Sprintf("%d messages wait at the end", len(waiting))
	}
	return texts, problem
}

// finish ends a run when nothing waits for its turn, and the last one was completed.
func (w *writer) finish(server Server, run string) {
	eventually(w.s.t, "run "+run+" does not end", func() (bool, string) {
		ctx, cancel := context.WithTimeout(w.s.t.Context(), 5*time.Second)
		defer cancel()
		r, err := server.Record(ctx, run)
		switch {
		case err != nil || r == nil || r.Live == nil:
			return false, "it has no record"
		case r.State.Final():
			return true, ""
		case r.Live.Queue.Held:
			w.try("release", map[string]any{"run": run})
		case r.Live.WaitsFor == runs.WaitsMessage && r.LastTurn == runs.TurnCompleted:
			w.try("end", map[string]any{"run": run})
		case r.Live.WaitsFor == runs.WaitsMessage:
			w.send(run)
		}
		return false, string(r.JSON())
	})
}

// awayWorker kills a worker, which is back after a moment: meanwhile a responder stores messages.
var awayWorker = fault{"worker gone for a second", func(s *site) bool {
	role := []string{"worker-a", "worker-b"}[s.rng.IntN(2)]
	fired := s.roles[role].kill()
	<-time.After(time.Second) // the outage
	s.begin(role)
	return fired
}}

// Several clients send messages to live runs, change them and take them back, and cancel turns, while workers, shims,
// responders and normalizers are killed. The agents get what the clients were told, each message once and as it was
// written last, in the order of the log; what was refused has no effect; and no text, key or id is anywhere but in RAW.
func TestMessagesLoseAndDoubleNothing(t *testing.T) {
	fixture.Long(t, "does what the siege of runs that sleep does, too")
	siegeOfMessages(t, "keeps")
}

// So it is while runs sleep as soon as they have nothing to do, and each message wakes one.
func TestMessagesToSleepersLoseAndDoubleNothing(t *testing.T) {
	siegeOfMessages(t, "naps", "[live]\nsleep_after = '20ms'\nprocesses = 2")
}

func siegeOfMessages(t *testing.T, behaviour string, settings ...string) {
	sieges(t, 8, func(t *testing.T, rng *rand.Rand, rounds uint64) {
		s := newRoles(t, rng, startNATS(t).url, settings...)
		for range 3 {
			s.submit(behaviour)
		}
		s.waiting.Wait()
		if s.failure != nil {
			t.Fatal(s.failure)
		}
		ctx, stop := context.WithCancel(t.Context())
		var writing sync.WaitGroup
		writers := make([]*writer, 3)
		for n := range writers {
			writers[n] = &writer{s: s, rng: drawn(t, uint64(n+1))}
			writing.Go(func() { writers[n].write(ctx, slices.Clone(s.accepted)) })
		}
		defer writing.Wait()
		defer stop()
		fired := map[string]int{}
		faults := []fault{awayWorker, killLive, killResponder, killWorker, killNormalizer, awayWorker}
		for n := range rounds {
			<-time.After(time.Duration(s.rng.Int64N(int64(800 * time.Millisecond)))) // the moment
			if f := faults[n%uint64(len(faults))]; f.strike(s) {
				fired[f.name]++
			}
			if t.Failed() {
				return
			}
		}
		server := s.server()
		eventually(t, "hardly anything was tried", func() (bool, string) { // a busy machine is slower
			accepted, turns := int64(0), 0
			for _, w := range writers {
				accepted += w.accepted.Load()
			}
			for _, run := range s.accepted {
				if r, err := server.Record(t.Context(), run); err == nil && r != nil && r.Live != nil {
					turns += r.Live.Turn
				}
			}
			return rounds <= 5 || accepted >= 10 && turns >= 10, fmt.Sprintf("%d messages, %d turns", accepted, turns)
		})
		stop()
		writing.Wait()
		settle(s, server, writers)
		t.Logf("fired: %v", fired)
		if rounds > 5 && fired[killLive.name] == 0 {
			t.Error("no shim was killed")
		}
	})
}

// settle ends all runs, and compares what the agents got with what the writers were told.
func settle(s *site, server Server, writers []*writer) {
	t := s.t
	begun, err := server.Begun(t.Context()) // also of submissions that failed halfway
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range begun {
		writers[0].finish(server, run)
	}
	e := s.check()
	agents, _ := s.agents(e)
	prompts := map[string][]string{}
	turns, processes := 0, 0
	for _, a := range agents {
		processes += a.Starts
		prompts[a.Run] = promptsOf(a.In)
		turns += len(prompts[a.Run])
		if texts, problem := sentOf(e, a.Run); problem != "" || !slices.Equal(texts, prompts[a.Run]) {
			t.Errorf("run %s: %s; the agent has got %d prompts, want %d", a.Run, problem, len(prompts[a.Run]), len(texts))
		}
		switch r, err := server.Record(t.Context(), a.Run); {
		case err != nil || r == nil:
			t.Errorf("run %s has no record: %v", a.Run, err)
		case r.State != runs.StateCompleted && (r.State != runs.StateFailed || r.LastTurn != runs.TurnFailed),
			!r.Live.Queue.IsZero(): // a turn that ran when the run was ended may be refused
			t.Errorf("run %s has not ended as its last turn: it is %s (%s), and has %+v", a.Run, r.State, r.Reason, r.Live)
		}
	}
	var all writer
	for _, w := range writers {
		w.check(prompts)
		all.accepted.Add(w.accepted.Load())
		all.edited += w.edited
		all.removed, all.refused = all.removed+w.removed, all.refused+w.refused
	}
	t.Logf("%d runs, %d processes, %d turns; %d messages were accepted, %d changes, %d taken back, %d requests refused",
		len(agents), processes, turns, all.accepted.Load(), all.edited, all.removed, all.refused)
}

// Two hundred runs that sleep, of which eight are awake at a time, get messages for as long as was asked for, with
// kills: memory, descriptors and threads of each role stay, and each message is sent once.
func TestSleepersStayFlat(t *testing.T) {
	if *soak == 0 {
		t.Skip("it takes minutes: -chaos.soak=1h")
	}
	const many = 200
	s := newRoles(t, drawn(t, 0), startNATS(t).url, "[live]\nsleep_after = '20ms'\nprocesses = 4")
	s.spare = many / 2 // a run whose agent ends three times before a turn fails
	for range many {
		s.submit("naps")
	}
	s.waiting.Wait()
	if s.failure != nil {
		t.Fatal(s.failure)
	}
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writers := make([]*writer, 3)
	for n := range writers {
		writers[n] = &writer{s: s, rng: drawn(t, uint64(n+1))}
		writing.Go(func() { writers[n].write(ctx, slices.Clone(s.accepted)) })
	}
	defer writing.Wait()
	defer stop()
	roles := []string{"normalizer", "responder", "worker-a", "worker-b"}
	faults := []fault{awayWorker, killLive, killResponder, killWorker, killNormalizer}
	for i, quarter := 0, time.Now().Add(*soak/4); time.Now().Before(quarter); i++ {
		faults[i%len(faults)].strike(s)
		<-time.After(5 * time.Second) // the load between two faults
	}
	middle, last := peaks{}, peaks{}
	before := s.kept()
	begin, length := time.Now(), *soak*3/4
	for time.Since(begin) < length {
		killLive.strike(s)
		<-time.After(2 * time.Second) // until the next sample
		switch part := time.Since(begin) * 100 / length; {
		case part >= 20 && part < 50:
			middle.take(s, roles)
		case part >= 80:
			last.take(s, roles)
		}
	}
	middle.stay(t, last)
	// What is kept on the disk is what each process left, until a run has its most.
	after := s.kept()
	t.Logf("on the disk after a quarter %+v, at the end %+v", before, after)
	if after.bytes/after.processes > before.bytes/before.processes*5/4 ||
		after.files/after.processes > before.files/before.processes {
		t.Errorf("a process leaves more and more: after a quarter %+v, at the end %+v", before, after)
	}
	stop()
	writing.Wait()
	settle(s, s.server(), writers)
}

// footprint is what the runs of a site have on the disk.
type footprint struct{ processes, files, bytes int64 }

func (s *site) kept() footprint {
	f := footprint{}
	for _, data := range s.data {
		_ = filepath.WalkDir(filepath.Join(data, "runs"), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // it was removed meanwhile
			}
			if d.Name() == "out" {
				f.processes++
			}
			if info, err := d.Info(); err == nil && !d.IsDir() {
				f.files, f.bytes = f.files+1, f.bytes+info.Size()
			}
			return nil
		})
	}
	return f
}
