package datadir

import (
	"os"
	"testing"
)

// TestMain keeps a test that starts an `up` by mistake from starting all tests
// again: the program of that `up` is the test binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "up" {
		os.Exit(2)
	}
	os.Exit(m.Run())
}
