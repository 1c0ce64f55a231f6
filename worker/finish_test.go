package worker

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/agents"
	"github.com/linesman/linesman/runs"
)

const (
	turnBegins = `echo '{"type":"turn.started"}'; `
	turnEnds   = `echo '{"type":"turn.completed","usage":{}}'; `
)

// An agent that has printed its result is ended if it does not exit. One that works on silently is
// not.
func TestAgentThatDoesNotExitAfterItsResultIsEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   runs.Reason
	}{
		"a result":           {turnBegins + turnEnds + "exec sleep 60", runs.ReasonFinished},
		"and it is stubborn": {turnBegins + turnEnds + "trap '' TERM; while :; do sleep 1; done", runs.ReasonFinished},
		"the next turn":      {turnBegins + turnEnds + turnBegins + "sleep 1", runs.ReasonExited},
		"no result":          {turnBegins + "sleep 1", runs.ReasonExited},
		"half a line":        {turnBegins + turnEnds + "printf '{'; sleep 1", runs.ReasonExited},
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
			l.w.cfg.Agents = agents.Known
			spec := shell("r", c.script)
			if strings.Contains(name, "task") {
				spec.Agent = "claude_code"
			}
			if spec.Limits.Grace = 300 * time.Millisecond; name != "no limit" {
				spec.Limits.Finish = 200 * time.Millisecond
			}
			if ex := l.drive(spec); ex.Reason != c.want || l.exit("r").Reason != c.want {
				t.Errorf("exit %s", runs.Encode(ex))
			}
		})
	}
}

// What an agent has left that has ended with its turn cannot prolong the run, and the raw log says
// that its output is not the agent's. A cancel then cancels nothing of the agent.
func TestWhatAnAgentLeftCannotProlongItsRun(t *testing.T) {
	t.Parallel()
	for _, cancel := range []bool{false, true} {
		l, dir := newFixture(t), t.TempDir()
		l.w.cfg.Agents = agents.Known
		spec := shell("r", turnBegins+"(echo $BASHPID > left; while sleep 0.05; do echo left; done) & "+
			"while ! [ -s left ]; do sleep 0.01; done; "+turnEnds+"printf '{\"type\"'")
		spec.Argv[0], spec.Dir = "/bin/bash", dir
		spec.Limits.Linger, spec.Limits.Grace = 700*time.Millisecond, 100*time.Millisecond
		if cancel {
			spec.Limits.Linger = time.Minute
		}
		r, done := l.begun(spec, "left\nleft\n")
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
		own, note := "", false
		for _, e := range l.entries("r") {
			switch {
			case e.Kind == runs.Note && strings.Contains(string(e.Body), runs.NoteLeft):
				note = true
			case e.Kind == runs.Out && !note:
				own += string(e.Body)
			case e.Kind == runs.Out && strings.ReplaceAll(string(e.Body), "left\n", "") != "":
				t.Errorf("after the note: %q", e.Body)
			}
		}
		if own = strings.ReplaceAll(own, "left\n", ""); !note || !strings.HasSuffix(own, `"usage":{}}`+"\n"+`{"type"`) {
			t.Errorf("note %v, before it %q", note, own)
		}
	}
}

// The launcher of an agent was killed: what it has left is the agent, whose turn goes on.
func TestWhatGoesOnWithTheTurnIsTheAgent(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.w.cfg.Agents = agents.Known
	spec := shell("r", turnBegins+"(for i in 1 2 3 4 5 6 7 8; do sleep 0.5; echo more; done; "+turnEnds+") & kill -9 $$")
	spec.Limits.Linger = 3 * time.Second // less than all of it, and more than a pause on a busy machine
	l.drive(spec)
	if out := l.output("r"); strings.Count(out, "more\n") != 8 || !strings.Contains(out, "turn.completed") {
		t.Errorf("%q", out)
	}
}
