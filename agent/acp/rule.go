package acp

import (
	"errors"
	"slices"
	"strings"
)

// Rule decides questions of live runs before the policy of their mode does, see [ParseRule].
type Rule struct {
	Do      string   // allow, deny or ask
	Tool    string   // kind of the tool; "*": any
	Command []string // words of the command that the tool is to run; none: any
}

var (
	errRule  = errors.New(`a rule is DO KIND or DO KIND: COMMAND, such as "allow execute: go test ..."`)
	ruleDo   = []string{"allow", "deny", "ask"}
	ruleTool = append([]string{"*", "other"}, kinds...)
)

// ParseRule reads a rule: what it does, the kind of a tool, and perhaps a command.
//
//	allow execute: go test ...   a command of these words; * is one word, ... at the end is any number
//	deny *: git push             a command that has these words one after the other, wherever
//	ask edit
//
// A rule that allows applies only where everything is known: to files inside of the directory, and to one simple
// command, without quotes and what the shell interprets.
func ParseRule(s string) (r Rule, err error) {
	head, command, withCommand := strings.Cut(s, ":")
	words := strings.Fields(head)
	if len(words) != 2 || !slices.Contains(ruleDo, words[0]) || !slices.Contains(ruleTool, words[1]) {
		return r, errRule
	}
	r = Rule{Do: words[0], Tool: words[1], Command: strings.Fields(command)}
	if withCommand && len(r.Command) == 0 || slices.Equal(r.Command, []string{"..."}) {
		return r, errRule
	}
	return r, nil
}

// CheckRules returns why rules are not valid.
func CheckRules(rules []string) error {
	if len(rules) > MaxRules {
		return errors.New("at most 100 rules")
	}
	for _, s := range rules {
		if _, err := ParseRule(s); err != nil {
			return err
		}
	}
	return nil
}

// MaxRules is the maximum number of rules.
const MaxRules = 100
