package top

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
)

const askingRun = "T-local-0asks0000000001"

// asking is a run that asks these questions.
func asking(ids ...string) *api.Run {
	return oneRun(askingRun, runs.StateInputRequired, func(r *api.Run) {
		if r.Questions = ids; ids == nil {
			r.State = runs.StateWorking
		}
	})
}

func permission(id string, change func(*api.Question)) api.Question {
	q := api.Question{
		Run: askingRun, ID: id, Kind: api.KindPermission, Agent: "claude_code", RunTitle: "Fix the flaky test",
		Dir: "/home/dev/src/linesman", Asked: at(-5), Due: at(3240), Title: "Run the tests", Tool: "execute",
		Digest: "d-" + id, Command: "go test ./... -count=1 -run TestThatHasALongName/and_a_case_that_is_long_too &&\n" +
			"\trm -r ./tmp\x1b[2J⟨U+202E⟩",
		Files: []api.QuestionFile{{Path: "go.mod", Diff: "@@ -1 +1 @@\n-go 1.25\n+go 1.26\n"}},
		Options: []api.QuestionOption{
			{ID: "once", Kind: "allow_once", Name: "Allow once"}, {ID: "ever", Kind: "allow_always", Name: "Always allow"},
			{ID: "no", Kind: "reject_once", Name: "Reject"},
		},
	}
	if change != nil {
		change(&q)
	}
	return q
}

// asked is a screen of a run that asks questions, which were read.
func asked(t *testing.T, width, height int, all ...api.Question) (*model, *server) {
	s := newServer(0)
	s.asked = all
	m := stage(width, height, false)
	m.svc, m.ctx = s, t.Context
	var ids []string
	for _, q := range all {
		ids = append(ids, q.ID)
	}
	m.Update(found(asking(ids...)))
	m.Update(readNow(m))
	return m, s
}

// readNow is what the request for questions that is on the way returns.
func readNow(m *model) tea.Msg {
	m.reading, m.askedFor = false, ""
	return m.readQuestions()()
}

// settled lets the question on the screen settle.
func settled(m *model) { m.Update(settledMsg(m.views)) }

func TestQuestionAtEachWidth(t *testing.T) {
	for _, width := range []int{40, 80, 120} {
		m, _ := asked(t, width, 24, permission("q1", nil))
		checkGolden(t, fmt.Sprintf("asks-%d", width), screen(m))
		checkSafe(t, m)
		press(m, "a")
		checkGolden(t, fmt.Sprintf("question-%d", width), screen(m))
		checkSafe(t, m)
	}
	m, _ := asked(t, 80, 24, permission("q1", nil))
	press(m, "a", "?")
	checkGolden(t, "help-question", screen(m))
}

// In the list the keys show the question. A key that follows within 300 ms, or comes as soon after another question
// took its place, answers nothing.
func TestKeysAnswerOnlyWhatWasOnTheScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := asked(t, 80, 24, permission("q1", nil), permission("q2", nil))
		settle := press(m, "a") // the details, and the time
		if m.run == nil || m.run.question == nil || len(s.answers) > 0 {
			t.Fatal("the question is not shown")
		}
		if cmd := press(m, "a"); cmd != nil {
			t.Error("the key is taken at once")
		}
		ready := make(chan tea.Msg, 10)
		for _, cmd := range settle().(tea.BatchMsg) {
			go func() { ready <- cmd() }()
		}
		time.Sleep(299 * time.Millisecond)
		synctest.Wait()
		take := func() {
			for len(ready) > 0 {
				if msg, is := (<-ready).(settledMsg); is {
					m.Update(msg)
				}
			}
		}
		take()
		if cmd := press(m, "a"); cmd != nil {
			t.Error("the key is taken after 299 ms")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		take()
		answer := press(m, "a")
		if answer == nil {
			t.Fatal("the key is not taken after 300 ms")
		}
		if press(m, "a", "d") != nil {
			t.Error("it is answered again while its answer is on the way")
		}
		_, cmd := m.Update(answer())
		if m.run.question == nil || m.run.question.ID != "q2" || cmd == nil {
			t.Fatal("the next question is not shown")
		}
		if press(m, "a", "d", "1") != nil {
			t.Error("the next question is answered before it was on the screen for 300 ms")
		}
		want := []api.AnswerRequest{{Request: askingRun, Question: "q1", Option: "once", Digest: "d-q1"}}
		if fmt.Sprint(s.answers) != fmt.Sprint(want) {
			t.Errorf("answers %+v", s.answers)
		}
	})
}

