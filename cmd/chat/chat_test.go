package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
)

// server answers as a responder does, and notes what it was asked for.
type server struct {
	asked   []string // name and request
	waiting api.Questions
	within  time.Duration // of the last request
	err     error
}

func (s *server) Call(_ context.Context, op api.Entry, request, outcome any) error {
	b, err := json.Marshal(request)
	s.asked, s.within = append(s.asked, op.Name+" "+string(b)), op.Within
	if q, is := outcome.(*api.Questions); is {
		*q = s.waiting
	}
	if a, is := outcome.(*api.Answered); is {
		a.Delivered = true
	}
	return errors.Join(s.err, err)
}

// last is what it was asked for last.
func (s *server) last() string {
	if len(s.asked) == 0 {
		return ""
	}
	return s.asked[len(s.asked)-1]
}

const id = "T-local-0talk0000000001"

// talking is a run in a turn.
func talking(change func(*api.Run)) *api.Run {
	run := &api.Run{
		Summary: runs.Summary{ID: id, State: runs.StateWorking, Attributes: runs.Attributes{Agent: "claude_code"}},
		Detail:  &api.Detail{Conversation: &api.Conversation{Turn: 2, Last: "completed"}},
	}
	if change != nil {
		change(run)
	}
	return run
}

// stage is a conversation on a screen.
func stage(t *testing.T, width int, run *api.Run) (*model, *server) {
	t.Helper()
	s := &server{}
	m := newModel(t.Context(), s, Config{Run: run}, false, time.Now())
	m.resize(width, 24)
	m.handle(drawnMsg{})
	m.out = nil
	return m, s
}

// press presses keys, and carries out what they ask for.
func press(m *model, keys ...tea.KeyPressMsg) {
	for _, k := range keys {
		do(m, m.key(k))
	}
}

func do(m *model, cmd tea.Cmd) {
	if cmd != nil {
		m.handle(cmd())
	}
}

// typed are the keys of a text.
func typed(text string) (keys []tea.KeyPressMsg) {
	for _, r := range text {
		keys = append(keys, tea.KeyPressMsg{Code: r, Text: string(r)})
	}
	return keys
}

var enter, tab = tea.KeyPressMsg{Code: tea.KeyEnter}, tea.KeyPressMsg{Code: tea.KeyTab}

// asks puts a question to the person of a stage.
func asks(m *model, s *server) {
	s.waiting.Requests = []api.Question{{Run: id, ID: "q1", Kind: api.KindPermission, Title: "Remove\x1b[2J it",
		Digest: "d", Command: "rm -r build", Options: []api.QuestionOption{
			{ID: "once", Kind: "allow_once", Name: "Yes"}, {ID: "ever", Kind: "allow_always", Name: "Always"},
			{ID: "no", Kind: "reject_once", Name: "No"},
		}}}
	m.know(talking(func(r *api.Run) { r.State, r.Questions = runs.StateInputRequired, []string{"q1"} }))
	m.ask.newest = "q1"
	do(m, m.readQuestions())
}

// An answer that was lost with its responder is not waited for as long as one for which all of a run must be read.
func TestLostAnswerIsAskedForAgainSoon(t *testing.T) {
	m, s := stage(t, 80, talking(nil))
	for _, c := range []struct {
		what string
		err  error
		long bool
	}{
		{"the first request", nil, true},
		{"the next one", context.DeadlineExceeded, false},
		{"one after a lost answer", nil, true},
		{"the one after it", nil, false},
	} {
		do(m, m.read(0))
		if long := s.within >= foldTime; long != c.long || !long && s.within > 3*askTime {
			t.Errorf("%s waits for %v", c.what, s.within)
		}
		m.items(itemsMsg{api.DetailPage{Next: "1.1"}, c.err})
	}
}

// What is typed while a question is open is a message, never an answer.
func TestTypedTextIsNoAnswer(t *testing.T) {
	m, s := stage(t, 80, talking(nil))
	asks(m, s)
	shown := strings.Join(m.out, "\n")
	if !strings.Contains(shown, "rm -r build") || !strings.Contains(shown, "2  ever  Always") {
		t.Errorf("the question: %s", shown)
	}
	press(m, append(typed("a1d"), enter)...)
	do(m, m.send())
	if !strings.HasPrefix(s.last(), `send {"run":"`+id+`","text":"a1d"`) {
		t.Errorf("asked for %s", s.last())
	}
	press(m, tab)
	press(m, typed("xz?")...)
	if !strings.HasPrefix(s.last(), "send") || m.field.Value() != "" {
		t.Errorf("other keys of a question: %s, typed %q", s.last(), m.field.Value())
	}
	press(m, typed("a")...)
	const want = `answer {"request":"` + id + `","question":"q1","option":"once","digest":"d"}`
	if s.last() != want {
		t.Errorf("asked for %s, want %s", s.last(), want)
	}
	press(m, tab)
	if m.ask.keys {
		t.Error("it can be answered again before the answer is known")
	}
}

