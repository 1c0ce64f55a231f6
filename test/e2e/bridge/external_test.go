package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// here is where the `up` of a world is reached.
type here struct {
	*testing.T
	http, token string
	nats        *nats.Conn
}

func (w *world) here() *here {
	w.t.Helper()
	at := fixture.ReadAddress(w.t, w.data)
	credentials, err := embedded.LoadCredentials(w.data)
	if err != nil {
		w.t.Fatal(err)
	}
	inside, public := credentials.Logins(at.NATS, embedded.OperatorUser)
	operator, err := bus.Connect(bustest.Patient(w.t), inside, public, bus.Names{Prefix: bus.DefaultPrefix}, zap.NewNop())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(operator.Close)
	return &here{w.t, at.HTTP, at.Token, operator.Inside()}
}

// rest is what a path answers.
func (h *here) rest(path, accept string) map[string]any {
	h.Helper()
	r, err := http.NewRequestWithContext(h.Context(), http.MethodGet, h.http+path, nil)
	if err != nil {
		h.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+h.token)
	r.Header.Set("Accept", accept)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		h.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		h.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		h.Fatalf("%s: %s: %v", path, b, err)
	}
	return v
}

// ask makes a request over NATS. An error of the service comes as its code.
func (h *here) ask(verb string, args any) map[string]any {
	h.Helper()
	body, err := json.Marshal(args)
	if err != nil {
		h.Fatal(err)
	}
	m, err := h.nats.Request("linesman.api."+verb, body, fixture.Patience)
	if err != nil {
		h.Fatalf("%s: %v", verb, err)
	}
	var v map[string]any
	if err := json.Unmarshal(m.Data, &v); err != nil {
		h.Fatalf("%s: %s: %v", verb, m.Data, err)
	}
	if code := m.Header.Get("Nats-Service-Error-Code"); code != "" {
		v["code"] = code
	}
	return v
}

// until asks until an answer is as it should be.
func (h *here) until(what string, is func() bool) {
	h.Helper()
	fixture.Eventually(h, fixture.Patience, "not yet: "+what, is)
}

// waiting is the only request that waits for an answer from outside.
func (h *here) waiting() map[string]any {
	h.Helper()
	var one map[string]any
	h.until("a request waits", func() bool {
		all, _ := h.ask("waiting", map[string]any{})["requests"].([]any)
		if len(all) == 1 {
			one, _ = all[0].(map[string]any)
		}
		return len(all) == 1
	})
	return one
}

// A request that waits for an answer from outside does so on every surface; it
// is answered over NATS, and the program goes on.
func TestEverySurfaceSaysThatARequestWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.up()
	w.start("bridge", "--external", "--dir", w.work)
	h := w.here()
	const which = fixture.Sentinel + "Which one?"
	if _, code := w.program(which, "And then?"); code != 42 {
		t.Fatalf("the program ended with %d", code)
	}
	asked := h.waiting()
	run, _ := asked["run"].(string)
	if asked["prompt"] != which || asked["agentName"] != "architectural-reviewer" || asked["phase"] != "1" ||
		asked["dueAt"] == nil {
		t.Errorf("asked: %v", asked)
	}
	if v := h.rest("/v1/runs/"+run, "application/json"); v["state"] != "input-required" || v["source"] != "external" ||
		v["agent"] != "external" {
		t.Errorf("REST: %v", v)
	}
	if v := h.rest("/v1/runs/"+run, "application/adcp+json"); v["status"] != "input-required" || v["task_id"] != run {
		t.Errorf("AdCP over REST: %v", v)
	}
	if v := h.rest("/v1/runs?state=input-required", "application/json"); len(v["runs"].([]any)) != 1 {
		t.Errorf("list: %v", v)
	}
	if v := h.rest("/v1/runs/"+run+"/wait?timeout=0", "application/json"); v["state"] != "input-required" {
		t.Errorf("wait: %v", v)
	}
	for _, verb := range []string{"_codex_local_status", "_codex_local_results"} {
		if v := h.ask(verb, map[string]any{"task_id": run, "format": "adcp"}); v["status"] != "input-required" ||
			v["task_id"] != run || v["adcp_error"] != nil {
			t.Errorf("AdCP %s: %v", verb, v)
		}
	}
	if v := h.ask("_codex_local_wait", map[string]any{"task_id": run, "timeout_sec": 1,
		"format": "adcp"}); v["status"] != "input-required" {
		t.Errorf("AdCP wait: %v", v)
	}
	data, _ := h.ask("_codex_local_status", map[string]any{"task_id": run})["data"].(map[string]any)
	// v3.6 has no word for it
	if tasks, _ := data["tasks"].([]any); len(tasks) != 1 || tasks[0].(map[string]any)["state"] != "working" {
		t.Errorf("status: %v", data)
	}

	for _, c := range []struct {
		args any
		code string
	}{
		{map[string]any{}, "400"}, {[]int{}, "400"}, {map[string]any{"request": run}, "400"},
		{map[string]any{"request": run, "error": " "}, "400"},
		{map[string]any{"request": run, "text": "x", "error": "y"}, "400"}, {map[string]any{"request": "none", "text": "x"},
			"404"},
	} {
		if v := h.ask("answer", c.args); v["code"] != c.code || v["message"] == "" {
			t.Errorf("%v: %v, want %s", c.args, v, c.code)
		}
	}
	for range 2 { // the same once more does no harm
		v := h.ask("answer", map[string]any{"request": asked["requestId"], "text": `{"chosen": "the second"}`})
		if v["run"] != run || v["state"] != "completed" {
			t.Errorf("answered: %v", v)
		}
	}
	if v := h.ask("answer", map[string]any{"request": run, "text": "other"}); v["code"] != "409" {
		t.Errorf("another answer: %v", v)
	}
	w.answered(1)
	if v := h.rest("/v1/runs/"+run, "application/json"); v["state"] != "completed" ||
		v["finalText"] != `{"chosen": "the second"}` {
		t.Errorf("REST: %v", v)
	}
	if _, code := w.program(which, "And then?", "--resume"); code != 42 {
		t.Fatalf("the program ended with %d", code)
	}
	asked = h.waiting()
	if v := h.ask("answer", map[string]any{"request": asked["run"], "error": "nobody knows"}); v["state"] != "failed" {
		t.Errorf("answered: %v", v)
	}
	w.answered(5)
	out, code := w.program(which, "And then?", "--resume")
	if want := `[{"chosen": "the second"}, {"error_type": "AgentInvocationError", "error_message": "nobody knows"}]` +
		"\n"; code != 0 || out != want {
		t.Errorf("the program said %q and ended with %d", out, code)
	}
}

