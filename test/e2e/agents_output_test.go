package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/lab/agents"
)

// A real agent under `run`: its events equal those of its recording. A Ctrl-C is its own, while a
// command of it runs: without a last line the run has failed, even with exit status 0. A SIGTERM
// cancels the run, and ends all of it, also behind the launcher of Gemini CLI.
func TestRealAgentsRun(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	up(t, data)
	b := operatorBus(t, data)
	for short, at := range map[string]struct {
		scenario string
		codes    []int
		reasons  []string
	}{
		// Claude Code prints a last line, or does not.
		"claude":   {"claude-sigint", []int{0, 1}, []string{"no terminal event", "turn failed", "exit status"}},
		"gemini":   {"gemini-sigterm-launcher", []int{0}, []string{"no terminal event"}},
		"opencode": {"opencode-sigterm", []int{128 + 2}, []string{"signal"}},
	} {
		t.Run(short, func(t *testing.T) {
			t.Parallel()
			runsAsRecorded(t, data, short)
			program, left, code := signalled(t, data, short, at.scenario, syscall.SIGINT)
			r := endedRun(t, b, short+"-SIGINT")
			if !slices.Contains(at.codes, code) || r.State != runs.StateFailed || !slices.Contains(at.reasons, r.Reason) {
				t.Errorf("Ctrl-C: exit status %d, state %s (%s); want one of %d, failed, %q", code, r.State, r.Reason, at.codes,
					at.reasons)
			}
			for _, c := range left {
				if strings.Contains(c, program) {
					t.Errorf("Ctrl-C: the agent lives on: %s", c)
				}
			}
			if short != "gemini" { // the others have no launcher
				return
			}
			_, left, _ = signalled(t, data, short, at.scenario, syscall.SIGTERM)
			if r := endedRun(t, b, short+"-SIGTERM"); r.State != runs.StateCancelled || len(left) > 0 {
				t.Errorf("SIGTERM: state %s, and these processes are left: %q", r.State, left)
			}
		})
	}
}

// runsAsRecorded runs an agent to its end.
func runsAsRecorded(t *testing.T, data, short string) {
	t.Helper()
	a, _ := known.Agents.Find(short)
	env, argv, cwd := agents.Setup(t, short+"-tools", t.TempDir())
	records, status := agentRun(t, data, short+"-tools", env, argv[0], cwd, "")
	path := short + "/tools"
	if short == "claude" {
		path = "claude/" + a.Tested + "/tools"
	}
	out, code := recording(t, path)
	if status != code {
		t.Errorf("exit status %d, want %d", status, code)
	}
	got, want := printed(records), expectedOf(t, a.Backend, out, code)
	if short == "opencode" { // two calls at once: which one ends first is not said
		got, want = unordered(ranked(got)), unordered(ranked(want))
	}
	same(t, "run", got, want)
}

var calls = regexp.MustCompile(`"call_([0-9]+)_`)

// ranked replaces the number of the model's answer in the ids of calls by its rank. opencode asks
// for a title in a request of its own, which comes before the first answer or after it.
func ranked(messages []string) []string {
	var answers []int
	for _, m := range messages {
		for _, id := range calls.FindAllStringSubmatch(m, -1) {
			n, _ := strconv.Atoi(id[1]) // digits
			answers = append(answers, n)
		}
	}
	slices.Sort(answers)
	answers = slices.Compact(answers)
	out := slices.Clone(messages)
	for i := range out {
		out[i] = calls.ReplaceAllStringFunc(out[i], func(id string) string {
			n, _ := strconv.Atoi(calls.FindStringSubmatch(id)[1])
			return fmt.Sprintf(`"call_%d_`, slices.Index(answers, n)+1)
		})
	}
	return out
}

// signalled sends a signal to `run` while a command of its agent runs. It returns the agent's
// program, which processes are left, and the exit status.
func signalled(t *testing.T, data, short, scenario string, s syscall.Signal) (program string, left []string, code int) {
	t.Helper()
	env, argv, cwd := agents.Setup(t, scenario, t.TempDir())
	id := short + "-" + unix.SignalName(s)
	args := append([]string{"run", "--data-dir", data, "--run", id, "--json", "--"}, argv[0]...)
	run := beginAt(t, cwd, env, nil, args...)
	fixture.Eventually(t, 2*fixture.Patience, "no command of the agent runs", func() bool {
		begun := func(command string) bool { return strings.HasPrefix(command, "sleep ") }
		return run.Over() || slices.ContainsFunc(commandsIn(t, cwd), begun)
	})
	run.Signal(s)
	code = run.Code()
	left = commandsIn(t, cwd)
	killCommands(t, cwd)
	return argv[0][0], left, code
}