// The content of a form leaves the field with its answer: what is typed before that is accepted is a message. A content
// that is refused comes back.
func TestFormLeavesTheFieldWithItsAnswer(t *testing.T) {
	m, s := stage(t, 80, talking(nil))
	s.waiting.Requests = []api.Question{{Run: id, ID: "q1", Kind: api.KindForm, Title: "Which release?",
		Fields: []byte("{\"properties\":{\"na\u202eme\":{\"type\":\"string\"}}}")}}
	m.know(talking(func(r *api.Run) { r.State, r.Questions = runs.StateInputRequired, []string{"q1"} }))
	m.ask.newest = "q1"
	do(m, m.readQuestions())
	press(m, typed("draft")...)
	press(m, tab, typed("e")[0])
	accepted := m.key(enter)
	press(m, typed(" two")...)
	if m.field.Value() != "draft two" {
		t.Fatalf("before it is accepted the field has %q", m.field.Value())
	}
	s.err = &api.Error{Code: api.Validation, Message: "is not what the form asks for"}
	do(m, accepted)
	if m.field.Value() != `{"na\u202eme":""}` || !strings.Contains(strings.Join(m.out, " "), "not answered") {
		t.Errorf("refused: the field has %q, said %q", m.field.Value(), m.out)
	}
	s.err = nil
	press(m, enter)
	if m.field.Value() != "draft two" || !strings.HasPrefix(s.last(), "answer") {
		t.Errorf("the field has %q, asked %s", m.field.Value(), s.last())
	}
	press(m, enter)
	do(m, m.send())
	if !strings.HasPrefix(s.last(), "send") {
		t.Errorf("asked %s", s.last())
	}
}

func TestOptionForLongerIsConfirmed(t *testing.T) {
	m, s := stage(t, 80, talking(nil))
	asks(m, s)
	press(m, tab)
	press(m, typed("2n2")...)
	if strings.HasPrefix(s.last(), "answer") {
		t.Fatalf("not confirmed: %s", s.last())
	}
	press(m, typed("y")...)
	if !strings.Contains(s.last(), `"option":"ever"`) {
		t.Errorf("confirmed: %s", s.last())
	}
}

func TestQuestionThatIsGoneTakesNoKeys(t *testing.T) {
	m, s := stage(t, 80, talking(nil))
	asks(m, s)
	press(m, append(typed("draft"), tab)...)
	m.know(talking(nil))
	press(m, typed("a")...)
	if strings.HasPrefix(s.last(), "answer") || m.field.Value() != "drafta" {
		t.Errorf("%s, typed %q", s.last(), m.field.Value())
	}
}

func TestAgentCannotAnswer(t *testing.T) {
	m, s := stage(t, 80, talking(nil))
	m.inside = true
	asks(m, s)
	press(m, append([]tea.KeyPressMsg{tab}, typed("a")...)...)
	if strings.HasPrefix(s.last(), "answer") {
		t.Error(s.last())
	}
}

// A message that got no answer is sent again with its key, and an outage is told once.
func TestMessageIsSentAgainWithItsKey(t *testing.T) {
	m, s := stage(t, 80, talking(nil))
	away := &api.Error{Code: api.Unavailable, Retryable: true, Err: client.ErrUnreachable}
	s.err = away
	press(m, append(typed("Hi."), enter)...)
	do(m, m.send())
	first := s.last()
	for range 2 {
		m.looked(lookMsg{err: away})
	}
	if n := strings.Count(strings.Join(m.out, " "), "linesman is away"); n != 1 || m.send() != nil {
		t.Errorf("told %d times, or sent while it is away", n)
	}
	s.err = nil
	m.looked(lookMsg{run: talking(nil), at: time.Now()})
	do(m, m.send())
	if s.last() != first || len(m.outbox) != 0 {
		t.Errorf("sent %s, then %s; left: %v", first, s.last(), m.outbox)
	}
	s.err = &api.Error{Code: api.Conflict, Message: "the run ends with its turn"}
	press(m, append(typed("Too late."), enter)...)
	do(m, m.send())
	if m.field.Value() != "Too late." || !strings.Contains(strings.Join(m.out, " "), "not sent: the run ends") {
		t.Errorf("typed %q, said %q", m.field.Value(), m.out)
	}
}