// Bridges are killed again and again, and so is whoever answers: each request
// has one run and one answer.
func TestProgramSeesNothingOfKilledAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.up()
	if _, code := w.program("one", "two"); code != 42 {
		t.Fatalf("the program ended with %d", code)
	}
	kills := w.killing("--external")
	first, n := w.answerKilled("the first")
	w.answered(1)
	if _, code := w.program("one", "two", "--resume"); code != 42 {
		t.Fatalf("the program ended with %d", code)
	}
	second, m := w.answerKilled("the second")
	w.answered(5)
	if bridges := kills(); bridges < 3 || n+m < 3 {
		t.Errorf("%d bridges and %d answers were killed", bridges, n+m)
	}
	if out, code := w.program("one", "two", "--resume"); code != 0 || out != "[\"the first\", \"the second\"]\n" {
		t.Errorf("the program said %q and ended with %d", out, code)
	}
	var all []string
	for _, v := range w.here().rest("/v1/runs?agent=external", "application/json")["runs"].([]any) {
		r := v.(map[string]any)
		all = append(all, fmt.Sprint(r["run"], " ", r["state"]))
	}
	if want := []string{second + " completed", first + " completed"}; !slices.Equal(all, want) {
		t.Errorf("runs %q, want %q", all, want)
	}
}

// answerKilled answers the only request that waits, by a command that is
// killed, each time somewhat later, until it comes to its end. It returns the
// run, and how many were killed.
func (w *world) answerKilled(text string) (run string, kills int) {
	w.t.Helper()
	flags := []string{"--data-dir", w.data, "--config", filepath.Join(w.lab, "linesman.toml")}
	call := func(life time.Duration, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(w.t.Context(), life)
		defer cancel()
		cmd := exec.CommandContext(ctx, linesman, append(args, flags...)...)
		fixture.Watch(w.t, cmd)
		out, err := cmd.Output()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return string(bytes.TrimSpace(out)), err
	}
	late := time.Now().Add(fixture.Patience)
	for run == "" {
		out, err := call(fixture.Patience, "bridge", "list")
		if err != nil || time.Now().After(late) {
			w.t.Fatalf("nothing waits: %q, %v", out, err)
		}
		run, _, _ = strings.Cut(out, " ")
	}
	for life := 10 * time.Millisecond; ; life += 10 * time.Millisecond {
		out, err := call(life, "bridge", "answer", run, text)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			kills++
		case err != nil:
			w.t.Fatalf("answer %s: %q, %v", run, out, err)
		default:
			if out != run+" completed" {
				w.t.Errorf("answered: %q", out)
			}
			return run, kills
		}
	}
}

