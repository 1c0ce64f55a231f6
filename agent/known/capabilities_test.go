package known_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// played is a recorded run: its raw log, and what it was folded to.
type played struct {
	name   string
	log    []runs.Entry
	events []event
	record *runs.Record
}

// event is an event or, with the token of one, a completion.
type event struct {
	token     string
	Text      *string         `json:"text"`
	Message   *string         `json:"message"`
	FinalText *string         `json:"final_text"`
	Data      json.RawMessage `json:"data"`
	Error     *struct{ Message string }
}

func play(t *testing.T, a agent.Agent, log []runs.Entry) (events []event, record *runs.Record) {
	messages, fold := backendtest.Fold(a.Backend, log)
	for _, m := range messages {
		e := event{token: m.Token}
		if err := json.Unmarshal(m.Body, &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events, fold.Record
}

// recordings are those of an agent: of its command line or, if it has none, of the protocol.
func recordings(t *testing.T, a agent.Agent) (all []played) {
	patterns := []string{"../../test/corpus/" + a.Short + "/*.jsonl", "../../test/corpus/" + a.Short + "/*/*.jsonl"}
	if a.LiveOnly() {
		patterns = []string{"../acp/testdata/recordings/" + a.Short + "*.jsonl"}
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := played{name: filepath.Base(file)}
			if a.LiveOnly() {
				p.log = backendtest.Entries(t, text)
			} else {
				p.log = []runs.Entry{{Kind: runs.Started, Time: 1_000, Body: runs.Encode(runs.Start{Source: "run"})}}
				for at, line := 0, ""; at < len(text); at += len(line) {
					line, _, _ = strings.Cut(string(text[at:]), "\n")
					line = string(text[at:min(at+len(line)+1, len(text))])
					p.log = append(p.log, runs.Entry{Kind: runs.Out, Time: 2_000, Offset: int64(at), Body: []byte(line)})
				}
				code := 0
				p.log = append(p.log, runs.Entry{Kind: runs.Exited, Time: 3_000,
					Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code})})
			}
			p.events, p.record = play(t, a, p.log)
			all = append(all, p)
		}
	}
	if len(all) < 5 {
		t.Fatalf("%s has %d recordings", a.Name, len(all))
	}
	return all
}

