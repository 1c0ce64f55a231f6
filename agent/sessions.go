package agent

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/linesman/linesman/runs"
)

// Sessions is where an agent keeps logs of its sessions, a file each.
type Sessions struct {
	// Env is the variable with the agent's directory, and Home its default below the home
	// directory.
	Env, Home string
	// Files are patterns as of [path.Match], relative to that directory. None: there are no logs.
	Files []string
	// Name returns what stays of the relative path of a log when the agent moves it:
	// it says which log it is.
	Name func(file string) string
	// Origin returns what a line of the log tells about the session; known is false if it
	// tells nothing. The first line that does counts.
	Origin func(line []byte) (o Origin, known bool)
	// Rests reports whether no turn is in progress after a line of the log; known is false
	// if the line does not tell it. The last line that does counts.
	Rests func(line []byte) (rests, known bool)
	// Message returns the id of the model's message in a line of the log, which is the same in all
	// logs that have it, and whether the line says itself that it is a copy; "": there is none.
	// Nil: the dialect knows the copies.
	Message func(line []byte) (id string, copied bool)
	// Parent returns the relative path of the log whose messages that of a sub-agent may repeat; ""
	// if the log at a relative path is of no sub-agent. Nil: there is none.
	Parent func(file string) string
	// Open says that the program has the log open while it uses the session.
	Open bool
	// Complete says that the logs have all requests to the model.
	Complete bool
	// Statuses is the directory, in that of the agent, with a file for each of its programs
	// that run, named .json. Status reads one. Nil: there are none.
	Statuses string
	Status   func(file []byte) (s Status, ok bool)
	// Hooks is where a program can be told that a session waits for its user. The zero
	// value: nowhere.
	Hooks Hooks
}

// Root returns the directory of the agent, as the environment says.
func (s Sessions) Root(getenv func(name string) string) (string, error) {
	dir := cmp.Or(getenv(s.Env), path.Join(getenv("HOME"), s.Home))
	if !path.IsAbs(dir) {
		return "", fmt.Errorf("%s or HOME must be an absolute path", s.Env)
	}
	return dir, nil
}

// Has reports whether the file at a relative path is the log of a session.
func (s Sessions) Has(file string) bool {
	return slices.ContainsFunc(s.Files, func(pattern string) bool {
		match, err := path.Match(pattern, file)
		return match && err == nil
	})
}

// Of returns patterns, relative to the directory of the agent, of which one matches each file
// of a session, whose id is a UUID: its log, and others with the id in their names.
func (s Sessions) Of(id string) (patterns []string) {
	for _, name := range []string{id, strings.ToLower(id)} {
		for _, file := range s.Files {
			pattern := path.Join(path.Dir(file), "*"+name+"*")
			if !slices.Contains(patterns, pattern) {
				patterns = append(patterns, pattern)
			}
		}
	}
	return patterns
}

// Below reports whether there can be logs below the directory at a relative path.
func (s Sessions) Below(dir string) bool {
	depth := strings.Count(dir, "/") + 1
	return slices.ContainsFunc(s.Files, func(pattern string) bool {
		parts := strings.Split(pattern, "/")
		if len(parts) <= depth {
			return false
		}
		match, err := path.Match(strings.Join(parts[:depth], "/"), dir)
		return match && err == nil
	})
}

// Origin is what the log of a session tells about it.
type Origin struct {
	Session  string // its id, as the agent prints it on stdout
	Headless bool   // its program has no user interface, as those that linesman starts
	Sub      bool   // it is of a sub-agent, and Session that of its parent
}

// Person reports whether a person sits at the agent.
func (o Origin) Person() bool { return o.Session != "" && !o.Headless && !o.Sub }

// Status is what the program of a session tells about itself.
type Status struct {
	Session string
	runs.Presence
	PID       int    // its process ID
	Start     uint64 // when it started, in the unit of the system; 0: not told
	Namespace string // where PID is valid, as the link /proc/self/ns/pid has it; "": not told
}
