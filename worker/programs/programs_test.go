package programs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/worker/programs"
)

// script writes a program, and returns the PATH of its directory and of the system.
func script(t *testing.T, dir, name, body string) (environ []string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{"PATH=" + dir + ":/usr/bin:/bin", "HOME=" + dir, "SECRET_TOKEN=x", "CODEX_HOME=/codex"}
}

// find finds the codex of a directory.
func find(t *testing.T, dir string, environ []string, command ...string) programs.Program {
	t.Helper()
	a, _ := known.Agents.Find("codex")
	p, found := programs.Find(a, agent.Launch{Command: command, Env: a.Env}, dir, environ)
	if !found {
		t.Fatalf("%q is not found", command)
	}
	return p
}

func TestVersionIsTheFirstThatIsPrinted(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ prints, want string }{
		{"codex-cli 0.169.0", "0.169.0"}, {"0.170.0-alpha.1 (x)", "0.170.0-alpha.1"}, {"2.1.330 (Claude Code)", "2.1.330"},
		{"v1.18.33", "1.18.33"}, {"1.2.3+build", "1.2.3"}, {"hint\n1.2.3 and 4.5.6", "1.2.3"},
		{"0.61.0-nightly.20261101.a1b2c3", "0.61.0-nightly.20261101"},
		{"1.2.3-RC1", ""}, {"1.2", ""}, {"no number", ""}, {"", ""}, {"999999999.1.1", ""},
		{strings.Repeat("x ", 4000) + "1.2.3", ""}, // only the beginning is read
	} {
		environ := script(t, dir, "codex", "echo '"+tt.prints+"'")
		got, err := find(t, dir, environ, "codex").Version(t.Context(), fixture.Patience)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%.40q: got %q, %v, want %q", tt.prints, got, err, tt.want)
		}
	}
}

// A program that hangs is killed at the limit, with the processes that it started.
func TestProgramThatDoesNotSayItsVersionIsEnded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "alive")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	alive, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	environ := script(t, dir, "codex", "exec 3>'"+path+"'; sleep 600 & wait")
	begun := time.Now()
	_, err = find(t, dir, environ, "codex").Version(t.Context(), 500*time.Millisecond)
	if took := time.Since(begun); err == nil || took > fixture.Patience {
		t.Errorf("got %v after %v; want an error at once", err, took)
	}
	if err := alive.SetReadDeadline(time.Now().Add(fixture.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := alive.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a process of it is alive: %v", err)
	}
}

func TestProgramGetsTheEnvironmentOfAnAgent(t *testing.T) {
	dir := t.TempDir()
	environ := script(t, dir, "codex", `read line && exit 1 # stdin is empty
env | sed 's/=.*//' | sort | tr '\n' ' ' >seen; echo "$*" >>seen; echo 1.2.3`)
	t.Chdir(dir)
	if v, err := find(t, dir, environ, "codex", "--profile", "p").Version(t.Context(), fixture.Patience); v != "1.2.3" {
		t.Fatalf("got %q, %v", v, err)
	}
	seen, err := os.ReadFile("seen")
	got := strings.Fields(strings.ReplaceAll(string(seen), "SHLVL ", "")) // the shell's own are not ours
	got = slices.DeleteFunc(got, func(w string) bool { return w == "_" || w == "PWD" || w == "OLDPWD" })
	want := []string{"CODEX_HOME", "HOME", "PATH", "--profile", "p", "--version"}
	if !slices.Equal(got, want) || err != nil {
		t.Errorf("it saw %q, %v; want %q", got, err, want)
	}
}

// counted is a codex that counts its starts, and their number.
func counted(t *testing.T, dir, version string) (environ []string, starts func() int) {
	t.Helper()
	environ = script(t, dir, "codex", fmt.Sprintf("echo >>'%s/starts'; echo %s", dir, version))
	return environ, func() int {
		b, _ := os.ReadFile(filepath.Join(dir, "starts"))
		return len(b)
	}
}

