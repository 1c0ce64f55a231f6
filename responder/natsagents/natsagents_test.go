package natsagents_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

func TestAgentsAreDiscovered(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	beats, err := s.caller.SubscribeSync("agents.hb.*.*.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range s.found(2) {
		m := one.Metadata
		if one.Name != "agents" || one.Version != "1.2.3" || m["owner"] != "ada" || m["protocol_version"] != "0.3" ||
			len(m) != 4 || !strings.HasPrefix(m["capabilities"], "agent_api.") ||
			!slices.Contains([]string{"codex", "claude-code"}, m["agent"]) {
			t.Errorf("%+v", one)
		}
		for _, e := range one.Endpoints {
			if e.QueueGroup != "agents" || e.Subject != "agents."+e.Name+"."+m["agent"]+".ada.default" ||
				e.Name == "prompt" && (e.Metadata["max_payload"] != "64KB" || e.Metadata["attachments_ok"] != "false") {
				t.Errorf("endpoint %+v", e)
			}
		}
		if len(one.Endpoints) != 3 {
			t.Errorf("%d endpoints", len(one.Endpoints))
		}
		for _, verb := range []string{"PING", "INFO"} {
			if n := len(s.many("$SRV."+verb+".agents."+one.ID, nil, 1)); n != 1 {
				t.Errorf("%s by id: %d answers", verb, n)
			}
		}
	}
	if n := len(s.many("$SRV.PING.agents", nil, 2)); n != 2 {
		t.Errorf("%d answers to PING", n)
	}
	m, err := s.caller.Request("agents.status.codex.ada.default", nil, fixture.Patience)
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Agent, Owner string
		ID           string `json:"instance_id"`
		TS           time.Time
		Interval     int `json:"interval_s"`
		Linesman     map[string]int
	}
	if err := json.Unmarshal(m.Data, &v); err != nil || v.Agent != "codex" || v.Owner != "ada" || v.ID == "" ||
		v.Interval != 15 || v.Linesman["slots"] != 4 || v.Linesman["busy"] != 1 || v.TS.IsZero() || len(v.Linesman) != 3 {
		t.Errorf("status %s: %v", m.Data, err)
	}
	s.stop()
	s.again()
	for range 2 { // the first heartbeats of the second one
		if _, err := beats.NextMsg(fixture.Patience); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPromptIsStreamedToItsEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.found(2)
	a := s.ask(codex, "Say hello.").until("status queued")
	if got := strings.Join(a.seen, ", "); got != "status ack, linesman.run, status queued" {
		t.Errorf("it begins with %s", got)
	}
	task := s.Task()
	labels := task.Labels.Map()
	if task.Run != a.run || task.Prompt != "Say hello." || task.Mode != runs.ReadOnly || task.Agent != "codex" ||
		labels[runs.LabelProfile] != "codex.ada.default" || labels[runs.LabelCaller] != "prompter.codex.ada.default" {
		t.Errorf("task %+v", task)
	}
	l := s.Begin("codex", a.run, runs.Start{Source: "queue", Worker: "w1"})
	a.until("status working")
	l.Out([]byte(begins + says("One <b>\n\"two\"")))
	a.until("response")
	l.Out([]byte(says("Three.") + ends)).Exit(0)
	a.until("end")
	if got := a.text.String(); got != "One <b>\n\"two\"\n\nThree." {
		t.Errorf("the text is %q", got)
	}
	var result struct {
		Run, State string
		Usage      *api.RunUsage
	}
	if err := json.Unmarshal(a.data["linesman.result"], &result); err != nil || result.Run != a.run ||
		result.State != "completed" || result.Usage == nil {
		t.Errorf("result %s: %v", a.data["linesman.result"], err)
	}
	if slices.Contains(a.seen, "linesman.event") || a.code != "" {
		t.Errorf("%q", a.seen)
	}
}

