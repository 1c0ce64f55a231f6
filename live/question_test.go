package live

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

func TestQuestionsAreOpenUntilTheyAreDecided(t *testing.T) {
	s := inTurn(t)
	line := permission("7", "delete", `,"locations":[{"path":"/home/dev/project/a"}],"content":[]`)
	s.say(line)
	s.want("")
	q := s.c.Open()[0]
	want := Question{
		ID: "q1", Kind: acp.Permission, Tool: "delete", Call: "c", Paths: []string{"/home/dev/project/a"},
		Turn: 1,
		Options: []acp.Option{{ID: "always", Kind: "allow_always"}, {ID: "yes", Kind: "allow_once"},
			{ID: "no", Kind: "reject_once"}},
		Seq: uint64(len(s.log)), Offset: s.out - int64(len(line)) - 1, Length: len(line),
	}
	if fmt.Sprint(q) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", q, want)
	}
	s.restart()
	if fmt.Sprint(s.c.Open()) != fmt.Sprint([]Question{want}) || !s.c.Status().Asking {
		t.Errorf("restored %+v", s.c.Open())
	}
	for _, void := range []runs.Command{
		answerOf("1", "q2", "yes"), answerOf("2", "q1", "maybe"), {ID: "3", Do: "dance", Question: "q1"},
		{Do: runs.DoAnswer, Question: "q1", Option: "yes"}, answerOf(strings.Repeat("x", 65), "q1", "yes"),
	} {
		s.order(void)
		if effect, known := s.c.Obeyed(void.ID); effect || known != (len(void.ID) == 1) {
			t.Errorf("%+v: effect %v, known %v", void, effect, known)
		}
	}
	s.entry(runs.Ordered, []byte("{"))
	s.answer("1", "q1", "no") // this id was void
	s.want("")
	s.answer("4", "q1", "yes")
	s.answer("5", "q1", "no")
	s.want("7:yes")
	s.answer("6", "q1", "no")
	s.want("")
	if effect, known := s.c.Obeyed("4"); !effect || !known {
		t.Error("the answer had no effect")
	}
	for i := range maxCommands {
		s.order(runs.Command{ID: fmt.Sprint("n", i)})
	}
	if _, known := s.c.Obeyed("4"); known || len(s.c.s.Commands) != maxCommands {
		t.Error("it is remembered for ever")
	}
}

func TestRequestsThatAreNoOpenQuestionsAreAnsweredAtOnce(t *testing.T) {
	request := func(id, method, params string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
	}
	s := newStage(t, config())
	s.drain()
	s.say(permission(`"early"`, "read", ""))
	s.want(`"early":cancelled`)
	s = inTurn(t)
	s.say(request("0", "fs/read_text_file", ""), request("1", "craft/drainMidTurnQueue", ""),
		request("2", "elicitation/create", `"mode":"url"`), request(`"x\u0000"`, "session/prompt", ""))
	s.want(`0:-32601 1:-32601 2:-32602 "x\u0000":-32601`)
	s.say(request("3", "elicitation/create", `"mode":"form","message":"?","requestedSchema":{}`))
	if q := s.c.Open(); len(q) != 1 || q[0].ID != "q1" || q[0].Kind != acp.Form {
		t.Errorf("%+v", q)
	}
	s.answer("a", "q1", "")
	s.want("3:cancel")
	for i := range runs.MaxQuestions + 2 {
		s.say(permission(fmt.Sprint(100+i), "read", ""))
	}
	s.want("110:no 111:no")
	s.order(runs.Command{ID: "b", Do: runs.DoStop, Turn: 1})
	s.say(permission("200", "read", ""))
	if got := kinds(s.drain()); !strings.HasPrefix(got, "session/cancel 100:cancelled 101:cancelled ") ||
		!strings.HasSuffix(got, " 109:cancelled 200:cancelled") {
		t.Error(got)
	}
	s.say(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}`, permission("201", "read", ""))
	s.want("session/close 201:cancelled")
	s.ended(turnCancelled, false)
	s.say(closed, permission("202", "read", ""))
	s.want("")
}

func TestTwoRequestsWithOneIDAreRejectedByOneAnswer(t *testing.T) {
	s := inTurn(t)
	s.say(permission("7", "read", ""), permission("7", "execute", ""))
	s.want("7:cancelled")
	s.say(permission("7", "read", "")) // the agent has the answer
	s.answer("a", "q3", "yes")
	s.say(permission("7", "execute", "")) // it does not
	s.answer("b", "q4", "yes")
	s.want("7:cancelled")
	if len(s.c.Open()) != 0 {
		t.Error(s.c.Open())
	}
}

func TestAgentsWithdrawQuestions(t *testing.T) {
	s := inTurn(t)
	s.say(permission("7", "read", ""), permission(`"8"`, "read", ""), permission("9", "read", `,"x":0`),
		`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"8"}}`,
		`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":10}}`)
	s.want(`"8":cancelled`)
	s.say(update("tool_call_update", `"toolCallId":"c","status":"in_progress"`))
	s.want("")
	s.say(update("tool_call_update", `"toolCallId":"c","status":"completed"`)) // without an answer
	s.want("7:cancelled 9:cancelled")
	s.say(permission("11", "read", ""), turned)
	s.want("11:cancelled session/close")
}

