package daemon_test

import (
	"bytes"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/test/bench/corpus"
)

// BenchmarkNormalize measures the command normalize without its start, by the time that the
// processors spend on it, as GB/s for one core. If jq is installed, x-jq says how much more
// time `jq -c .` needs for the same lines.
func BenchmarkNormalize(b *testing.B) {
	for _, c := range []struct {
		name string
		out  []byte
	}{{"small", corpus.Small(60_000)}, {"mix", corpus.Mix(20_000)}} {
		b.Run(c.name, func(b *testing.B) {
			var rates []float64
			for b.Loop() {
				start := processorTime(b)
				published := 0
				err := daemon.Normalize(bytes.NewReader(c.out), codex.Backend{}, 0, nil, func(lines []byte) error {
					published += len(lines)
					return nil
				})
				if err != nil || published == 0 {
					b.Fatal(err, published)
				}
				rates = append(rates, float64(len(c.out))/float64(processorTime(b)-start))
			}
			slices.Sort(rates)
			rate := rates[len(rates)/2]
			b.ReportMetric(rate, "GB/s")
			if jq := jqTime(b, c.out); jq > 0 {
				b.ReportMetric(float64(jq)*rate/float64(len(c.out)), "x-jq")
			}
		})
	}
}

// jqTime returns the processor time of `jq -c .`, 0 if it is not installed.
func jqTime(b *testing.B, out []byte) time.Duration {
	path, err := exec.LookPath("jq")
	if err != nil {
		return 0
	}
	cmd := exec.CommandContext(b.Context(), path, "-c", ".")
	cmd.Stdin = bytes.NewReader(out)
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// processorTime returns the time that the processors have spent on this process.
func processorTime(b *testing.B) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
