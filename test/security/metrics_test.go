package security

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// A token for metrics reads metrics. Roles without a token serve these and the health checks
// alone.
func TestMetricsNeedTheirScope(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	at := fixture.ReadAddress(t, h.data)
	monitor := exec.Command(program(t, "linesman"), "worker", "--data-dir", h.data, "--http", "127.0.0.1:0")
	monitor.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "LINESMAN_WORK_ROOTS=" + filepath.Dir(h.data)}
	worker := fixture.Start(t, monitor)
	serving := regexp.MustCompile(`serving .*"addr": ?"([0-9.:]+)"`)
	worker.Await(worker.Stderr, `"addr"`)
	found := serving.FindStringSubmatch(worker.Stderr.String())
	if found == nil {
		t.Fatalf("the worker serves nowhere:\n%s", worker.Stderr)
	}
	rows := map[string]string{
		"`GET /metrics` of `up` and `responder`": "GET " + at.HTTP + "/metrics",
		"GET /v1/runs":                           "GET " + at.HTTP + "/v1/runs",
		"GET /v1/events":                         "GET " + at.HTTP + "/v1/events",
		"GET /v1/workers":                        "GET " + at.HTTP + "/v1/workers",
		"GET /v1/runs/{id}/output":               "GET " + at.HTTP + "/v1/runs/none/output",
		"POST /v1/runs":                          "POST " + at.HTTP + "/v1/runs",
		"POST /v1/runs/{id}/cancel":              "POST " + at.HTTP + "/v1/runs/none/cancel",
		"POST /a2a":                              "POST " + at.HTTP + "/a2a",
		"POST /mcp":                              "POST " + at.HTTP + "/mcp",
		"`GET /metrics` of `worker` and `normalizer`": "GET http://" + found[1] + "/metrics",
		"other paths there":                           "GET http://" + found[1] + "/v1/runs",
	}
	columns := []string{"no token", "metrics", "read,submit,raw", "read,metrics", "token file"}
	tokens := map[string]string{"no token": "", "token file": h.token}
	for _, scopes := range columns[1:4] {
		tokens[scopes] = h.scoped(t, scopes)
	}
	var names []string
	plain := map[string]string{}
	for row, request := range rows {
		row = strings.ReplaceAll(row, "`", "")
		names, plain[row] = append(names, row), request
	}
	(&place{}).compare(t, "Metrics over HTTP", columns, names, func(t *testing.T, row, scopes string) string {
		method, url, _ := strings.Cut(plain[row], " ")
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Close = true
		if tokens[scopes] != "" {
			r.Header.Set("Authorization", "Bearer "+tokens[scopes])
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		switch answer.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return string(no)
		case http.StatusNotFound:
			if strings.HasPrefix(row, "other paths") {
				return string(no)
			}
		}
		return string(yes)
	})
}
