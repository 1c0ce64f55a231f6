package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/lab/agents"
)

// speaker is what an agent does in its own way, beside what its entry in the table of agents says.
type speaker struct {
	short string
	// Ended is the state of a run whose turn ends with a rejection, and its text; "": the turn goes on.
	ended     runs.State
	endedText string
	// Unknown are the methods of its own that linesman does not know.
	unknown []string
}

var speakers = []speaker{
	{short: "claude"},
	{short: "codex", ended: runs.StateFailed},
	{short: "gemini"},
	{short: "opencode", ended: runs.StateCompleted},
	{short: "copilot", ended: runs.StateCompleted, endedText: "Info: Operation cancelled by user"},
	{short: "qwen", ended: runs.StateCompleted, unknown: []string{"qwen/notify/session/mode-update", "craft/drainMidTurnQueue"}},
	{short: "kimi"},
}

// eachCommit are the agents that are tried for each commit: TestRealAgentsDoLiveTasks has others.
var eachCommit = []string{"codex"}

// turns are what the model says, by the prompt that it is asked. Each answer to it has other tokens.
var turns = []struct{ prompt, item string }{
	{"Task one", "echo one >>one.txt; exit 3"}, {"Task one", "touch two.txt"}, {"Task one", ""},
	{"Task two", "touch two.txt"},
	{"Task three", "touch three.txt"},
	{"Talk one", "echo one >>one.txt"}, {"Talk one", ""},
	{"Talk two", "touch two.txt"},
	{"Talk three", ""},
	{"Keep one", ""},
	{"Keep two", ""},
	{"Keep three", "touch three.txt"},
	{"Keep four", ""},
	{"Keep five", ""},
	{"Set one", ""},
	{"Set two", ""},
	{"Cross one", ""}, {"Cross two", ""},
	{"Cross three", ""}, {"Cross four", ""},
}

const lastWord = "That is all."

// scenario writes the scenario of an agent into a directory, and returns its path.
func (s *speaker) scenario(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	for i, turn := range turns {
		item := fmt.Sprintf(`{"message":%q}`, lastWord)
		if turn.item != "" {
			item = agents.Command(t, s.short, turn.item)
		}
		all = append(all, fmt.Sprintf(`{"match":%q,"items":[%s],"usage":{"input":%d,"cached":%d,"output":%d}}`,
			turn.prompt, item, 1000+100*i, 500+100*i, 10+i))
	}
	path := filepath.Join(dir, "scenario.json")
	write(t, path, fmt.Sprintf(`{"cli":%q,"turns":[%s]}`, s.short, strings.Join(all, ",")))
	return path
}

// spentOn are the tokens of the first answers to the first task.
func spentOn(n int) (u runs.Usage) {
	for i := range int64(n) {
		u = u.Plus(&runs.Usage{Input: 1000 + 100*i, CachedInput: 500 + 100*i, Output: 10 + i})
	}
	return u
}

// Seven agents keep what linesman relies on, each in its own way, as the table of agents and speakers say. For each
// commit one of them does one task.
func TestLiveContract(t *testing.T) {
	fixture.All(t, "starts real agents")
	for _, s := range speakers {
		a, _ := known.All().Find(s.short)
		t.Run(s.short, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(eachCommit, s.short) {
				fixture.Long(t, "starts an agent that makes each commit slow")
			}
			dir := t.TempDir()
			env, project := agents.SetupLive(t, a.Live.Program, s.scenario(t, dir), dir)
			l := lodge(t, &s, a, env, project)
			l.asksTwice()
			if !fixture.Whole() {
				return
			}
			l.isKept()
			l.isNarrowed()
			l.crosses()
			l.isCancelled()
			l.isKilled()
			s.talks(t, a, env, project)
		})
	}
}

// lodging is an `up` with one agent.
type lodging struct {
	story
	speaker *speaker
	agent   agent.Agent
}

