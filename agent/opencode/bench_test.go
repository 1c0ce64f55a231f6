package opencode

import (
	"testing"

	"github.com/linesman/linesman/test/fixture/backendtest"
)

// BenchmarkFoldAgainstScan compares the whole fold with the scan of its lines.
func BenchmarkFoldAgainstScan(b *testing.B) {
	var l line
	scanLine := func(raw []byte) {
		l.scan(raw)
		l.reset()
	}
	b.Run("real", func(b *testing.B) {
		backendtest.BenchFold(b, Backend{}, backendtest.Recordings(b, "../../test/corpus/opencode"), scanLine)
	})
}