func TestOptionsOfAPrompt(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "sub"), 0o700), os.Symlink(elsewhere, filepath.Join(dir, "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := newStage(t, func(c *settings) {
		c.Profiles = []responder.Profile{{Owner: "ada", Name: "default", Attributes: runs.Attributes{
			Agent: "codex", Dir: dir, Mode: runs.WorkspaceWrite, Model: "m1",
			Labels: runs.LabelsOf(map[string]string{"team": "x"}),
		}}}
	})
	s.found(1)
	a := s.ask(codex, `{"prompt":"Go.","attachments":[],"later":{"x":1},"linesman":{"model":"m2","mode":"read-only",`+
		`"workingDir":"sub","title":"A title","timeoutSec":90,"events":true}}`).until("status queued")
	task := s.Task()
	if task.Model != "m2" || task.Mode != runs.ReadOnly || task.Dir != filepath.Join(dir, "sub") ||
		task.Within != dir || task.Title != "A title" ||
		task.Hard != 90 || task.Labels.Map()["team"] != "x" {
		t.Errorf("task %+v", task)
	}
	s.play("codex", a.run, begins+says("Hi.")+ends, exit(0))
	a.until("end")
	var e api.Event
	if err := json.Unmarshal(a.data["linesman.event"], &e); err != nil || e.Kind != api.Completion || e.Run != a.run ||
		e.Seq == 0 {
		t.Errorf("the last event is %s: %v", a.data["linesman.event"], err)
	}
	if a := s.ask(codex, `{"prompt":"Go."}`).until("status queued"); a != nil {
		if task := s.Task(); task.Model != "m1" || task.Mode != runs.WorkspaceWrite || task.Dir != dir {
			t.Errorf("task %+v", task)
		}
	}
	for body, code := range map[string]string{
		"": "400", "  ": "400", "{": "400", "{}": "400", `{"prompt":""}`: "400", `{"prompt":7}`: "400", "a\x00b": "400",
		"\xff": "400", `{"prompt":"x"} y`: "400", `{"prompt":"x","prompt":"y"}`: "400",
		strings.Repeat("x", 64<<10+1):                                                   "400",
		`{"prompt":"x","attachments":[{"filename":"a","content":"YQ=="}]}`:              "400",
		`{"prompt":"x","linesman":{"shell":"sh"}}`:                                      "400",
		`{"prompt":"x","linesman":{"mode":"danger-full-access"}}`:                       "400",
		`{"prompt":"x","linesman":{"mode":"all"}}`:                                      "400",
		`{"prompt":"x","linesman":{"workingDir":".."}}`:                                 "400",
		`{"prompt":"x","linesman":{"workingDir":"link"}}`:                               "400",
		`{"prompt":"x","linesman":{"workingDir":"/etc"}}`:                               "400",
		`{"prompt":"x","linesman":{"timeoutSec":-1}}`:                                   "400",
		`{"prompt":"x","linesman":{"timeoutSec":90000}}`:                                "400",
		`{"prompt":"x","linesman":{"idempotency_key":"k"}}`:                             "400",
		`{"prompt":"x","linesman":{"resume":"` + thread[:len(thread)-1] + `c"}}`:        "404",
		`{"prompt":"x","linesman":{"title":"` + strings.Repeat("t", 200) + `"}}`:        "400",
		`{"prompt":"x","linesman":{"workingDir":"` + strings.Repeat("d/", 9999) + `"}}`: "400",
	} {
		a := s.ask(codex, body)
		if got, what := a.refused(); got != code || what == "" || len(a.seen) > 3 {
			t.Errorf("%.60q: %s %s %q", body, got, what, a.seen)
		}
	}
	if open := s.Service.Snapshot(0, nil); len(open.Queued) != 1 {
		t.Errorf("%d runs are queued", len(open.Queued))
	}
}

func TestEndsThatAreNoSuccess(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.found(2)
	for what, x := range map[string]runs.Exit{"tool_error": exit(1), "timeout": {Reason: runs.ReasonHard}} {
		a := s.ask(codex, "Go.").until("linesman.run")
		s.play("codex", a.run, begins+says("Oh."), x)
		code, got := a.refused()
		if code != "500" || got != what || a.body["run"] != a.run || a.body["message"] == "" || a.text.String() != "Oh." {
			t.Errorf("%s: code %s, %v", what, code, a.body)
		}
	}
	// Cancelled by its caller, who may not cancel others' runs.
	a := s.ask(codex, "Go.").until("status queued")
	s.Begin("codex", "T-local-other", runs.Start{Source: "run"})
	s.Await("T-local-other", Any)
	for run, code := range map[string]string{"T-local-other": "404", "T-local-none": "404", "": "404", a.run: ""} {
		m, err := s.caller.Request("agents.cancel.codex.ada.default", runs.Encode(map[string]string{"run": run}),
			fixture.Patience)
		if err != nil || m.Header.Get("Nats-Service-Error-Code") != code {
			t.Errorf("cancel %q: %s %v, %v", run, m.Data, m.Header, err)
		}
	}
	if m, err := s.caller.Request("agents.cancel.claude-code.ada.default", runs.Encode(map[string]string{"run": a.run}),
		fixture.Patience); err != nil || m.Header.Get("Nats-Service-Error-Code") != "404" {
		t.Errorf("by another profile: %s, %v", m.Data, err)
	}
	if _, what := a.refused(); what != "cancelled" {
		t.Errorf("it ends with %v", a.body)
	}
	if m, err := s.caller.Request("agents.cancel.codex.ada.default", runs.Encode(map[string]string{"run": a.run}),
		fixture.Patience); err != nil || m.Header.Get("Nats-Service-Error-Code") != "409" {
		t.Errorf("again: %s %v, %v", m.Data, m.Header, err)
	}
	if m, err := s.caller.Request("agents.cancel.codex.ada.default", []byte(`{"run":"x","all":true}`),
		fixture.Patience); err != nil || m.Header.Get("Nats-Service-Error-Code") != "400" {
		t.Errorf("another member: %s, %v", m.Data, err)
	}
}