func lodge(t *testing.T, s *speaker, a agent.Agent, env []string, project string, settings ...string) *lodging {
	t.Helper()
	data := t.TempDir()
	var names []string
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains([]string{"PATH", "LANG", "HOME"}, name) {
			names = append(names, name)
		}
	}
	config := filepath.Join(data, "linesman.toml")
	write(t, config, fmt.Sprintf("[live]\nsleep_after = '1ms'\n[work]\nroots = [%q]\n[agents.%s]\nenv = [\"%s\"]\n%s",
		project, s.short, strings.Join(names, `", "`), strings.Join(settings, "")))
	fixture.Up(t, program, data, env, "--config", config)
	return &lodging{story{t: t, short: s.short, data: data, project: project, bus: operatorBus(t, data)}, s, a}
}

// linesman runs the program, which is to succeed.
func (l *lodging) linesman(args ...string) string {
	l.t.Helper()
	out, code := execute(l.t, append(args, "--data-dir", l.data)...)
	if code != 0 {
		l.t.Errorf("linesman %s: exit %d: %s", strings.Join(args, " "), code, out)
	}
	return out
}

func (l *lodging) events(run string) string {
	l.t.Helper()
	return l.linesman("events", "--run", run, "--json")
}

// begins submits a task that asks for a command. The run has ended if nobody is asked.
func (l *lodging) begins(task, command string) (run string) {
	l.t.Helper()
	run = l.submit(task, append(l.in(runs.ReadOnly), "--live")...)
	l.asked(run, "q1", command)
	return run
}

// asked waits until a question is open.
func (l *lodging) asked(run, id, command string) {
	l.t.Helper()
	var r *runs.Record
	fixture.Eventually(l.t, fixture.Patience, "nobody is asked, and the run has not ended", func() (is bool) {
		if r, is, _ = l.bus.Record(l.t.Context(), run); !is {
			return false
		}
		return r.State == runs.StateInputRequired && r.Live.Questions[len(r.Live.Questions)-1].ID == id || r.State.Final()
	})
	if r.State.Final() {
		l.t.Fatalf("%s: %s (%s), %+v\n%s", id, r.State, r.Reason, r.Live, l.events(run))
	}
	if out := l.linesman("questions", run, "--json"); !strings.Contains(out, command) {
		l.t.Errorf("the question is %s", out)
	}
}

// asksTwice has a person allow one command, and deny another one.
func (l *lodging) asksTwice() {
	l.t.Helper()
	run := l.begins("Task one", "one.txt")
	l.linesman("answer", run, "allow")
	l.asked(run, "q2", "two.txt")
	l.linesman("answer", run, "deny")
	state, text, n := runs.StateCompleted, lastWord, 3
	if l.speaker.ended != "" {
		state, text, n = l.speaker.ended, l.speaker.endedText, 2
	}
	if _, code := execute(l.t, "wait", "--data-dir", l.data, run); code == 0 != (state == runs.StateCompleted) {
		l.t.Errorf("wait: exit %d", code)
	}
	r, events := l.record(run), l.events(run)
	if r.State != state || (r.FinalText == nil) != (text == "") || text != "" && *r.FinalText != text {
		l.t.Errorf("%s (%s), final text %v\n%s", r.State, r.Reason, r.FinalText, events)
	}
	var unknown []string
	if r.Drift != nil {
		for _, thing := range r.Drift.Things {
			unknown = append(unknown, thing.Name)
		}
	}
	if r.Malformed+r.Gaps+r.Dropped > 0 || !slices.Equal(unknown, l.speaker.unknown) {
		l.t.Errorf("%d malformed lines, %d gaps, %d events cut, unknown: %q", r.Malformed, r.Gaps, r.Dropped, unknown)
	}
	l.has(map[string]string{"one.txt": "one\n"})
	if told := strings.Contains(events, `"exit_code":3`); told != (l.agent.Live.ExitCode != nil) {
		l.t.Errorf("its exit code is told: %v\n%s", told, events)
	}
	l.used(r, n)
}

// used checks the tokens of a run with n requests to the model.
func (l *lodging) used(r *runs.Record, n int) {
	l.t.Helper()
	want, total := spentOn(n), r.Spent().Total
	switch l.agent.Live.Tokens {
	case 0:
		if total != nil {
			l.t.Errorf("usage %+v, and it tells none", total)
		}
		return
	case acp.LastRequest:
		want = want.Minus(spentOn(n - 1))
	case acp.PerTurnQuota:
		want.CachedInput = 0 // not told
	}
	if total != nil {
		total.ReasoningOutput = 0 // of some interfaces of models
	}
	// A turn that a denial ends may end before the agent has counted the request that asked.
	if early := spentOn(n - 1); l.speaker.ended == runs.StateFailed && total != nil && *total == early {
		want = early
	}
	if total == nil || *total != want {
		l.t.Errorf("usage %+v, want %+v", total, want)
	}
}

