package chaos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// sound is the evidence of a linesman that kept its promises: two runs, side by side.
func sound(t *testing.T) (Evidence, []Agent) {
	t.Helper()
	e := Evidence{Names: bus.Names{Prefix: bus.DefaultPrefix}, Runs: map[string]Message{},
		Logs: map[string][]byte{"up": []byte("all is well")}}
	code := 0
	var agents []Agent
	logs := map[string][]runs.Entry{}
	for i, run := range []string{"a", "b"} {
		at := int64(1000 + i)
		out := fmt.Appendf(nil, "{\"type\":\"thread.started\",\"thread_id\":\"t%d\"}\n"+
			"{\"type\":\"turn.started\",\"x\":\"%s%s\"}\n"+
			"{\"type\":\"item.completed\",\"item\":{\"id\":\"i\",\"type\":\"agent_message\",\"text\":\"hello\"}}\n"+
			"{\"type\":\"turn.completed\"}\n", i, Sentinel, run)
		stderr := []byte("what it complained of " + Sentinel + "\n")
		logs[run] = []runs.Entry{
			{Kind: runs.Started, Time: at, Body: runs.Encode(runs.Start{Source: "run", Worker: "w"})},
			{Kind: runs.Out, Time: at + 1, Body: out[:50]},
			{Kind: runs.ErrOut, Time: at + 2, Body: stderr},
			{Kind: runs.Out, Time: at + 3, Offset: 50, Body: out[50:90]},
			{Kind: runs.Out, Time: at + 4, Offset: 90, Body: out[90:]},
			{Kind: runs.Exited, Time: at + 5, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code})},
		}
		agents = append(agents, Agent{Run: run, Out: Written{out, len(out)}, Err: Written{stderr, len(stderr)}, Starts: 1,
			Code: &code})
	}
	folds := map[string]*normalizer.Fold{}
	for i := range logs["a"] {
		for _, run := range []string{"a", "b"} {
			entry := logs[run][i]
			h := nats.Header{}
			h.Set(bus.HeaderRecord, string(entry.Kind))
			h.Set(bus.HeaderTime, strconv.FormatInt(entry.Time, 10))
			if entry.Kind == runs.Out || entry.Kind == runs.ErrOut {
				h.Set(bus.HeaderOffset, strconv.FormatInt(entry.Offset, 10))
			}
			seq := uint64(len(e.Raw)) + 1
			e.Raw = append(e.Raw, Message{seq, e.Names.RawSubject("codex", run), h, entry.Body})
			if folds[run] == nil {
				folds[run] = normalizer.NewFold(codex.Backend{}, run, 0)
			}
			folds[run].Apply(seq, entry, func(m normalizer.Message) {
				h := nats.Header{}
				h.Set(bus.HeaderPos, fmt.Sprintf("%d %d %d %d", m.Raw, m.Line, m.Part, m.Time))
				e.Events = append(e.Events, Message{uint64(len(e.Events)) + 1, e.Names.EventSubject("codex", run, m.Token), h,
					m.Body})
			})
		}
	}
	for run, f := range folds {
		body, err := bounds.Encode(map[string]any{"format": 1, "record": f.Record})
		if err != nil {
			t.Fatal(err)
		}
		h := nats.Header{}
		h.Set(bus.HeaderRun, f.Record.Header().Text())
		e.Runs[run] = Message{uint64(len(e.Runs)) + 1, "$KV.linesman_runs." + run, h, body}
	}
	return e, agents
}

func TestCheckerFindsNothingWhereNothingIsWrong(t *testing.T) {
	e, agents := sound(t)
	if len(e.Raw) != 12 || len(e.Events) != 12 {
		t.Fatalf("%d entries and %d events: the evidence is not what this test is about", len(e.Raw), len(e.Events))
	}
	for _, problem := range Check(e, agents) {
		t.Error(problem)
	}
}

// again numbers the messages of a stream that has been tampered with, as its
// server would have: the checker must not live on the numbers alone.
func again(all []Message) []Message {
	for i := range all {
		all[i].Seq = uint64(i) + 1
	}
	return all
}

