package live

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

// The recorded lines of seven agents yield the lines that they were recorded with, and the end of the session.
func TestRecordedAgentsGetTheRecordedLines(t *testing.T) {
	modes := map[string]acp.Agent{
		"codex": {Modes: map[string]string{"workspace-write": "workspace-write"}},
	}
	for _, name := range []string{"claude", "codex", "copilot", "gemini", "kimi", "opencode", "qwen"} {
		t.Run(name, func(t *testing.T) {
			file, err := os.ReadFile("testdata/turns/" + name + ".jsonl")
			if err != nil {
				t.Fatal(err)
			}
			cfg := config()
			cfg.Agent = modes[name]
			s := &stage{t: t, config: cfg, c: New(cfg), asked: map[string]string{}}
			start := runs.Process{N: 1, Do: runs.ProcessStart}
			if name == "gemini" || name == "qwen" {
				start.Auth = "key"
			}
			s.process(start)
			s.replay(file)
			switch o, over := s.c.Ended(); {
			case o == nil || o.State != TurnCompleted:
				t.Errorf("outcome %+v", o)
			case over: // it offers no close
			default:
				s.want("session/close")
			}
		})
	}
}

// replay plays a recording: what is sent must be of the recorded kind, and questions are answered as recorded.
func (s *stage) replay(file []byte) {
	s.t.Helper()
	var due []sent
	ids := map[string]string{} // of ours by the recorded ones
	n := 0
	for line := range bytes.Lines(file) {
		var l struct {
			Dir string
			M   json.RawMessage
		}
		var m sent
		if json.Unmarshal(line, &l) != nil || json.Unmarshal(l.M, &m) != nil {
			s.t.Fatalf("%.100s", line)
		}
		if l.Dir == "<" {
			text := string(l.M)
			if m.Method == "" {
				text = strings.Replace(text, `"id":`+string(m.ID), `"id":`+ids[string(m.ID)], 1)
			}
			s.say(text)
			s.restart()
			continue
		}
		if m.Method == "" && m.Error == nil {
			q := s.c.Open()[0]
			var r struct {
				Outcome struct{ OptionID string }
			}
			_ = json.Unmarshal(m.Result, &r)
			n++
			s.answer("a"+q.ID, q.ID, r.Outcome.OptionID)
		}
		if due = append(due, s.drain()...); len(due) == 0 {
			s.t.Fatalf("nothing is due, recorded is %s", kinds([]sent{m}))
		}
		if got, want := kinds(due[:1]), kinds([]sent{m}); got != want {
			s.t.Fatalf("due %s, recorded %s", got, want)
		}
		ids[string(m.ID)] = string(due[0].ID)
		due = due[1:]
	}
	if n == 0 || len(due) > 0 {
		s.t.Errorf("%d questions, further lines %s", n, kinds(due))
	}
}

func TestProcessIsSetUpInOrder(t *testing.T) {
	cfg := config()
	cfg.Agent = acp.Agent{Modes: map[string]string{"workspace-write": "edits", "danger-full-access": "all"}}
	cfg.Task.Model = "m"
	s := &stage{t: t, config: cfg, c: New(cfg), asked: map[string]string{}}
	s.want("")
	s.process(runs.Process{N: 1, Do: runs.ProcessStart, Auth: "key"})
	s.want("initialize")
	s.say(hello)
	if lines := s.drain(); kinds(lines) != "authenticate" || !strings.Contains(string(lines[0].Params), `"key"`) {
		t.Fatal(lines)
	}
	s.say(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	if lines := s.drain(); kinds(lines) != "session/new" || string(lines[0].Params) !=
		`{"cwd":"/home/dev/project","mcpServers":[]}` {
		t.Fatal(lines)
	}
	s.say(`{"jsonrpc":"2.0","id":3,"result":{"sessionId":"s","modes":{"currentModeId":"wild"}}}`)
	s.want("session/set_mode")
	s.say(update("current_mode_update", `"currentModeId":"edits"`), `{"jsonrpc":"2.0","id":4,"result":{}}`)
	s.want("session/set_model")
	if st := s.c.Status(); st.Ready || st.Turn != 0 {
		t.Errorf("%+v", st)
	}
	s.say(`{"jsonrpc":"2.0","id":5,"result":{}}`)
	s.want("session/prompt")
	if st := s.c.Status(); !st.Ready || !st.Running || st.Turn != 1 {
		t.Errorf("%+v", st)
	}
	s.say(`{"jsonrpc":"2.0","id":6,"result":{"stopReason":"end_turn"}}`)
	s.ended(TurnCompleted, false)
	s.want("session/close")
	s.ended(TurnCompleted, false)
	s.say(`{"jsonrpc":"2.0","id":7,"result":{}}`)
	s.ended(TurnCompleted, true)
}

func TestModelIsAnOptionWhereTheTableSaysSo(t *testing.T) {
	cfg := config()
	cfg.Agent.ModelOption, cfg.Task.Model = true, "m"
	s := newStage(t, cfg)
	s.drain()
	s.say(hello)
	s.drain()
	s.say(created)
	s.want("session/set_config_option")
	s.say(`{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"secret"}}`)
	s.ended(NoSession, false)
	s.want("session/close")
	s.say(closed)
	s.ended(NoSession, true)
}

// A run whose session is not as the task demands has no prompt.
func TestNoPromptWithoutASessionAsDemanded(t *testing.T) {
	const (
		mode  = `{"jsonrpc":"2.0","id":3,"result":{}}`
		error = `"error":{"code":-32000,"message":"secret of the agent"}}`
	)
	tests := map[string]struct {
		say []string
		why string
	}{
		"version":    {[]string{`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}`}, "version 1"},
		"no version": {[]string{`{"jsonrpc":"2.0","id":1,"result":{}}`}, "version 1"},
		"initialize": {[]string{`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"secret"}}`}, "initialize"},
		"login":      {[]string{hello, `{"jsonrpc":"2.0","id":2,` + error}, "run agent login"},
		"no id":      {[]string{hello, `{"jsonrpc":"2.0","id":2,"result":{"sessionId":7}}`}, "valid id"},
		"long id": {[]string{hello, `{"jsonrpc":"2.0","id":2,"result":{"sessionId":"` + strings.Repeat("x", 300) + `"}}`},
			"valid id"},
		"mode refused": {[]string{hello, created, `{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"secret"}}`}, "set the mode edits"},
		"other mode": {[]string{hello, created, update("current_mode_update", `"currentModeId":"all"`), mode},
			"did not confirm the mode edits"},
		"other option": {[]string{hello, created,
			update("config_option_update", `"configOptions":[{"id":"mode","currentValue":"all"}]`), mode}, "did not confirm"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := config()
			cfg.Agent = acp.Agent{Login: "agent login", Modes: map[string]string{"workspace-write": "edits"}}
			s := newStage(t, cfg)
			got := s.drain()
			for _, line := range test.say {
				s.say(line)
				got = append(got, s.drain()...)
				s.restart()
			}
			o, _ := s.c.Ended()
			if o == nil || o.State != NoSession || !strings.Contains(o.Why, test.why) || strings.Contains(o.Why, "secret") {
				t.Errorf("outcome %+v", o)
			}
			if strings.Contains(kinds(got), "prompt") {
				t.Errorf("sent %s", kinds(got))
			}
		})
	}
}

