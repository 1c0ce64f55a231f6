package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// halves prints one message, waits for the file go, prints the second and ends.
const halves = `
say one
await go
say two
exit 3
`

func TestAgentOfAKilledRunGoesOnAndIsAdopted(t *testing.T) {
	t.Parallel()
	data, agent, canary := t.TempDir(), newScript(t, halves), fixture.StartCanary(t)
	up(t, data)
	run := begin(t, nil, "run", "--data-dir", data, "--run", "orphan", "--json", "--", agent.path)
	run.Await(run.Stdout, `"text":"one"`)
	run.Kill()
	killed := time.Now()
	agent.touch("go")
	got := events(t, data, "orphan")
	took := time.Since(killed)
	same(t, "events", printed(got), expected(t, said("one", "two"), 3))
	noDirectories(t, data)
	canary.Within("the events were complete", took, 5*time.Second)
}

func TestRunOutlivesItsServer(t *testing.T) {
	t.Parallel()
	data, agent := t.TempDir(), newScript(t, halves)
	first := up(t, data)
	run := begin(t, nil, "run", "--data-dir", data, "--run", "long", "--json", "--", agent.path)
	run.Await(run.Stdout, `"text":"one"`)
	first.Kill()
	agent.touch("go")
	run.Await(run.Stderr, "connection lost")
	up(t, data) // on another port
	if code := run.Code(); code != 3 {
		t.Errorf("exit status %d, want 3\n%s", code, run.Stderr)
	}
	want := expected(t, said("one", "two"), 3)
	same(t, "run", printed(parse(t, run.Stdout.String())), want)
	same(t, "events", printed(events(t, data, "long")), want)
	noDirectories(t, data)
}

func TestAllKilledAndStartedAgainLosesNothing(t *testing.T) {
	t.Parallel()
	data, agent := t.TempDir(), newScript(t, halves)
	first := up(t, data)
	run := begin(t, nil, "run", "--data-dir", data, "--run", "all", "--json", "--", agent.path)
	run.Await(run.Stdout, `"text":"one"`)
	run.Kill()
	first.Kill()
	agent.touch("go")
	up(t, data)
	same(t, "events", printed(events(t, data, "all")), expected(t, said("one", "two"), 3))
	noDirectories(t, data)
	succeeds(t, "rebuild", "--data-dir", data)
}

// Without an `up` the run has started one, which it does not take with it; one
// in a terminal takes over.
func TestRunWithoutUpIsAdoptedByTheNext(t *testing.T) {
	t.Parallel()
	data, agent := t.TempDir(), newScript(t, halves)
	run := beginIn(t, background(t, data, os.Environ()), nil, "run", "--data-dir", data, "--run", "alone", "--json", "--",
		agent.path)
	run.Await(run.Stdout, `"text":"one"`)
	run.Kill()
	agent.touch("go")
	up(t, data)
	same(t, "events", printed(events(t, data, "alone")), expected(t, said("one", "two"), 3))
	noDirectories(t, data)
}

func TestServerThatStaysAwayLeavesTheOutputToTheNext(t *testing.T) {
	fixture.Long(t, "waits for a minute")
	t.Parallel()
	data, agent := t.TempDir(), newScript(t, halves)
	first := up(t, data)
	run := begin(t, nil, "run", "--data-dir", data, "--run", "left", "--json", "--", agent.path)
	run.Await(run.Stdout, `"text":"one"`)
	first.Kill()
	agent.touch("go")
	ended := time.Now()
	if code := run.Code(); code != 125 {
		t.Errorf("exit status %d, want 125", code)
	}
	if waited := time.Since(ended); waited < 59*time.Second {
		t.Errorf("gave up after %v, want a minute", waited)
	}
	where := filepath.Join(data, "runs", "left")
	if s := run.Stderr.String(); !strings.Contains(s,
		"linesman: run left: NATS is still away 1m0s after the agent's end: its output is in "+where+
			", and the next `linesman up`") {
		t.Errorf("it does not say where the output is:\n%s", s)
	}
	up(t, data)
	same(t, "events", printed(events(t, data, "left")), expected(t, said("one", "two"), 3))
	noDirectories(t, data)
}

