package external_test

import (
	"testing"

	"github.com/linesman/linesman/normalizer/external"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestDoingOfRecordings(t *testing.T) {
	backendtest.DoingIsGolden(t, external.Backend{}, "testdata/doing.golden", "testdata/corpus/*.jsonl")
}
