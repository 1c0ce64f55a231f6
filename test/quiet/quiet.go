// Package quiet sees to it that what linesman says while tests run gives
// nothing away: no prompt, no line of an agent, nothing that lets somebody in.
package quiet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Sentinel begins each word that a test puts where nothing may be copied from:
// into prompts, arguments, outputs, fields that no table names, keys, secrets.
const Sentinel = "QUIET-SENTINEL-"

// MaxLeaks bounds what [Leaks] tells.
const MaxLeaks = 10

// kind is one kind of words that no log has.
type kind struct {
	what string
	// maybe is false for a text that has none: expressions are slow.
	maybe func(text string) bool
	has   func(line string) bool
}

var never = []kind{
	{"a word that a test planted", anyOf(Sentinel), matches(Sentinel)},
	{"a line of Codex", anyOf("thread.", "turn.", "item."), matches(`(?:thread|turn|item)\.(?:started|updated|completed|failed)`)},
	{"a token or the like", long, matches(`\b[0-9a-f]{64}\b`)},
	{"the seed of an NKey", long, matches(`\bS[AOU][A-Z2-7]{56}\b`)},
	{"a JWT", anyOf("eyJ"), matches(`\beyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+\.`)},
	{"a private key", anyOf("PRIVATE KEY-----"), matches(`PRIVATE KEY-----`)},
}

func matches(expression string) func(string) bool { return regexp.MustCompile(expression).MatchString }

func anyOf(parts ...string) func(string) bool {
	return func(text string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
}

// long reports whether a text has a word as long as the seed of an NKey, or
// longer.
func long(text string) bool {
	n := 0
	for _, b := range []byte(text) {
		if b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' {
			if n++; n >= 58 {
				return true
			}
		} else {
			n = 0
		}
	}
	return false
}

// Leaks says what a log has that no log may have, and in which line, never the
// line itself. Secrets are words beside those that give themselves away, each
// by what it is.
func Leaks(log []byte, secrets map[string]string) (leaks []string) {
	text := string(log)
	kinds := slices.Clone(never)
	for _, what := range slices.Sorted(maps.Keys(secrets)) {
		kinds = append(kinds, kind{what, anyOf(secrets[what]), anyOf(secrets[what])})
	}
	kinds = slices.DeleteFunc(kinds, func(k kind) bool { return !k.maybe(text) })
	if len(kinds) == 0 {
		return nil
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		for _, k := range kinds {
			if k.has(line) {
				leaks = append(leaks, fmt.Sprintf("line %d has %s", n, k.what))
			}
		}
		if len(leaks) >= MaxLeaks {
			return leaks[:MaxLeaks]
		}
	}
	return leaks
}

// Secrets are the words in a data directory that let somebody in, each by what
// it is. Where nothing was made yet there are none.
func Secrets(data string) (map[string]string, error) {
	all := map[string]string{}
	b, err := os.ReadFile(filepath.Join(data, "credentials.json"))
	if err == nil {
		var passwords map[string]string
		if err := json.Unmarshal(b, &passwords); err != nil {
			return nil, fmt.Errorf("credentials.json: %w", err)
		}
		for user, password := range passwords {
			all["the password of "+user] = password
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b, err = os.ReadFile(filepath.Join(data, "token"))
	if err == nil {
		all["the token"] = strings.TrimSpace(string(b))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	maps.DeleteFunc(all, func(_, word string) bool { return word == "" })
	return all, nil
}