func TestOptionsAreChosenByNumbers(t *testing.T) {
	two := func(q *api.Question) {
		q.Options = append(q.Options, api.QuestionOption{ID: "too", Kind: "allow_once", Name: "Allow twice"})
	}
	for _, c := range []struct {
		keys    string
		change  func(*api.Question)
		confirm bool
		want    string // the option; "": none
	}{
		{"a", nil, false, "once"}, {"d", nil, false, "no"}, {"1", nil, false, "once"}, {"3", nil, false, "no"},
		{"2", nil, true, "ever"}, {"9", nil, false, ""}, {"a", two, false, ""}, {"4", two, true, "too"},
		{"d", func(q *api.Question) { q.Options = q.Options[:1] }, false, "deny"},
		{"a", func(q *api.Question) { q.Cut = true }, false, ""},
		{"a", func(q *api.Question) { q.Kind = api.KindForm }, false, ""},
	} {
		m, s := asked(t, 80, 24, permission("q1", c.change))
		press(m, "a")
		settled(m)
		cmd := press(m, c.keys)
		if confirms := m.run.question.chosen != nil; confirms != c.confirm || confirms && cmd != nil {
			t.Errorf("%q: confirms %v", c.keys, confirms)
		}
		if c.confirm {
			if s := screen(m); !strings.Contains(s, "answer "+c.want) {
				t.Errorf("%q: no confirmation:\n%s", c.keys, s)
			}
			if press(m, "n") != nil || m.run.question.chosen != nil {
				t.Errorf("%q: n answers", c.keys)
			}
			press(m, c.keys)
			cmd = press(m, "y")
		}
		if cmd != nil {
			m.Update(cmd())
		}
		if got := append(s.answers, api.AnswerRequest{})[0].Option; got != c.want {
			t.Errorf("%q: answered %q, want %q", c.keys, got, c.want)
		}
	}
}

// What cannot be answered here names the command that can.
func TestCutQuestionsAndFormsNameTheirCommand(t *testing.T) {
	m, _ := asked(t, 120, 24, permission("q1", func(q *api.Question) { q.Cut = true }))
	press(m, "a")
	settled(m)
	press(m, "a")
	if s := screen(m); !strings.Contains(s, "linesman questions "+askingRun+"/q1 --whole") {
		t.Errorf("no command:\n%s", s)
	}
	m, _ = asked(t, 120, 24, permission("q1", func(q *api.Question) {
		q.Kind, q.Options, q.Title, q.Command = api.KindForm, nil, "Which branch?", ""
		q.Fields = []byte(`{"properties":{"name":{"type":"string","title":"Branch"}},"required":["name"]}`)
	}))
	press(m, "a")
	settled(m)
	press(m, "d")
	if s := screen(m); !strings.Contains(s, "name  string, required: Branch") ||
		!strings.Contains(s, "linesman answer "+askingRun+"/q1 decline") {
		t.Errorf("no command:\n%s", s)
	}
}

// What a file bridge asks is shown, too, and names the command that answers it.
func TestRequestsOfBridgesAreShown(t *testing.T) {
	s := newServer(0)
	s.asked = []api.Question{{Run: askingRun, ID: "q1", Kind: api.KindText, Prompt: "Which\u202e one?"}}
	m := stage(120, 24, false)
	m.svc, m.ctx = s, t.Context
	run := asking()
	run.Agent, run.State = runs.AgentExternal, runs.StateInputRequired
	m.Update(found(run))
	m.Update(readNow(m))
	press(m, "a")
	settled(m)
	press(m, "a")
	if s := screen(m); !strings.Contains(s, "Which") || strings.Contains(s, "\u202e") ||
		!strings.Contains(s, "linesman answer "+askingRun+"/q1 TEXT") {
		t.Errorf("no question, or no command:\n%s", s)
	}
}

