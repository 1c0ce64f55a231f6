package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/runs"
)

func TestExitCodeFollowsTheError(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{exitWith(exitNATS, errors.New("x")), 3},
		{fmt.Errorf("read: %w", exitWith(exitNoRun, errors.New("x"))), 4},
		{errors.Join(errors.New("x"), exitWith(exitSignal+9, nil)), 137},
		{exitWith(0, nil), 0},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestAttachHasTheExitCodeOfRun(t *testing.T) {
	seven := 7
	for _, tt := range []struct {
		exit  *api.Exit
		state runs.State
		want  int
	}{
		{&api.Exit{Reason: runs.ReasonExited, Code: new(int)}, runs.StateFailed, 0}, // as the agent says
		{&api.Exit{Reason: runs.ReasonExited, Code: &seven}, runs.StateFailed, 7},
		{&api.Exit{Reason: runs.ReasonExited, Signal: 9}, runs.StateFailed, 137},
		{&api.Exit{Reason: runs.ReasonIdle, Signal: 15}, runs.StateTimeout, 124},
		{&api.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnNotFound}, runs.StateFailed, 127},
		{&api.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnNotExecutable}, runs.StateFailed, 126},
		{&api.Exit{Reason: runs.ReasonLost}, runs.StateFailed, 125},
		{&api.Exit{Reason: runs.ReasonCancelled, Signal: 15}, runs.StateCancelled, 143},
		{&api.Exit{Reason: runs.ReasonFinished, Signal: 15}, runs.StateCompleted, 0},
		{&api.Exit{Reason: runs.ReasonFinished, Signal: 15}, runs.StateFailed, 1},
		{&api.Exit{Reason: runs.ReasonEOF}, runs.StateCompleted, 0}, // of pipe
		{&api.Exit{Reason: runs.ReasonEOF}, runs.StateFailed, 1},
		{nil, runs.StateCompleted, 0},
		{nil, runs.StateFailed, 1},
		{nil, runs.StateCancelled, 130}, // in the queue
	} {
		if got := attachCode(&api.Run{Summary: runs.Summary{State: tt.state},
			Detail: &api.Detail{Exit: tt.exit}}); got != tt.want {
			t.Errorf("%s %+v: exit code %d, want %d", tt.state, tt.exit, got, tt.want)
		}
	}
}

func TestAgentsExitCodeComesWithoutWords(t *testing.T) {
	var stderr bytes.Buffer
	if complain(&stderr, exitWith(3, nil)); stderr.Len() > 0 {
		t.Errorf("got %q, want nothing", stderr.String())
	}
	complain(&stderr, errors.Join(errors.New("one"), fmt.Errorf("two: %w", io.EOF)))
	if want := "linesman: one\nlinesman: two: EOF\n"; stderr.String() != want {
		t.Errorf("got %q, want %q", stderr.String(), want)
	}
}

func TestNamesInErrorsStayOnTheirLine(t *testing.T) {
	t.Parallel()
	_, err := os.Open("no\x1b[31m\nlinesman: file")
	var stderr bytes.Buffer
	complain(&stderr, errors.Join(fmt.Errorf("tail: %w", exitWith(3, err)), errors.New("two")))
	const want = "linesman: tail: open no\\x1b[31m\\nlinesman: file: no such file or directory\nlinesman: two\n"
	if stderr.String() != want {
		t.Errorf("got %q, want %q", stderr.String(), want)
	}
}

