package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
)

// presenceSpec is sessionsSpec, with files about programs in a directory: each has
// "SESSION DOES SINCE PID". A turn is in progress after a line "turn", and not after a line "done".
func presenceSpec(dir, statuses string) SessionsSpec {
	spec := sessionsSpec(dir)
	spec.Since = time.Hour
	spec.Places[0].Logs.Rests = func(line []byte) (rests, known bool) {
		text := strings.TrimSpace(string(line))
		return text == "done", text == "done" || text == "turn"
	}
	spec.Places[0].Statuses = []Statuses{{Dir: statuses, All: true, Read: func(file []byte) (s agent.Status, ok bool) {
		n, err := fmt.Sscanf(string(file), "%s %s %d %d", &s.Session, &s.Does, &s.Since, &s.PID)
		return s, n == 4 && err == nil
	}}}
	return spec
}

// said returns what the notes of a run say that its agent does.
func (l *fixture) said(run string) (all []runs.Does) {
	for _, e := range l.entries(run) {
		var remark runs.Remark
		if e.Kind == runs.Note && json.Unmarshal(e.Body, &remark) == nil && remark.Presence != nil {
			all = append(all, remark.Presence.Does)
		}
	}
	return all
}

// status replaces a file about a program, as agents do.
func status(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// sleeper starts a process that runs until it is killed.
func sleeper(t *testing.T, command ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// asleep waits until a shell has become a sleep, with the files that it opened for it.
func asleep(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	waitFor(t, "sleep", func() bool {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid))
		return string(name) == "sleep\n"
	})
}

// A session in whose middle its program dies ends soon after, and not before. What the program
// says that it does is in the raw log.
func TestSessionTellsWhatItsProgramDoesAndEndsWithIt(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("processes cannot be told here")
	}
	l := newFixture(t)
	dir, statuses := place(t), t.TempDir()
	path, about := filepath.Join(dir, "s.jsonl"), filepath.Join(statuses, "1.json")
	program := sleeper(t, "sleep", "600")
	tell := func(does runs.Does, since int) {
		status(t, about, fmt.Sprintf("ID %s %d %d", does, since, program.Process.Pid))
	}
	tell(runs.Works, 1)
	write(t, path, "shown ID\nturn\n")
	write(t, filepath.Join(dir, "other.jsonl"), "shown other\nturn\n") // no file tells of its program
	begun, _ := l.sessions(presenceSpec(dir, statuses))
	waitFor(t, "the run", func() bool { return len(begun(path)) == 1 })
	run := begun(path)[0]
	want := []runs.Does{runs.Works}
	for i, does := range []runs.Does{runs.Waits, runs.Works, runs.Rests} {
		waitFor(t, string(want[len(want)-1]), func() bool { return slices.Equal(l.said(run), want) })
		tell(does, i+2)
		want = append(want, does)
	}
	waitFor(t, "the last one", func() bool { return slices.Equal(l.said(run), want) })
	write(t, path, "more\n")
	waitFor(t, "the next line", func() bool { return l.output(run) == "shown ID\nturn\nmore\n" })
	var start runs.Start
	if err := json.Unmarshal(l.entries(run)[0].Body, &start); err != nil || !start.Person {
		t.Errorf("start %+v, error %v: want a person", start, err)
	}
	if l.ended(run) {
		t.Error("it has ended with its program still there")
	}
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = program.Wait()
	waitFor(t, "the end", func() bool { return l.ended(run) })
	if got := l.exit(run).Reason; got != runs.ReasonEOF {
		t.Errorf("reason %s, want eof", got)
	}
	if other := begun(filepath.Join(dir, "other.jsonl")); len(other) != 1 || l.ended(other[0]) {
		t.Errorf("runs %q: a session in the middle of a turn has ended, although its program was never seen", other)
	}
	write(t, path, "again\n")
	waitFor(t, "the next run", func() bool { ids := begun(path); return len(ids) == 2 && l.output(ids[1]) == "again\n" })
}