// What a worker refuses, and where its tasks may work, is not for prompters.
func TestWhyAWorkerRefusesIsNotTold(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.found(2)
	for _, spawn := range []string{runs.SpawnNoDir, runs.SpawnRefused} {
		a := s.ask(codex, "Go.").until("linesman.run")
		s.play("codex", a.run, "", runs.Exit{Reason: runs.ReasonSpawn, Spawn: spawn, Why: "the directory must be in /secret"})
		for a.code == "" {
			m, err := a.sub.NextMsg(fixture.Patience)
			if err != nil {
				t.Fatalf("%s: %v", spawn, err)
			}
			if a.read(m); strings.Contains(fmt.Sprint(string(m.Data), m.Header), "/secret") {
				t.Errorf("%s: %s %v", spawn, m.Data, m.Header)
			}
		}
		if a.body["message"] != "the worker does not take the task" || a.body["error"] != "tool_error" {
			t.Errorf("%s: %v", spawn, a.body)
		}
	}
}

// Any is a state of Await.
func Any(runs.Header) bool { return true }

func TestFinalTextIsSentIfNoneWas(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.found(2)
	a := s.ask(claude, "Go.").until("linesman.run")
	s.play("claude_code", a.run, `{"type":"system","subtype":"init","session_id":"0199a213-81c0-7800-8aa1-bbab2a035002"}`+"\n"+
		`{"type":"result","subtype":"success","is_error":false,"result":"All done.","session_id":`+
		`"0199a213-81c0-7800-8aa1-bbab2a035002"}`+"\n", exit(0))
	a.until("end")
	if a.text.String() != "All done." || a.code != "" {
		t.Errorf("%q, %v, %q", a.text.String(), a.body, a.seen)
	}
}

func TestPiecesOfAMessageAreJoined(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *settings) { c.other = "gemini_cli" })
	s.found(3)
	a := s.ask("agents.prompt.gemini-cli.ada.default", "Go.").until("linesman.run")
	says := func(text string) string {
		return `{"type":"message","role":"assistant","content":"` + text + `","delta":true}` + "\n"
	}
	s.play("gemini_cli", a.run, `{"type":"init","session_id":"455c1559-3205-473c-bb56-50100d84836b","model":"m"}`+"\n"+
		says("Hel")+says("lo.")+`{"type":"tool_use","tool_name":"read_file","tool_id":"r1","parameters":{}}`+"\n"+
		`{"type":"tool_result","tool_id":"r1","status":"success"}`+"\n"+says("Do")+says("ne.")+
		`{"type":"result","status":"success"}`+"\n", exit(0))
	a.until("end")
	if got := a.text.String(); got != "Hello.\n\nDone." {
		t.Errorf("the text is %q", got)
	}
}

func TestThreadsAndKeysAreThoseOfTheProfile(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.found(2)
	const key = `"idempotency_key":"0123456789abcdef"`
	a := s.ask(codex, `{"prompt":"Go.","linesman":{`+key+`}}`).until("linesman.run")
	s.play("codex", a.run, begins+says("One.")+ends, exit(0))
	a.until("end")
	again := s.ask(codex, `{"prompt":"Go.","linesman":{`+key+`}}`).until("end")
	if again.run != a.run || again.text.String() != "One." {
		t.Errorf("the same key: run %s, %q", again.run, again.text.String())
	}
	if code, _ := s.ask(codex, `{"prompt":"Other.","linesman":{`+key+`}}`).refused(); code != "409" {
		t.Errorf("another prompt: %s", code)
	}
	if other := s.ask(claude, `{"prompt":"Go.","linesman":{`+key+`}}`).until("linesman.run"); other.run == a.run {
		t.Error("another profile has the same run")
	}
	if task := s.Task(); task.Run != a.run { // in the order of the queue
		t.Errorf("task %s", task.Run)
	}
	s.Task()
	more := s.ask(codex, `{"prompt":"More.","linesman":{"resume":"`+thread+`"}}`).until("status queued")
	if task := s.Task(); task.Run != more.run || task.Thread != thread {
		t.Errorf("task %+v", task)
	}
	if _, what := s.ask(claude, `{"prompt":"x","linesman":{"resume":"`+thread+`"}}`).refused(); what != "not_found" {
		t.Errorf("the thread of another profile: %s", what)
	}
	// Callers of other surfaces cannot set the label.
	labels := runs.LabelsOf(map[string]string{runs.LabelProfile: "codex.ada.default"})
	if err := responder.CheckLabels(labels); !api.Is(err, api.Validation) {
		t.Errorf("the label of a profile: %v", err)
	}
}

