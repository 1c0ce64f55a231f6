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

// never is what no log has, whoever's it is.
var never = []struct {
	what  string
	words *regexp.Regexp
}{
	{"a word that a test planted", regexp.MustCompile(Sentinel)},
	{"a line of Codex", regexp.MustCompile(`(?:thread|turn|item)\.(?:started|updated|completed|failed)`)},
	{"a token or the like", regexp.MustCompile(`\b[0-9a-f]{64}\b`)},
	{"the seed of an NKey", regexp.MustCompile(`\bS[AOU][A-Z2-7]{56}\b`)},
	{"a JWT", regexp.MustCompile(`\beyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+\.`)},
	{"a private key", regexp.MustCompile(`PRIVATE KEY-----`)},
}

// Leaks says what a log has that no log may have, and in which line, never the
// line itself. Secrets are words beside those that give themselves away, each
// by what it is.
func Leaks(log []byte, secrets map[string]string) (leaks []string) {
	n := 0
	for line := range strings.Lines(string(log)) {
		n++
		for _, w := range never {
			if w.words.MatchString(line) {
				leaks = append(leaks, fmt.Sprintf("line %d has %s", n, w.what))
			}
		}
		for _, what := range slices.Sorted(maps.Keys(secrets)) {
			if strings.Contains(line, secrets[what]) {
				leaks = append(leaks, fmt.Sprintf("line %d has %s", n, what))
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
