package runs

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Capabilities of an agent that a request can ask for, by their ids in the Universal Agent API. They are keys of its
// extensions, too.
const (
	CanModel   = "agent_api.config.model.v1"
	CanResume  = "agent_api.session.resume.v1"
	CanFork    = "agent_api.session.fork.v1" // begin with a copy of a session
	CanAddDirs = "agent_api.exec.add_dirs.v1"
	CanNotAsk  = "agent_api.exec.non_interactive"
	CanUnboxed = "agent_api.exec.external_sandbox.v1"
)

// Limits of the further directories of a task: their number, and the bytes of each as its caller writes it.
const (
	MaxAddDirs = 16
	MaxAddDir  = 1024
)

// UnboxedWarning is the text of the event that says, before all others, that an agent was started without its
// sandbox: the Universal Agent API fixes it.
const UnboxedWarning = "DANGEROUS: external sandbox exec policy enabled (" + CanUnboxed + "=true)"

// Needs returns the capabilities that the agent of t must have, beside those that are checked by value.
func (t *Task) Needs() (ids []string) {
	if t.AddDirs != nil {
		ids = append(ids, CanAddDirs)
	}
	if t.Unboxed != nil {
		ids = append(ids, CanUnboxed)
	}
	return ids
}

// IsUnboxed reports whether the agent of t relies on a sandbox around the worker.
func (t *Task) IsUnboxed() bool { return t.Unboxed != nil && *t.Unboxed }

// PlaceAddDirs makes the further directories of t absolute, by their text alone: they are relative to its directory,
// where that is known.
func (t *Task) PlaceAddDirs() {
	t.AddDirs = slices.Clone(t.AddDirs)
	for i, dir := range t.AddDirs {
		if dir = strings.TrimSpace(dir); !path.IsAbs(dir) {
			dir = path.Join(t.Dir, dir)
		}
		t.AddDirs[i] = path.Clean(dir)
	}
}

// checkOptions adds the mistakes in what only some agents can.
func (t *Task) checkOptions(wrong *fieldErrors) {
	if n := len(t.AddDirs); t.AddDirs != nil && (n == 0 || n > MaxAddDirs) {
		wrong.add("addDirs", "must be 1 to %d directories, got %d", MaxAddDirs, n)
	}
	for i, dir := range t.AddDirs[:min(len(t.AddDirs), MaxAddDirs)] {
		if strings.TrimSpace(dir) == "" || len(dir) > MaxDir+MaxAddDir || !printable(dir) {
			wrong.add("addDirs."+strconv.Itoa(i), "must be a path of printable text, at most %d bytes", MaxAddDir)
		}
	}
	if t.IsUnboxed() && t.Mode != DangerFull {
		wrong.add("externalSandbox", "only in mode %s, which it implies", DangerFull)
	}
	if t.Live && t.Unboxed != nil {
		wrong.add("live", "not with externalSandbox: the protocol of live runs has no way for it")
	}
}
