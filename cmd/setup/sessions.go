package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/internal/files"
)

// An agent starts a hook when one of its sessions asks for a permission. The hook leaves a file
// in the data directory, which `linesman watch-sessions` reads:
//
//	agent ── event on stdin ──▶ linesman hook ──▶ DATA/hooks/KIND/SESSION.json ──▶ watch-sessions
//
// So a hook needs no server, and takes a few milliseconds.

// Sessions says which hooks are set up.
type Sessions struct {
	Program string // absolute path of this program
	DataDir string // absolute
	Getenv  func(name string) string
	Remove  bool // remove the hooks, in place of adding them
	DryRun  bool // write nothing
}

// Hooked is what was done for an agent.
type Hooked struct {
	Agent   string   `json:"agent"`             // its name, for people
	File    string   `json:"file"`              // its settings
	Changed bool     `json:"changed"`           // false: they are already as they should be
	Events  []string `json:"events,omitempty"`  // that start the hook
	Command string   `json:"command,omitempty"` // which is the hook, for a shell
	After   string   `json:"next,omitempty"`    // what the user has to do, for people
}

// hookMark ends the commands of hooks that linesman has written.
const hookMark = "# linesman hook"

// hookSeconds is after how many seconds an agent gives up a hook.
const hookSeconds = 5

// maxSettings is the largest file of settings that is changed, in bytes.
const maxSettings = 4 << 20

// Hook adds the hooks to the settings of an agent, or removes them. Everything else in the file
// stays as it is. An agent whose directory is missing is not set up: that is an error that is an
// [fs.ErrNotExist].
func (s Sessions) Hook(a agent.Agent) (Hooked, error) {
	h := Hooked{Agent: a.Name}
	dir, err := a.Sessions.Root(s.Getenv)
	if err == nil {
		_, err = os.Stat(dir)
	}
	if err != nil {
		return h, fmt.Errorf("%s: %w", a.Name, err)
	}
	h.File = filepath.Join(dir, a.Sessions.Hooks.File)
	before, err := readSettings(h.File)
	if err != nil {
		return h, err
	}
	after, err := withoutHooks(before, s.Remove)
	if err == nil && !s.Remove {
		h.Events, h.Command, h.After = a.Sessions.Hooks.Events, s.command(a), a.Sessions.Hooks.After
		after, err = with(after, h)
	}
	if err != nil {
		return h, fmt.Errorf("%s: %w", h.File, err)
	}
	if end := []byte("\n"); bytes.HasSuffix(before, end) && !bytes.HasSuffix(after, end) { // sjson drops it
		after = append(after, end...)
	}
	if h.Changed = !bytes.Equal(before, after); !h.Changed || s.DryRun {
		return h, nil
	}
	path := h.File
	if target, err := filepath.EvalSymlinks(path); err == nil { // the link stays
		path = target
	}
	if s.Remove && len(gjson.ParseBytes(after).Map()) == 0 { // it had nothing else
		return h, os.Remove(path)
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := files.Replace(path, ".linesman-*", after); err != nil {
		return h, err
	}
	return h, os.Chmod(path, mode)
}

// readSettings reads a file of settings; one that is missing is an empty object.
func readSettings(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return []byte("{}\n"), nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	switch hooks := gjson.GetBytes(text, "hooks"); {
	case err != nil:
		return nil, err
	case len(text) > maxSettings:
		return nil, fmt.Errorf("%s: it is larger than %d MiB", path, maxSettings>>20)
	case !gjson.ValidBytes(text) || !gjson.ParseBytes(text).IsObject():
		return nil, fmt.Errorf("%s: it is not a JSON object: correct it, then try again", path)
	case hooks.Exists() && !hooks.IsObject():
		return nil, fmt.Errorf("%s: \"hooks\" is not an object: correct it, then try again", path)
	}
	return text, nil
}

// command is the command line of the hook of an agent. It prints nothing and always succeeds,
// also if the program is gone.
func (s Sessions) command(a agent.Agent) string {
	return fmt.Sprintf("%s hook --data-dir %s %s >/dev/null 2>&1 || true %s",
		quoted(s.Program), quoted(s.DataDir), a.Short, hookMark)
}

// with returns the settings with the hooks.
func with(settings []byte, h Hooked) (_ []byte, err error) {
	type command struct {
		Type    string `json:"type"`
		Command string `json:"command"`
		Timeout int    `json:"timeout"`
	}
	var entry bytes.Buffer
	plain := json.NewEncoder(&entry)
	plain.SetEscapeHTML(false)
	if err := plain.Encode(map[string]any{"hooks": []command{{"command", h.Command, hookSeconds}}}); err != nil {
		return nil, err
	}
	for _, event := range h.Events {
		path := "hooks." + event
		if list := gjson.GetBytes(settings, path); list.Exists() && !list.IsArray() {
			return nil, fmt.Errorf("%q is not a list: correct it, then try again", path)
		}
		if settings, err = sjson.SetRawBytes(settings, path+".-1", bytes.TrimSpace(entry.Bytes())); err != nil {
			return nil, err
		}
	}
	return settings, nil
}

// withoutHooks returns the settings without the hooks of linesman, and without lists that had
// nothing else; all says that also the object of the hooks goes, if it is empty then.
func withoutHooks(settings []byte, all bool) (_ []byte, err error) {
	var events []string
	gjson.GetBytes(settings, "hooks").ForEach(func(event, list gjson.Result) bool {
		ours := false
		for _, entry := range list.Array() {
			ours = ours || isOurs(entry)
		}
		if ours {
			events = append(events, event.String())
		}
		return true
	})
	for _, event := range events {
		path := "hooks." + gjson.Escape(event)
		list := gjson.GetBytes(settings, path).Array()
		for i, entry := range slices.Backward(list) {
			if !isOurs(entry) {
				continue
			}
			if settings, err = sjson.DeleteBytes(settings, fmt.Sprintf("%s.%d", path, i)); err != nil {
				return nil, err
			}
		}
		if gjson.GetBytes(settings, path+".#").Int() == 0 {
			if settings, err = sjson.DeleteBytes(settings, path); err != nil {
				return nil, err
			}
		}
	}
	if all && len(events) > 0 && len(gjson.GetBytes(settings, "hooks").Map()) == 0 {
		return sjson.DeleteBytes(settings, "hooks")
	}
	return settings, nil
}

// isOurs reports whether all commands of an entry are of linesman.
func isOurs(entry gjson.Result) bool {
	commands := entry.Get("hooks.#.command").Array()
	return len(commands) > 0 && !slices.ContainsFunc(commands, func(c gjson.Result) bool {
		return !strings.HasSuffix(c.String(), hookMark)
	})
}

// Limits of a hook.
const (
	maxHookInput = 1 << 20            // bytes; a longer input is ignored
	hookAge      = 7 * 24 * time.Hour // files of sessions that were silent for longer are removed
)

// LeaveNote is the hook itself: it reads an event of an agent, and leaves a file in dir with what it
// says about its session, if it says something. The file has nothing else of the event.
func LeaveNote(event io.Reader, dir string, now time.Time) error {
	input, err := io.ReadAll(io.LimitReader(event, maxHookInput))
	if err != nil {
		return err
	}
	status, ok := agent.HookInput(input, now.UnixMilli())
	if !ok {
		return nil
	}
	body, err := agent.HookFile(status)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > hookAge {
			_ = os.Remove(filepath.Join(dir, e.Name())) // the next hook tries again
		}
	}
	return files.Replace(filepath.Join(dir, status.Session+".json"), ".new-*", body)
}
