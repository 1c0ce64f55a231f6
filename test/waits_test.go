package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rules are what no line of a test may have, unless its file has what excuses it.
var rules = []struct {
	part    string // of each such line
	line    *regexp.Regexp
	excuses []string
	instead string
}{
	{"time.Since(", regexp.MustCompile(`:= time\.Since\(.*; .*> ?(\d+ ?\* ?)?time\.Second`), []string{"synctest.Test("},
		"a machine may be slow: judge a time with fixture.StartCanary"},
	{"<-time.After(", regexp.MustCompile(`case .*<-time\.After\((\d+ ?\* ?)?time\.(Second|Minute)\)`),
		[]string{"func Benchmark"}, "wait for a state, for fixture.Patience at most"},
	{"time.Now().Add(", regexp.MustCompile(`(for end :=|Deadline\().*time\.Now\(\)\.Add\((\d+ ?\* ?)?time\.(Second|Minute)\)`),
		[]string{"func Benchmark"}, "wait for a state, for fixture.Patience at most"},
	{".Subscribe(", regexp.MustCompile(`\.Subscribe\([^,]*, func\(`), []string{"func Benchmark"},
		"a callback may still run when what it writes is read: use bustest.Subscribe"},
	{"testing.Short(", regexp.MustCompile(`testing\.Short\(\)`), nil,
		"make test leaves out what fixture.All and fixture.Need name"},
}

func TestTestsWaitForStates(t *testing.T) {
	excused := []string{"waits_test.go"}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"node_modules", ".git", "bin", "chaos"}, d.Name()):
			return fs.SkipDir // the faults of test/chaos last for some time
		case !strings.HasSuffix(path, "_test.go") || slices.Contains(excused, d.Name()):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, rule := range rules {
			if slices.ContainsFunc(rule.excuses, func(word string) bool { return strings.Contains(string(b), word) }) {
				continue
			}
			for line := range strings.Lines(string(b)) {
				if strings.Contains(line, rule.part) && rule.line.MatchString(line) {
					t.Errorf("%s: %s: %s", path, strings.TrimSpace(line), rule.instead)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
