package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	quietly "github.com/linesman/linesman/test/fixture"
)

// TestMain makes the test binary the program itself when a script calls it.
func TestMain(m *testing.M) {
	// started by a test in this process, whose program is the test
	if len(os.Args) > 1 && os.Args[1] == "up" && filepath.Base(os.Args[0]) != "linesman" {
		os.Exit(exitUsage)
	}
	testscript.Main(m, map[string]func(){"linesman": func() {
		recentTime = deadline // no person waits, and a busy machine takes longer
		main()
	}})
}

// The scripts see the program from outside: arguments, environment, output,
// exit codes. Beside the commands of testscript there are
//
//	exits N CMD…             runs a command that must end with the code N
//	until PATTERN CMD…       repeats a command until it succeeds with a match in its stdout
//	says N [PATTERN]         the stderr of the last command has N lines (with a match), beside [quietly.WithoutNotices]
//	start NAME CMD…          starts one in the background, with NAME.out and NAME.err for its output
//	await FILE PATTERN       waits until a file has a match
//	signal NAME INT|TERM|KILL|STOP
//	ends NAME N              waits for the end of a command from start
//	up DIR [FLAG…]           starts `linesman up` on a data directory, as up, in place of one from before, and waits until it is ready
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("..", "..", "test", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") == "1",
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			corpus, err := filepath.Abs(filepath.Join("..", "..", "test", "corpus", "codex"))
			if err != nil {
				return err
			}
			env.Setenv("CORPUS", corpus)
			env.Setenv("HOME", home)
			env.Setenv("LINESMAN_BACKGROUND_IDLE", "1m") // where all else fails
			env.Values[background{}] = map[string]*exec.Cmd{}
			env.Defer(func() {
				for _, left := range endUps(env) {
					env.T().Log(left)
					defer env.T().FailNow()
				}
			})
			env.Defer(func() { // all that it started has ended then
				for _, leak := range leaks(env) {
					env.T().Log(leak)
					defer env.T().FailNow()
				}
			})
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else every program takes a second to end
			return os.MkdirAll(home, 0o700)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "until": until, "says": says, "start": start, "await": await,
			"signal": signalOne, "ends": ends, "up": up,
		},
	})
}

// endUps ends what a script's commands have started in the background, and
// says what does not end. Nobody is connected any more.
func endUps(env *testscript.Env) (left []string) {
	locks, err := filepath.Glob(filepath.Join(env.WorkDir, "*", "lock"))
	if err != nil {
		return []string{err.Error()}
	}
	for _, lock := range locks {
		down := exec.Command("linesman", "down", "--data-dir", filepath.Dir(lock))
		down.Env = []string{"HOME=" + env.Getenv("HOME"), "GORACE=" + env.Getenv("GORACE")}
		if out, err := down.CombinedOutput(); err != nil {
			left = append(left, fmt.Sprintf("%s: %v: %s", lock, err, out))
		}
	}
	return left
}

// leaks are what a script's commands from start have said on stderr and no log
// may have.
func leaks(env *testscript.Env) (all []string) {
	secrets := map[string]string{}
	made, err := filepath.Glob(filepath.Join(env.WorkDir, "*", "credentials.json"))
	errs := []error{err}
	for _, path := range made {
		some, err := quietly.Secrets(filepath.Dir(path))
		errs = append(errs, err)
		maps.Copy(secrets, some)
	}
	outs, err := filepath.Glob(filepath.Join(env.WorkDir, "*.out"))
	errs = append(errs, err)
	background, err := filepath.Glob(filepath.Join(env.WorkDir, "*", "up.log"))
	errs = append(errs, err)
	for _, log := range background {
		b, err := os.ReadFile(log)
		errs = append(errs, err)
		for _, leak := range quietly.Leaks(b, secrets) {
			all = append(all, log+": "+leak)
		}
	}
	for _, out := range outs {
		log := strings.TrimSuffix(out, "out") + "err"
		b, err := os.ReadFile(log)
		if errors.Is(err, fs.ErrNotExist) { // not of start, which makes both
			continue
		}
		errs = append(errs, err)
		for _, leak := range quietly.Leaks(b, secrets) {
			all = append(all, filepath.Base(log)+": "+leak)
		}
	}
	if err := errors.Join(errs...); err != nil {
		all = append(all, err.Error())
	}
	return all
}

