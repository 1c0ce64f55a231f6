package known_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/known"
)

// No key passes to two agents, and the table of the documents is that of the code.
func TestEachKeyHasOneAgent(t *testing.T) {
	doc, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "\n## Keys and logins\n")
	names := regexp.MustCompile("`([A-Z_]+)`")
	owner := map[string]string{}
	for _, a := range known.All() {
		for _, key := range a.Keys {
			if other := owner[key]; other != "" {
				t.Errorf("%s is a key of %s and %s", key, other, a.Short)
			}
			owner[key] = a.Short
			if slices.Contains(a.Others, key) {
				t.Errorf("%s of %s both passes and does not", key, a.Short)
			}
		}
		at := strings.Index(table, "\n| "+a.Name+" | ")
		if at < 0 {
			t.Errorf("no row of %s", a.Name)
			continue
		}
		row, _, _ := strings.Cut(table[at+1:], "\n")
		var documented []string
		for _, m := range names.FindAllStringSubmatch(strings.Split(row, "|")[3], -1) {
			documented = append(documented, m[1])
		}
		if !slices.Equal(documented, a.Keys) {
			t.Errorf("%s: documented %q, passed %q", a.Short, documented, a.Keys)
		}
	}
}
