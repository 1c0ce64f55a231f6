// Package launch determines how the agent of a queued task is started: its
// command line, environment and working directory, and which tasks this
// machine refuses. It starts no process and writes no file; it only reads
// directories.
//
//	runs.Task ──▶ Rules.Allow, CheckCodex, Rules.Directory ──▶ Codex + Environ ──▶ worker.Spec
//
// The content of a task is data: each value is an argument of its own, never
// part of a shell command, and cannot become a flag.
package launch

import (
	"slices"

	"github.com/linesman/linesman/runs"
)

// Codex returns the command line that runs t with codex: command, which is the
// program and its fixed arguments, then `exec` and the arguments for t.
// schemaFile is the path of a file with t.Schema, or "" if t has none. t.Dir
// must be a result of [Rules.Directory], and t must have passed [CheckCodex].
//
// The agent's stdin must be empty: codex appends its content to the prompt.
// The prompt arrives byte for byte, with one exception: codex takes a lone "-"
// for stdin, so it becomes "-\n".
func Codex(command []string, t runs.Task, schemaFile string) []string {
	// Values are joined to their flags: a separate argument that begins with '-'
	// would be parsed as a flag.
	argv := slices.Concat(command, []string{"exec", "--json", "--sandbox=" + string(t.Mode)})
	if t.Dir != "" {
		argv = append(argv, "--cd="+t.Dir)
	}
	if t.Model != "" {
		argv = append(argv, "--model="+t.Model)
	}
	if schemaFile != "" {
		argv = append(argv, "--output-schema="+schemaFile)
	}
	if t.SkipGit {
		argv = append(argv, "--skip-git-repo-check")
	}
	// All flags come before `resume`, which accepts neither --sandbox nor --cd
	// itself, but obeys them there. Arguments after "--" are neither flags nor
	// commands.
	if t.Thread != "" {
		argv = append(argv, "resume", "--", t.Thread)
	} else {
		argv = append(argv, "--")
	}
	prompt := t.Prompt
	if prompt == "-" {
		prompt = "-\n"
	}
	return append(argv, prompt)
}

// CheckCodex reports why codex cannot run t, as a [runs.FieldError]: a thread
// to resume must be a UUID. Codex takes any other text for the name of a
// thread and, if no thread has that name, silently starts a new one. For an
// unknown UUID codex itself reports an error.
func CheckCodex(t runs.Task) error {
	if t.Thread != "" && !isUUID(t.Thread) {
		return &runs.FieldError{Field: "thread", Problem: "must be the id of a thread, a UUID"}
	}
	return nil
}

// isUUID reports whether s has the form 8-4-4-4-12 of hexadecimal digits.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return false
			}
		}
	}
	return true
}
