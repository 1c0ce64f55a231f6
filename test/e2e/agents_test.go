package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/lab/agents"
)

// others are the agents beside Codex, by their short names; for each commit Claude Code alone.
func others() []string {
	if fixture.Whole() {
		return []string{"claude", "gemini", "opencode"}
	}
	return []string{"claude"}
}

// keyName is the variable with the API key of an agent.
var keyName = map[string]string{"claude": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY", "opencode": "LAB_API_KEY"}

// keyOf is the API key of an agent.
func keyOf(short string) string { return fixture.Sentinel + "key-of-" + short }

// priced puts the variable with the key, and prices in US dollars for a million tokens, into
// the configuration of opencode.
var priced = strings.NewReplacer(`"apiKey":"unused"`, `"apiKey":"{env:LAB_API_KEY}"`,
	`{"name":"mock"}`, `{"name":"mock","cost":{"input":1,"output":10,"cache_read":0.1}}`)

// story is what one agent does for its tasks.
type story struct {
	t       *testing.T
	short   string
	data    string
	dir     string // of the scenario: what its model was asked is there
	project string
	bus     *bus.Bus
	environ map[string]string // of the `up`, without the configuration of the agents
}

// Tasks of the real agents, from the command line: one that may do everything, one that
// resumes it and may write in its directory, one that may only read and is cancelled while
// its model is silent, and one that a limit ends. The keys of all agents are in the
// environment of one `up`.
func TestRealAgentsDoTasks(t *testing.T) {
	t.Parallel()
	lab, data := secretDir(t), t.TempDir()
	environ := map[string]string{
		"HOME":      filepath.Join(lab, "gemini", "home"), // the others' settings are in variables
		"LAB_TOKEN": fixture.Sentinel + "named", "GITHUB_TOKEN": fixture.Sentinel + "not-named", "LAB_PLAIN": "not-named",
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
	settings := fmt.Sprintf("[work]\nmax_runs = 6\nroots = [%q]\ndanger = true\n", lab)
	var stories []*story
	for _, short := range others() {
		s := &story{short: short, data: data, dir: filepath.Join(lab, short), environ: environ}
		theirs, argv, project := agents.Setup(t, short+"-tasks", s.dir)
		environ[keyName[short]], s.project = keyOf(short), project
		names := []string{keyName[short]}
		for _, v := range theirs {
			name, value, _ := strings.Cut(v, "=")
			if slices.Contains([]string{"PATH", "LANG", "HOME", keyName[short]}, name) {
				continue
			}
			names = append(names, name)
			env = append(env, name+"="+priced.Replace(value))
		}
		settings += fmt.Sprintf("[agents.%s]\ncommand = [%q]\nenv = [\"%s\"]\n", short, argv[0][0],
			strings.Join(names, `", "`))
		stories = append(stories, s)
	}
	for name, value := range environ {
		env = append(env, name+"="+value)
	}
	write(t, filepath.Join(lab, "linesman.toml"), settings)
	fixture.Up(t, program, data, env, "--config", filepath.Join(lab, "linesman.toml"))
	b := operatorBus(t, data)
	t.Run("agents", func(t *testing.T) { // ends once all of them have
		for _, s := range stories {
			t.Run(s.short, func(t *testing.T) {
				t.Parallel()
				s.t, s.bus = t, b
				s.tell()
			})
		}
	})
	// doctor finds the same programs, and nothing in their output that is not known.
	var doctor string
	fixture.Eventually(t, fixture.Patience, "a program does not say its version", func() bool {
		doctor, _ = execute(t, "doctor", "--data-dir", data, "--config", filepath.Join(lab, "linesman.toml"), "--json")
		return !strings.Contains(doctor, "no answer in")
	})
	for _, name := range slices.Concat(others(), []string{"drift"}) {
		c := gjson.Get(doctor, fmt.Sprintf(`checks.#(name=="%s")`, name))
		version := "" // of drift
		if a, is := known.Agents.Find(name); is {
			version = ", version " + a.Tested
		}
		if c.Get("level").String() != "ok" || !strings.HasSuffix(c.Get("text").String(), version) {
			t.Errorf("doctor says of %s: %s", name, c)
		}
	}
}

func (s *story) tell() {
	s.t.Helper()
	files := map[string]string{"new.txt": "one\n", "a.txt": "one\ndeux\n"}
	began := time.Now()
	thread := s.doesAll()
	// Enough for its first words, and less than the 120 s after which opencode ends a command.
	slow := min(max(30*time.Second, 3*time.Since(began)), 100*time.Second)
	s.has(files)
	limit := map[string][]string{
		"claude":   {"--idle-timeout", "20s"}, // less than the 30 s after which it says that a command still runs
		"gemini":   {"--idle-timeout", "30s"},
		"opencode": {"--timeout", slow.String()}, // it waits without end for a command that a signal has ended
	}[s.short]
	limited := s.submit("Task four", append(s.in(runs.DangerFull), limit...)...)
	s.resumes(thread)
	files["second.txt"] = "two\n"
	s.has(files)
	s.isCancelled()
	s.has(files)
	reason := "idle"
	if s.short == "opencode" {
		reason = "hard"
	}
	events := s.ends(limited, runs.StateTimeout, reason)
	if !strings.Contains(events, `"I wait."`) {
		s.t.Errorf("events: %s", events)
	}
	if left := processes(s.t, s.project); len(left) > 0 {
		s.t.Errorf("these processes are left: %q", left)
	}
}

// submit submits a task, and returns its run. With wait it returns once the run has ended.
func (s *story) submit(task string, more ...string) (run string) {
	s.t.Helper()
	if s.short == "gemini" {
		more = append(more, "--model", "gemini-2.5-flash") // by default it asks a model which one to ask
	}
	out, code := execute(s.t, slices.Concat([]string{"submit", "--data-dir", s.data, "--agent", s.short, "--json"}, more,
		[]string{fixture.Sentinel + "prompt: " + task})...)
	run = gjson.Get(out, "run").String()
	if code != 0 || run == "" {
		s.t.Fatalf("%s: exit %d: %s", task, code, out)
	}
	return run
}

// in are the flags of a task that is no continuation.
func (s *story) in(mode runs.Mode) []string {
	return []string{"--mode", string(mode), "--dir", s.project, "--skip-git-repo-check"}
}

func (s *story) record(run string) *runs.Record {
	s.t.Helper()
	r, found, err := s.bus.Record(s.t.Context(), run)
	if err != nil || !found {
		s.t.Fatalf("the record of %s: found %v, %v", run, found, err)
	}
	return r
}

// has checks which files the project has.
func (s *story) has(want map[string]string) {
	s.t.Helper()
	got := map[string]string{}
	entries, err := os.ReadDir(s.project)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		if text, err := os.ReadFile(filepath.Join(s.project, e.Name())); err == nil {
			got[e.Name()] = string(text)
		}
	}
	if !reflect.DeepEqual(got, want) {
		s.t.Errorf("the project has %q, want %q", got, want)
	}
}

// wantUsage is what the first two tasks used, as the scenarios say it.
var wantUsage = [2]runs.Usage{
	{Input: 4600, CachedInput: 2200, Output: 100}, {Input: 2900, CachedInput: 1700, Output: 110},
}

// doesAll has the agent do a task in which it may do everything, and returns its session.
func (s *story) doesAll() (thread string) {
	s.t.Helper()
	run := s.submit("Task one", append(s.in(runs.DangerFull), "--wait", "--allow-env", "LAB_TOKEN")...)
	r := s.record(run)
	s.completed(r, "Remembered.", wantUsage[0])
	wantFiles := runs.Files{Added: []string{"new.txt"}, Modified: []string{"a.txt"}, Deleted: []string{}}
	if s.short == "gemini" { // it does not say that a file is new
		wantFiles = runs.Files{Added: []string{}, Modified: []string{"new.txt", "a.txt"}, Deleted: []string{}}
	}
	if r.Files == nil || !reflect.DeepEqual(*r.Files, wantFiles) {
		s.t.Errorf("files %+v, want %+v", r.Files, wantFiles)
	}
	if r.Tests == nil || r.Tests.Passed != 3 || r.Tests.Failed != 1 {
		s.t.Errorf("tests %+v, want 3 passed and 1 failed", r.Tests)
	}
	out, _ := execute(s.t, "results", "--data-dir", s.data, "--json", "--output", run)
	result := gjson.Parse(out)
	if got := result.Get("summary").String(); got != "Remembered." {
		s.t.Errorf("summary %q", got)
	}
	s.costs(r, result.Get("output.stdout").String())
	s.sawItsKeyOnly(run)
	return r.Thread
}

func (s *story) completed(r *runs.Record, text string, usage runs.Usage) {
	s.t.Helper()
	if a, _ := known.Agents.Find(s.short); r.State != runs.StateCompleted || r.Agent != a.Kind() || r.Thread == "" {
		s.t.Errorf("a run of %s in state %s (%s), thread %q", r.Agent, r.State, r.Reason, r.Thread)
	}
	if r.FinalText == nil || *r.FinalText != text {
		s.t.Errorf("final text %v, want %s", r.FinalText, text)
	}
	if total := r.Spent().Total; total == nil || *total != usage {
		s.t.Errorf("usage %+v, want %+v", total, usage)
	}
	if r.Unknown+r.Malformed+r.Gaps+r.Dropped > 0 || r.Drift != nil || r.TurnsDone != 1 {
		s.t.Errorf("record %+v, drift %+v", r, r.Drift)
	}
}

// costs checks the cost, which is what the last line of Claude Code says, and with opencode
// what the tokens cost by the configuration of the model. Gemini CLI tells none.
func (s *story) costs(r *runs.Record, output string) {
	s.t.Helper()
	want := 0.0
	switch s.short {
	case "claude":
		lines := strings.Split(strings.TrimSpace(output), "\n")
		want = gjson.Get(lines[len(lines)-1], "total_cost_usd").Float()
	case "opencode":
		want = (2400*1 + 2200*0.1 + 100*10) / 1e6
	case "gemini":
		if r.Cost != nil {
			s.t.Errorf("cost %v", *r.Cost)
		}
		return
	}
	if r.Cost == nil || want == 0 || math.Abs(*r.Cost-want) > 1e-9 {
		s.t.Errorf("cost %v, want %v", r.Cost, want)
	}
}

// sawItsKeyOnly checks the environment that the agent had, which a command has told its
// model, and the key that came with its requests. No event has any of it.
func (s *story) sawItsKeyOnly(run string) {
	s.t.Helper()
	if keys := agents.Keys(s.t, s.dir); !slices.Equal(keys, []string{keyOf(s.short)}) {
		s.t.Errorf("the model got the keys %q, want %q", keys, keyOf(s.short))
	}
	var asked string
	for _, body := range agents.Requests(s.t, s.dir) {
		asked += string(body)
	}
	for name, value := range s.environ {
		want := name == keyName[s.short] || name == "LAB_TOKEN" || name == "HOME"
		if got := strings.Contains(asked, name+"="+value); got != want {
			s.t.Errorf("%s is in the agent's environment: %v, want %v", name, got, want)
		}
	}
	events, _ := execute(s.t, "events", "--data-dir", s.data, "--run", run, "--json")
	if !strings.Contains(events, `"Remembered."`) || strings.Contains(events, fixture.Sentinel) {
		s.t.Errorf("events without the answer, or with a prompt, a path or a key: %s", events)
	}
}

// resumes has the agent continue a session, in the directory of the first task.
func (s *story) resumes(thread string) {
	s.t.Helper()
	run := s.submit("Task two", "--wait", "--mode", string(runs.WorkspaceWrite), "--resume", thread)
	r := s.record(run)
	s.completed(r, "42.", wantUsage[1])
	if r.Thread != thread {
		s.t.Errorf("session %s, want %s", r.Thread, thread)
	}
	if !slices.ContainsFunc(agents.Requests(s.t, s.dir), func(body json.RawMessage) bool {
		told := func(part string) bool { return bytes.Contains(body, []byte(part)) }
		return told("Task one") && told("Remembered.") && told("Task two")
	}) {
		s.t.Error("the model of the second task was not told of the first")
	}
}

// isCancelled has the agent try what it may not, and cancels it while it waits for its model.
func (s *story) isCancelled() {
	s.t.Helper()
	run := s.submit("Task three", s.in(runs.ReadOnly)...)
	fixture.Eventually(s.t, 2*fixture.Patience, "the model is not asked for its third answer", func() bool {
		n := 0
		for _, body := range agents.Requests(s.t, s.dir) {
			if gjson.GetBytes(body, "tools.0").Exists() && bytes.Contains(body, []byte("Task three")) {
				n++
			}
		}
		return n == 3
	})
	var events string
	fixture.Eventually(s.t, 2*fixture.Patience, "not two failed tools, the command and the edit", func() bool {
		events, _ = execute(s.t, "events", "--data-dir", s.data, "--run", run, "--json")
		return strings.Count(events, `"phase":"fail"`) == 2 // opencode prints what it did after its next question
	})
	if len(processes(s.t, s.project)) == 0 {
		s.t.Error("it waits, and there is no process")
	}
	if out, code := execute(s.t, "cancel", "--data-dir", s.data, run); code != 0 {
		s.t.Errorf("cancel: exit %d: %s", code, out)
	}
	if after := s.ends(run, runs.StateCancelled, ""); !strings.HasPrefix(after, events) {
		s.t.Errorf("events %s, and before its end %s", after, events)
	}
}

// ends waits for the end of a run that does not complete, and returns its events.
func (s *story) ends(run string, state runs.State, reason string) (events string) {
	s.t.Helper()
	if out, code := execute(s.t, "wait", "--data-dir", s.data, run); code != 1 {
		s.t.Errorf("wait: exit %d: %s", code, out)
	}
	if r := s.record(run); r.State != state || r.Reason != reason {
		s.t.Errorf("state %s (%s), want %s (%s)", r.State, r.Reason, state, reason)
	}
	events, _ = execute(s.t, "events", "--data-dir", s.data, "--run", run, "--json")
	return events
}