// A log that a program has open is in use; once none has, it ends.
func TestSessionWhoseProgramHasTheLogOpenEndsWithIt(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("open files cannot be told here")
	}
	l := newFixture(t)
	dir := place(t)
	path, idle := filepath.Join(dir, "s.jsonl"), filepath.Join(dir, "idle.jsonl")
	write(t, path, "shown ID\nturn\n")
	write(t, idle, "shown ID2\nturn\ndone\n") // nobody has it open, and its turn has ended
	program := sleeper(t, "sh", "-c", `exec sleep 600 9>>"$1"`, "sh", path)
	reader := sleeper(t, "sh", "-c", `exec sleep 600 9<"$1"`, "sh", idle)
	asleep(t, program)
	asleep(t, reader)
	spec := presenceSpec(dir, filepath.Join(dir, "none"))
	spec.Places[0].Logs.Open = true
	begun, _ := l.sessions(spec)
	waitFor(t, "the end of the one without a program", func() bool {
		ids := begun(idle)
		return len(ids) == 1 && l.ended(ids[0])
	})
	waitFor(t, "the run", func() bool { return len(begun(path)) == 1 })
	if run := begun(path)[0]; l.ended(run) {
		t.Error("it has ended with the log open")
	}
	for _, p := range []*exec.Cmd{program, reader} {
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait()
	}
	waitFor(t, "the end", func() bool { return l.ended(begun(path)[0]) })
}

// A session without a user interface, whose program nothing tells of, ends with its turn.
func TestHeadlessSessionEndsWithItsTurn(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := place(t)
	file := func(name string) string { return filepath.Join(dir, name+".jsonl") }
	write(t, file("done"), "headless A\nturn\ndone\n")
	write(t, file("turn"), "headless B\ndone\nturn\n")
	write(t, file("person"), "shown C\ndone\n")
	spec := presenceSpec(dir, filepath.Join(dir, "none"))
	begun, _ := l.sessions(spec)
	waitFor(t, "the end of one", func() bool { ids := begun(file("done")); return len(ids) == 1 && l.ended(ids[0]) })
	write(t, file("turn"), "done\n")
	waitFor(t, "the end of the other", func() bool { ids := begun(file("turn")); return len(ids) == 1 && l.ended(ids[0]) })
	if ids := begun(file("person")); len(ids) != 1 || l.ended(ids[0]) {
		t.Errorf("runs %q: the session of a person has ended, although nothing tells of its program", ids)
	}
}

// A session goes on where its agent has moved the log, in the same run; in a copy it goes on in
// the next run, where the one before has ended. Nothing is published twice, also if nobody
// follows it meanwhile.
func TestMovedLogIsThatOfTheSameSession(t *testing.T) {
	t.Parallel()
	// A moved log may be written after a pause of a busy machine, when it counts as ended.
	for pause := 2 * time.Second; ; {
		n, what := runsOfMovedLogs(t, pause)
		if n == 1 {
			return
		}
		if !longer(&pause) {
			t.Fatalf("%d runs: %s", n, what)
		}
	}
}