func TestProgramIsAskedOnceUntilItsFileChanges(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "data", "versions.json")
	environ, starts := counted(t, dir, "1.2.3")
	p := find(t, dir, environ, "codex")
	check := func(v *programs.Versions, version string, learn bool) {
		t.Helper()
		if got, can := v.Of(p); got != version || can != learn {
			t.Errorf("got %q, %t; want %q, %t", got, can, version, learn)
		}
	}
	v := &programs.Versions{File: file}
	check(v, "", true)
	for range 3 {
		v.Learn(t.Context(), p, 20*time.Second)
	}
	check(v, "1.2.3", false)
	next := &programs.Versions{File: file} // of another process
	check(next, "1.2.3", false)
	if starts() != 1 {
		t.Errorf("it was started %d times", starts())
	}

	counted(t, dir, "1.2.4")
	if err := os.Chtimes(p.Path, time.Time{}, time.Now().Add(time.Second)); err != nil { // on any file system
		t.Fatal(err)
	}
	check(v, "", true)
	v.Learn(t.Context(), p, 20*time.Second)
	check(v, "1.2.4", false)
	if starts() != 2 {
		t.Errorf("it was started %d times", starts())
	}

	for _, broken := range []string{"", "null", "{", `{"` + p.Path + `":{"version":"; rm"}}`, strings.Repeat(" ", 70_000)} {
		if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		v := &programs.Versions{File: file}
		check(v, "", true)
		v.Learn(t.Context(), p, 20*time.Second)
		check(v, "1.2.4", false)
	}
	if err := os.Remove(p.Path); err != nil {
		t.Fatal(err)
	}
	check(v, "", false)
}

// What an agent's program does not say is remembered, too. An end meanwhile says nothing.
func TestSilenceOfAProgramIsRemembered(t *testing.T) {
	dir := t.TempDir()
	environ := script(t, dir, "codex", "sleep 600")
	p := find(t, dir, environ, "codex")
	v := &programs.Versions{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v.Learn(ctx, p, time.Minute)
	if _, learn := v.Of(p); !learn {
		t.Error("an end of the caller counts as an answer")
	}
	v.Learn(t.Context(), p, 50*time.Millisecond)
	if version, learn := v.Of(p); version != "" || learn {
		t.Errorf("got %q, %t; want nothing, and nothing to learn", version, learn)
	}
}

// A program that is not the agent's own is not started.
func TestOnlyTheAgentsOwnProgramIsAsked(t *testing.T) {
	dir := t.TempDir()
	environ := script(t, dir, "deploy", "touch '"+dir+"/started'")
	for _, command := range [][]string{{"deploy"}, {filepath.Join(dir, "deploy")}, {"env", "codex"}} {
		p := find(t, dir, environ, command...)
		v := &programs.Versions{}
		v.Learn(t.Context(), p, 20*time.Second)
		if version, learn := v.Of(p); version != "" || learn || p.Own {
			t.Errorf("%q: got %q, %t", command, version, learn)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
		t.Error("it was started")
	}
}

func TestListSaysWhatIsInstalledAndHowItIsStarted(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "codex", "echo codex-cli 0.169.0")
	script(t, dir, "claude", "echo '9.9.9 (Claude Code)'")
	environ := script(t, dir, "wrapper", "exit 3")
	here := programs.Here{Launches: map[string]agent.Launch{}, Environ: environ}
	table := slices.Clone(known.Agents)
	for i := range table {
		how := table[i].Launch
		how.Command = []string{table[i].Program}
		if table[i].Short == "opencode" {
			how.Command = []string{filepath.Join(dir, "wrapper")}
		}
		here.Launches[table[i].Kind()] = how
	}
	all, err := here.List(t.Context(), table, "")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []programs.Agent{
		{Short: "codex", Version: "0.169.0", Support: programs.Tested, Path: dir + "/codex"},
		{Short: "claude", Version: "9.9.9", Support: programs.Unknown, Path: dir + "/claude"},
		{Short: "gemini", Problem: "gemini is not on the PATH"},
		{Short: "opencode", Path: dir + "/wrapper", Problem: dir + "/wrapper --version: exit status 3"},
	} {
		got := all[i]
		if got.Short != want.Short || got.Version != want.Version || got.Support != want.Support || got.Path != want.Path ||
			got.Problem != want.Problem || got.Ready() != (want.Problem == "") || got.Fix == "" != got.Ready() {
			t.Errorf("got %+v, want %+v", got, want)
		}
		how := here.Launches[got.Kind]
		for _, m := range got.Modes {
			asArgument := got.Short != "opencode" // which gets it on stdin
			if !slices.Equal(m.Argv[:len(how.Command)], how.Command) ||
				strings.Contains(m.Argv[len(m.Argv)-1], "PROMPT") != asArgument ||
				!strings.Contains(strings.Join(m.Resume, " "), "SESSION") {
				t.Errorf("%s: started by %q, resumed by %q", got.Short, m.Argv, m.Resume)
			}
		}
	}
	if v := all[0].Variables; len(v) != 1 || v[0] != (programs.Variable{Name: "CODEX_HOME", Set: true}) {
		t.Errorf("its variables are %+v", v)
	}

	table[1].Known = []string{"9.9.9"}
	one, err := here.List(t.Context(), table, "claude")
	if err != nil || len(one) != 1 || one[0].Support != programs.Known {
		t.Errorf("got %+v, %v; want a version that is known", one, err)
	}
	if _, err := here.List(t.Context(), table, "crow"); err == nil {
		t.Error("an unknown name is no error")
	}
}