func TestThirdCtrlCLeavesTheOutputToTheNext(t *testing.T) {
	t.Parallel()
	data, agent := t.TempDir(), newScript(t, halves)
	first := up(t, data)
	run := begin(t, nil, "run", "--data-dir", data, "--run", "left", "--json", "--", agent.path)
	run.Await(run.Stdout, `"text":"one"`)
	first.Kill()
	agent.touch("go")
	awaitShim(t, filepath.Join(data, "runs", "left"))
	for n := 1; n <= 2; n++ { // they change nothing of how the agent ended
		run.Signal(syscall.SIGINT)
		run.AwaitCount(run.Stderr, "the agent has ended, but not all is stored yet", n)
	}
	run.Signal(syscall.SIGINT)
	if code := run.Code(); code != 125 {
		t.Errorf("exit status %d, want 125", code)
	}
	where := filepath.Join(data, "runs", "left")
	if s := run.Stderr.String(); !strings.Contains(s, "linesman: run left: not all of its output is stored: it is in "+
		where) {
		t.Errorf("it does not say where the output is:\n%s", s)
	}
	up(t, data)
	same(t, "events", printed(events(t, data, "left")), expected(t, said("one", "two"), 3))
}

func TestPipeThatIsKilledIsAdoptedAndEnded(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	up(t, data)
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	pipe := begin(t, in, "pipe", "--data-dir", data, "--run", "piped")
	defer in.Close()
	follow := begin(t, nil, "events", "--data-dir", data, "--run", "piped", "--follow", "--json")
	torn := strings.TrimSuffix(string(said("two")), "\n")
	if _, err := io.WriteString(w, string(said("one"))+torn); err != nil {
		t.Fatal(err)
	}
	follow.Await(follow.Stdout, `"text":"one"`)
	pipe.Kill()
	if code := follow.Code(); code != 0 {
		t.Errorf("events: exit %d\n%s", code, follow.Stderr)
	}
	got := printed(parse(t, follow.Stdout.String()))
	want := expected(t, said("one", "two"), 0)
	end := `0.1 {"agent_kind":"codex","status":null,"final_text":"two","data":null,"error":null}`
	same(t, "events", got, append(want[:len(want)-1], end))
	noDirectories(t, data)
}

func TestTailKilledAndStartedAgainPublishesALineOnce(t *testing.T) {
	t.Parallel()
	data, dir := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "session.jsonl")
	up(t, data)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	appendTo := func(texts ...string) {
		t.Helper()
		if _, err := file.Write(said(texts...)); err != nil {
			t.Fatal(err)
		}
	}
	follow := begin(t, nil, "events", "--data-dir", data, "--follow", "--json")
	tail := begin(t, nil, "tail", "--data-dir", data, path)
	for i := range 3 { // each time a line before the kill, and one while nobody looks
		appendTo(fmt.Sprintf("seen %d", i))
		follow.Await(follow.Stdout, fmt.Sprintf(`"text":"seen %d"`, i))
		tail.Kill()
		appendTo(fmt.Sprintf("missed %d", i))
		tail = begin(t, nil, "tail", "--data-dir", data, path)
		follow.Await(follow.Stdout, fmt.Sprintf(`"text":"missed %d"`, i))
	}
	// Rotated: the old file is read to its end, the new one is another run.
	tail.Signal(syscall.SIGSTOP) // it must not see a file that has been silent for long
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	appendTo("last")
	tail.Signal(syscall.SIGCONT)
	if err := os.WriteFile(path, said("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	follow.Await(follow.Stdout, `"text":"new"`)
	follow.Await(follow.Stdout, `"completion"`)
	records := parse(t, follow.Stdout.String())
	run := records[0].Run
	var got []string
	for _, r := range records {
		if r.Run == run {
			got = append(got, printed([]record{r})...)
		}
	}
	want := expected(t, said("seen 0", "missed 0", "seen 1", "missed 1", "seen 2", "missed 2", "last"), 0)
	end := `0.1 {"agent_kind":"codex","status":null,"final_text":"last","data":null,"error":null}`
	same(t, "events", got, append(want[:len(want)-1], end))
	if len(records) != len(got)+1 {
		t.Errorf("%d events in all, want those of the first run and one of another:\n%s", len(records), follow.Stdout)
	}
}

// Who reads `run --json` may stop reading: the agent's run goes on to its end.
func TestRunWhoseReaderLeavesGoesOn(t *testing.T) {
	t.Parallel()
	data, agent := t.TempDir(), newScript(t, halves)
	up(t, data)
	cmd := exec.Command(program, "run", "--data-dir", data, "--run", "unread", "--json", "--", agent.path)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	fixture.Watch(t, cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := stdout.Close(); err != nil {
		t.Fatal(err)
	}
	agent.touch("go")
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 125 || !strings.Contains(stderr.String(), "broken pipe") {
		t.Errorf("exit status %d, want 125:\n%s", code, &stderr)
	}
	got, code := execute(t, "events", "--data-dir", data, "--run", "unread", "--follow", "--json")
	if code != 0 {
		t.Fatalf("events: exit %d", code)
	}
	same(t, "events", printed(parse(t, got)), expected(t, said("one", "two"), 3))
}
