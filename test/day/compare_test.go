package day

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/lab/agents"
)

// Marks of the lines of a conversation, as these tests write it: what the person and the agent say, how a question
// and a turn end.
const (
	asks, tells, decided, ended = "> ", "< ", "? ", "■ "
)

// want is the conversation as it was.
func (k *talk) want() (lines []string) {
	for _, s := range k.said {
		lines = append(lines, asks+k.prompt(s.word))
		if s.command != "" {
			lines = append(lines, decided+s.decided(k.by))
		}
		if s.model == answers {
			lines = append(lines, tells+k.answer(s.word))
		}
		lines = append(lines, ended+s.ends)
	}
	return lines
}

// decided is how the question of a command ends, which a person answers.
func (s said) decided(by string) string {
	switch {
	case s.ends == interrupted:
		return "cancelled"
	case s.isDenied:
		return "deny " + by
	}
	return "allow " + by
}

// told is the conversation as linesman tells it. Each item and each event of it is there once.
func (d *day) told(k *talk) (lines []string) {
	d.t.Helper()
	seen, texts := map[string]bool{}, 0
	for line := range strings.Lines(d.linesman("logs", "--json", k.run)) {
		item := gjson.Parse(line)
		pos, message := item.Get("pos").String(), item.Get("event.message").String()
		if pos == "" || seen[pos] {
			d.t.Errorf("%s: an item is there twice: %s", k.name, line)
		}
		seen[pos] = true
		switch item.Get("kind").String() {
		case "text_output":
			texts++
			lines = append(lines, tells+item.Get("event.text").String())
		case "status":
			switch outcome := item.Get("event.data.answer.outcome"); {
			case message == "turn started":
				lines = append(lines, asks+item.Get("detail.prompt.head").String())
			case strings.HasPrefix(message, "turn "):
				lines = append(lines, ended+message)
			case outcome.Exists():
				by, _, _ := strings.Cut(item.Get("detail.text.head").String(), ":")
				lines = append(lines, strings.TrimSpace(decided+outcome.String()+" "+by))
			}
		}
	}
	last := int64(0)
	for line := range strings.Lines(d.linesman("events", "--json", "--run", k.run)) {
		if seq := gjson.Get(line, "seq").Int(); seq <= last {
			d.t.Errorf("%s: event %d comes after event %d", k.name, seq, last)
		} else {
			last = seq
		}
		if text := gjson.Get(line, "event.text").String(); text != "" {
			texts--
			if !slices.Contains(lines, tells+text) {
				d.t.Errorf("%s: an event says %q", k.name, text)
			}
		}
	}
	if texts != 0 {
		d.t.Errorf("%s: events have %d texts less than the details", k.name, texts)
	}
	return lines
}

// saw is the conversation as its model saw it: what was in the last request, and what it answered then.
func (d *day) saw(k *talk) (lines []string) {
	d.t.Helper()
	played, i := agents.Played(d.t, k.dir), -1
	for _, s := range k.said {
		for range s.requests() {
			i++
			if i == k.turns(s.word)+1 && s.goesOn {
				continue
			}
			if played[i] == nil {
				d.t.Errorf("%s: the model was not asked for its turn %d", k.name, i)
			}
		}
	}
	body := gjson.ParseBytes(played[i])
	for _, list := range []string{"input", "messages"} {
		for _, m := range body.Get(list).Array() {
			mark := map[string]string{"user": asks, "assistant": tells}[m.Get("role").String()]
			texts := m.Get("content.#.text").Array()
			if content := m.Get("content"); content.Type == gjson.String {
				texts = []gjson.Result{content}
			}
			for _, text := range texts {
				if strings.Contains(text.String(), k.name+" ") && mark != "" {
					lines = append(lines, mark+text.String())
				}
			}
		}
	}
	return append(lines, tells+k.answer(k.said[len(k.said)-1].word))
}

// spent are the tokens that the model has served, as far as the agent tells them: those of turns that were not
// interrupted, the last ones of each turn, or by its own log all but those for what it has left.
func (k *talk) spent() (u runs.Usage) {
	a, _ := known.All().Find(k.agent)
	i := int64(0)
	for _, s := range k.said {
		n := int64(s.requests())
		for j := i; j < i+n; j++ {
			told := s.ends != interrupted && (a.Live.Tokens != acp.LastRequest || j == i+n-1)
			if k.agent == "claude" {
				told = !s.goesOn || j < i+n-1
			}
			if told {
				u = u.Plus(&runs.Usage{Input: 1000 + 100*j, CachedInput: 500 + 100*j, Output: 10 + j})
			}
		}
		i += n
	}
	return u
}