// A run whose beginning got no answer may have begun: it is asked for by its id, not begun again.
func TestFirstMessageBeginsOneRun(t *testing.T) {
	lost := &api.Error{Code: api.Unavailable, Retryable: true, Err: context.DeadlineExceeded}
	begun := map[string]string{} // by id
	var err error
	config := Config{Start: func(_ context.Context, id, text string) (*api.Run, error) {
		begun[id] += text
		return talking(func(r *api.Run) { r.ID = id }), err
	}}
	m := newModel(t.Context(), &server{}, config, false, time.Now())
	m.resize(200, 24)
	m.handle(drawnMsg{})
	press(m, append(typed("Hi."), enter)...)
	err = lost
	for range 3 {
		m.handle(m.send()())
		if m.send() != nil || m.field.Value() != "" || !m.away {
			t.Fatalf("it is sent at once, typed again as %q, or not away", m.field.Value())
		}
		m.handle(againMsg{})
	}
	err = nil
	m.handle(m.send()())
	said := strings.Join(m.out, "\n")
	if len(begun) != 1 || m.run == nil || begun[m.run.ID] != "Hi.Hi.Hi.Hi." || len(m.outbox) != 0 || m.away {
		t.Errorf("began %q, has %v; left: %v, away: %v", begun, m.run, m.outbox, m.away)
	}
	if strings.Count(said, "linesman is away: the server is away. What you send is kept.") != 1 ||
		strings.Count(said, "linesman is back.") != 1 || strings.Contains(said, "not sent") {
		t.Errorf("said %s", said)
	}
	if runs.CheckID(m.run.ID) != nil {
		t.Errorf("it is no id: %s", m.run.ID)
	}
}

// At its end, the screen names the message whose request has no answer: it may have been sent.
func TestLeavingTellsWhatMayBeSent(t *testing.T) {
	m, _ := stage(t, 200, talking(nil))
	press(m, append(typed("Hi."), enter)...)
	press(m, append(typed("There."), enter)...)
	m.send()
	m.leave()
	want := []string{"! it is not known whether this was sent: Hi.", "! not sent: There."}
	if !slices.Equal(m.out, want) {
		t.Errorf("said %q, want %q", m.out, want)
	}
}

func TestCommands(t *testing.T) {
	m, s := stage(t, 80, talking(nil))
	press(m, append(typed("/nope x"), enter)...)
	if m.field.Value() != "/nope x" || !strings.Contains(m.status(), "/nope: no command") {
		t.Errorf("typed %q, says %q", m.field.Value(), m.status())
	}
	m.clear()
	for line, want := range map[string]string{
		"//clear": `"text":"/clear"`, "/now Stop it.": `"text":"Stop it.","when":"now"`,
		"/release": `release {"run":"` + id + `"}`, "/end": `end {"run":"` + id + `"}`,
		"/model m1": `set {"run":"` + id + `","model":"m1"}`, "/mode read-only": `set {"run":"` + id + `","mode":"read-only"}`,
	} {
		press(m, append(typed(line), enter)...)
		do(m, m.send())
		if !strings.Contains(s.last(), want) || m.field.Value() != "" {
			t.Errorf("%s: %s, typed %q", line, s.last(), m.field.Value())
		}
	}
	m.run.Conversation.Waiting = 2
	before := len(s.asked)
	press(m, append(typed("/end"), enter)...)
	if len(s.asked) != before || !strings.Contains(m.status(), "2 waiting will not be sent") {
		t.Errorf("what waits is dropped: %s, says %q", s.last(), m.status())
	}
	press(m, enter)
	if len(s.asked) != before+1 || !strings.HasPrefix(s.last(), "end ") {
		t.Errorf("confirmed: %s", s.last())
	}
	press(m, append(typed("/quit"), enter)...)
	if !m.leaving || slices.ContainsFunc(s.asked, func(a string) bool { return strings.HasPrefix(a, "cancel") }) {
		t.Errorf("leaving %v, %q", m.leaving, s.asked)
	}
}

// The first Ctrl-C cancels the turn, the next one leaves.
func TestInterrupt(t *testing.T) {
	m, s := stage(t, 80, talking(nil))
	press(m, typed("draft")...)
	batch, is := m.interrupt()().(tea.BatchMsg)
	if !is || len(batch) != 2 {
		t.Fatalf("%v", batch)
	}
	do(m, batch[1])
	if want := `stop {"run":"` + id + `","turn":2}`; s.last() != want || m.leaving || m.field.Value() != "draft" {
		t.Errorf("asked for %s, leaving %v, typed %q", s.last(), m.leaving, m.field.Value())
	}
	m.interrupt()
	if !m.leaving {
		t.Error("the second one does not leave")
	}
	m, s = stage(t, 80, talking(func(r *api.Run) {
		r.State, r.Conversation.WaitsFor = runs.StateInputRequired, runs.WaitsMessage
	}))
	press(m, typed("draft")...)
	m.interrupt()
	if s.asked != nil || m.leaving || m.field.Value() != "" {
		t.Errorf("between turns: %q, leaving %v, typed %q", s.asked, m.leaving, m.field.Value())
	}
}