func TestCheckerReportsEachKindOfDamage(t *testing.T) {
	lost := runs.Encode(runs.Exit{Reason: runs.ReasonLost})
	other := 9
	for _, c := range []struct {
		name   string
		damage func(*Evidence, []Agent)
		want   string
	}{
		{"a chunk is missing", func(e *Evidence, _ []Agent) { e.Raw = again(slices.Delete(e.Raw, 6, 7)) },
			"run a: entry 8 of RAW: has offset 90, and 50 bytes came before it"},
		{"the last chunk is missing", func(e *Evidence, _ []Agent) { e.Raw = again(slices.Delete(e.Raw, 8, 9)) },
			"run a: RAW has 90 bytes of stdout, and the agent wrote"},
		{"two chunks are swapped", func(e *Evidence, _ []Agent) {
			e.Raw[6], e.Raw[8] = e.Raw[8], e.Raw[6]
			again(e.Raw)
		}, "run a: entry 7 of RAW: has offset 90"},
		{"a chunk is there twice", func(e *Evidence, _ []Agent) { e.Raw = again(slices.Insert(e.Raw, 8, e.Raw[6])) },
			"run a: entry 9 of RAW: has offset 50, and 90 bytes came before it"},
		{"the contents of two chunks are swapped", func(e *Evidence, _ []Agent) {
			e.Raw[6].Body, e.Raw[7].Body = e.Raw[7].Body, e.Raw[6].Body
		}, "run a: byte 86 of stdout is another one in RAW"},
		{"a byte is another one", func(e *Evidence, agents []Agent) {
			agents[1].Out.Bytes = slices.Clone(agents[1].Out.Bytes)
			agents[1].Out.Bytes[77]++
		}, "run b: byte 77 of stdout is another one in RAW"},
		{"more than the agent wrote", func(_ *Evidence, agents []Agent) {
			agents[1].Out.Bytes = agents[1].Out.Bytes[:100]
		}, "run b: RAW has 198 bytes of stdout, and the agent wrote 100"},
		{"a message of RAW was removed", func(e *Evidence, _ []Agent) { e.Raw = slices.Delete(e.Raw, 5, 6) },
			"RAW has sequence 7 in place 6"},
		{"the agent took other lines", func(_ *Evidence, agents []Agent) { agents[1].In = []byte("{}\n") },
			"run b: RAW has 0 bytes for the agent, and it took others, which are 3: 3 bytes more"},
		{"stderr is another", func(_ *Evidence, agents []Agent) { agents[0].Err.Bytes = make([]byte, 200) },
			"run a: stderr at 0 is not what the agent wrote"},
		{"stderr is missing", func(e *Evidence, _ []Agent) { e.Raw = again(slices.Delete(e.Raw, 4, 5)) },
			"run a: stderr ends at 0 in RAW"},
		{"stderr is there twice", func(e *Evidence, _ []Agent) { e.Raw = again(slices.Insert(e.Raw, 6, e.Raw[4])) },
			"run a: stderr at 0 is there twice"},
		{"the exit is missing", func(e *Evidence, _ []Agent) { e.Raw = again(slices.Delete(e.Raw, 10, 11)) },
			"run a: has no exit in RAW"},
		{"something behind the exit", func(e *Evidence, _ []Agent) { e.Raw = again(append(e.Raw, e.Raw[8])) },
			"run a: entry 13 of RAW: comes behind the exit"},
		{"two starts", func(e *Evidence, _ []Agent) { e.Raw = again(slices.Insert(e.Raw, 2, e.Raw[0])) },
			"run a: entry 3 of RAW: is a second start"},
		{"the agent ran twice", func(_ *Evidence, agents []Agent) { agents[0].Starts = 2 },
			"run a: its agent was started 2 times"},
		{"another exit code", func(_ *Evidence, agents []Agent) { agents[0].Code = &other },
			"run a: exited with 9, and RAW says"},
		{"lost without a reason", func(e *Evidence, _ []Agent) { e.Raw[10].Body = lost },
			"run a: ended as lost, and may as [exited]"},
		{"a run of nobody", func(e *Evidence, _ []Agent) {
			e.Raw = append(e.Raw, Message{13, e.Names.RawSubject("codex", "c"), e.Raw[0].Header, e.Raw[0].Body})
		}, "run c: is in RAW, and nobody started it"},
		{"a run is missing", func(e *Evidence, _ []Agent) {
			e.Raw = again(slices.DeleteFunc(e.Raw, func(m Message) bool { return strings.HasSuffix(m.Subject, ".b") }))
		}, "run b: is not in RAW"},

		{"an event too many", func(e *Evidence, _ []Agent) { e.Events = again(append(e.Events, e.Events[4])) },
			"event 13, on linesman.events.codex.b.status, is one that RAW does not give"},
		{"an event is there twice", func(e *Evidence, _ []Agent) {
			e.Events = again(slices.Insert(e.Events, 2, e.Events[1]))
		}, "run a: event 3 "},
		{"an event is missing", func(e *Evidence, _ []Agent) { e.Events = again(slices.Delete(e.Events, 2, 3)) },
			"run a: event 3 "},
		{"two events are swapped", func(e *Evidence, _ []Agent) {
			e.Events[6], e.Events[7] = e.Events[7], e.Events[6]
			again(e.Events)
		}, "event 7 "},
		{"an event has another body", func(e *Evidence, _ []Agent) { e.Events[7].Body = []byte("{}") },
			"another body than RAW gives"},
		{"a completion is missing", func(e *Evidence, _ []Agent) { e.Events = e.Events[:11] },
			"run b: event 12, on linesman.events.codex.b.completion, is missing"},
		{"a run without a completion", func(e *Evidence, _ []Agent) { e.Events = e.Events[:11] }, "run b: has no completion"},
		{"an event behind its completion", func(e *Evidence, _ []Agent) {
			e.Events[9], e.Events[10] = e.Events[10], e.Events[9]
			e.Events = again(append(e.Events, e.Events[4], e.Events[2]))
		}, "has an event behind its completion"},
		{"a message of EVENTS was removed", func(e *Evidence, _ []Agent) { e.Events = slices.Delete(e.Events, 3, 4) },
			"EVENTS has sequence 5 in place 4"},

		{"a record is missing", func(e *Evidence, _ []Agent) { delete(e.Runs, "a") }, "run a: has no record"},
		{"a record of nobody", func(e *Evidence, _ []Agent) { e.Runs["c"] = e.Runs["a"] },
			"run c: has a record, and is not in RAW"},
		{"a record is stale", func(e *Evidence, _ []Agent) {
			e.Runs["a"] = replaced(e.Runs["a"], `"state":"completed"`, `"state":"working"`)
		}, `run a: its record is not what RAW gives: state is "working", and must be "completed"`},
		{"a row is stale", func(e *Evidence, _ []Agent) { e.Runs["a"].Header.Set(bus.HeaderRun, "x") },
			"run a: its row is not that of its record"},
		{"an open state is left", func(e *Evidence, _ []Agent) {
			e.Runs["a"] = replaced(e.Runs["a"], `{"format":1`, `{"state":{},"format":1`)
		}, "run a: has ended, and its record has the state of an open one"},
		{"a task is left", func(e *Evidence, _ []Agent) { e.Work = []string{"linesman.work.default.a"} },
			"run a: is still in WORK"},

		{"a leak into EVENTS", func(e *Evidence, _ []Agent) { e.Events[7].Body = append(e.Events[7].Body, Sentinel+"b"...) },
			"run a: EVENTS has bytes that may be in RAW alone"},
		{"a leak into a header", func(e *Evidence, _ []Agent) { e.Events[7].Header.Set("X", Sentinel) },
			"EVENTS has bytes that may be in RAW alone"},
		{"a leak into RUNS", func(e *Evidence, _ []Agent) {
			e.Runs["a"] = replaced(e.Runs["a"], `{"format":1`, `{"dir":"`+Sentinel+`","format":1`)
		}, "run a: RUNS has bytes that may be in RAW alone"},
		{"a leak into another bucket", func(e *Evidence, _ []Agent) {
			e.Others = []Message{{Seq: 1, Subject: "$KV.linesman_state.x", Body: []byte(Sentinel)}}
		}, "another bucket has bytes"},
		{"a leak into a log", func(e *Evidence, _ []Agent) { e.Logs["up"] = []byte("bad line: " + Sentinel + "a") },
			"log up: line 1 has a word that a test planted"},
		{"a password in a log", func(e *Evidence, _ []Agent) {
			e.Logs["up"], e.Secrets = []byte("user=x password=0123abc"), map[string]string{"the password of x": "0123abc"}
		}, "log up: line 1 has the password of x"},
		{"nothing that could leak", func(e *Evidence, _ []Agent) {
			for i := range e.Raw {
				e.Raw[i].Body = []byte(strings.ReplaceAll(string(e.Raw[i].Body), Sentinel, "xxxxx-xxxxxxxxx"))
			}
		}, "RAW has no sentinel"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, agents := sound(t)
			c.damage(&e, agents)
			problems := Check(e, agents)
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, c.want) }) {
				t.Errorf("reported\n%s\nwant %q", strings.Join(problems, "\n"), c.want)
			}
		})
	}
}