// exits runs a command that must end with a given code; stdout and stderr can
// be looked at as after exec.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// until repeats what a busy machine can be too slow for.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND [ARG]...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	if !quietly.Poll(deadline, func() bool {
		err = ts.Exec(args[1], args[2:]...)
		return err == nil && pattern.MatchString(ts.ReadFile("stdout"))
	}) {
		ts.Fatalf("no success with a match for %q after %v (%v)", args[0], deadline, err)
	}
}

// says counts the lines that the last command has said on stderr.
func says(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args) > 2 {
		ts.Fatalf("usage: says N [PATTERN]")
	}
	pattern, err := regexp.Compile(strings.Join(args[1:], ""))
	ts.Check(err)
	text, n := quietly.WithoutNotices(ts.ReadFile("stderr")), 0
	for line := range strings.Lines(text) {
		if pattern.MatchString(strings.TrimSuffix(line, "\n")) {
			n++
		}
	}
	if strconv.Itoa(n) != args[0] {
		ts.Fatalf("%d lines on stderr, want %s:\n%s", n, args[0], text)
	}
}

// background is the key of a script's commands from start, by name.
type background struct{}

func started(ts *testscript.TestScript) map[string]*exec.Cmd {
	return ts.Value(background{}).(map[string]*exec.Cmd)
}

// start starts a command in the background. At the script's end it gets a
// SIGTERM, and it must end within the deadline.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || started(ts)[args[0]] != nil {
		ts.Fatalf("usage: start NAME COMMAND [ARG]..., with a new NAME")
	}
	name := args[0]
	cmd := exec.Command("/bin/sh", append([]string{"-c", `exec "$@"`, "sh"}, args[1:]...)...) // for the script's PATH
	cmd.Dir = ts.MkAbs(".")
	for _, v := range []string{"PATH", "HOME", "GORACE", "TMPDIR", "LINESMAN_BACKGROUND_IDLE"} {
		cmd.Env = append(cmd.Env, v+"="+ts.Getenv(v))
	}
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	defer out.Close()
	errs, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	defer errs.Close()
	cmd.Stdout, cmd.Stderr = out, errs
	ts.Check(cmd.Start())
	started(ts)[name] = cmd
	ts.Defer(func() {
		if started(ts)[name] != cmd {
			return
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(deadline, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait()
	})
}

// deadline is for what takes a moment, on a busy machine.
const deadline = quietly.Patience

// await waits until a file has a match for a pattern.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE PATTERN")
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(deadline); ; <-tick.C {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		switch {
		case err == nil && pattern.Match(text):
			return
		case time.Now().After(end):
			ts.Fatalf("no match for %q in %s after %v (%v):\n%s", args[1], args[0], deadline, err, text)
		}
	}
}

func signalOne(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL,
		"STOP": syscall.SIGSTOP}
	if neg || len(args) != 2 || started(ts)[args[0]] == nil || signals[args[1]] == 0 {
		ts.Fatalf("usage: signal NAME INT|TERM|KILL|STOP, with the NAME of a start")
	}
	ts.Check(started(ts)[args[0]].Process.Signal(signals[args[1]]))
}

// ends waits for a command in the background, which must end with the given
// code; -1 is for a signal.
func ends(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || started(ts)[args[0]] == nil {
		ts.Fatalf("usage: ends NAME CODE, with the NAME of a start")
	}
	cmd := started(ts)[args[0]]
	delete(started(ts), args[0])
	kill := time.AfterFunc(deadline, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait() // its code says it
	kill.Stop()
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != args[1] {
		ts.Fatalf("%s: exit code %s, want %s:\n%s", args[0], got, args[1], ts.ReadFile(args[0]+".err"))
	}
}

// up starts `linesman up` under the name up, on a free port.
func up(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: up DIR [FLAG]...")
	}
	if started(ts)["up"] != nil {
		signalOne(ts, false, []string{"up", "TERM"})
		ends(ts, false, []string{"up", "0"})
	}
	start(ts, false, append([]string{"up", "linesman", "up", "--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--data-dir", args[0]}, args[1:]...))
	await(ts, false, []string{"up.out", "^ready nats=nats://127.0.0.1:[0-9]+ http=http://127.0.0.1:[0-9]+ data=/.*\n"})
}
