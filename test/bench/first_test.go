package bench

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// BenchmarkFirstEvent measures the time from the start of `run` to its first
// event, where no `up` runs and beside the one that this has started, in
// milliseconds, and the ratio of both. BENCH_BEFORE is the path of
// another linesman that the first is compared with, turn by turn, for the
// machine does not always take the same time: that ratio should stay below 1.5.
func BenchmarkFirstEvent(b *testing.B) {
	dir := b.TempDir()
	program := filepath.Join(dir, "linesman")
	if err := fixture.Build(dir, "./cmd/linesman"); err != nil {
		b.Fatal(err)
	}
	before := os.Getenv("BENCH_BEFORE")
	var first, next, other []time.Duration
	for n := 0; b.Loop(); n++ {
		data := filepath.Join(dir, fmt.Sprint(n))
		first = append(first, firstEvent(b, program, data))
		next = append(next, firstEvent(b, program, data))
		if out, err := exec.Command(program, "down", "--data-dir", data).CombinedOutput(); err != nil {
			b.Fatalf("down: %v\n%s", err, out)
		}
		if before != "" {
			other = append(other, firstEvent(b, before, filepath.Join(dir, fmt.Sprint("before", n))))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(median(first).Milliseconds()), "first-ms")
	b.ReportMetric(float64(median(next).Milliseconds()), "next-ms")
	b.ReportMetric(float64(median(first))/float64(median(next)), "first/next")
	if before != "" {
		b.ReportMetric(float64(median(other).Milliseconds()), "before-ms")
		b.ReportMetric(float64(median(first))/float64(median(other)), "first/before")
	}
}

func firstEvent(b *testing.B, program, data string) time.Duration {
	b.Helper()
	cmd := exec.Command(program, "run", "--data-dir", data, "--json", "--", "echo", `{"type":"turn.started"}`)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	took := time.Since(begun)
	if err = errors.Join(err, cmd.Wait()); err != nil {
		b.Fatalf("%s: %v\n%s", data, err, &stderr)
	}
	return took
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