// said is an item with a text of the agent.
func said(text string) api.DetailItem {
	event, err := json.Marshal(map[string]string{
		"agent_kind": "claude_code", "kind": "TextOutput", "channel": "assistant", "text": text,
	})
	if err != nil {
		panic(err)
	}
	return api.DetailItem{Kind: "text_output", Event: event}
}

func page(items ...api.DetailItem) itemsMsg {
	return itemsMsg{DetailPage: api.DetailPage{Items: items, Next: "1"}}
}

// No text of anybody moves the cursor, and each row fits.
func TestRowsAreSafe(t *testing.T) {
	const hostile = "red \x1b[31m\x1b]0;title\a\u202e 三十三十三十三十三十三十三十 👩‍👩‍👧\r\n\ttab"
	for _, width := range []int{40, 80} {
		m, s := stage(t, width, talking(nil))
		m.items(page(said(hostile), said(strings.Repeat(hostile, 9))))
		asks(m, s)
		m.queue = api.Messages{Held: true, Messages: []api.Message{{Message: "m\x1b1", Text: hostile, By: "me\x1b[2J"}}}
		m.outbox = append(m.outbox, outgoing{text: hostile})
		m.listQueue()
		m.warn("a warning that is longer than a terminal of forty columns has room for")
		for _, row := range slices.Concat(m.out, m.rows()) {
			if strings.ContainsAny(row, "\x1b\a\r\n\t\u202e") || ansi.StringWidthWc(row) >= width {
				t.Errorf("at %d columns: %q", width, row)
			}
		}
	}
}

// Of a long conversation the last part is shown, and how to see all; no print is higher than the terminal.
func TestHistoryIsBounded(t *testing.T) {
	m, _ := stage(t, 80, talking(nil))
	var items []api.DetailItem
	for i := range earlier {
		items = append(items, said(fmt.Sprintf("text %d", i)))
	}
	m.items(page(items...))
	if n := len(m.out); n != earlierRows+1 || m.out[0] != "… all of it: linesman logs "+id ||
		m.out[n-1] != fmt.Sprintf("│ text %d", earlier-1) {
		t.Errorf("%d rows, from %q to %q", n, m.out[0], m.out[n-1])
	}
	for left := len(m.out); left > 0; left = len(m.out) {
		if m.print(); left-len(m.out) > m.atOnce() {
			t.Fatalf("%d rows at once", left-len(m.out))
		}
		m.handle(printedMsg{})
	}
}

// Whatever is drawn, there is room above it for the rows that are printed at once.
func TestWhatIsDrawnLeavesRoom(t *testing.T) {
	for height := 5; height < 60; height++ {
		m, s := stage(t, 40, talking(nil))
		m.resize(40, height)
		asks(m, s)
		for i := range 9 {
			m.queue.Messages = append(m.queue.Messages, api.Message{Message: fmt.Sprint(i), Text: "later"})
		}
		m.queue.Held = true
		m.handle(tea.PasteMsg{Content: strings.Repeat("a line\n", 50)})
		if n := len(m.rows()) + m.field.Height() + m.atOnce(); n > height {
			t.Errorf("at %d rows: %d drawn and %d printed", height, n-m.atOnce(), m.atOnce())
		}
	}
}

func TestEarlierMessagesComeBack(t *testing.T) {
	m, _ := stage(t, 80, talking(nil))
	up, down := tea.KeyPressMsg{Code: tea.KeyUp}, tea.KeyPressMsg{Code: tea.KeyDown}
	for _, text := range []string{"one", "two\nlines"} {
		m.say(text, false)
	}
	press(m, append(typed("draft"), up)...)
	if m.field.Value() != "two\nlines" {
		t.Errorf("%q", m.field.Value())
	}
	press(m, up, up, up)
	if m.field.Value() != "one" {
		t.Errorf("%q", m.field.Value())
	}
	press(m, down, down, down, down)
	if m.field.Value() != "draft" {
		t.Errorf("%q", m.field.Value())
	}
}

// A pasted text is one message. The field takes no more than a part of the screen.
func TestPaste(t *testing.T) {
	m, s := stage(t, 40, talking(nil))
	text := strings.Repeat("a line\n", 50) + "the end"
	m.handle(tea.PasteMsg{Content: text})
	if s.asked != nil || m.field.Height() > m.height/2 {
		t.Errorf("%q, %d rows", s.asked, m.field.Height())
	}
	press(m, enter)
	do(m, m.send())
	if want, _ := json.Marshal(text); !strings.Contains(s.last(), string(want)) {
		t.Error(s.last())
	}
}