// runsOfMovedLogs returns how many runs there were of a session whose log was moved, and what had happened to it by
// then. More than one: the rest was not tried.
func runsOfMovedLogs(t *testing.T, pause time.Duration) (int, string) {
	t.Helper()
	l := newFixture(t)
	l.w.tailPause = pause
	dir := place(t)
	at := func(name string) string { return filepath.Join(dir, name, "s.jsonl") }
	for _, name := range []string{"a", "b", "c", "d"} {
		if err := os.Mkdir(filepath.Dir(at(name)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(at(from), at(to)); err != nil {
			t.Fatal(err)
		}
	}
	copied := func(from, to, more string) {
		t.Helper()
		text, err := os.ReadFile(at(from))
		if err != nil {
			t.Fatal(err)
		}
		write(t, at(to), string(text)+more)
	}
	all := func(want string) {
		t.Helper()
		waitFor(t, want, func() bool { ids := l.runIDs(); slices.Sort(ids); return l.text(ids) == want })
	}
	write(t, at("a"), "shown ID\none\n")
	spec := presenceSpec(dir, filepath.Join(dir, "none"))
	_, stop := l.sessions(spec)
	all("shown ID\none\n")
	move("a", "b")
	write(t, at("b"), "two\n")
	all("shown ID\none\ntwo\n")
	if n := len(l.runIDs()); n != 1 {
		return n, "the log was moved, and nothing else"
	}
	stop()
	move("b", "c")
	write(t, at("c"), "three\n")
	begun, stop := l.sessions(spec)
	all("shown ID\none\ntwo\nthree\n")
	if n := len(l.runIDs()); n != 1 {
		return n, "the log was moved when no worker followed it"
	}
	copied("c", "d", "four\n")
	all("shown ID\none\ntwo\nthree\nfour\n")
	waitFor(t, "the run of the copy", func() bool { return len(begun(at("d"))) == 1 })
	if ids := l.runIDs(); len(ids) != 2 || !slices.Contains(ids, ids[0]+"-2") && !slices.Contains(ids, ids[1]+"-2") {
		t.Errorf("runs %q: want one, and the next one of its session", ids)
	}
	stop()
	return 1, ""
}

// While it is not known whether a session is that of a run, it is not published.
func TestSessionIsNotPublishedUntilItIsKnownWhoseItIs(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := place(t)
	path := filepath.Join(dir, "s.jsonl")
	write(t, path, "headless ID\nturn\n")
	write(t, filepath.Join(dir, "own.jsonl"), "headless own\n")
	spec := presenceSpec(dir, filepath.Join(dir, "none"))
	var asked atomic.Int64
	var away atomic.Bool
	away.Store(true)
	own := spec.Own
	spec.Own = func(ctx context.Context, session string) (bool, error) {
		asked.Add(1)
		if away.Load() {
			return false, errors.New("out of reach")
		}
		return own(ctx, session)
	}
	begun, _ := l.sessions(spec)
	waitFor(t, "two questions for each", func() bool { return asked.Load() >= 4 })
	if ids := l.runIDs(); len(ids) != 0 {
		t.Errorf("runs %q", ids)
	}
	away.Store(false)
	waitFor(t, "the run", func() bool { return len(begun(path)) == 1 })
	if ids := l.runIDs(); len(ids) != 1 {
		t.Errorf("runs %q, want one", ids)
	}
}

// The output of an agent that a worker of this directory runs tells its session, also while
// nobody else knows.
func TestSessionOfARunThatNobodyKnowsYetIsItsOwn(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := place(t)
	_, done := l.begun(shell("r", `echo '{"thread":"MINE"}'; echo ready; exec sleep 60`), "ready")
	write(t, filepath.Join(dir, "s.jsonl"), "headless MINE\nturn\n")
	write(t, filepath.Join(dir, "t.jsonl"), "headless OTHER\nturn\n")
	spec := presenceSpec(dir, filepath.Join(dir, "none"))
	begun, _ := l.sessions(spec)
	waitFor(t, "the other one", func() bool { return len(begun(filepath.Join(dir, "t.jsonl"))) == 1 })
	if ids := begun(filepath.Join(dir, "s.jsonl")); len(ids) != 0 {
		t.Errorf("runs %q of a session that is a run", ids)
	}
	r, _ := l.w.drivenRun("r")
	if err := r.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	<-done
}

// A session that is followed no longer goes on with its next turn, in its next run: what was left
// of the turn is in no run.
func TestUnfollowedSessionContinuesWithItsNextTurn(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := place(t)
	path := filepath.Join(dir, "s.jsonl")
	write(t, path, "shown ID\nturn\none\n")
	begun, stop := l.sessions(presenceSpec(dir, filepath.Join(dir, "none")))
	waitFor(t, "the run", func() bool { return l.text(begun(path)) == "shown ID\nturn\none\n" })
	r, driven := l.w.drivenRun(begun(path)[0])
	if !driven {
		t.Fatal("the run is not driven")
	}
	if err := r.Unfollow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if id := begun(path)[0]; !l.ended(id) || l.exit(id).Reason != runs.ReasonEOF {
		t.Errorf("run %s: %q", id, l.kinds(id))
	}
	write(t, path, "two\n")
	write(t, path, "done\n")
	waitFor(t, "the ledger", func() bool { return strings.Count(contents(t, l.w.ledger.path), `"run"`) == 2 })
	write(t, path, "turn\nthree\n")
	waitFor(t, "the next run", func() bool {
		ids := begun(path)
		return len(ids) == 2 && l.output(ids[1]) == "turn\nthree\n"
	})
	stop()
	_, done := l.begun(shell("r", "echo ready; exec sleep 60"), "ready")
	agent, _ := l.w.drivenRun("r")
	if err := agent.Unfollow(t.Context()); !errors.Is(err, errNotFollowed) {
		t.Errorf("an agent that linesman runs: %v", err)
	}
	if err := agent.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	<-done
}

// A worker that stops leaves the run of a session to the next one, and does not say that it has ended.
func TestRunIsNotUnfollowedByAWorkerThatStops(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := place(t)
	path := filepath.Join(dir, "s.jsonl")
	write(t, path, "shown ID\nturn\none\n")
	begun, stop := l.sessions(presenceSpec(dir, filepath.Join(dir, "none")))
	waitFor(t, "the run", func() bool { return l.text(begun(path)) == "shown ID\nturn\none\n" })
	r, driven := l.w.drivenRun(begun(path)[0])
	if !driven {
		t.Fatal("the run is not driven")
	}
	stop()
	if err := r.Unfollow(t.Context()); !errors.Is(err, errGoesOn) || l.ended(begun(path)[0]) {
		t.Errorf("error %v, log %q", err, l.kinds(begun(path)[0]))
	}
}

// A compressed file is refused, and imported once it is not.
func TestCompressedFileIsRefused(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	for name, begin := range map[string]string{"zstd": "\x28\xb5\x2f\xfd\x04", "gzip": "\x1f\x8b\x08"} {
		path := filepath.Join(t.TempDir(), "s.jsonl."+name)
		write(t, path, begin+"...")
		if _, _, err := l.once(false, path); err == nil || !strings.Contains(err.Error(), "compressed ("+name+")") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ids := l.runIDs(); len(ids) > 0 {
		t.Errorf("runs %q", ids)
	}
}

// A session whose program is in the middle of a turn does not end because it is silent: its person
// may think for hours. After the turn it does.
func TestSilentSessionInATurnDoesNotEndWhileItsProgramRuns(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("processes cannot be told here")
	}
	l := newFixture(t)
	dir, statuses := place(t), t.TempDir()
	path, other := filepath.Join(dir, "s.jsonl"), filepath.Join(dir, "other.jsonl")
	program := sleeper(t, "sleep", "600")
	status(t, filepath.Join(statuses, "1.json"), fmt.Sprintf("ID asks 1 %d", program.Process.Pid))
	write(t, path, "shown ID\nturn\n")
	spec := presenceSpec(dir, statuses)
	spec.Idle = 300 * time.Millisecond
	begun, _ := l.sessions(spec)
	waitFor(t, "the run", func() bool { return len(begun(path)) == 1 })
	for range 3 { // silent runs that begin later end meanwhile
		n := len(begun(other))
		write(t, other, "shown other\nturn\n")
		waitFor(t, "the end of another one", func() bool {
			ids := begun(other)
			return len(ids) > n && l.ended(ids[len(ids)-1])
		})
	}
	if l.ended(begun(path)[0]) {
		t.Error("it has ended in the middle of a turn, with its program still there")
	}
	write(t, path, "done\n")
	waitFor(t, "the end", func() bool { return l.ended(begun(path)[0]) })
}

// Two files of one name that go different ways are both published, each line once, however often
// they change in turn.
func TestTwoFilesOfOneLogArePublishedOnce(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := place(t)
	one, two := filepath.Join(dir, "a", "s.jsonl"), filepath.Join(dir, "b", "s.jsonl")
	if err := errors.Join(os.Mkdir(filepath.Dir(one), 0o700), os.Mkdir(filepath.Dir(two), 0o700)); err != nil {
		t.Fatal(err)
	}
	l.sessions(presenceSpec(dir, filepath.Join(dir, "none")))
	write(t, one, "shown ID\n")
	want := []string{"shown ID\n"}
	for i := range 3 {
		for j, path := range []string{one, two} {
			line := fmt.Sprintf("%d of %d\n", i, j)
			write(t, path, line)
			want = append(want, line)
			waitFor(t, line, func() bool { return strings.Contains(l.text(l.runIDs()), line) })
		}
	}
	all := l.text(l.runIDs())
	for _, line := range want {
		if n := strings.Count(all, line); n != 1 {
			t.Errorf("%q is published %d times", line, n)
		}
	}
}

// A program, or what it starts, can replace its file by a FIFO at any time: nobody waits for a writer.
func TestAFileOfAProgramThatBecomesAFIFOBlocksNobody(t *testing.T) {
	t.Parallel()
	statuses := t.TempDir()
	path := filepath.Join(statuses, "1.json")
	status(t, path, "ID works 1 1")
	p := presence{place: presenceSpec(t.TempDir(), statuses).Places[0]}
	p.refresh(time.Now())
	if now, ok := p.says("ID", 0); !ok || now.Does != runs.Works {
		t.Fatalf("%+v, %t", now, ok)
	}
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if now, ok := p.says("ID", 0); !ok || now.Does != runs.Works { // as before, until the next look
		t.Errorf("%+v, %t", now, ok)
	}
}
