package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// BenchmarkMCPClient measures `linesman mcp` beside an `up` with a history: the time from its start to its first
// answer, and its memory. Neither depends on the number of runs: the ratio of both, with ten times the runs,
// should stay below 1.2.
func BenchmarkMCPClient(b *testing.B) {
	if _, err := os.Stat("/proc/self/statm"); err != nil {
		b.Skip("there is no /proc: ", err)
	}
	dir := b.TempDir()
	program := filepath.Join(dir, "linesman")
	if err := fixture.Build(dir, "./cmd/linesman"); err != nil {
		b.Fatal(err)
	}
	counts := []int{1000, 10_000}
	memory, took := map[int]int{}, map[int][]time.Duration{}
	var data []string
	for _, n := range counts {
		s := &site{b: b, dir: filepath.Join(dir, fmt.Sprint(n))}
		if err := os.Mkdir(s.dir, 0o700); err != nil {
			b.Fatal(err)
		}
		s.start()
		s.fill(n, 1)
		s.normalizer(true)
		s.server.Stop()
		up := start(b, program, "up", "--data-dir", s.dir, "--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
		up.lines(1)
		defer up.end()
		data = append(data, s.dir)
	}
	for b.Loop() {
		for i, n := range counts {
			began := time.Now()
			p := start(b, program, "mcp", "--data-dir", data[i])
			fmt.Fprintln(p.in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
				`"capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}`)
			p.lines(1)
			took[n] = append(took[n], time.Since(began))
			fmt.Fprintln(p.in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"_codex_local_status"}}`)
			p.lines(1)
			memory[n] = p.memory()
			p.end()
		}
	}
	few, many := counts[0], counts[1]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(memory[many])/(1<<20), "MiB")
	b.ReportMetric(float64(memory[many])/float64(memory[few]), "memory-many/few")
	b.ReportMetric(float64(median(took[many]).Milliseconds()), "ms")
	b.ReportMetric(float64(median(took[many]))/float64(median(took[few])), "time-many/few")
}
