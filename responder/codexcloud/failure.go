package codexcloud

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"time"
	"unicode"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/runs"
)

// Failure reports a call of the program without a usable answer. Its text
// describes the failure; Stderr is the program's own text, for the client.
type Failure struct {
	Command    string        // exec, status, list or diff
	Exit       int           // exit status; -1: none
	Stderr     string        // the end of stderr, at most maxFailureText bytes: no warnings, no backtrace, no secrets
	Reason     string        // see below
	Suggestion string        // how to solve the problem, for people
	Elapsed    time.Duration // of the call; 0: nothing ran

	cause error // of one that was not started; nil: not known
}

// maxFailureText limits the stderr of a [Failure], in bytes.
const maxFailureText = 1024

// The reasons of a [Failure].
const (
	reasonBusy        = "busy"            // it was not started: it waited for other calls
	reasonSpawn       = "spawn_error"     // the program could not be started
	reasonTimeout     = "process_killed"  // it exceeded its time limit
	reasonUsage       = "usage"           // it rejected its arguments
	reasonNotSignedIn = "not_signed_in"   // to Codex Cloud
	reasonNetwork     = "network"         // the service cannot be reached
	reasonRateLimit   = "rate_limit"      // too many requests
	reasonPermission  = "permission"      // files of the program cannot be read or written
	reasonNotGit      = "not_trusted"     // it refuses to work in the directory
	reasonSlow        = "service_timeout" // the service did not answer in time
	reasonNotFound    = "not_found"       // unknown task or environment
	reasonNoDiff      = "no_diff"         // the task has none
	reasonUnreadable  = "unreadable"      // its output could not be parsed
	reasonExit        = "exit_error"      // any other failure
)

func (f *Failure) Error() string {
	text := "codex cloud " + f.Command + ": " + f.Reason
	if f.Exit >= 0 {
		text += fmt.Sprintf(" (exit status %d)", f.Exit)
	}
	return text
}

// Unwrap returns what ended the wait for other calls.
func (f *Failure) Unwrap() error { return f.cause }

// NothingDone reports whether it is certain that nothing was done.
func (f *Failure) NothingDone() bool {
	switch f.Reason {
	case reasonBusy, reasonSpawn, reasonUsage, reasonNotSignedIn, reasonRateLimit, reasonPermission, reasonNotGit,
		reasonNotFound:
		return true
	}
	return false
}

// Passes reports whether the same call may succeed later.
func (f *Failure) Passes() bool {
	return f.Reason == reasonBusy || f.Reason == reasonNetwork || f.Reason == reasonRateLimit || f.Reason == reasonSlow
}

// NotSignedIn reports whether the program has no credentials of Codex Cloud.
func (f *Failure) NotSignedIn() bool { return f.Reason == reasonNotSignedIn }

// general reports whether every other call would fail in the same way.
func (f *Failure) general() bool {
	switch f.Reason {
	case reasonNotFound, reasonNoDiff, reasonUnreadable, reasonExit:
		return false
	case reasonTimeout, reasonPermission: // a poll may fail so for its task alone
		return f.Command == "list"
	}
	return true
}

// failure reports a call without output.
func (c call) failure(reason string, err error) *Failure {
	f := &Failure{Command: c.name(), Exit: -1, Reason: reason}
	switch {
	case reason == reasonTimeout && c.name() == "exec":
		f.Suggestion = "Look at `codex cloud list` before submitting again: the service may have taken the task"
	case reason == reasonTimeout:
		f.Suggestion = "Try again later; does `codex cloud " + c.name() + "` answer in a terminal?"
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		f.Suggestion = "Install the Codex CLI, or configure where it is"
	default:
		f.Suggestion = "Check that the Codex CLI is executable and that there is space on the disk"
	}
	return f
}

// notStarted reports a call that was given up before the program started.
func (c call) notStarted(cause error) *Failure {
	return &Failure{Command: c.name(), Exit: -1, Reason: reasonBusy, cause: cause,
		Suggestion: "Try again once other calls of Codex Cloud have ended"}
}

// failed derives the failure from an output: from the table of known messages,
// else from the first line that mentions an error.
func (c call) failed(o output) *Failure {
	text := clean(o.stderr)
	stderr := runs.Redact(text)
	if over := len(stderr) - maxFailureText; over > 0 {
		stderr = strings.ToValidUTF8(stderr[over:], "") // cut at a character boundary
	}
	f := &Failure{Command: c.name(), Exit: o.exit, Stderr: stderr, Reason: reasonExit, Elapsed: o.took}
	if o.exit == 0 {
		f.Reason, f.Suggestion = reasonUnreadable, "Check the version of the Codex CLI: its answer is not of the known form"
		return f
	}
	if o.exit == 2 {
		f.Reason, f.Suggestion = reasonUsage, "Update the Codex CLI: it does not know this command, or refuses what "+
			"it was given"
		return f
	}
	lower := strings.ToLower(text)
	for _, row := range known {
		for _, words := range row.words {
			if strings.Contains(lower, words) {
				f.Reason, f.Suggestion = row.reason, row.suggestion
				return f
			}
		}
	}
	for line := range strings.Lines(text) {
		l := strings.ToLower(line)
		if strings.Contains(l, "error") || strings.Contains(l, "failed") {
			f.Suggestion = bounds.Truncate(runs.Redact(strings.TrimSpace(line)), 300)
			break
		}
	}
	return f
}

// known are the program's error messages, in lower case. The first match wins.
var known = []struct {
	reason, suggestion string
	words              []string
}{
	{reasonNotSignedIn, "Run `codex login`, then try again", []string{"not signed in", "codex login", "authentication",
		"401 unauthorized"}},
	{reasonNoDiff, "", []string{"no diff available"}},
	{reasonNotFound, "Check the environment: `codex cloud` shows those of this account",
		[]string{"no cloud environments are available", "run `codex cloud` to"}},
	{reasonNotFound, "Check the task id, and which account is signed in", []string{"404 not found", "failed: 404"}},
	{reasonRateLimit, "Wait before trying again", []string{"rate limit", "too many requests", " 429"}},
	{reasonNetwork, "Check the network connection", []string{
		"econnrefused", "enotfound", "connection refused", "error sending request", "dns error", "network is unreachable"}},
	{reasonNotGit, "Run it in a git repository (git init), or with skipGitRepoCheck",
		[]string{"not inside a trusted directory", "not a git repository"}},
	{reasonPermission, "Check the permissions of the files of the Codex CLI", []string{"eacces", "permission denied"}},
	{reasonSlow, "Try again, or split the task", []string{"timed out"}},
}

// clean is stderr as text, without warnings, backtraces and colours.
func clean(stderr []byte) string {
	var b strings.Builder
	trace := false
	for line := range strings.Lines(plain(stderr)) {
		text := strings.TrimSpace(line)
		switch {
		case text == "Stack backtrace:" || text == "stack backtrace:":
			trace = true
		case trace && (text == "" || line[0] == ' ' || line[0] == '\t' || '0' <= line[0] && line[0] <= '9'):
		case strings.HasPrefix(strings.ToLower(text), "warning:"):
			trace = false
		default:
			trace = false
			b.WriteString(line)
		}
	}
	return strings.TrimSpace(b.String())
}

// plain returns b as text for terminals: UTF-8, without colours and control
// characters.
func plain(b []byte) string {
	text := colour().ReplaceAllString(strings.ToValidUTF8(string(b), "\uFFFD"), "")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}

var colour = lazy.Regexp(`\x1b\[[0-9;?]*[ -/]*[@-~]`)