func TestEverySettingOfTheGrammarExists(t *testing.T) {
	k, err := newParser(&grammar{}, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, s := range config.Settings() {
		keys[s.Key] = true
	}
	named := map[string]bool{}
	for _, node := range append(k.Model.Children, k.Model.Node) {
		for _, f := range node.Flags {
			key := f.Tag.Get("setting")
			if key == "" {
				continue
			}
			named[key] = true
			if !keys[key] {
				t.Errorf("--%s sets %s, which is no setting", f.Name, key)
			}
			if !strings.Contains(f.Help, "$LINESMAN_") {
				t.Errorf("--%s does not say its variable: %s", f.Name, f.Help)
			}
		}
	}
	want := []string{"background.start", "creds", "data_dir", "http", "limits.hard", "limits.idle", "log_format",
		"log_level", "lost_after", "max_line_bytes", "nats", "nats_listen", "work.add_roots", "work.max_runs"}
	if got := slices.Sorted(maps.Keys(named)); !slices.Equal(got, want) {
		t.Errorf("flags set %q, want %q", got, want)
	}
}

// The grammar of one command reads its command line as that of all does.
func TestACommandIsReadAlone(t *testing.T) {
	all, err := newParser(&grammar{}, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	words := func(n *kong.Node) (all []string) {
		_ = kong.Visit(n, func(v kong.Visitable, next kong.Next) error {
			switch v := v.(type) {
			case *kong.Node:
				all = append(all, v.Path(), fmt.Sprintf("%q %t", v.Aliases, v.Hidden))
			case *kong.Flag:
				all = append(all, v.String(), v.Tag.Get("setting"))
			case *kong.Value:
				all = append(all, v.Summary())
			}
			return next(nil)
		})
		return all
	}
	for _, node := range all.Model.Children {
		g := commandAlone(node.Name)
		if g == nil {
			t.Errorf("%s is not read alone", node.Name)
			continue
		}
		k, err := newParser(g, io.Discard, func(int) {})
		if err != nil || len(k.Model.Children) != 1 {
			t.Fatalf("%s: %v", node.Name, err)
		}
		if got, want := words(k.Model.Children[0]), words(node); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", node.Name, got, want)
		}
		if got, want := len(k.Model.Flags), len(all.Model.Flags); got != want {
			t.Errorf("%s has %d flags of all commands, not %d", node.Name, got, want)
		}
	}
	for _, none := range []string{"", "stat", "Up", "nats"} {
		if commandAlone(none) != nil {
			t.Errorf("%q is a command", none)
		}
	}
	var call invocation
	for args, alone := range map[string]bool{
		"status --json": true, "run --agent codex -- cat --help": false, "status --help": false, "--json status": false,
		"status --bogus": false, "bridge list": true,
	} {
		if kctx := call.readCommand(strings.Fields(args), io.Discard, func(int) {}); (kctx != nil) != alone {
			t.Errorf("%s is read by the grammar of its command: %t", args, !alone)
		}
	}
}

func TestEveryCommandTeaches(t *testing.T) {
	k, err := newParser(&grammar{}, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range k.Model.Children {
		if node.Hidden || node.Name == "version" {
			continue
		}
		if !strings.Contains(node.Detail, "Examples:") {
			t.Errorf("%s has no examples", node.Name)
		}
		if node.Name != "completion" && !strings.Contains(node.Detail, "Exit status:") {
			t.Errorf("%s does not say its exit codes", node.Name)
		}
	}
}

func TestFlagsReachTheCommandAndTheSettings(t *testing.T) {
	var g grammar
	k, err := newParser(&g, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Parse([]string{"run", "--label", "a=1,b=2", "--label", "c=x=y", "--", "sh", "-c", "--",
		"--json"}); err != nil {
		t.Fatal(err)
	}
	if want := (labels{"a": "1,b=2", "c": "x=y"}); !maps.Equal(g.Run.Label, want) {
		t.Errorf("labels: got %q, want %q", g.Run.Label, want)
	}
	if want := []string{"sh", "-c", "--", "--json"}; !slices.Equal(g.Run.Command, want) || g.Run.JSON {
		t.Errorf("command: got %q and --json %v, want %q", g.Run.Command, g.Run.JSON, want)
	}

	call, err := parse([]string{"--nats", "nats://a:1", "run", "--timeout=5m", "--config", "f.toml", "--", "x",
		"--nats=no"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Flag{{Key: "nats", Value: "nats://a:1", Name: "--nats"}, {Key: "limits.hard", Value: "5m",
		Name: "--timeout"}}
	if !slices.Equal(call.settings, want) || call.file != "f.toml" || call.name != "linesman run" {
		t.Errorf("got %+v, want the settings %+v", call, want)
	}
}

// Whatever the arguments, there is something to run, or help was printed, or
// a mistake says why not. Nothing is run here.
func FuzzArguments(f *testing.F) {
	f.Add("run --foo bar -- x")
	f.Add("--- -x=y --since= events -ff")
	f.Add("complete -- --kind = x")
	f.Add("--help --help -h up extra extra")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		var stdout bytes.Buffer
		call, err := parse(args, &stdout)
		if err == nil && call.run == nil && !call.helped {
			t.Errorf("%q: no mistake, no help and nothing to run", args)
		}
		if err != nil && strings.TrimSpace(err.Error()) == "" {
			t.Errorf("%q: a mistake without a word", args)
		}
		if call.helped != (stdout.Len() > 0) {
			t.Errorf("%q: help %v, but %d bytes on stdout", args, call.helped, stdout.Len())
		}
	})
}

func TestEachCommandHasItsHelpTextAndEachTextItsCommand(t *testing.T) {
	k, err := newParser(&grammar{}, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	files, err := helpTexts.ReadDir("help")
	if err != nil {
		t.Fatal(err)
	}
	unused := map[string]bool{}
	for _, f := range files {
		unused[f.Name()] = true
	}
	delete(unused, "linesman.txt")
	if k.Model.Help == "" {
		t.Error("the program has no text")
	}
	for _, node := range append(k.Model.Leaves(false), k.Model.Children...) {
		if node.Hidden || node.Name == "version" {
			continue
		}
		if node.Detail == "" {
			t.Errorf("%s has no text", node.Path())
		}
		delete(unused, strings.ReplaceAll(node.Path(), " ", "-")+".txt")
	}
	if len(unused) > 0 {
		t.Errorf("texts without a command: %q", slices.Sorted(maps.Keys(unused)))
	}
}
