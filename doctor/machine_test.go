package doctor

import (
	"context"
	"testing"
	"time"
)

func TestAgentThatDoesNotTellItsVersionHoldsNobodyUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	version, err := programVersion(ctx, []string{"sh", "-c", "sleep 60 & wait"})
	if took := time.Since(begun); err == nil || took > 20*time.Second {
		t.Errorf("got %q, %v after %v; want an error at once", version, err, took)
	}
	for _, tt := range []struct{ prints, want string }{
		{"codex-cli 0.169.0", "0.169.0"}, {"0.170.0-alpha.1 (x)", "0.170.0-alpha.1"}, {"no number", ""},
	} {
		if got, _ := programVersion(t.Context(), []string{"sh", "-c", "echo '" + tt.prints + "'"}); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.prints, got, tt.want)
		}
	}
}
