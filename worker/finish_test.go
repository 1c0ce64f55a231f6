package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
)

const (
	turnBegins = `echo '{"type":"turn.started"}'; `
	turnEnds   = `echo '{"type":"turn.completed","usage":{}}'; `
	turnFails  = `echo '{"type":"turn.failed","error":{"message":"no"}}'; `

	// turnAnd prints a whole turn and what follows in one piece.
	turnAnd = `printf '%s\n%s\n%b' '{"type":"turn.started"}' '{"type":"turn.completed","usage":{}}' `
)

// An agent that has printed its result is ended if it does not exit, and the run has failed if the last one is a
// failure. One that works on silently is not.
func TestAgentThatDoesNotExitAfterItsResultIsEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   runs.Reason
	}{
		"a result":           {turnBegins + turnEnds + "exec sleep 60", runs.ReasonFinished},
		"and it is stubborn": {turnBegins + turnEnds + "trap '' TERM; while :; do sleep 1; done", runs.ReasonFinished},
		"a failure":          {turnBegins + turnFails + "exec sleep 60", runs.ReasonFinished},
		"a result after it": {"late() { " + turnEnds + "exit; }; trap late TERM; " + turnBegins + turnFails +
			"while :; do sleep 0.05; done", runs.ReasonFinished},
		"the next turn": {turnAnd + `'{"type":"turn.started"}\n'; sleep 1`, runs.ReasonExited},
		"no result":     {turnBegins + "sleep 1", runs.ReasonExited},
		"half a line":   {turnAnd + "'{'; sleep 1", runs.ReasonExited},
		"a task in the background": {`echo '{"type":"system","subtype":"init","session_id":"s"}'; ` +
			`echo '{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"t"}]}'; ` +
			`echo '{"type":"result","subtype":"success","result":"Started."}'; sleep 1`, runs.ReasonExited},
		"a task that has ended": {`echo '{"type":"system","subtype":"init","session_id":"s"}'; ` +
			`echo '{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"t"}]}'; ` +
			`echo '{"type":"result","subtype":"success","result":"Started."}'; ` +
			`echo '{"type":"system","subtype":"background_tasks_changed","tasks":[]}'; exec sleep 60`, runs.ReasonFinished},
		"no limit": {turnBegins + turnEnds + "sleep 1", runs.ReasonExited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			l.w.cfg.Agents = known.Agents
			spec := shell("r", c.script)
			if strings.Contains(name, "task") {
				spec.Agent = "claude_code"
			}
			if spec.Limits.Grace = 300 * time.Millisecond; name != "no limit" {
				spec.Limits.Finish = 200 * time.Millisecond
			}
			if name == "a result after it" {
				spec.Limits.Grace = time.Minute
			}
			ex := l.drive(spec)
			if ex.Reason != c.want || ex.Failed != (name == "a failure") || l.exit("r").Reason != c.want {
				t.Errorf("exit %s, failed: %v", runs.Encode(ex), ex.Failed)
			}
		})
	}
}

// What an agent has left that has ended with its turn cannot prolong the run, and the raw log says
// that its output is not the agent's. A cancel then cancels nothing of the agent.
func TestWhatAnAgentLeftCannotProlongItsRun(t *testing.T) {
	t.Parallel()
	for linger := 700 * time.Millisecond; !printsAfterItsAgent(t, linger, false, false); linger *= 4 {
		t.Logf("it printed nothing in %v", linger) // the machine is busy
	}
	printsAfterItsAgent(t, time.Minute, true, false)
}

// The raw log says so again when it was lost.
func TestLostLogSaysAgainWhatIsOfOthers(t *testing.T) {
	t.Parallel()
	printsAfterItsAgent(t, time.Minute, true, true)
}