// A long command is allowed after its last row was on the screen; it can be denied before.
func TestLongQuestionsAreReadBeforeTheyAreAllowed(t *testing.T) {
	m, s := asked(t, 80, 12, permission("q1", func(q *api.Question) {
		q.Command = strings.Repeat("true &&\n", 30) + "rm -rf /"
	}))
	press(m, "a")
	settled(m)
	if press(m, "a") != nil || press(m, "1") != nil || len(s.answers) > 0 {
		t.Error("it was allowed unread")
	}
	if press(m, "d") == nil {
		t.Error("it cannot be denied")
	}
	m.run.question.sent = false
	press(m, "end")
	if press(m, "a") == nil {
		t.Error("it cannot be allowed at its end")
	}
}

// The questions are read when the ids in a row change, and not again while these stay.
func TestQuestionsAreReadWhenRowsChange(t *testing.T) {
	m, s := asked(t, 80, 24, permission("q1", nil))
	s.requests = 0
	m.Update(found(asking("q1")))
	m.Update(updateMsg{at: m.now})
	if m.reading || m.askedFor != m.table.asks || s.requests > 0 {
		t.Error("they are read again")
	}
	m.Update(found(asking("q1", "q2")))
	if !m.reading {
		t.Fatal("they are not read although there is a new one")
	}
	m.Update(questionsMsg{of: m.table.asks, err: &api.Error{Code: api.Unavailable, Err: client.ErrUnreachable}})
	m.Update(updateMsg{at: m.now})
	if !m.reading {
		t.Error("a failed request is not repeated")
	}
	m.Update(questionsMsg{of: m.table.asks, err: client.ErrDenied})
	m.Update(updateMsg{at: m.now})
	if m.reading {
		t.Error("a denied request is repeated")
	}
	m.Update(found(asking()))
	if m.reading || len(m.asked) != 0 {
		t.Error("questions stay without a run that asks them")
	}
}

// The timeline is one key away, and comes back when the question is gone. In it the keys show the question again.
func TestQuestionCanBePutAside(t *testing.T) {
	m, s := asked(t, 80, 24, permission("q1", nil))
	press(m, "enter")
	m.Update(tea.KeyPressMsg{Code: tea.KeyTab})
	if m.run.question != nil {
		t.Fatal("the question is still shown")
	}
	m.Update(found(asking("q1")))
	if m.run.question != nil {
		t.Error("it comes back by itself")
	}
	press(m, "d")
	if m.run.question == nil || m.run.options.Diffs || len(s.answers) > 0 {
		t.Error("the key does not show the question")
	}
	m.Update(found(asking()))
	if m.run.question != nil || strings.Contains(screen(m), "asks:") {
		t.Error("it is shown although it is not open")
	}
	press(m, "d")
	if !m.run.options.Diffs {
		t.Error("without a question the key does not show the diffs")
	}
}

func TestAgentsDoNotAnswer(t *testing.T) {
	m, s := asked(t, 80, 24, permission("q1", nil))
	m.inside = true
	press(m, "a")
	settled(m)
	if press(m, "a") != nil || press(m, "d") != nil || len(s.answers) > 0 {
		t.Error("it answers")
	}
}

// An answer that came too late says who decided.
func TestLateAnswersSayWhoDecided(t *testing.T) {
	m, _ := asked(t, 120, 24, permission("q1", nil))
	press(m, "a")
	settled(m)
	m.Update(answeredMsg{ref: refOf(askingRun, "q1"), err: &api.Error{
		Code: api.Conflict, Message: "question q1 is answered: the answer was no, by phone over rest"}})
	if s := screen(m); m.run.question != nil || !strings.Contains(s, "by phone over rest") {
		t.Errorf("nothing is said:\n%s", s)
	}
}