// endedRun is the record of a run, once it has its end: it follows the events.
func endedRun(t *testing.T, b *bus.Bus, run string) (r *runs.Record) {
	t.Helper()
	fixture.Eventually(t, fixture.Patience, "the record of "+run+" has no end", func() bool {
		var err error
		if r, _, err = b.Record(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		return r != nil && r.State.Final()
	})
	return r
}

func commandsIn(t *testing.T, dir string) []string {
	t.Helper()
	return slices.Collect(maps.Values(processes(t, dir)))
}

// killCommands kills the commands that outlive an agent which ended by itself.
func killCommands(t *testing.T, dir string) {
	t.Helper()
	for pid := range processes(t, dir) {
		if n, err := strconv.Atoi(pid); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL) // fails where it has ended
		}
	}
}

// The output of a real agent goes through `pipe` and `tail` while the agent runs, and through
// `normalize` afterwards. Each detects the agent by the first lines, and makes the same events.
func TestRealAgentsArePipedTailedAndNormalized(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	up(t, data)
	for short, scenario := range map[string]string{
		"claude": "claude-several", "gemini": "gemini-subagent", "opencode": "opencode-subagent",
	} {
		t.Run(short, func(t *testing.T) {
			t.Parallel()
			a, _ := known.Agents.Find(short)
			says := "linesman: this is the output of " + a.Name + "\n"
			dir := t.TempDir()
			env, argv, cwd := agents.Setup(t, scenario, dir)
			path := filepath.Join(dir, "output.jsonl")
			file, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			from, to, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			pipe := begin(t, from, "pipe", "--data-dir", data, "--run", short+"-pipe", "--agent", "auto", "--wait")
			from.Close()
			agent := exec.CommandContext(t.Context(), argv[0][0], argv[0][1:]...)
			agent.Env, agent.Dir, agent.Stdout = env, cwd, io.MultiWriter(file, to)
			if err := agent.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				err := agent.Wait()
				to.Close()
				ended <- err
			}()
			has := func(part string) {
				t.Helper()
				fixture.Eventually(t, 2*fixture.Patience, "no "+part+" in the output", func() bool {
					b, err := os.ReadFile(path)
					return err == nil && bytes.Contains(b, []byte(part))
				})
			}
			has("\n")
			tail := begin(t, nil, "tail", "--data-dir", data, "--agent", "auto", path)
			tail.Await(tail.Stdout, " "+path+"\n")
			if short == "claude" {
				has(`"type":"result"`)
				write(t, filepath.Join(cwd, "ended"), "") // its command in the background waits for it
			}
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", a.Name, err)
			}
			output, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(path); err != nil { // ends the run of tail
				t.Fatal(err)
			}

			if code := pipe.Code(); code != 0 || pipe.Stdout.String() != short+"-pipe\n" ||
				!strings.HasPrefix(pipe.Stderr.String(), says) {
				t.Errorf("pipe: exit %d, %q, %q", code, pipe.Stdout, pipe.Stderr)
			}
			normalize := begin(t, bytes.NewReader(output), "normalize", "--agent", "auto")
			if code := normalize.Code(); code != 0 || normalize.Stderr.String() != says {
				t.Errorf("normalize: exit %d, %q", code, normalize.Stderr)
			}
			want := strings.Split(strings.TrimSpace(normalize.Stdout.String()), "\n")
			piped := events(t, data, short+"-pipe")
			same(t, "pipe", bodies(t, piped), want)
			run, _, _ := strings.Cut(tail.Stdout.String(), " ")
			same(t, "tail", bodies(t, events(t, data, run)), want)
			if !strings.HasPrefix(tail.Stderr.String(), says) {
				t.Errorf("tail said %q", tail.Stderr)
			}
			tail.Signal(syscall.SIGTERM)
			tail.Code()
			wantTexts(t, short, output, piped)
		})
	}
}

