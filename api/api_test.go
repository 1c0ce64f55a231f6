package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
)

// The form of a time is that of the layout, whatever formats it.
func TestTimeHasTheFormOfItsLayout(t *testing.T) {
	for _, ms := range []int64{1, 999, 1000, 1_790_000_000_007, 1_790_000_000_070, 1_790_000_000_700, -1,
		-62_135_596_800_001, 253_402_300_800_000} {
		want := time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
		if got := api.Time(ms).String(); got != want {
			t.Errorf("%d: %s, want %s", ms, got, want)
		}
		if got, err := json.Marshal(api.Time(ms)); err != nil || string(got) != `"`+want+`"` {
			t.Errorf("%d: %s, %v, want %s", ms, got, err, want)
		}
	}
}
