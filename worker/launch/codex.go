// Package launch says how a queued agent is started: its command line, its
// environment and its working directory, and what a task may not ask of this
// machine. It starts nothing and writes nothing; it looks at directories and
// at nothing else.
//
//	runs.Task ──▶ Rules.Allow, CheckCodex, Rules.Directory ──▶ Codex + Environ ──▶ worker.Spec
//
// What a task says is data: it goes into an argument of its own, never through
// a shell, and no value of it can become a flag.
package launch

import (
	"slices"

	"github.com/linesman/linesman/runs"
)

// Codex is the command line that has codex do t: command, which is the program
// and what is always passed to it, then `exec` and what t asks for. schemaFile
// is the path of a file that holds t.Schema; "" means that t has none. t.Dir
// is what [Rules.Directory] returned, and t has passed [CheckCodex].
//
// The agent's stdin must be empty: codex appends to the prompt what it reads
// there. The prompt arrives byte for byte, with one exception: "-" alone means
// stdin to codex, and becomes "-\n".
func Codex(command []string, t runs.Task, schemaFile string) []string {
	// A value is joined to its flag: as an argument of its own, one that
	// begins with '-' would be taken for a flag.
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
	// All flags come before `resume`, which itself takes neither --sandbox nor
	// --cd, and obeys both there. After "--" nothing is a flag or a command.
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

// CheckCodex reports why codex cannot do t, as a [runs.FieldError]: a thread to
// go on with must be a UUID, as its agent named it. Codex takes any other text
// for the name of a thread and, when none has it, starts a new thread without
// a word. A UUID that it does not know is an error of its own.
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
