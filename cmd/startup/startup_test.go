package startup

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

func gogc() int {
	percent := debug.SetGCPercent(-1)
	debug.SetGCPercent(percent)
	return percent
}

// The program collects late once, and then as every Go program does, or as its user has set. Each case is a process,
// because a package is initialized once.
func TestTheFirstCollectionAloneIsLate(t *testing.T) {
	if want, err := strconv.Atoi(os.Getenv("WANT_GOGC")); err == nil {
		if first := gogc(); first < want {
			t.Errorf("at first it is %d", first)
		}
		fixture.Eventually(t, fixture.Patience, "the garbage collector works as usual", func() bool {
			runtime.GC()
			return gogc() == want
		})
		debug.SetGCPercent(firstCollection)
		if End(); gogc() != want {
			t.Errorf("at the end it is %d", gogc())
		}
		return
	}
	for set, want := range map[string]string{"": "100", "50": "50", "400": "400"} {
		again := exec.Command(os.Args[0], "-test.run", t.Name())
		again.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOGC=") }),
			"GOGC="+set, "WANT_GOGC="+want)
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("GOGC=%s: %v\n%s", set, err, out)
		}
	}
}