func TestTurnsEndAsTheAgentSays(t *testing.T) {
	for result, want := range map[string]ending{
		`"result":{"stopReason":"end_turn"}`:              TurnCompleted,
		`"result":{"stopReason":"cancelled"}`:             turnCancelled,
		`"result":{"stopReason":"max_tokens"}`:            TurnFailed,
		`"result":{"stopReason":"refusal"}`:               TurnFailed,
		`"result":{"stopReason":"secret"}`:                TurnFailed,
		`"result":{}`:                                     TurnFailed,
		`"error":{"code":401,"message":"secret"}`:         TurnFailed,
		`"error":{"code":-32000,"message":"secret"}`:      TurnFailed,
		`"result":"` + strings.Repeat("x", maxLine) + `"`: TurnFailed,
	} {
		s := inTurn(t)
		s.say(`{"jsonrpc":"2.0","id":3,` + result + `}`)
		if s.ended(want, false); strings.Contains(s.c.s.Outcome.Why, "secret") {
			t.Error(s.c.s.Outcome.Why)
		}
	}
}

func TestResponsesToOtherRequestsHaveNoEffect(t *testing.T) {
	s := newStage(t, config())
	s.say(hello, created, turned) // before the agent got a request
	s.want("initialize")
	s.say(`{"jsonrpc":"2.0","id":"1","result":{"protocolVersion":1}}`, `{"jsonrpc":"2.0","id":null,"error":{}}`, turned)
	s.want("")
	s.say(hello, hello)
	s.want("session/new")
	s.say(hello, created, created, turned)
	s.want("session/prompt")
	s.say(created, "", "no JSON", `[]`, `{"jsonrpc":"2.0"}`, `{"id":9,"method":"fs/read_text_file"}`)
	s.want("")
	s.say(turned, turned)
	s.want("session/close")
	s.say(turned)
	s.want("")
}

func TestAnAgentThatEndsEndsTheRun(t *testing.T) {
	s := inTurn(t)
	s.say(permission("1", "read", ""))
	s.print(`{"jsonrpc":`)
	s.process(runs.Process{N: 1, Do: runs.ProcessEnd})
	s.ended(Interrupted, true)
	if st := s.c.Status(); st.Alive || st.Running || st.Asking || s.c.State() == nil {
		t.Errorf("%+v", st)
	}
	s.answer("a", "q1", "yes")
	s.want("")
}

// What was sent to one process is never continued in the next one.
func TestNoLineSpansProcesses(t *testing.T) {
	s := newStage(t, config())
	offset, body := s.c.Due()
	s.append(runs.Entry{Kind: runs.Sent, Offset: offset, Body: body[:10]})
	s.process(runs.Process{N: 1, Do: runs.ProcessEnd})
	if _, body := s.c.Due(); body != nil || s.c.s.Part != 0 {
		t.Errorf("due %q", body)
	}
}

func TestAStateOfAnotherVersionIsRefused(t *testing.T) {
	for _, saved := range []string{"", "x", `{"v":2}`} {
		if _, err := restore(config(), []byte(saved)); err == nil {
			t.Errorf("%q is restored", saved)
		}
	}
}
