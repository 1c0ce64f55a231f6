package datadir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Each logger has a lock of its own, and stderr is written to the file, too.
func TestLogOfAnUpInTheBackgroundHoldsWhatSeveralWriteAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "up.log")
	log, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	line := bytes.Repeat([]byte("x"), 1<<10)
	const writers, each = 6, maxLog / 4 / (1 << 10) // it is renamed once
	failed := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for range each {
				_, err := log.Write(line)
				failed[i] = errors.Join(failed[i], err)
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	var sizes []int64
	for _, part := range []string{path, path + ".1"} {
		info, err := os.Stat(part)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size())
	}
	if sizes[0] != maxLog/2 || sizes[1] != maxLog {
		t.Errorf("the files have %d bytes, want %d and %d", sizes, maxLog/2, maxLog)
	}
}