// printsAfterItsAgent checks a run whose agent leaves a process that prints. It reports false if that was
// ended before it printed. Lost: the raw log is lost once it has the note, before output of that process.
func printsAfterItsAgent(t *testing.T, linger time.Duration, cancel, lost bool) bool {
	t.Helper()
	l, dir := newFixture(t), t.TempDir()
	if s := (&stage{fixture: l}); lost {
		l.logs.lossy = true
		s.once(func(e runs.Entry) bool {
			return e.Kind == runs.Out && strings.Contains(l.kinds("r"), "note")
		}, false, func() { s.lose(0) })
	}
	l.w.cfg.Agents = known.Agents
	spec := shell("r", turnBegins+"(echo $BASHPID > left; while kill -0 $$ 2> /dev/null; do sleep 0.01; done; "+
		"while sleep 0.05; do echo left; done) & while ! [ -s left ]; do sleep 0.01; done; "+turnEnds+"printf '{\"type\"'")
	spec.Argv[0], spec.Dir = "/bin/bash", dir
	spec.Limits.Linger, spec.Limits.Grace = linger, 100*time.Millisecond
	r, done := l.driven(t.Context(), l.create(spec))
	parts := func() (own, others string, note bool) {
		for _, e := range l.entries("r") {
			switch {
			case e.Kind == runs.Note && strings.Contains(string(e.Body), runs.NoteLeft):
				note = true
			case e.Kind == runs.Out && note:
				others += string(e.Body)
			case e.Kind == runs.Out:
				own += string(e.Body)
			}
		}
		return own, others, note
	}
	waitFor(t, "output of what it left, or the end", func() bool {
		_, others, _ := parts()
		return strings.HasPrefix(others, "left\nleft\n") || len(done) > 0
	})
	if cancel {
		if err := r.Cancel(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
	}
	res := <-done
	if ex := res.Exit; ex.Reason != runs.ReasonExited || ex.Code == nil || *ex.Code != 0 || ex.Torn {
		t.Errorf("cancel %v: exit %s, %v", cancel, runs.Encode(ex), res.err)
	}
	waitFor(t, "the end of what it left", func() bool { return gone(t, filepath.Join(dir, "left")) })
	own, others, note := parts()
	if others == "" && linger < time.Minute {
		return false
	}
	// Lines between the end of the agent and the moment that is seen are among its own.
	if own = strings.ReplaceAll(own, "left\n", ""); !note || !strings.HasSuffix(own, `"usage":{}}`+"\n"+`{"type"`) ||
		strings.ReplaceAll(others, "left\n", "") != "" {
		t.Errorf("note %v, before it %q, after it %q", note, own, others)
	}
	return true
}

// An agent, or what it has left, reads the commands for its shim. It cannot prolong the run by that.
func TestRunEndsAfterItsTurnWhoeverReadsTheCommands(t *testing.T) {
	t.Parallel()
	const prints = "(while kill -0 $$ 2> /dev/null; do sleep 0.01; done; while sleep 0.05; do echo left; done) & "
	for name, c := range map[string]struct {
		before, end string
		finish      time.Duration
		want        runs.Exit
	}{
		"an agent":         {"", "exec sleep 600", 1, runs.Exit{Reason: runs.ReasonFinished, Signal: 15}},
		"what it has left": {prints, "exit 3", 0, runs.Exit{Reason: runs.ReasonExited, Code: code(3)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			l.w.cfg.Agents = known.Agents
			spec := shell("r", "cd '"+filepath.Join(l.root, "r")+"'; rm ctl; mkfifo ctl; "+
				"(while :; do cat ctl; done) > /dev/null & "+c.before+turnBegins+turnEnds+c.end)
			spec.Limits.Finish, spec.Limits.Linger, spec.Limits.Grace = c.finish, time.Second, 100*time.Millisecond
			if ex := l.drive(spec); !sameExit(ex, c.want) {
				t.Errorf("exit %s, want %s", runs.Encode(ex), runs.Encode(c.want))
			}
		})
	}
}

// The launcher of an agent was killed: what it has left is the agent, whose turn goes on.
func TestWhatGoesOnWithTheTurnIsTheAgent(t *testing.T) {
	t.Parallel()
	linger := 3 * time.Second // less than all of it, and more than a pause on a busy machine
	for {
		l := newFixture(t)
		l.w.cfg.Agents = known.Agents
		spec := shell("r", turnBegins+"(for i in 1 2 3 4 5 6 7 8; do sleep "+fmt.Sprint((linger/6).Seconds())+
			"; echo more; done; "+turnEnds+") & kill -9 $$")
		spec.Limits.Linger = linger
		l.drive(spec)
		out := l.output("r")
		if strings.Count(out, "more\n") == 8 && strings.Contains(out, "turn.completed") {
			return
		}
		if !longer(&linger) {
			t.Errorf("%q", out)
			return
		}
	}
}

// An agent that says nothing but that it has no session of the thread has done nothing; with more to say, or for a task
// without a thread, its end is that of the agent.
func TestAnswerOfAnAgentWithoutTheSession(t *testing.T) {
	t.Parallel()
	const refusal = `printf '\033[91mError: \033[0mSession not found\n' >&2; exit 1`
	for name, c := range map[string]struct {
		script, session string
		want            bool
	}{
		"resumed": {refusal, "--session=ses_1", true}, "copied": {refusal, "--session=ses_1 --fork", true},
		"a new thread": {refusal, "", false}, "with output": {"echo '{}'; " + refusal, "--session=ses_1", false},
		"another error": {"echo 'Error: Model not found' >&2; exit 1", "--session=ses_1", false},
		"no error":      {strings.Replace(refusal, "exit 1", "exit 0", 1), "--session=ses_1", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newFixture(t)
			l.w.cfg.Agents = known.Agents
			program := filepath.Join(t.TempDir(), "opencode")
			write(t, program, "#!/bin/sh\n"+c.script+"\n")
			if err := os.Chmod(program, 0o700); err != nil {
				t.Fatal(err)
			}
			spec := shell("r", "")
			spec.Agent, spec.Argv = "opencode", append([]string{program, "run"}, strings.Fields(c.session+" -- x")...)
			_, done := l.driven(t.Context(), l.create(spec))
			if got := <-done; got.err != nil || (got.Spawn == runs.SpawnNoSession) != c.want ||
				(got.Reason == runs.ReasonSpawn) != c.want {
				t.Errorf("%s, %v", runs.Encode(got.Exit), got.err)
			}
		})
	}
}
