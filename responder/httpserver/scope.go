package httpserver

import (
	"errors"
	"fmt"
	"strings"
)

// Scopes is the set of permissions of a token.
type Scopes uint8

// The scopes.
const (
	Read   Scopes = 1 << iota // read the state and events of runs, and the workers
	Submit                    // start, resume and cancel runs
	raw                       // read the unmodified output of agents

	All = Read | Submit | raw
)

var scopeNames = []struct {
	scope Scopes
	name  string
}{{Read, "read"}, {Submit, "submit"}, {raw, "raw"}}

// ParseScopes parses a list such as "read,submit". Every token needs read.
func ParseScopes(list string) (Scopes, error) {
	var all Scopes
	for _, word := range strings.Split(list, ",") {
		scope, err := ScopeOf(strings.TrimSpace(word))
		if err != nil {
			return 0, errors.New("scope: must be a list of read, submit and raw")
		}
		all |= scope
	}
	if all&Read == 0 {
		return 0, errors.New("scope: read must be one of them")
	}
	return all, nil
}

// ScopeOf parses the name of one scope.
func ScopeOf(name string) (Scopes, error) {
	for _, s := range scopeNames {
		if s.name == name {
			return s.scope, nil
		}
	}
	return 0, errors.New("scope: must be read, submit or raw")
}

// Names returns the names of the scopes in s, read first.
func (s Scopes) Names() []string {
	names := []string{}
	for _, one := range scopeNames {
		if s&one.scope != 0 {
			names = append(names, one.name)
		}
	}
	return names
}

// String formats s for [ParseScopes].
func (s Scopes) String() string { return strings.Join(s.Names(), ",") }

// lacking describes the scopes that are needed and missing.
func missingScopes(needed, there Scopes) string {
	names := (needed &^ there).Names()
	if len(names) == 1 {
		return fmt.Sprintf("the token lacks the scope %s", names[0])
	}
	return fmt.Sprintf("the token lacks the scopes %s", strings.Join(names, " and "))
}
