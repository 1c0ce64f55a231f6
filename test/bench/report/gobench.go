package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// run runs a Go benchmark, and returns its metrics: "NAME/SUB UNIT".
func (b benchmark) run(ctx context.Context, quick bool) (metrics, error) {
	times := b.times
	if quick {
		times = b.quick
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^Benchmark"+b.name+"$", "-benchtime", times,
		b.pkg)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go test: %w\n%s%s", err, stderr.Bytes(), out)
	}
	return parseBenchmarks(string(out)), nil
}

// processors is the suffix of the name of a benchmark.
var processors = regexp.MustCompile(`-[0-9]+$`)

// parseBenchmarks reads the lines of the form
// https://go.dev/design/14313-benchmark-format: NAME ITERATIONS (VALUE UNIT)...
func parseBenchmarks(out string) metrics {
	m := metrics{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := processors.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
		for i := 2; i+1 < len(fields); i += 2 {
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				m[name+" "+fields[i+1]] = value
			}
		}
	}
	return m
}
