package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTemporaryFilesAreInMemoryUnlessTMPDIRIsSet(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	if dir := inMemory(); dir != "" {
		t.Errorf("TMPDIR is set, and the directory is %s", dir)
	}
	t.Setenv("TMPDIR", "")
	dir := inMemory()
	if dir == "" && suits(memory) && !isSmall() {
		t.Errorf("%s is not used", memory)
	}
	if dir == "" {
		return
	}
	if info, err := os.Lstat(dir); err != nil || info.Mode() != os.ModeDir|0o700 || dir != inMemory() {
		t.Errorf("%s: %v, %v; want a directory of its owner alone, the same each time", dir, info, err)
	}
}

func TestWhatKilledRunsLeftIsRemoved(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{"old": 25 * time.Hour, "new": time.Hour} {
		path, at := filepath.Join(dir, name), time.Now().Add(-age)
		if err := os.MkdirAll(filepath.Join(path, "below"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	removeOld(dir)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "new" {
		t.Errorf("left: %v, %v", left, err)
	}
}
