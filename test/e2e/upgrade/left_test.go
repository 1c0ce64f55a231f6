package upgrade

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
)

// left is what make.sh noted of what an older linesman did, in a data
// directory that has been started again.
type left struct {
	*testing.T
	data string
	at   fixture.Address
	told *receiver

	outbox string // the outbox before the start
}

// note is what was noted under a name, "" for nothing: only the fixture
// surfaces must have all.
func (l *left) note(name string) string {
	l.Helper()
	b, err := os.ReadFile(filepath.Join(l.data, "left", name))
	if err != nil && (!os.IsNotExist(err) || strings.HasSuffix(l.Name(), "/surfaces")) {
		l.Fatal(err)
	}
	return string(b)
}

// check asks for each of the older one's answers again.
func (l *left) check() {
	for _, name := range []string{"once", "later", "gone"} {
		l.answersOnce(name)
	}
	l.runsStandAsTheyDid()
	l.contextHasItsTasks()
	l.receiverIsTold()
	l.linkHolds()
	l.questionCanBeAnswered()
}

// A request that comes again is the one that was carried out.
func (l *left) answersOnce(name string) {
	l.Helper()
	request, before := l.note(name+".request"), l.note(name+".answer")
	if request == "" {
		return
	}
	now := l.ask("/v1/runs", request)
	if !gjson.Get(now, "replayed").Bool() || !gjson.Get(before, "task_id").Exists() {
		l.Errorf("task %s is not replayed: %s", name, now)
	}
	// An older one did not have the last two of these, and its ext was what is ext.linesman now.
	got := without(l.T, now, "timestamp", "replayed", "ext", "adcp_version", "push_notification_config") +
		gjson.Get(now, "ext.linesman").Raw
	if want := without(l.T, before, "timestamp", "ext") + gjson.Get(before, "ext").Raw; got != want {
		l.Errorf("task %s is answered\n%s\nwant\n%s", name, got, want)
	}
}

// No run has come, none has gone, and none is told of in other words, but for
// the one that was at work.
func (l *left) runsStandAsTheyDid() {
	l.Helper()
	before := l.note("runs")
	if before == "" {
		return
	}
	but := func(list string) (s string) {
		for _, r := range gjson.Get(list, "runs").Array() {
			switch {
			case r.Get("run").String() == "open":
			case r.Get("progress.percent").Exists(): // an older one guessed how far a run was
				s += without(l.T, r.Raw, "progress") + "\n"
			default:
				s += without(l.T, r.Raw, "run", "times", "unseen") + "\n" // which an older one did not have
			}
		}
		return s
	}
	now := but(l.ask("/v1/runs?limit=100", ""))
	if want := but(before); now != want {
		l.Errorf("the runs are\n%swant\n%s", now, want)
	}
}

func (l *left) contextHasItsTasks() {
	l.Helper()
	before := l.note("context")
	if before == "" {
		return
	}
	context := gjson.Get(before, "tasks.0.contextId").String()
	if context == "" {
		l.Fatalf("there was no task in the context: %s", before)
	}
	now := l.ask("/a2a/v1/tasks?contextId="+context, "")
	if without(l.T, now) != without(l.T, before) {
		l.Errorf("the tasks of context %s are\n%s\nwant\n%s", context, now, before)
	}
}

// The notification that was in the outbox comes as it was made there, and that
// of a task which ends only now comes as well.
func (l *left) receiverIsTold() {
	l.Helper()
	gone := gjson.Get(l.note("gone.answer"), "task_id").String()
	if gone == "" {
		return
	}
	secret := "Bearer " + gjson.Get(l.note("gone.request"), "push_notification_config.authentication.credentials").String()
	first := l.told.next(l.T, secret)
	if gjson.Get(first, "task_id").String() != gone || gjson.Get(first, "status").String() != "canceled" {
		l.Errorf("the receiver is told of another task than %s: %s", gone, first)
	}
	if !strings.Contains(l.outbox, first) {
		l.Errorf("the notification is not the one that was in the outbox: %s", first)
	}
	later := gjson.Get(l.note("later.answer"), "task_id").String()
	l.ask("/v1/runs/"+later+"/cancel", `{"idempotency_key":"of-the-newer-cancel"}`)
	second := l.told.next(l.T, secret)
	if gjson.Get(second, "task_id").String() != later || gjson.Get(second, "status").String() != "canceled" ||
		gjson.Get(second, "operation_id").String() != "upgrade" {
		l.Errorf("the receiver is told of another task than %s: %s", later, second)
	}
}