// compare compares what linesman tells with what the models saw, and with what the commands did.
func (d *day) compare() {
	d.t.Helper()
	for _, k := range d.talks {
		told, saw := d.told(k), d.saw(k)
		if want := k.want(); !slices.Equal(told, want) {
			d.t.Errorf("%s: linesman tells\n%s\nwant\n%s", k.name, strings.Join(told, "\n"), strings.Join(want, "\n"))
		}
		said := slices.DeleteFunc(slices.Clone(told), func(line string) bool {
			return !strings.HasPrefix(line, asks) && !strings.HasPrefix(line, tells)
		})
		if !slices.Equal(saw, said) {
			d.t.Errorf("%s: the model saw\n%s\nand linesman tells\n%s", k.name, strings.Join(saw, "\n"),
				strings.Join(said, "\n"))
		}
		status := gjson.Parse(d.linesman("status", "--json", k.run))
		usage := status.Get("usage.total")
		got := runs.Usage{Input: usage.Get("inputTokens").Int(), CachedInput: usage.Get("cachedInputTokens").Int(),
			Output: usage.Get("outputTokens").Int()}
		if got != k.spent() {
			d.t.Errorf("%s: tokens %+v, want %+v", k.name, got, k.spent())
		}
		if n := status.Get("gaps").Int() + status.Get("malformedLines").Int() + status.Get("droppedEvents").Int(); n > 0 {
			d.t.Errorf("%s: gaps, malformed lines or cut events: %s", k.name, status)
		}
		d.ran(k)
		d.tell("%s, with %s: %d tokens in (%d cached), %d out, and as its model saw it:\n%s", k.run, k.agent, got.Input,
			got.CachedInput, got.Output, strings.Join(told, "\n"))
	}
	d.tell("rebuild: %s", d.linesman("rebuild")) // fails if EVENTS is not what RAW says
}

// ran checks that each command that was allowed ran once, and no other one.
func (d *day) ran(k *talk) {
	d.t.Helper()
	want, got := map[string]string{}, map[string]string{}
	for _, s := range k.said {
		if s.command != "" && s.ends == completed && !s.isDenied {
			want[s.word+".txt"] = s.word + "\n"
		}
	}
	entries, err := os.ReadDir(k.project)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range entries {
		if text, err := os.ReadFile(filepath.Join(k.project, e.Name())); err == nil {
			got[e.Name()] = string(text)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		d.t.Errorf("%s: the project has %q, want %q", k.name, got, want)
	}
}

// seen checks what the people at the page and in the terminal see of all of it: each answer once, and in the terminal
// each prompt.
func (d *day) seen() {
	d.t.Helper()
	rows := d.phone.does("Reads", nil).Array()
	screen := d.chat.Screen("-S", "-")
	for _, line := range d.plan.want() {
		text, answer := strings.CutPrefix(line, tells)
		n := 0
		for _, row := range rows {
			if strings.Contains(row.String(), text) {
				n++
			}
		}
		if answer && n != 1 {
			d.t.Errorf("%q is on the page %d times: %v", text, n, rows)
		}
	}
	for _, line := range d.cook.want() {
		switch text, answer := strings.CutPrefix(line, tells); {
		case answer:
			line = "│ " + text
		case !strings.HasPrefix(line, asks):
			continue
		}
		if n := strings.Count(screen, line+"\n"); n != 1 {
			d.t.Errorf("%q is in the terminal %d times:\n%s", line, n, screen)
		}
	}
}

// night ends the roles. Nothing is left of them, of shims and agents.
func (d *day) night() {
	d.t.Helper()
	for _, role := range []string{worker, responder, normalizer, natsRole, door} {
		p := d.running[role]
		p.Signal(syscall.SIGTERM)
		if code := p.Code(); code != 0 {
			d.t.Errorf("%s: exit %d", role, code)
		}
	}
	if left := d.beings(); len(left) > 0 {
		d.t.Errorf("these processes are left: %v", left)
	}
	if left, err := os.ReadDir(filepath.Join(d.data(worker), "runs")); err != nil || len(left) > 0 {
		d.t.Errorf("these runs are left: %v, %v", left, err)
	}
}
