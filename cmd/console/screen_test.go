package console

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Log lines that come while events are shown stand on lines of their own, and
// the status line stays the last one.
func TestLogLinesLeaveTheStatusLineWhole(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "screen"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var shared Screen
	log := &pane{&shared, f}
	r := New(&pane{&shared, f}, noenv)
	r.terminal, r.width = true, func() int { return 80 }
	const lines = 200
	var beside sync.WaitGroup
	for i := range 4 {
		beside.Go(func() {
			for n := range lines {
				fmt.Fprintf(log, "log %d %d\n", i, n)
			}
		})
	}
	for n := range lines {
		event := fmt.Sprintf(`{"kind":"TextOutput","channel":"assistant","text":"event %d"}`, n)
		if err := r.Write(Record{Run: "r", Event: []byte(event)}); err != nil {
			t.Fatal(err)
		}
		if err := r.Tick(time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	beside.Wait()
	fmt.Fprintln(log, "the last")

	all, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	written := strings.Split(string(all), "\n")
	good := regexp.MustCompile(`^(log \d \d+|the last|│ event \d+|── .*r)$`)
	for _, line := range written[:len(written)-1] {
		parts := strings.Split(line, eraseLine)
		if shown := parts[len(parts)-1]; !good.MatchString(shown) { // as a terminal shows it
			t.Fatalf("a line shows %q, written as %q", shown, line)
		}
	}
	if last := written[len(written)-1]; !strings.HasSuffix(last, " tokens") || len(written)-1 != 5*lines+2 {
		t.Errorf("%d lines, the last one %q", len(written)-1, last)
	}
	if err := r.Close(); err != nil || shared.shown() {
		t.Errorf("the status line is left, error %v", err)
	}
}