// bodies are the events of a run without its completion.
func bodies(t *testing.T, records []record) (out []string) {
	t.Helper()
	for _, r := range records[:len(records)-1] {
		out = append(out, string(r.Event))
	}
	if records[len(records)-1].Completion == nil {
		t.Errorf("no completion at the end of %d events", len(records))
	}
	return out
}

// wantTexts checks the texts of [TestRealAgentsArePipedTailedAndNormalized]: each is there
// once, also where the agent printed it in parts before, and the final one is the last.
func wantTexts(t *testing.T, short string, output []byte, records []record) {
	t.Helper()
	want := map[string][]string{ // by channel
		"claude": {
			"reasoning Let me think about it for a while.",
			"assistant I start a command, and this sentence is long enough to be split into several deltas.",
			"assistant The first answer.", "assistant The last answer.",
		},
		"gemini": {"assistant The sub-agent counted."}, "opencode": {"assistant The sub-agent counted."},
	}[short]
	if n := bytes.Count(output, []byte(`"type":"result"`)); short == "claude" && n != 2 {
		t.Errorf("%d results, want two", n)
	}
	var got []string
	for _, r := range records {
		var e struct{ Kind, Channel, Text string }
		if r.Event == nil {
			continue
		}
		if err := json.Unmarshal(r.Event, &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == "TextOutput" {
			got = append(got, e.Channel+" "+e.Text)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("texts %q, want %q", got, want)
	}
	var done struct {
		Text string `json:"final_text"`
	}
	_, last, _ := strings.Cut(want[len(want)-1], " ")
	if err := json.Unmarshal(records[len(records)-1].Completion, &done); err != nil || done.Text != last {
		t.Errorf("final text %q, %v; want %q", done.Text, err, last)
	}
}

// If its output is not read, Gemini CLI exits with status 0 in the middle of a line.
// The run has failed.
func TestRealGeminiEndsInTheMiddleOfALine(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	up(t, data)
	env, argv, cwd := agents.Setup(t, "gemini-long-message", t.TempDir())
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if _, err := unix.FcntlInt(to.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	agent := exec.CommandContext(t.Context(), argv[0][0], argv[0][1:]...)
	agent.Env, agent.Dir, agent.Stdout = env, cwd, to
	err = agent.Run()
	to.Close()
	if err != nil {
		t.Fatalf("it ended with %v, want exit status 0", err)
	}
	pipe := begin(t, from, "pipe", "--data-dir", data, "--run", "torn", "--agent", "auto", "--wait")
	if code := pipe.Code(); code != 0 {
		t.Errorf("pipe: exit %d\n%s", code, pipe.Stderr)
	}
	r := endedRun(t, operatorBus(t, data), "torn")
	if r.State != runs.StateFailed || r.Reason != "no terminal event" || r.Malformed != 1 {
		t.Errorf("state %s (%s), %d malformed lines; want it failed, with half a line", r.State, r.Reason, r.Malformed)
	}
}

// Claude Code knows each tool that the arguments of tasks name: it warns of any other one in every run.
func TestRealClaudeKnowsTheToolsOfTasks(t *testing.T) {
	t.Parallel()
	a, _ := known.Agents.Find("claude")
	for _, mode := range []runs.Mode{runs.ReadOnly, runs.WorkspaceWrite} {
		dir := t.TempDir()
		env, argv, cwd := agents.Setup(t, "claude-hello", dir)
		log := filepath.Join(dir, "debug")
		args := append([]string{"--debug-file=" + log}, a.Args(runs.Task{Attributes: runs.Attributes{Mode: mode},
			Prompt: "Say hello."}, cwd)...)
		cmd := exec.Command(argv[0][0], args...)
		cmd.Env, cmd.Dir = env, cwd
		_, stderr, code := fixture.Run(t, cmd)
		b, err := os.ReadFile(log)
		if code != 0 || err != nil || len(b) == 0 {
			t.Fatalf("%s: exit %d, %s, a log of %d bytes: %v", mode, code, stderr, len(b), err)
		}
		for line := range strings.Lines(string(b) + stderr) {
			if strings.Contains(line, "no known tool") {
				t.Errorf("%s: %s", mode, line)
			}
		}
	}
}
