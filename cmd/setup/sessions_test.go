package setup

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/agent"
)

var hooked = agent.Agent{Name: "The Agent", Short: "one", Sessions: agent.Sessions{
	Env: "AGENT_DIR", Home: ".agent",
	Hooks: agent.Hooks{File: "settings.json", Events: []string{"Start", "Ask"}, After: "Trust it."},
}}

// sessionsOf sets up hooks in a directory of the agent. The program is a script that appends its
// arguments to a file.
func sessionsOf(t *testing.T) (s Sessions, file string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "it's here")
	script := "#!/bin/sh\necho \"$@\" >>'" + dir + "/called'\necho noise\nexit 7\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return Sessions{Program: program, DataDir: filepath.Join(dir, "data"), Getenv: func(name string) string {
		if name == "AGENT_DIR" {
			return dir
		}
		return ""
	}}, filepath.Join(dir, "settings.json")
}

// Hooks are merged into the settings, once, and removed without a trace.
func TestHooksLeaveTheRestOfTheSettings(t *testing.T) {
	for name, before := range map[string]string{
		"none":  "",
		"empty": "{}\n",
		"other hooks": `{
  "model": "x <y>",
  "hooks": {"Ask": [{"hooks": [{"type": "command", "command": "say"}]}]},
  "last": 1.50
}
`,
		"mixed hooks":  `{"hooks":{"Ask":[{"hooks":[{"command":"say"},{"command":"x # linesman hook"}]}]}}`,
		"empty hooks":  `{"hooks":{},"a":[1,2]}`,
		"an empty key": `{"hooks":{"Stop":[]},"":null}`,
	} {
		s, file := sessionsOf(t)
		if before != "" {
			err := os.WriteFile(file, []byte(before), 0o600)
			if err == nil {
				err = os.Chmod(file, 0o640) // whatever the umask is
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		s.DryRun = true
		if h, err := s.Hook(hooked); err != nil || !h.Changed || h.File != file || len(h.Events) != 2 || h.After == "" {
			t.Errorf("%s: dry run: %+v, %v", name, h, err)
		}
		if text, _ := os.ReadFile(file); string(text) != before {
			t.Errorf("%s: a dry run wrote %s", name, text)
		}
		s.DryRun = false
		h, err := s.Hook(hooked)
		if err != nil || !h.Changed {
			t.Fatalf("%s: %+v, %v", name, h, err)
		}
		text, err := os.ReadFile(file)
		if err != nil || !gjson.ValidBytes(text) {
			t.Fatalf("%s: %s, %v", name, text, err)
		}
		for _, event := range h.Events {
			if n := strings.Count(gjson.GetBytes(text, "hooks."+event+`.#.hooks.#(timeout==5).command`).Raw, hookMark); n != 1 {
				t.Errorf("%s: %s has %d hooks: %s", name, event, n, text)
			}
		}
		if model := gjson.Get(before, "model"); gjson.GetBytes(text, "model").Raw != model.Raw {
			t.Errorf("%s: the model is %s", name, gjson.GetBytes(text, "model"))
		}
		if again, err := s.Hook(hooked); err != nil || again.Changed {
			t.Errorf("%s: again: %+v, %v", name, again, err)
		}
		if info, err := os.Stat(file); before != "" && (err != nil || info.Mode().Perm() != 0o640) {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
		s.Remove = true
		if h, err := s.Hook(hooked); err != nil || !h.Changed || h.Command != "" {
			t.Errorf("%s: removed: %+v, %v", name, h, err)
		}
		text, err = os.ReadFile(file)
		nothing := strings.Trim(before, "{}\n") == ""
		if gone := errors.Is(err, fs.ErrNotExist); gone != nothing ||
			!gone && string(text) != before && name != "empty hooks" {
			t.Errorf("%s: left %q, %v; want %q", name, text, err, before)
		}
	}
}

// Settings that cannot be read are not touched.
func TestHooksRefuseSettingsThatTheyCannotRead(t *testing.T) {
	for _, before := range []string{"", "[]", "// a comment\n{}", `{"hooks":[]}`, `{"hooks":{"Ask":{}}}`} {
		s, file := sessionsOf(t)
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if h, err := s.Hook(hooked); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %+v, %v", before, h, err)
		}
		if text, _ := os.ReadFile(file); string(text) != before {
			t.Errorf("%q became %q", before, text)
		}
	}
	s, _ := sessionsOf(t)
	s.Getenv = func(string) string { return "/none" }
	if _, err := s.Hook(hooked); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an agent that is not here: %v", err)
	}
}

// A link to the settings stays one.
func TestHooksKeepALinkToTheSettings(t *testing.T) {
	s, file := sessionsOf(t)
	target := filepath.Join(t.TempDir(), "dotfile")
	if err := errors.Join(os.WriteFile(target, []byte("{}"), 0o600), os.Symlink(target, file)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Hook(hooked); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(file); err != nil || to != target {
		t.Errorf("link %q, %v", to, err)
	}
	if text, err := os.ReadFile(target); err != nil || !strings.Contains(string(text), hookMark) {
		t.Errorf("%s, %v", text, err)
	}
}

// A shell runs the command of a hook: it prints nothing and succeeds, whatever the program does.
func TestCommandOfAHookIsSilentAndSucceeds(t *testing.T) {
	s, file := sessionsOf(t)
	h, err := s.Hook(hooked)
	if err != nil {
		t.Fatal(err)
	}
	called := filepath.Join(filepath.Dir(file), "called")
	for range 2 {
		out, err := exec.Command("sh", "-c", h.Command).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("it printed %q, %v", out, err)
		}
		if err := os.Remove(s.Program); err != nil && !errors.Is(err, fs.ErrNotExist) { // and once without it
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(called); err != nil || string(text) != "hook --data-dir "+s.DataDir+" one\n" {
		t.Errorf("called with %q, %v", text, err)
	}
}

func TestNotesOfHooks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hooks", "one")
	const session = "d7af7cc4-cc44-4f90-9a38-7ac0a4195d01"
	event := `{"session_id":"` + session + `","hook_event_name":"PermissionRequest","tool_input":{"command":"SECRET"}}`
	now := time.UnixMilli(7)
	if err := LeaveNote(strings.NewReader("nothing"), dir, now); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an input that says nothing made a directory: %v", err)
	}
	if err := LeaveNote(strings.NewReader(event), dir, now); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, session+".json")
	if text, err := os.ReadFile(path); err != nil || string(text) != `{"session":"`+session+`","does":"asks","since":7}` {
		t.Errorf("%s, %v", text, err)
	}
	old := filepath.Join(dir, "old.json")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := LeaveNote(strings.NewReader(event), dir, time.Now().Add(hookAge+time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an old file is left: %v", err)
	}
}