func TestCancelledTurns(t *testing.T) {
	stop := func(id string, turn int) runs.Command { return runs.Command{ID: id, Do: runs.DoStop, Turn: turn} }
	t.Run("before the prompt", func(t *testing.T) {
		s := newStage(t, config())
		s.drain()
		s.say(hello)
		s.drain()
		s.say(created)
		s.order(stop("a", 2))
		s.order(stop("b", 1))
		s.want("session/close")
		s.ended(turnCancelled, false)
	})
	t.Run("within the prompt", func(t *testing.T) {
		cfg := config()
		cfg.Task.Prompt = strings.Repeat("é", 200_000)
		s := newStage(t, cfg)
		s.drain()
		s.say(hello)
		s.drain()
		s.say(created)
		offset, body := s.c.Due()
		if len(body) != runs.MaxChunk {
			t.Fatal(len(body))
		}
		s.append(runs.Entry{Kind: runs.Sent, Offset: offset, Body: body})
		s.order(stop("a", 1))
		s.restart()
		_, body = s.c.Due()
		if !strings.HasPrefix(string(body), "é") && !strings.HasPrefix(string(body[1:]), "é") {
			t.Errorf("%.20q", body)
		}
		for len(body) > 0 && body[len(body)-1] != '\n' {
			offset, body = s.c.Due()
			s.append(runs.Entry{Kind: runs.Sent, Offset: offset, Body: body})
		}
		s.want("session/cancel")
		s.order(stop("b", 1))
		s.want("")
		s.say(turned) // it was too late
		s.ended(TurnCompleted, false)
	})
	t.Run("by a limit", func(t *testing.T) {
		s := inTurn(t)
		s.order(runs.Command{ID: "a", Do: runs.DoLimit, Turn: 1, Rule: "idle"})
		s.want("session/cancel")
		s.say(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}`)
		s.ended(turnCancelled, false)
		if o, _ := s.c.Ended(); o.Limit != "idle" {
			t.Errorf("%+v", o)
		}
	})
	t.Run("by the limit of the start", func(t *testing.T) {
		s := newStage(t, config())
		s.order(runs.Command{ID: "a", Do: runs.DoLimit, Rule: "start"})
		s.want("")
		s.ended(NoSession, true)
	})
	t.Run("with the run", func(t *testing.T) {
		s := inTurn(t)
		s.entry(runs.Cancelled, []byte("{}"))
		s.want("session/cancel")
		s.process(runs.Process{N: 1, Do: runs.ProcessEnd})
		s.ended(Interrupted, true)
	})
	t.Run("by an end", func(t *testing.T) {
		s := inTurn(t)
		s.order(runs.Command{ID: "a", Do: runs.DoEnd})
		s.want("")
		s = newStage(t, config())
		s.order(runs.Command{ID: "a", Do: runs.DoEnd})
		s.ended(turnCancelled, true)
	})
	t.Run("answered before the cancel was sent", func(t *testing.T) {
		s := inTurn(t)
		s.order(stop("a", 1))
		s.say(turned)
		s.want("session/close")
	})
}

func TestAFloodOfRequestsCancelsTheTurnThenEndsIt(t *testing.T) {
	s := inTurn(t)
	for i := range 2 * maxAsked {
		s.say(permission(fmt.Sprint(i), "read", ""))
		if cancelled := s.c.Status().Stopped; cancelled != (i >= maxAsked) {
			t.Fatalf("request %d: cancelled %v", i, cancelled)
		}
	}
	if n := len(s.c.s.Due); n > 2*maxAsked+10 {
		t.Errorf("%d lines are due", n)
	}
	s.say(permission("-1", "read", ""))
	s.ended(TurnFailed, true)
	s.want("")
}

func TestAnAgentThatLeavesItsModeIsCancelled(t *testing.T) {
	for mode, want := range map[string]string{
		"edits": "", "ask": "", "plan": "", "https://x/session-modes#plan": "", "all": "session/cancel",
		"auto": "session/cancel",
	} {
		cfg := config()
		cfg.Agent.Modes = map[string]string{"read-only": "ask", "workspace-write": "edits", "danger-full-access": "all"}
		s := newStage(t, cfg)
		s.drain()
		s.say(hello)
		s.drain()
		s.say(created)
		s.drain()
		s.say(`{"jsonrpc":"2.0","id":3,"result":{}}`)
		s.want("session/prompt")
		s.say(strings.Replace(update("current_mode_update", `"currentModeId":"all"`), `"s"`, `"sub"`, 1))
		s.say(update("current_mode_update", `"currentModeId":"`+mode+`"`))
		s.want(want)
		if s.say(`{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}`); want != "" {
			s.ended(TurnFailed, false)
		}
	}
}

func TestCallsAreOpenUntilTheyEnd(t *testing.T) {
	s := inTurn(t)
	for range 2 * maxCalls {
		s.say(update("tool_call", `"toolCallId":"a","status":"pending"`), update("tool_call", `"toolCallId":"b"`))
	}
	s.say(update("tool_call_update", `"toolCallId":"a","status":"completed"`))
	if !s.c.Status().Calling {
		t.Error("b is closed")
	}
	if s.say(update("tool_call_update", `"toolCallId":"b","status":"failed"`)); s.c.Status().Calling {
		t.Error("b is open")
	}
	for i := range 2 * maxCalls {
		s.say(update("tool_call", fmt.Sprintf(`"toolCallId":"%d"`, i)))
	}
	if s.say(turned); len(s.c.s.Calls) > 0 {
		t.Error("calls outlive the turn")
	}
}

// Of a line that is too long, or of which bytes are missing, id and method count.
func TestDamagedRequestsAreRejected(t *testing.T) {
	long := `[` + strings.Repeat(" ", maxLine) + `]`
	s := inTurn(t)
	s.asked["5"] = "session/request_permission"
	s.print(`{"params":` + long + `,"id":5,"jsonrpc":"2.0","method":"session/request_permission"}` + "\n")
	s.want("5:cancelled")
	if s.c.lines.unfinished() || s.c.s.Numbered != 0 {
		t.Errorf("%d numbered", s.c.s.Numbered)
	}
	s.asked["11"] = "session/request_permission"
	s.print(`{"jsonrpc":"2.0","id":11,"method":"session/request_permission","params":`)
	s.out += 100
	if s.print(`"}}` + "\n"); s.c.State() == nil {
		t.Error("the line is not at its end")
	}
	s.want("11:cancelled")
	s.out += 100
	s.print(permission("12", "read", "") + "\n" + permission("13", "read", "") + "\n") // the first may begin before
	if q := s.c.Open(); len(q) != 1 || s.c.s.Open[0].Request != "13" {
		t.Errorf("%+v", q)
	}
}

func TestOutputThatIsKnownIsDropped(t *testing.T) {
	s := inTurn(t)
	line := permission("7", "read", "") + "\n"
	s.print(line[:20])
	if s.c.State() != nil {
		t.Error("a state within a line")
	}
	s.append(runs.Entry{Kind: runs.Out, Offset: s.out - 20, Body: []byte(line)})
	s.append(runs.Entry{Kind: runs.Out, Offset: s.out - 20, Body: []byte(line)})
	s.c.Apply(1, runs.Entry{Kind: runs.Proc, Body: runs.Encode(runs.Process{N: 2, Do: runs.ProcessStart})}) // known, too
	if q := s.c.Open(); len(q) != 1 || q[0].Offset != s.out-20 || q[0].Seq != uint64(len(s.log)-2) {
		t.Errorf("%+v", q)
	}
}

func TestALogWithoutWhatWasSentEndsTheConversation(t *testing.T) {
	s := inTurn(t)
	s.append(runs.Entry{Kind: runs.Sent, Offset: s.c.s.Sent + 5, Body: []byte("x\n")})
	s.ended(TurnFailed, true)
	s.want("")
}

func TestPolicyOfAMode(t *testing.T) {
	const (
		ro, ww, all = runs.ReadOnly, runs.WorkspaceWrite, runs.DangerFull
		in          = `,"locations":[{"path":"/home/dev/project/a"},{"path":"b"},{"path":"/home/dev/project"}]`
		out         = `,"locations":[{"path":"/home/dev/project/a"},{"path":"/home/dev/project/../b"}]`
		diff        = `,"content":[{"type":"diff","path":"/home/dev/project2/a"}]`
		edit        = `,"locations":[{"path":"/home/dev/project/a"}],"content":[{"type":"diff","path":"/home/dev/project/a"}]`
		move        = `,"locations":[{"path":"/home/dev/project/a"}],"content":[{"type":"diff","path":"/home/dev/project/b"}]`
		two         = `,"locations":[{"path":"/home/dev/project/a"},{"path":"b"}],"content":[{"type":"diff","path":"b"}]`
		// As the agents ask. Without a path in its request, Claude Code and Qwen Code search in the directory of the run.
		claudeGrep = `,"rawInput":{"pattern":"KEY","path":"/home/dev/.ssh"},"title":"grep \"KEY\" /home/dev/.ssh","content":[]`
		claudeGlob = `,"rawInput":{"pattern":"/home/dev/.ssh/*"},"title":"Find` + " `/home/dev/.ssh/*`" + `","content":[],"locations":[]`
		claudeUp   = `,"rawInput":{"pattern":"../.ssh/*"},"title":"Find","content":[],"locations":[]`
		claudeRead = `,"rawInput":{"file_path":"/home/dev/project/a"},"title":"Read a","locations":[{"path":` +
			`"/home/dev/project/a","line":1}],"content":[]`
		claudeHome = `,"rawInput":{"file_path":"~/.netrc"},"title":"Read","locations":[{"path":"~/.netrc","line":1}],"content":[]`
		claudeEdit = `,"rawInput":{"file_path":"/home/dev/project/a","old_string":"a","new_string":"b"},"title":"Edit a",` +
			`"content":[{"type":"diff","path":"/home/dev/project/a","oldText":"a","newText":"b"}],` +
			`"locations":[{"path":"/home/dev/project/a"}]`
		qwenGrep = `,"status":"pending","title":"'KEY' in path '/home/dev/.ssh'","content":[],"locations":[],"rawInput":` +
			`{"pattern":"KEY","path":"/home/dev/.ssh"},"_meta":{"toolName":"grep_search"}`
		qwenHere   = `,"status":"pending","content":[],"locations":[],"rawInput":{"pattern":"KEY","path":"src"}`
		geminiRead = `,"status":"pending","title":"Allow access to absolute path: /etc/hosts","content":[{"type":"content",` +
			`"content":{"type":"text","text":"The Agent needs access to read an attached file outside your workspace: ` +
			`/etc/hosts"}}],"locations":[]`
		geminiEdit = `,"status":"pending","title":"a: x => y","content":[{"type":"diff","path":"/home/dev/project/a",` +
			`"oldText":"x","newText":"y","_meta":{"kind":"modify"}}],"locations":[{"path":"/home/dev/project/a"}]`
		opencodeGrep = `,"title":"KEY","status":"pending","locations":[{"path":"/home/dev/.ssh"}],"rawInput":{"pattern":` +
			`"KEY","path":"/home/dev/.ssh"}`
		opencodeMCP = `,"title":"read","status":"pending","locations":[],"rawInput":{"server":"s","uri":"file:///etc/hosts"}`
		odd         = `,"locations":[{"path":7}]`
		object      = `,"locations":{}`
	)
	for _, test := range []struct {
		mode        runs.Mode
		tool, files string
		want, rule  string
	}{
		{ro, "read", "", "no", "read-only denies read"},
		{ro, "search", "", "no", "read-only denies search"},
		{ro, "search", in, "yes", "read-only allows search"},
		{ro, "think", "", "yes", "read-only allows think"},
		{ro, "read", out, "no", "read-only denies read"},
		{ro, "edit", in, "no", "read-only denies edit"},
		{ro, "execute", "", "no", "read-only denies execute"},
		{ww, "edit", edit, "yes", "workspace-write allows edit"},
		{ww, "edit", in, "no", "workspace-write denies edit"},
		{ww, "edit", move, "yes", "workspace-write allows edit"},
		{ww, "edit", two, "no", "workspace-write denies edit"},
		{ww, "delete", in, "yes", "workspace-write allows delete"},
		{ww, "move", move, "yes", "workspace-write allows move"},
		{ww, "move", in, "no", "workspace-write denies move"},
		{ww, "move", `,"rawInput":{"path":"a","destination":"/etc/b"}`, "no", "workspace-write denies move"},
		{ww, "search", `,"rawInput":{"path":"src","pattern":"{/etc/*,x}"}`, "no", "workspace-write denies search"},
		{ww, "", in, "no", "workspace-write denies other"},
		{ww, "read", "", "no", "workspace-write denies read"},
		{ww, "think", "", "yes", "workspace-write allows think"},
		{ww, "search", claudeGrep, "no", "workspace-write denies search"},
		{ww, "search", claudeGlob, "no", "workspace-write denies search"},
		{ww, "search", claudeUp, "no", "workspace-write denies search"},
		{ww, "read", claudeRead, "yes", "workspace-write allows read"},
		{ww, "read", claudeHome, "no", "workspace-write denies read"},
		{ww, "edit", claudeEdit, "yes", "workspace-write allows edit"},
		{ww, "search", qwenGrep, "no", "workspace-write denies search"},
		{ro, "search", qwenHere, "yes", "read-only allows search"},
		{ro, "read", geminiRead, "no", "read-only denies read"},
		{ww, "edit", geminiEdit, "yes", "workspace-write allows edit"},
		{ww, "search", opencodeGrep, "no", "workspace-write denies search"},
		{ww, "read", opencodeMCP, "no", "workspace-write denies read"},
		{ww, "edit", "", "no", "workspace-write denies edit"},
		{ww, "edit", out, "no", "workspace-write denies edit"},
		{ww, "edit", in + diff, "no", "workspace-write denies edit"},
		{ww, "edit", odd, "no", "workspace-write denies edit"},
		{ww, "read", object, "no", "workspace-write denies read"},
		{ww, "execute", in, "no", "workspace-write denies execute"},
		{ww, "fetch", "", "no", "workspace-write denies fetch"},
		{ww, "secret", "", "no", "workspace-write denies other"},
		{all, "execute", out, "yes", "danger-full-access allows execute"},
		{all, "secret", odd, "yes", "danger-full-access allows other"},
	} {
		s := inTurn(t)
		s.say(permission("7", test.tool, test.files))
		cmd, ok := Policy{Mode: test.mode, Dirs: []string{"/home/dev/project"}}.Decide(s.c.Open()[0], 0)
		if !ok || cmd.Option != test.want || cmd.Rule != test.rule || cmd.By != runs.ByPolicy {
			t.Errorf("%s %s %s: %+v", test.mode, test.tool, test.files, cmd)
		}
		s.order(cmd)
		s.order(cmd)
		s.want("7:" + test.want)
	}
}

// A request of Codex to change files tells where they are. Where to it moves one is only in the update before.
func TestAFileThatAnEditMovesIsInsideByItsDestination(t *testing.T) {
	const (
		here = `,"title":"Edit files","status":"pending","locations":[{"path":"/home/dev/project/a"}]`
		both = `,"title":"Edit files","status":"pending","locations":[{"path":"/home/dev/project/a"},{"path":"/home/dev/project/b"}]`
	)
	started := func(id string, paths ...string) string {
		var diffs []string
		for _, p := range paths {
			diffs = append(diffs, `{"type":"diff","oldText":"","newText":"","path":"`+p+`","_meta":{"kind":"update"}}`)
		}
		return update("tool_call", `"toolCallId":"`+id+`","title":"Editing files","kind":"edit","status":"in_progress",`+
			`"content":[`+strings.Join(diffs, ",")+`]`)
	}
	const a, b, home = "/home/dev/project/a", "/home/dev/project/b", "/home/dev/.bashrc"
	many := make([]string, 60)
	for i := range many {
		many[i] = fmt.Sprintf("/home/dev/project/%0300d", i)
	}
	rules := rulesOf(t, "allow edit in /home/dev/project")
	for name, test := range map[string]struct {
		before []string
		asks   string
		want   string
	}{
		"an edit":                     {[]string{started("c", a)}, here, "yes"},
		"in two updates":              {[]string{started("c", a), started("c", b)}, both, "yes"},
		"the status alone":            {[]string{started("c", a), update("tool_call_update", `"toolCallId":"c","status":"pending"`)}, here, "yes"},
		"a move to another name":      {[]string{started("c", b)}, here, "yes"},
		"a move to elsewhere":         {[]string{started("c", home)}, here, "no"},
		"a move beside an edit":       {[]string{started("c", a, home)}, both, "no"},
		"a diff that is left out":     {[]string{started("c", a)}, both, "no"},
		"no update":                   {nil, here, "no"},
		"an update of another call":   {[]string{started("d", a)}, here, "no"},
		"an update that is not kept":  {[]string{started("d", many...), started("c", many...)}, both, "no"},
		"a call that has ended":       {[]string{started("c", a), update("tool_call_update", `"toolCallId":"c","status":"failed"`)}, here, "no"},
		"nothing told in the request": {[]string{started("c", a)}, "", "no"},
		"a request with its diff":     {nil, here + `,"content":[{"type":"diff","path":"` + a + `"}]`, "yes"},
	} {
		for _, p := range []Policy{{Mode: runs.WorkspaceWrite}, {Mode: runs.ReadOnly, Rules: rules}} {
			s := inTurn(t)
			s.say(test.before...)
			s.restart()
			s.say(permission("7", "edit", test.asks))
			s.restart()
			p.Dirs = []string{"/home/dev/project"}
			if cmd, _ := p.Decide(s.c.Open()[0], 0); cmd.Option != test.want {
				t.Errorf("%s: %+v", name, cmd)
			}
		}
	}
}

// Kimi Code tells the kind of a tool only in the update before its request.
func TestTheKindOfAToolMayBeToldOnlyOfItsCall(t *testing.T) {
	const untyped = `{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":` +
		`{"toolCallId":"c","title":"Shell"},"options":[{"optionId":"yes","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}`
	for _, test := range []struct{ told, rules, want string }{
		{`"kind":"execute",`, "deny execute;;allow *", "no"},
		{`"kind":"execute",`, "allow execute", "yes"},
		{`"kind":"execute",`, "deny execute: git push;;allow *", "no"}, // which one is not told
		{"", "deny execute;;allow *", "no"},
		{"", "allow *", "yes"},
	} {
		s := inTurn(t)
		s.say(update("tool_call", `"toolCallId":"c",`+test.told+`"title":"Shell","status":"pending"`),
			update("tool_call_update", `"toolCallId":"c","status":"in_progress"`))
		s.restart()
		s.say(untyped)
		s.restart()
		p := Policy{Mode: runs.WorkspaceWrite, Rules: rulesOf(t, test.rules), Dirs: []string{"/home/dev/project"}}
		if cmd, ok := p.Decide(s.c.Open()[0], 0); !ok || cmd.Option != test.want {
			t.Errorf("%s %s: %+v", test.told, test.rules, cmd)
		}
	}
}

func TestPolicyPicksNoOptionForLonger(t *testing.T) {
	option := func(kinds ...string) (all []acp.Option) {
		for i, kind := range kinds {
			all = append(all, acp.Option{ID: fmt.Sprint(i), Kind: kind})
		}
		return all
	}
	for _, test := range []struct {
		kind    string
		options []acp.Option
		want    string
	}{
		{acp.Permission, option("allow_always", "allow_once", "reject_once"), "1"},
		{acp.Permission, option("allow_always", "reject_always"), ""},
		{acp.Permission, option("allow_always", "reject_always", "reject_once"), "2"},
		{acp.Permission, option("allow_once", "allow_once", "reject_once"), "2"}, // with different effects
		{acp.Permission, nil, ""},
		{acp.Form, option("allow_once"), ""},
	} {
		cmd, ok := Policy{Mode: runs.DangerFull}.Decide(Question{ID: "q1", Kind: test.kind, Options: test.options}, 0)
		if want := (test.kind != acp.Form); !ok || (want || test.want == "") && cmd.Option != test.want {
			t.Errorf("%+v: %+v", test, cmd)
		}
	}
}

// A later answer by a word, such as allow, is the same as the one by the id that it stands for, whoever gave that.
func TestAWordIsTheSameAnswerAsItsOption(t *testing.T) {
	of := func(options string) string {
		line, _, _ := strings.Cut(permission("7", "read", ""), `"options"`)
		return line + `"options":[` + options + `]}}`
	}
	two := of(`{"optionId":"a","name":"","kind":"allow_once"},{"optionId":"b","name":"","kind":"allow_once"}`)
	named := of(`{"optionId":"allow","name":"","kind":"reject_once"},{"optionId":"yes","name":"","kind":"allow_once"}`)
	const form = `{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"mode":"form","message":"?",` +
		`"requestedSchema":{}}}`
	for _, test := range []struct{ line, option, holds, not string }{
		{permission("7", "read", ""), "yes", "yes allow", "no deny always decline"},
		{permission("7", "read", ""), "no", "no deny", "yes allow"},
		{permission("7", "read", ""), "always", "always", "allow deny"},
		{permission("7", "read", ""), "", "", "deny allow"}, // it has an option that denies
		{two, "a", "a", "allow b deny"},
		{two, "", "deny", "allow"},
		{named, "yes", "yes", "allow deny"},
		{named, "allow", "allow deny", "yes"},
		{form, runs.Decline, "decline deny", "cancel allow"},
		{form, "", "cancel", "decline deny"},
	} {
		s := inTurn(t)
		s.say(test.line)
		s.answer("1", "q1", test.option)
		s.drain()
		s.restart()
		for words, holds := range map[string]bool{test.holds: true, test.not: false} {
			for _, word := range strings.Fields(words) {
				if got := s.c.Rule(&runs.Command{ID: "2", Question: "q1", Option: word}); got.Holds != holds ||
					got.Option != test.option {
					t.Errorf("%q after %q: %+v", word, test.option, got)
				}
			}
		}
	}
}

// Who takes an answer refuses an option that lasts, unless the run permits it. In the log it has its effect, as always.
func TestOptionsThatLastAreTakenByTheSettingOfTheRun(t *testing.T) {
	for _, always := range []bool{false, true} {
		s := inTurn(t)
		s.c.config.Always = always
		s.say(permission("7", "read", ""))
		s.order(runs.Command{ID: "ask", Do: runs.DoAsk, Question: "q1"})
		cmd := answerOf("1", "q1", "always")
		if got := s.c.Rule(&cmd); got.Open != always || !always && got.Why != runs.WhyUnfit {
			t.Errorf("always %t: %+v", always, got)
		}
		other := answerOf("2", "q1", "yes")
		if got := s.c.Rule(&other); !got.Open {
			t.Errorf("always %t: %+v", always, got)
		}
		s.order(cmd)
		s.want("7:always")
	}
}

// A person has filled in a form, and before that is sent the agent asks again under its id: it does not get the answer.
func TestAFormThatIsAskedTwiceIsCancelled(t *testing.T) {
	const form = `{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"mode":"form","message":"?",` +
		`"requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}}`
	s := inTurn(t)
	s.say(form)
	s.order(runs.Command{ID: "ask", Do: runs.DoAsk, Question: "q1"})
	s.order(runs.Command{ID: "1", Do: runs.DoAnswer, Question: "q1", Option: runs.Accept, Content: []byte(`{"a":"b"}`)})
	s.say(form)
	s.want("7:cancel")
}

// An option of a kind that is not known may hold for longer than the call.
func TestAnOptionOfAnUnknownKindMayLast(t *testing.T) {
	for kind, lasts := range map[string]bool{"allow_once": false, "reject_once": false, "allow_always": true, "": true} {
		if got := (acp.Option{Kind: kind}).Lasts(); got != lasts {
			t.Errorf("%q: lasts %t", kind, got)
		}
	}
}