// isKept has a conversation over the ends of processes: a sleep, and a kill while a question is open. An agent that
// does not continue a session stays awake, and its run ends when it is killed.
func (l *lodging) isKept() {
	l.t.Helper()
	forgets := l.agent.Live.Forgets
	run := l.submit("Keep one", append(l.in(runs.ReadOnly), "--live", "--keep")...)
	l.linesman("wait", "--until", "turn", run)
	l.rests(run, 1)
	thread := l.record(run).Thread
	l.linesman("send", "--wait", run, "Keep two")
	l.rests(run, 2)
	used := l.record(run).Spent().Total
	if l.agent.Live.Tokens == acp.PerTurn && (used == nil || used.Input != turnInput(9)+turnInput(10)) {
		l.t.Errorf("usage %+v", used)
	}
	l.linesman("send", run, "Keep three")
	l.asked(run, "q1", "three.txt")
	l.killed()
	if forgets {
		l.ends(run, runs.StateFailed, "signal")
		return
	}
	l.rests(run, 3)
	if r := l.record(run); r.LastTurn != runs.TurnFailed || len(r.Live.Questions) > 0 {
		l.t.Errorf("after the kill: %+v, %+v", r.LastTurn, r.Live)
	}
	l.linesman("send", "--wait", run, "Keep four")
	l.rests(run, 4)
	l.linesman("end", run)
	l.linesman("wait", run)
	r, events := l.record(run), l.events(run)
	said := 0
	for line := range strings.Lines(events) {
		if strings.HasSuffix(gjson.Get(line, "event.text").String(), lastWord) { // Copilot warns before
			said++
		}
	}
	if r.State != runs.StateCompleted || r.Thread != thread || r.FinalText == nil ||
		!strings.HasSuffix(*r.FinalText, lastWord) || strings.Count(events, "session continued") < 2 || said != 3 {
		l.t.Errorf("%s (%s), thread %s of %s, final text %v\n%s", r.State, r.Reason, r.Thread, thread, r.FinalText, events)
	}
	again := l.submit("Keep five", "--mode", string(runs.ReadOnly), "--live", "--wait", "--resume", thread)
	if r := l.record(again); r.Thread != thread || r.State != runs.StateCompleted {
		l.t.Errorf("the thread in another run: %s (%s), thread %s", r.State, r.Reason, r.Thread)
	}
}

// isNarrowed has the mode of a session changed between two turns, also where its process sleeps.
func (l *lodging) isNarrowed() {
	l.t.Helper()
	narrow := l.agent.Live.Mode(string(runs.ReadOnly))
	if narrow == "" || l.agent.Live.Mode(string(runs.WorkspaceWrite)) == narrow {
		return // by the policy
	}
	run := l.submit("Set one", append(l.in(runs.WorkspaceWrite), "--live", "--keep")...)
	l.linesman("wait", "--until", "turn", run)
	l.rests(run, 1)
	l.linesman("set", "--mode", string(runs.ReadOnly), run)
	l.linesman("send", "--wait", run, "Set two")
	l.rests(run, 2)
	if r := l.record(run); r.Live.Mode != narrow || r.LastTurn != runs.TurnCompleted {
		l.t.Errorf("mode %s, last turn %v\n%s", r.Live.Mode, r.LastTurn, l.events(run))
	}
	l.linesman("end", run)
	l.linesman("wait", run)
}