// A task that was gone on with is gone on with by its next number, and is done.
func (l *left) linkHolds() {
	l.Helper()
	if !gjson.Get(l.note("runs"), `runs.#(run=="asks-2")`).Exists() {
		return
	}
	linesman(l.T, l.data, "run", "--resume", "asks", "--", "cat", filepath.Join("..", "..", "corpus", "codex",
		"shell-ok.jsonl"))
	linesman(l.T, l.data, "wait", "asks")
	for run, link := range map[string]string{"asks": "continuedBy", "asks-3": "continues"} {
		now := l.ask("/v1/runs/"+run, "")
		want := map[string]string{"continuedBy": "asks-3", "continues": "asks"}[link]
		if gjson.Get(now, link).String() != want || gjson.Get(now, "state").String() != "completed" {
			l.Errorf("%s is no %s %s that is completed: %s", run, link, want, now)
		}
	}
}

// The request from outside that waited waits, asks the same, and can be answered.
func (l *left) questionCanBeAnswered() {
	l.Helper()
	before := l.note("waiting")
	if before == "" {
		return
	}
	now := linesman(l.T, l.data, "bridge", "list", "--json")
	for _, member := range []string{"run", "requestId", "prompt"} {
		if want := gjson.Get(before, member).String(); want == "" || gjson.Get(now, member).String() != want {
			l.Errorf("what waits is\n%s\nwant\n%s", now, before)
		}
	}
	linesman(l.T, l.data, "bridge", "answer", "waits", "The first one.")
	run := gjson.Get(before, "run").String()
	linesman(l.T, l.data, "wait", run)
	if said := linesman(l.T, l.data, "events", "--run", run, "--json"); !strings.Contains(said, "The first one.") {
		l.Errorf("the answer is not in the events: %s", said)
	}
}

// ask is what the HTTP server answers; with a body to a POST, in AdCP.
func (l *left) ask(path, body string) string {
	l.Helper()
	method, accept := http.MethodGet, "application/json"
	if body != "" {
		method, accept = http.MethodPost, "application/adcp+json"
	}
	q, err := http.NewRequestWithContext(l.Context(), method, l.at.HTTP+path, strings.NewReader(body))
	if err != nil {
		l.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+l.at.Token)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", accept)
	q.Header.Set("A2A-Version", "1.0")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		l.Fatal(err)
	}
	defer a.Body.Close()
	answer, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode/100 != 2 {
		l.Fatalf("%s: %s, %v\n%s", path, a.Status, err, answer)
	}
	return string(answer)
}

// receiver takes notifications.
type receiver struct {
	address string
	got     chan [2]string // credentials and body
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{got: make(chan [2]string, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		select {
		case r.got <- [2]string{q.Header.Get("Authorization"), string(body)}:
		default: // nobody waits for so many
		}
	}))
	t.Cleanup(server.Close)
	r.address = strings.TrimPrefix(server.URL, "http://")
	if len(r.address) != len(awayReceiver) {
		t.Fatalf("the receiver is at %s, which does not fit in where %s is", r.address, awayReceiver)
	}
	return r
}

func (r *receiver) next(t *testing.T, secret string) string {
	t.Helper()
	select {
	case got := <-r.got:
		if got[0] != secret {
			t.Errorf("the notification came with %q, want %q", got[0], secret)
		}
		return got[1]
	case <-time.After(fixture.Patience):
		t.Fatal("no notification comes")
		return ""
	}
}

// without is an object in one spelling, without some of its members.
func without(t *testing.T, object string, members ...string) string {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(object), &o); err != nil {
		t.Fatalf("%v: %s", err, object)
	}
	for _, m := range members {
		delete(o, m)
	}
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