// run has linesman run the program, and returns the id of its run, what
// linesman said, and its exit code.
func (w *world) run(flags []string, args ...string) (run, said string, code int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), fixture.Patience)
	defer cancel()
	script, err := filepath.Abs("program.py")
	if err != nil {
		w.t.Fatal(err)
	}
	flags = append(append([]string{"run", "--data-dir", w.data, "--config", filepath.Join(w.lab, "linesman.toml")},
		flags...), "--")
	cmd := exec.CommandContext(ctx, linesman, append(append(flags, w.python, "-B", script, w.work), args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	fixture.Watch(w.t, cmd)
	if err := cmd.Run(); ctx.Err() != nil || cmd.ProcessState == nil {
		w.t.Errorf("linesman run: %v", err)
		return "", "", -1
	}
	said = stderr.String()
	first, rest, _ := strings.Cut(said, "\n")
	if id, ok := strings.CutPrefix(first, "linesman: run "); ok && !strings.Contains(id, " ") {
		return id, rest, cmd.ProcessState.ExitCode()
	}
	return "", said, cmd.ProcessState.ExitCode()
}

// A program that is a run itself needs two answers. It is one task, of three
// runs, and open until it is done; of two who go on with it one does.
func TestProgramIsOneTaskUntilItIsDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"one": say("the first", 0), "two": say("the second", 0)})
	w.up()
	w.start("bridge", "--dir", w.work, "--working-dir", w.lab)
	h := w.here()
	task, said, code := w.run(nil, "one", "two")
	if code != 42 || !strings.Contains(said, "continue with `linesman run --resume "+task+" -- …`") {
		t.Fatalf("linesman said %q and ended with %d", said, code)
	}
	stands := func(state, status string) {
		t.Helper()
		h.until("the task is "+state, func() bool { return h.rest("/v1/runs/"+task, "application/json")["state"] == state })
		if v := h.rest("/v1/runs/"+task, "application/adcp+json"); v["status"] != status || v["task_id"] != task {
			t.Errorf("AdCP over REST: %v, want %s", v, status)
		}
		h.until("the table has it, too: "+status, func() bool { // which may be behind the record
			v := h.ask("_codex_local_status", map[string]any{"task_id": task, "format": "adcp"})
			return v["status"] == status && v["task_id"] == task
		})
	}
	stands("input-required", "input-required")
	w.answered(1)
	link, said, code := w.run([]string{"--resume", task}, "one", "two", "--resume")
	if code != 42 || link != task+"-2" || !strings.Contains(said, "--resume "+task+" -- …") {
		t.Fatalf("run %s: linesman said %q and ended with %d", link, said, code)
	}
	stands("input-required", "input-required")
	w.answered(5)

	type end struct {
		run, said string
		code      int
	}
	ends := make(chan end, 2)
	for range 2 {
		go func() {
			var e end
			e.run, e.said, e.code = w.run([]string{"--resume", link}, "one", "two", "--resume")
			ends <- e
		}()
	}
	a, b := <-ends, <-ends
	if a.code != 0 {
		a, b = b, a
	}
	if a.code != 0 || a.run != task+"-3" || b.code != 1 || b.run != "" {
		t.Errorf("of two, one went on: %+v, the other one: %+v", a, b)
	}
	stands("completed", "completed")
	if v := h.rest("/v1/runs/"+task, "application/json"); v["continuedBy"] != task+"-3" || v["continues"] != nil {
		t.Errorf("the task: %v", v)
	}
	if v := h.rest("/v1/runs/"+link, "application/json"); v["continuedBy"] != task+"-3" || v["continues"] != task ||
		v["state"] != "completed" {
		t.Errorf("its second run: %v", v)
	}
	v := h.ask("_codex_local_wait", map[string]any{"task_id": task, "format": "adcp"})
	if v["status"] != "completed" || v["task_id"] != task {
		t.Errorf("AdCP wait: %v", v)
	}
	if _, said, code := w.run([]string{"--resume", task}, "one", "two", "--resume"); code != 1 ||
		!strings.Contains(said, "the task is not awaiting resumption: run "+task+"-3 is completed") {
		t.Errorf("linesman said %q and ended with %d", said, code)
	}
	if _, said, code := w.run([]string{"--resume", "T-none"}, "one", "two"); code != 1 ||
		!strings.Contains(said, "--resume T-none: there is no such run") {
		t.Errorf("linesman said %q and ended with %d", said, code)
	}
}

// The server goes away while a request waits, and comes back on another port.
func TestRequestWaitsThoughTheServerWasAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	up := w.up()
	w.start("bridge", "--external", "--dir", w.work)
	if _, code := w.program("one", "two"); code != 42 {
		t.Fatalf("the program ended with %d", code)
	}
	before := w.here().waiting()
	up.Kill()
	w.up()
	answer := exec.CommandContext(t.Context(), linesman, "bridge", "answer", fmt.Sprint(before["requestId"]), "the first",
		"--data-dir", w.data, "--config", filepath.Join(w.lab, "linesman.toml"))
	fixture.Watch(t, answer)
	out, err := answer.Output()
	if err != nil || string(out) != fmt.Sprint(before["run"], " completed\n") {
		t.Fatalf("answered: %s, %v", out, err)
	}
	w.answered(1)
	if _, code := w.program("one", "two", "--resume"); code != 42 {
		t.Fatalf("the program ended with %d", code)
	}
}