func TestProfileIsWithdrawnWithItsWorker(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *settings) { c.lost = 2 * time.Second })
	s.found(2)
	s.worker()
	for _, subject := range []string{"$SRV.INFO.agents", codex} { // no answer in time is no proof
		fixture.Eventually(t, fixture.Patience, "no subscription to "+subject, func() bool {
			_, err := s.caller.Request(subject, []byte("x"), time.Second)
			return errors.Is(err, nats.ErrNoResponders)
		})
	}
	s.work(2*time.Second, "")
	s.found(2)
}

func TestRequestsWithoutAnInboxAreDropped(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.found(2)
	replies := []string{"", "agents.hb.codex.ada.default", "linesman.reply.x", "_INBOX.x", "_INBOX_responder_agents.x",
		"_INBOX_prompter", "_INBOX_prompterx.y"}
	for _, reply := range replies {
		if err := s.caller.PublishMsg(&nats.Msg{Subject: codex, Reply: reply, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	s.ask(codex, "Go.").until("status queued")
	if n := s.dropped.Load(); int(n) != len(replies) {
		t.Errorf("%d were dropped", n)
	}
	if open := s.Service.Snapshot(0, nil); len(open.Queued) != 1 {
		t.Errorf("%d runs", len(open.Queued))
	}
}

func TestSilenceIsFilled(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *settings) { c.Beat = 100 * time.Millisecond })
	s.found(2)
	a := s.ask(codex, "Go.").until("status queued").until("status queued").until("status queued")
	l := s.Begin("codex", a.run, runs.Start{Source: "queue", Worker: "w1"})
	a.until("status working").until("status working").until("status working")
	l.Out([]byte(begins + says("Hi.") + ends)).Exit(0)
	a.until("end")
}

func TestAThousandPromptsAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.found(2)
	var streams, refused atomic.Int32
	var decided sync.WaitGroup
	decided.Add(1000)
	parallel(1000, func(int) {
		a := s.ask(codex, "Go.")
		if a.next() == "error" {
			if a.next() != "end" || a.code != "429" || a.body["retry_after_s"] == nil || a.body["error"] != "too_many" {
				t.Errorf("refused: %q %s %v", a.seen, a.code, a.body)
			}
			refused.Add(1)
			decided.Done()
			return
		}
		streams.Add(1)
		a.until("linesman.run")
		decided.Done()
		decided.Wait()
		if _, err := s.Service.Cancel(t.Context(), api.Cancel{Run: a.run}); err != nil {
			t.Error(err)
		}
		if _, what := a.refused(); what != "cancelled" {
			t.Errorf("it ends with %v", a.body)
		}
	})
	if streams.Load() != 96 || refused.Load() != 904 { // one caller has three quarters
		t.Errorf("%d streams, %d refused", streams.Load(), refused.Load())
	}
}

func TestRunOutlivesItsResponder(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.found(2)
	a := s.ask(codex, "Go.").until("status queued")
	s.stop()
	if _, what := a.refused(); what != "unavailable" || a.body["run"] != a.run {
		t.Errorf("it ends with %v", a.body)
	}
	s.again()
	s.found(2)
	if v, known := s.Service.Get(a.run); !known || v.State != runs.StateQueued {
		t.Errorf("the run is %+v", v)
	}
	b := s.ask(codex, "Again.").until("linesman.run")
	s.play("codex", b.run, begins+says("Hi.")+ends, exit(0))
	b.until("end")
}

func TestRespondersShareTheirPrompts(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.found(2)
	first := s.stop
	s.again()
	s.found(4)
	for range 10 {
		s.ask(codex, "Go.").until("status queued")
	}
	if open := s.Service.Snapshot(0, nil); len(open.Queued) != 10 {
		t.Errorf("%d runs of 10 prompts", len(open.Queued))
	}
	first()
	s.found(2)
	s.ask(codex, "Go.").until("status queued")
}

func TestLostConnectionIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.found(2)
	if err := s.Server.Restart(nil); err != nil {
		t.Fatal(err)
	}
	fixture.Eventually(t, fixture.Patience, "the caller is connected", s.caller.IsConnected)
	s.found(2)
	fixture.Eventually(t, fixture.Patience, "a prompt is answered", func() bool {
		m, err := s.caller.Request("agents.status.codex.ada.default", nil, time.Second)
		return err == nil && len(m.Data) > 0
	})
	s.ask(codex, "Go.").until("status ack")
}
