// Package model_test checks the models of the append protocol, of feeding and of answers. It is a package of its own
// so that go test keeps its result, which took minutes, until a model changes.
package model_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// Each model holds within its bounds, and each fence that is left out breaks it.
func TestModelHoldsAndNeedsEachFence(t *testing.T) {
	fixture.Long(t, "takes a minute, and the models change seldom")
	t.Parallel()
	for _, program := range []string{"spin", "gcc"} {
		fixture.Need(t, "SPIN", program)
	}
	const appends, feed, answer, holds = "append.pml", "feed.pml", "answer.pml", "errors: 0"
	for _, c := range []struct {
		model, name, defines string
		live                 bool   // the formula instead of the assertions
		want                 string // in what the checker prints
	}{
		{appends, "workers lose and double nothing", "WORKERS ENTRIES=3 DEATHS=2", false, holds},
		{appends, "workers come to an end", "WORKERS ENTRIES=2", true, holds},
		{appends, "bursts lose and double nothing", "WORKERS BURSTS ENTRIES=3 TROUBLES=1", false, holds},
		{appends, "bursts come to an end", "WORKERS BURSTS ENTRIES=3 TROUBLES=0", true, holds},
		{appends, "normalizers lose and double nothing", "TROUBLES=1", false, holds},
		{appends, "normalizers come to an end", "DEATHS=1 TROUBLES=0", true, holds},
		{appends, "no fence at RAW", "WORKERS NO_RAW_FENCE", false, "assertion violated (what==(raw+1))"},
		{appends, "no fence in a burst", "WORKERS BURSTS ENTRIES=3 NO_BURST_FENCE", false, "assertion violated"},
		{appends, "no order in a burst", "WORKERS BURSTS ENTRIES=3 NO_BURST_ORDER", false, "assertion violated (what==(raw+1))"},
		{appends, "no look at RAW's end", "WORKERS NO_RAW_RESUME", true, "acceptance cycle"},
		{appends, "no fence at EVENTS", "NO_EVENT_FENCE TROUBLES=1", false, "assertion violated ((what==(events+1))"},
		{appends, "no look at the last event", "NO_EVENT_CURSOR TROUBLES=1", false, "assertion violated ((what==(events+1))"},
		{appends, "no fence at the checkpoint", "NO_CHECKPOINT_FENCE TROUBLES=1", false, "assertion violated ((what>=checkpoint)"},
		{feed, "lines are taken once", "LINES=3 DEATHS=6", false, holds},
		{feed, "feeding comes to an end", "", true, holds},
		{feed, "file before RAW", "NO_RAW_FIRST", false, "assertion violated (next<raw)"},
		{feed, "no end of a torn body", "NO_POISON", false, "assertion violated (taken==2)"},
		{feed, "newline is not repeated", "NO_NEWLINE_AGAIN", false, "assertion violated (taken==2)"},
		{feed, "no phase for the newline", "NO_END", false, "assertion violated (line==taken)"},
		{answer, "a question has one answer, and who is told so gave it", "LATE", false, holds},
		{answer, "a question is answered", "LATE DEATHS=1", true, holds},
		{answer, "no fence for two who answer", "NO_FENCE", false, "assertion violated (log[0]==me)"},
		{answer, "the agent gets an answer before the log has it", "NO_LOG_FIRST", false, "assertion violated"},
		{answer, "an owner that does not look for answers of others", "NO_LOOK", true, "acceptance cycle"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			run := func(name string, args ...string) string {
				cmd := exec.CommandContext(t.Context(), name, args...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				if err != nil && name != "./pan" { // which says so by its output
					t.Fatalf("%s: %v\n%s", name, err, out)
				}
				return string(out)
			}
			args := []string{"-a"}
			for d := range strings.FieldsSeq(c.defines) {
				args = append(args, "-D"+d)
			}
			model, err := os.ReadFile(filepath.Join("..", "..", "docs", "model", c.model))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, c.model), model, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			run("spin", append(args, c.model)...)
			build, check := []string{"-O1", "-w", "-DCOLLAPSE", "-DNFAIR=3"}, []string{"-m100000"}
			if c.live {
				check = append(check, "-a", "-f")
			} else {
				build = append(build, "-DNOCLAIM", "-DSAFETY")
			}
			run("gcc", append(build, "-o", "pan", "pan.c")...)
			if out := run("./pan", check...); !strings.Contains(out, c.want) || !whole.MatchString(out) {
				t.Errorf("%s\n%.3000s", c.defines, out)
			}
		})
	}
}

// whole is in what the checker prints at its end, unless it gave up.
var whole = regexp.MustCompile(`errors: [01]\n`)
