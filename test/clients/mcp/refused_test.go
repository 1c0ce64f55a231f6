package mcp_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/linesman/linesman/test/clients/mcp"
	"github.com/linesman/linesman/test/fixture"
)

// A client waits for the answer with the id of its call, up to its time limit.
func TestAMessageThatIsTooLargeOrTooDeepIsRefusedAtOnce(t *testing.T) {
	fixture.Long(t, "installs the SDKs of Node.js")
	t.Parallel()
	d := up(t)
	for name, c := range map[string]struct {
		args        []string
		large, deep any // error codes; those of HTTP are its statuses
	}{
		"sdk 1, stdio": {[]string{"1", program, "mcp", "--data-dir", d.data}, -32600.0, -32600.0},
		"sdk 2, stdio": {[]string{"2", program, "mcp", "--data-dir", d.data}, -32600.0, -32600.0},
		"sdk 1, http":  {[]string{"1", d.url, d.token}, 413.0, 400.0},
		"sdk 2, http":  {[]string{"2", d.url, d.token}, "CLIENT_HTTP_NOT_IMPLEMENTED", "CLIENT_HTTP_NOT_IMPLEMENTED"},
	} {
		t.Run(name, func(t *testing.T) {
			out := mcp.Script(t, "refused.mjs", c.args...)
			var calls map[string]struct {
				Code    any
				Message string
				MS      float64
			}
			if err := json.Unmarshal(out, &calls); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for name, want := range map[string]any{"large": c.large, "deep": c.deep, "fine": 0.0} {
				got := calls[name]
				if got.Code != want || got.MS > float64(10*time.Second/time.Millisecond) {
					t.Errorf("%s: code %v after %.0f ms (%s), want %v at once", name, got.Code, got.MS, got.Message, want)
				}
			}
		})
	}
}
