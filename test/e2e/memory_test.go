package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/linesman/linesman/test/bench/corpus"
	"github.com/linesman/linesman/test/fixture"
)

// resident returns the memory of a process, in bytes: now, and its maximum so far.
func resident(t *testing.T, pid int) (now, peak int64) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		_, _ = fmt.Sscanf(string(line), "VmRSS: %d", &now)
		_, _ = fmt.Sscanf(string(line), "VmHWM: %d", &peak)
	}
	return now << 10, peak << 10
}

// An import takes memory while it lasts, and less than what it stores. Then the memory is
// returned, to little more than a fresh `up` has.
func TestMemoryOfAnImportIsReturned(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("no /proc")
	}
	fixture.Long(t, "imports 130 MB")
	t.Parallel()
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "output.jsonl")
	const copies = 2
	if err := os.WriteFile(file, bytes.Repeat(corpus.Mix(35_000), copies), 0o600); err != nil {
		t.Fatal(err)
	}
	s := up(t, data)
	fresh, _ := resident(t, s.Cmd.Process.Pid)
	if out, code := execute(t, "tail", "--data-dir", data, "--once", file); code != 0 {
		t.Fatalf("tail: exit %d\n%s", code, out)
	}
	_, peak := resident(t, s.Cmd.Process.Pid)
	limit := fresh + 50<<20
	if peak < limit {
		t.Errorf("the import took %d bytes at most: too little to show anything", peak)
	}
	fixture.Eventually(t, fixture.Patience, "the memory of the import was not returned", func() bool {
		now, _ := resident(t, s.Cmd.Process.Pid)
		return now < limit
	})
	now, _ := resident(t, s.Cmd.Process.Pid)
	t.Logf("%d MiB when fresh, %d at most, %d afterwards", fresh>>20, peak>>20, now>>20)
}
