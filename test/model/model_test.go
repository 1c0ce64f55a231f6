// Package model_test checks the model of the append protocol. It is a package of its own so that
// go test keeps its result, which took minutes, until the model changes.
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

// The model of the append protocol holds within its bounds, and each fence that
// is left out breaks it.
func TestModelHoldsAndNeedsEachFence(t *testing.T) {
	fixture.Long(t, "takes a minute, and the model changes seldom")
	t.Parallel()
	for _, program := range []string{"spin", "gcc"} {
		fixture.Need(t, "SPIN", program)
	}
	model, err := os.ReadFile(filepath.Join("..", "..", "docs", "model", "append.pml"))
	if err != nil {
		t.Fatal(err)
	}
	const holds = "errors: 0"
	for _, c := range []struct {
		name, defines string
		live          bool   // the formula instead of the assertions
		want          string // in what the checker prints
	}{
		{"workers lose and double nothing", "WORKERS ENTRIES=3 DEATHS=2", false, holds},
		{"workers come to an end", "WORKERS ENTRIES=2", true, holds},
		{"bursts lose and double nothing", "WORKERS BURSTS ENTRIES=3 TROUBLES=1", false, holds},
		{"bursts come to an end", "WORKERS BURSTS ENTRIES=3 TROUBLES=0", true, holds},
		{"normalizers lose and double nothing", "TROUBLES=1", false, holds},
		{"normalizers come to an end", "DEATHS=1 TROUBLES=0", true, holds},
		{"no fence at RAW", "WORKERS NO_RAW_FENCE", false, "assertion violated (what==(raw+1))"},
		{"no fence in a burst", "WORKERS BURSTS ENTRIES=3 NO_BURST_FENCE", false, "assertion violated"},
		{"no order in a burst", "WORKERS BURSTS ENTRIES=3 NO_BURST_ORDER", false, "assertion violated (what==(raw+1))"},
		{"no look at RAW's end", "WORKERS NO_RAW_RESUME", true, "acceptance cycle"},
		{"no fence at EVENTS", "NO_EVENT_FENCE TROUBLES=1", false, "assertion violated ((what==(events+1))"},
		{"no look at the last event", "NO_EVENT_CURSOR TROUBLES=1", false, "assertion violated ((what==(events+1))"},
		{"no fence at the checkpoint", "NO_CHECKPOINT_FENCE TROUBLES=1", false, "assertion violated ((what>=checkpoint)"},
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
			if err := os.WriteFile(filepath.Join(dir, "append.pml"), model, 0o600); err != nil {
				t.Fatal(err)
			}
			run("spin", append(args, "append.pml")...)
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