// crosses continues a session of the command line live, and a live one by the command line.
func (l *lodging) crosses() {
	l.t.Helper()
	if l.agent.LiveOnly() {
		return
	}
	// What is resumed by a command line is not told to work outside of a repository.
	if out, err := exec.Command("git", "-C", l.project, "init", "--quiet").CombinedOutput(); err != nil {
		l.t.Fatalf("git: %v %s", err, out)
	}
	run := func(task string, args ...string) *runs.Record {
		l.t.Helper()
		id := l.submit(task, args...)
		_, _ = execute(l.t, "wait", "--data-dir", l.data, id)
		r := l.record(id)
		if r.State != runs.StateCompleted || r.FinalText == nil || !strings.HasSuffix(*r.FinalText, lastWord) {
			l.t.Errorf("%s: %s (%s), final text %v\n%s", task, r.State, r.Reason, r.FinalText, l.linesman("logs", id))
		}
		return r
	}
	if first := run("Cross one", l.in(runs.ReadOnly)...); !l.agent.Live.Forgets {
		next := run("Cross two", "--live", "--mode", string(runs.ReadOnly), "--resume", first.Thread)
		if first.Live != nil || next.Live == nil || next.Thread != first.Thread || first.Thread == "" {
			l.t.Errorf("a session of the command line, live: thread %q, then %q, %+v", first.Thread, next.Thread, next.Live)
		}
	}
	first := run("Cross three", append(l.in(runs.ReadOnly), "--live")...)
	next := run("Cross four", "--mode", string(runs.ReadOnly), "--resume", first.Thread)
	if first.Live == nil || next.Live != nil || next.Thread != first.Thread || first.Thread == "" {
		l.t.Errorf("a live session, by the command line: thread %q, then %q, %+v", first.Thread, next.Thread, next.Live)
	}
}

// turnInput are the input tokens of a turn.
func turnInput(i int64) int64 { return 1000 + 100*i }

// rests waits until a run waits for a message, and its process sleeps if it can.
func (l *lodging) rests(run string, turn int) {
	l.t.Helper()
	var r *runs.Record
	if !fixture.Poll(fixture.Patience, func() (is bool) {
		if r, is, _ = l.bus.Record(l.t.Context(), run); !is || r.Live == nil {
			return false
		}
		return r.State.Final() || r.Live.Turn == turn && r.Live.WaitsFor == runs.WaitsMessage &&
			(r.Live.Asleep || l.agent.Live.Forgets)
	}) || r.State.Final() {
		l.t.Fatalf("the run does not rest after turn %d: %s (%s), %+v\n%s", turn, r.State, r.Reason, r.Live, l.events(run))
	}
}

// isCancelled cancels a run while its question is open.
func (l *lodging) isCancelled() {
	l.t.Helper()
	run := l.begins("Task two", "two.txt")
	l.linesman("cancel", run)
	l.ends(run, runs.StateCancelled, "")
	l.isOver(run)
}

// isKilled kills the agent while its question is open.
func (l *lodging) isKilled() {
	l.t.Helper()
	run := l.begins("Task three", "three.txt")
	l.killed()
	if events := l.ends(run, runs.StateFailed, "signal"); !strings.Contains(events, "question withdrawn") {
		l.t.Errorf("its question is not withdrawn:\n%s", events)
	}
	l.isOver(run)
}

// killed kills the agent.
func (l *lodging) killed() {
	l.t.Helper()
	all, first := processes(l.t, l.project), 0
	for id := range all {
		pid, _ := strconv.Atoi(id)
		if _, is := all[strconv.Itoa(parent(pid))]; !is {
			first = pid
		}
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		l.t.Fatal(err)
	}
}

// isOver checks that nothing of a run is left, and that its command has not run.
func (l *lodging) isOver(run string) {
	l.t.Helper()
	if out, code := execute(l.t, "answer", "--data-dir", l.data, run+"/q1", "allow"); code == 0 {
		l.t.Errorf("answer: %s", out)
	}
	if r := l.record(run); r.Live == nil || len(r.Live.Questions) > 0 {
		l.t.Errorf("questions are open: %+v", r.Live)
	}
	fixture.Eventually(l.t, fixture.Patience, "processes are left", func() bool {
		return len(processes(l.t, l.project)) == 0
	})
	l.has(map[string]string{"one.txt": "one\n"})
}

// parent returns the parent of a process, 0 if there is none.
func parent(pid int) (ppid int) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	if fields := strings.Fields(rest); len(fields) > 1 {
		ppid, _ = strconv.Atoi(fields[1])
	}
	return ppid
}
