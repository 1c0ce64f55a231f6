package httpserver

import (
	"errors"
	"fmt"
	"strings"
)

// Scopes are what a token may do.
type Scopes uint8

// The scopes.
const (
	Read   Scopes = 1 << iota // see how runs stand, their events, and the workers
	Submit                    // begin runs, go on with them, and end them
	Raw                       // see what agents wrote as they wrote it

	All = Read | Submit | Raw
)

var scopeNames = []struct {
	scope Scopes
	name  string
}{{Read, "read"}, {Submit, "submit"}, {Raw, "raw"}}

// ParseScopes reads a list like "read,submit". Every token may read, so read
// must be among them.
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

// ScopeOf is the one scope of a name.
func ScopeOf(name string) (Scopes, error) {
	for _, s := range scopeNames {
		if s.name == name {
			return s.scope, nil
		}
	}
	return 0, errors.New("scope: must be read, submit or raw")
}

// Names are the scopes in s, read first.
func (s Scopes) Names() []string {
	names := []string{}
	for _, one := range scopeNames {
		if s&one.scope != 0 {
			names = append(names, one.name)
		}
	}
	return names
}

// String is s as [ParseScopes] reads it.
func (s Scopes) String() string { return strings.Join(s.Names(), ",") }

// lacking says which scopes are needed and not there.
func lacking(needed, there Scopes) string {
	names := (needed &^ there).Names()
	if len(names) == 1 {
		return fmt.Sprintf("the token lacks the scope %s", names[0])
	}
	return fmt.Sprintf("the token lacks the scopes %s", strings.Join(names, " and "))
}