func replaced(m Message, old, with string) Message {
	m.Body = []byte(strings.Replace(string(m.Body), old, with, 1))
	return m
}

// What a kill leaves open, the checker leaves open too.
func TestCheckerAllowsWhatAKillMayLeave(t *testing.T) {
	e, agents := sound(t)
	a := &agents[0]
	a.Out.Bytes = append(slices.Clone(a.Out.Bytes), "about to be written"...)
	a.Err.Bytes = append(slices.Clone(a.Err.Bytes), "and this"...)
	b := &agents[1]
	b.Code, b.Ends = nil, []runs.Reason{runs.ReasonLost, runs.ReasonExited}
	for _, problem := range Check(e, agents) {
		t.Error(problem)
	}
}

// A submission that failed halfway may be queued in RAW, and in no queue; one
// that was taken may not.
func TestCheckerAllowsAQueuedEntryOfAFailedSubmissionAlone(t *testing.T) {
	for _, failed := range []bool{true, false} {
		e, agents := sound(t)
		h := nats.Header{}
		h.Set(bus.HeaderRecord, string(runs.Queued))
		h.Set(bus.HeaderTime, "1")
		body := runs.Encode(runs.Start{Source: "queue"})
		e.Raw = append(e.Raw, Message{uint64(len(e.Raw)) + 1, e.Names.RawSubject("codex", "c"), h, body})
		f := normalizer.NewFold(codex.Backend{}, "c", 0)
		f.Apply(uint64(len(e.Raw)), runs.Entry{Kind: runs.Queued, Time: 1, Body: body}, nil)
		record, err := bounds.Encode(map[string]any{"format": 1, "record": f.Record, "state": map[string]any{}})
		if err != nil {
			t.Fatal(err)
		}
		row := nats.Header{}
		row.Set(bus.HeaderRun, f.Record.Header().Text())
		e.Runs["c"] = Message{1, "$KV.linesman_runs.c", row, record}
		problems := Check(e, append(agents, Agent{Run: "c", Failed: failed, Ends: []runs.Reason{runs.ReasonLost}}))
		if failed != (len(problems) == 0) {
			t.Errorf("failed %v: %q", failed, problems)
		}
	}
}

// Of a flood of stderr RAW keeps the beginning and the end.
func TestCheckerKnowsWhatIsKeptOfStderr(t *testing.T) {
	all := make([]byte, errHead+500_000)
	for i := range all {
		all[i] = byte(i >> 8)
	}
	chunk := func(from, to int) runs.Entry {
		return runs.Entry{Kind: runs.ErrOut, Offset: int64(from), Body: all[from:to]}
	}
	agent := Agent{Run: "a", Err: Written{all, len(all)}}
	for _, c := range []struct {
		name    string
		entries []runs.Entry
		want    string
	}{
		{"both", []runs.Entry{chunk(0, errHead), chunk(len(all)-errTail, len(all))}, ""},
		{"a hole in the beginning", []runs.Entry{chunk(0, 1000), chunk(2000, errHead), chunk(len(all)-errTail, len(all))},
			"stderr from 1000 to 2000 is missing"},
		{"no end", []runs.Entry{chunk(0, errHead)}, "stderr ends at 1048576"},
		{"a short end", []runs.Entry{chunk(0, errHead), chunk(len(all)-errTail, len(all)-10)}, "stderr ends at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &checker{}
			k.stderr(agent, &rawLog{err: c.entries})
			got := strings.Join(k.problems, "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
