package daemon

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/linesman/linesman/config"
)

func TestLogIsOfTheFormAndLevelAskedFor(t *testing.T) {
	for _, tt := range []struct {
		form  string
		check func(line string) bool
	}{
		{"json", func(line string) bool {
			var entry map[string]any
			return json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == "agent exited" && entry["run"] == "T-1" &&
				strings.HasSuffix(entry["time"].(string), "Z")
		}},
		{"console", func(line string) bool {
			return strings.HasSuffix(line, ` agent exited {"run": "T-1"}`+"\n") && strings.Contains(line, " warn ")
		}},
	} {
		c := config.Default()
		c.LogFormat, c.LogLevel = tt.form, "warn"
		var out bytes.Buffer
		log, _ := NewLeveledLogger(c, &out)
		log.Info("below the level")
		log.Warn("agent exited", zap.String("run", "T-1"))
		if !tt.check(out.String()) {
			t.Errorf("%s: got %q", tt.form, out.String())
		}
	}
}
