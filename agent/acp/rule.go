package acp

import (
	"errors"
	"slices"
	"strings"

	"github.com/linesman/linesman/runs"
)

// Rule decides questions of live runs before the policy of their mode does, see [ParseRule].
type Rule struct {
	Do      string   // allow, deny or ask
	Tool    string   // kind of the tool; "*": any
	In      string   // directory of the files, as it is written; "": any that the mode permits
	Command []string // words of the command that the tool is to run; none: any
}

var (
	errRule = errors.New(`a rule is DO KIND [in DIR][: COMMAND], such as "allow execute: go test ..." ` +
		`or "deny * in ~/.ssh"; DIR begins with /, ~/ or ./, and has no colon; ... is only at the end`)
	ruleDo   = []string{"allow", "deny", "ask"}
	ruleTool = append([]string{"*", "other"}, kinds...)
)

// ParseRule reads a rule: what it does, the kind of a tool, and perhaps a directory and a command.
//
//	allow execute: go test ...   a command of these words; * is one word, ... at the end is any number
//	deny *: git push             a command that has these words one after the other, wherever
//	allow edit in ./docs         all files are below that directory of the run
//	deny * in ~/.ssh             at least one is; a command can follow
//	ask edit
//
// A rule that allows applies only where everything is known: to files inside of the directory, and to one simple
// command, without quotes and what the shell interprets.
func ParseRule(s string) (r Rule, err error) {
	head, command, withCommand := strings.Cut(s, ":")
	head, dir, withDir := strings.Cut(head, " in ")
	words := strings.Fields(head)
	if len(words) != 2 || !slices.Contains(ruleDo, words[0]) || !slices.Contains(ruleTool, words[1]) {
		return r, errRule
	}
	r = Rule{Do: words[0], Tool: words[1], In: strings.TrimSpace(dir), Command: strings.Fields(command)}
	rest, last := slices.Index(r.Command, "..."), len(r.Command)-1
	if withCommand && last < 0 || rest == 0 || rest > 0 && rest < last {
		return r, errRule
	}
	if withDir && (!isPlace(r.In) || withCommand && command[0] != ' ') { // else the colon may be one of a name
		return r, errRule
	}
	return r, nil
}

// isPlace reports whether a directory of a rule is absolute, or below that of the run or the home directory.
func isPlace(dir string) bool {
	first, _, _ := strings.Cut(dir, "/")
	return len(dir) <= maxPathBytes && (first == "." || first == "~" || first == "" && dir != "")
}

// CheckRules returns why rules are not valid.
func CheckRules(rules []string) error {
	if len(rules) > maxRules {
		return errors.New("at most 100 rules")
	}
	for _, s := range rules {
		if _, err := ParseRule(s); err != nil {
			return err
		}
	}
	return nil
}

// CheckTask returns a [runs.FieldError] if a task has a rule that is not valid, or that allows: a task makes the
// policy of its worker only narrower.
func CheckTask(t *runs.Task) error {
	for _, s := range t.Policy {
		r, err := ParseRule(s)
		if err == nil && r.Do == "allow" {
			err = errors.New("its rules only deny and ask: allow is for the setting live.policy of a worker")
		}
		if err != nil {
			return &runs.FieldError{Field: "policy", Problem: err.Error()}
		}
	}
	return nil
}

// maxRules is the maximum number of rules.
const maxRules = 100