// proofs say for each capability why an agent does not have it; nil: it has.
var proofs = map[string]func(t *testing.T, a agent.Agent, all []played) error{
	"agent_api.run": func(_ *testing.T, a agent.Agent, _ []played) error {
		a.ACP = a.Live.Command()
		return unless(len(a.Argv(task(), "")) > 0, "it has no command line")
	},
	"agent_api.events": each(func(p played) error {
		return unless(len(p.events) > 0 && p.events[len(p.events)-1].token == normalizer.CompletionToken, "no completion")
	}),
	"agent_api.events.live": func(t *testing.T, a agent.Agent, all []played) error {
		before := 0
		for _, p := range all {
			events, _ := play(t, a, p.log[:len(p.log)-1])
			before += len(events)
		}
		return unless(before > 0, "no event before the end")
	},
	"agent_api.artifacts.final_text.v1": func(_ *testing.T, _ agent.Agent, all []played) error {
		found := 0
		for _, p := range all {
			final := p.events[len(p.events)-1].FinalText
			if final == nil {
				continue
			}
			found++
			var text strings.Builder
			for _, e := range p.events {
				if e.Text != nil {
					text.WriteString(*e.Text)
				}
			}
			if json.Valid([]byte(*final)) { // by a schema: the result has it, no text
				continue
			}
			if end, cut := strings.CutSuffix(*final, "…(truncated)"); !strings.HasSuffix(text.String(), *final) &&
				!(cut && strings.Contains(text.String(), end)) {
				return fmt.Errorf("%s: the final text is not the end of what the agent said", p.name)
			}
		}
		return unless(found > 0, "no final text")
	},
	"agent_api.control.cancel.v1": func(t *testing.T, a agent.Agent, all []played) error {
		for _, p := range all {
			for i := 1; i < len(p.log); i += max(1, len(p.log)/8) {
				before, _ := play(t, a, p.log[:i])
				cancel := runs.Entry{Kind: runs.Cancelled, Time: 2_500, Body: runs.Encode(runs.Remark{})}
				log := slices.Concat(p.log[:i], []runs.Entry{cancel, cancel}, p.log[i:len(p.log)-1], []runs.Entry{{
					Kind: runs.Exited, Time: 3_000, Body: runs.Encode(runs.Exit{Reason: runs.ReasonCancelled}),
				}})
				after, record := play(t, a, log)
				last := after[len(after)-1]
				if len(after) != len(before)+1 || last.token != normalizer.CompletionToken || last.Error == nil ||
					last.Error.Message != "cancelled" || record.State != runs.StateCancelled {
					return fmt.Errorf("%s: cancelled after %d entries: %d events, then %d", p.name, i, len(before), len(after))
				}
			}
		}
		return nil
	},
	agent.ToolsStructured: func(_ *testing.T, _ agent.Agent, all []played) error {
		return tools(all, func(e event, f facet) error {
			return unless(f.Schema == agent.ToolsStructured && f.Tool.Kind != "" && f.Tool.Phase != "",
				"a tool without the facet")
		})
	},
	agent.ToolsResults: func(_ *testing.T, _ agent.Agent, all []played) error {
		results := 0
		err := tools(all, func(e event, f facet) error {
			if e.token != normalizer.ToolResult.Token() {
				return nil
			}
			results++
			done := f.Tool.Phase == "complete" && f.Tool.Status != "running" || f.Tool.Phase == "fail"
			return unless(done && (f.Tool.ItemID != nil || f.Tool.UseID != nil), "a result that is of no tool, or no end")
		})
		return errors.Join(err, unless(results > 0, "no result"))
	},
	agent.SessionHandle: func(_ *testing.T, _ agent.Agent, all []played) error {
		found := 0
		for _, p := range all {
			first, handles := len(p.events), []string{}
			for i, e := range p.events {
				var data struct {
					Schema  string
					Session struct{ ID string }
				}
				if e.Text != nil || e.token == normalizer.ToolCall.Token() {
					first = min(first, i)
				}
				if json.Unmarshal(e.Data, &data) == nil && data.Schema == agent.SessionHandle {
					handles = append(handles, data.Session.ID)
					if len(handles) == 1 && i > first {
						return fmt.Errorf("%s: the handle comes after what the agent did", p.name)
					}
				}
			}
			switch {
			case len(handles) == 0 && p.record.TurnsDone+p.record.TurnsBad == 0:
			case len(handles) != 2 || handles[0] != handles[1] || handles[0] == "":
				return fmt.Errorf("%s: the handles %q", p.name, handles)
			default:
				found++
			}
		}
		return unless(found > 0, "no handle")
	},
	runs.CanModel:  option(func(t *runs.Task) { t.Model = "the-model" }, "the-model"),
	runs.CanResume: thread(func(t *runs.Task, id string) { t.Thread = id }),
	runs.CanFork:   thread(func(t *runs.Task, id string) { t.ForkedFrom = id }),
	runs.CanAddDirs: func(t *testing.T, a agent.Agent, all []played) error {
		if a.LiveOnly() {
			return unless(offersDirs(t, a), "it does not offer further directories")
		}
		return option(func(t *runs.Task) { t.AddDirs = []string{"/d/one", "/d/two"} }, "/d/one", "/d/two")(t, a, all)
	},
	runs.CanNotAsk: func(_ *testing.T, a agent.Agent, _ []played) error {
		if a.LiveOnly() { // linesman answers what it asks
			return nil
		}
		return unless(a.PrintsJSON(a.Argv(task(), "")), "its command line may ask")
	},
	runs.CanUnboxed: func(_ *testing.T, a agent.Agent, _ []played) error {
		one := task()
		one.Mode, one.Unboxed = runs.DangerFull, new(true)
		flag := a.Flags[runs.CanUnboxed]
		if flag == "" || a.Args == nil {
			return errors.New("it has no flag")
		}
		argv := a.Argv(one, "")
		n := 0
		for _, arg := range argv {
			if arg == flag {
				n++
			}
			if strings.HasPrefix(arg, "--sandbox") || strings.HasPrefix(arg, "--ask-for") ||
				strings.HasPrefix(arg, "--permission") {
				return fmt.Errorf("%s beside the flag", arg)
			}
		}
		return unless(n == 1, "the flag is not there once")
	},
}

// offersDirs reports whether an agent offers further directories of sessions in each recording of the protocol.
func offersDirs(t *testing.T, a agent.Agent) bool {
	files, err := filepath.Glob("../acp/testdata/recordings/" + a.Short + "*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no recording: %v", a.Name, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		offered := false
		for _, e := range backendtest.Entries(t, text) {
			m, _ := acp.Read(bytes.TrimSpace(e.Body))
			if hello, ok := acp.HelloOf(m.Result); e.Kind == runs.Out && ok {
				offered = hello.AddDirs
				break
			}
		}
		if !offered {
			return false
		}
	}
	return true
}

// thread says why a thread does not reach the command line.
func thread(set func(t *runs.Task, id string)) func(*testing.T, agent.Agent, []played) error {
	return func(t *testing.T, a agent.Agent, all []played) error {
		for _, id := range []string{"0b0b0b0b-0000-4000-8000-000000000001", "ses_123"} {
			one := task()
			if set(&one, id); a.Args == nil || a.Check == nil || a.Check(one) != nil {
				continue
			}
			return option(func(t *runs.Task) { set(t, id) }, id)(t, a, all)
		}
		return errors.New("it takes none")
	}
}

// facet is the facet of a tool.
type facet struct {
	Schema string
	Tool   struct {
		Kind, Phase, Status string
		ItemID              *string `json:"backend_item_id"`
		UseID               *string `json:"tool_use_id"`
	}
}

// tools calls check for each event of a tool, of which there must be some.
func tools(all []played, check func(e event, f facet) error) error {
	found := 0
	for _, p := range all {
		for _, e := range p.events {
			if e.token != normalizer.ToolCall.Token() && e.token != normalizer.ToolResult.Token() {
				continue
			}
			found++
			var f facet
			if err := json.Unmarshal(e.Data, &f); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if err := check(e, f); err != nil {
				return fmt.Errorf("%s: %w: %s", p.name, err, e.Data)
			}
		}
	}
	return unless(found > 0, "no tool")
}

func unless(holds bool, why string) error {
	if holds {
		return nil
	}
	return errors.New(why)
}

func each(check func(p played) error) func(*testing.T, agent.Agent, []played) error {
	return func(_ *testing.T, _ agent.Agent, all []played) error {
		for _, p := range all {
			if err := check(p); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		return nil
	}
}

func task() runs.Task {
	return runs.Task{Attributes: runs.Attributes{Mode: runs.ReadOnly, Dir: "/d"}, Prompt: "the prompt"}
}

// option says why a field of a task does not reach the command line: the values must be there once, in order, before
// the prompt, and nothing of them without it.
func option(set func(*runs.Task), values ...string) func(*testing.T, agent.Agent, []played) error {
	return func(_ *testing.T, a agent.Agent, _ []played) error {
		if a.Args == nil {
			return errors.New("it has no command line")
		}
		with := task()
		set(&with)
		without := strings.Join(a.Argv(task(), ""), "\n")
		argv := a.Argv(with, "")
		var found []string
		for _, arg := range argv {
			for _, value := range values {
				if arg == value || strings.HasSuffix(arg, "="+value) {
					found = append(found, value)
				}
				if strings.Contains(without, value) {
					return errors.New("it is there without being asked for")
				}
			}
		}
		return unless(slices.Equal(found, values), fmt.Sprintf("the command line %q", argv))
	}
}

// Each capability of each agent is proven by its recordings or its command line, and an agent that has one says so.
func TestCapabilitiesAreProven(t *testing.T) {
	if other := agent.Speaker("crow", acp.Agent{Program: "crow"}); len(other.Capabilities(runs.CanUnboxed)) > 0 {
		t.Errorf("of an agent of the settings nothing is proven: %q", other.Capabilities())
	}
	for _, a := range known.All() {
		t.Run(a.Short, func(t *testing.T) {
			all := recordings(t, a)
			listed := a.Capabilities(a.AbleIf...)
			if !slices.IsSorted(listed) || len(slices.Compact(slices.Clone(listed))) != len(listed) {
				t.Errorf("not sorted, or twice: %q", listed)
			}
			if slices.Contains(a.AbleLive, runs.CanAddDirs) != offersDirs(t, a) || len(a.AbleLive) > 1 ||
				len(a.AbleLive) == 1 && !a.Can(a.AbleLive[0]) {
				t.Errorf("of live runs %q is listed, and further directories are offered: %t", a.AbleLive, offersDirs(t, a))
			}
			for id, proof := range proofs {
				switch err := proof(t, a, all); {
				case err != nil && slices.Contains(listed, id):
					t.Errorf("%s is listed, but: %v", id, err)
				case err == nil && !slices.Contains(listed, id):
					t.Errorf("%s is proven, but not listed", id)
				}
			}
			for _, id := range listed {
				if proofs[id] == nil {
					t.Errorf("nothing proves %s", id)
				}
				depends := slices.Contains(a.AbleIf, id)
				if slices.Contains(a.Capabilities(), id) == depends {
					t.Errorf("%s without a worker: %t", id, depends)
				}
			}
		})
	}
}
