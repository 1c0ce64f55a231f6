package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/linesman/linesman/telemetry/metrics"
	"github.com/linesman/linesman/test/fixture"
)

// served is where a role serves HTTP, as it logs.
var served = regexp.MustCompile(`serving .*"addr": ?"([0-9.:]+)"`)

// serves waits until a role serves HTTP, and returns its URL.
func serves(t *testing.T, p *fixture.Process) string {
	t.Helper()
	p.Await(p.Stderr, `"addr"`)
	found := served.FindStringSubmatch(p.Stderr.String())
	if found == nil {
		t.Fatalf("it serves nowhere:\n%s", p.Stderr)
	}
	return "http://" + found[1]
}

// scrape returns the metrics of a role: the values by name and labels, as they are written.
func scrape(t *testing.T, url, token string) (text string, values map[string]float64) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v", url, r.StatusCode, err)
	}
	values = map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(string(body))); lines.Scan(); {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if n, err := strconv.ParseFloat(line[at+1:], 64); err == nil && at > 0 {
			values[line[:at]] = n
		}
	}
	return string(body), values
}

// checkMetrics checks metrics with promtool.
func checkMetrics(t *testing.T, text string) {
	t.Helper()
	t.Run("promtool", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), fixture.Need(t, "PROMTOOL", "promtool"), "check", "metrics")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool check metrics: %v\n%s", err, out)
		}
	})
}

// A task of each agent, which plays a recording, is in the metrics of the roles with the numbers
// that a reader of the recording counts. Two runs with the same recording count twice.
func TestMetricsOfEachRole(t *testing.T) {
	t.Parallel()
	nats, data, lab := startNATS(t), t.TempDir(), t.TempDir()
	settings := filepath.Join(lab, "linesman.toml")
	text := fmt.Sprintf("[work]\nroots = [%q]\nmax_runs = 2\n", lab)
	for agent, file := range map[string]string{
		"codex": "codex/shell-fail", "claude": "claude/tools", "gemini": "gemini/tools", "opencode": "opencode/tools",
	} {
		text += fmt.Sprintf("[agents.%s]\ncommand = ['/bin/sh', '-c', 'cat %s']\n", agent,
			fixture.Path(t, "test", "corpus", file+".jsonl"))
	}
	write(t, settings, text)
	at := func(command string, args ...string) []string {
		return append([]string{command, "--nats", nats, "--data-dir", data, "--config", settings}, args...)
	}
	normalizer := begin(t, nil, at("normalizer", "--http", "127.0.0.1:0")...)
	normalizer.Await(normalizer.Stderr, "normalizer reading")
	standby := begin(t, nil, at("normalizer", "--http", "127.0.0.1:0")...)
	worker := begin(t, nil, at("worker", "--http", "127.0.0.1:0")...)
	responder := begin(t, nil, at("responder", "--http", "127.0.0.1:0")...)
	responder.Await(responder.Stdout, "\n")
	token, code := execute(t, "token", "create", "prometheus", "--scope", "metrics", "--data-dir", data)
	if code != 0 {
		t.Fatal("no token")
	}
	for _, agent := range []string{"codex", "claude", "gemini", "opencode", "codex"} {
		if _, code := execute(t, at("submit", "--agent", agent, "--dir", lab, "--wait", "x")...); code != 0 {
			t.Errorf("the task of %s failed", agent)
		}
	}
	for role, want := range map[string]map[string]float64{
		serves(t, normalizer): {
			`linesman_tool_calls_total{agent="codex",kind="command",status="completed"}`:           2,
			`linesman_tool_calls_total{agent="codex",kind="command",status="failed"}`:              6,
			`linesman_tool_calls_total{agent="claude_code",kind="command",status="completed"}`:     2,
			`linesman_tool_calls_total{agent="claude_code",kind="file_change",status="completed"}`: 2,
			`linesman_tool_calls_total{agent="gemini_cli",kind="command",status="completed"}`:      2,
			`linesman_tool_calls_total{agent="opencode",kind="plan",status="completed"}`:           1,
			`linesman_turns_total{agent="codex",status="completed"}`:                               2,
			`linesman_tokens_total{agent="codex",type="cache_read"}`:                               4000, // both name one thread and its total
			`linesman_tokens_total{agent="claude_code",type="output"}`:                             560,
			`linesman_tokens_total{agent="opencode",type="input"}`:                                 800,
			`linesman_runs_started_total{agent="codex",source="queue"}`:                            2,
			`linesman_runs_ended_total{agent="codex",reason="none",state="completed"}`:             2,
			`linesman_task_wait_seconds_count`:                                                     5,
			`linesman_normalizer_active`:                                                           1,
			`linesman_normalizer_lag_entries{stage="record"}`:                                      0,
		},
		serves(t, standby): {`linesman_normalizer_active`: 0},
		serves(t, worker): {
			`linesman_shims_started_total{reason="start"}`: 5, `linesman_worker_slots`: 2, `linesman_worker_tasks`: 0,
			`linesman_worker_unsent_bytes`: 0, `linesman_raw_refusals_total`: 0,
		},
		serves(t, responder): {
			`linesman_runs{state="completed"}`: 5, `linesman_runs{state="working"}`: 0, `linesman_workers`: 1, `linesman_slots`: 2,
			`linesman_nats_requests_total{code="200",operation="submit"}`: 5, `linesman_webhooks_pending`: 0,
		},
	} {
		scraper := ""
		if role == serves(t, responder) {
			scraper = strings.TrimSpace(token)
		}
		var page string
		var different []string
		if !fixture.Poll(fixture.Patience, func() bool { // records are stored, and counted, soon after the events
			var have map[string]float64
			page, have = scrape(t, role, scraper)
			different = nil
			for name, n := range want {
				if is, ok := have[name]; !ok || is != n {
					different = append(different, fmt.Sprintf("%s: %v, want %v", name, is, n))
				}
			}
			return len(different) == 0
		}) {
			t.Fatalf("%s:\n%s\n%s", role, strings.Join(different, "\n"), page)
		}
		checkMetrics(t, page)
		for _, secret := range []string{lab, data, "T-local-"} {
			if strings.Contains(page, secret) {
				t.Errorf("%s: the metrics have %q", role, secret)
			}
		}
	}
}

// `up` has the metrics of all roles, from the beginning.
func TestMetricsOfUp(t *testing.T) {
	t.Parallel()
	s := up(t, t.TempDir())
	var page string
	var have map[string]float64
	fixture.Eventually(t, fixture.Patience, "the normalizer works, and the outbox is counted", func() bool {
		page, have = scrape(t, s.HTTP, s.Token)
		_, counted := have["linesman_webhooks_pending"]
		return have["linesman_normalizer_active"] == 1 && counted
	})
	checkMetrics(t, page)
	for _, d := range metrics.Descriptions() {
		name := d.Name
		if d.Type == "histogram" {
			name += "_count"
		}
		if _, ok := have[name]; !ok && len(d.Labels) == 0 {
			t.Errorf("%s is missing", name)
		}
	}
	if have[`linesman_runs{state="queued"}`] != 0 {
		t.Errorf("got\n%s", page)
	}
}

// follow.sh is killed again and again while events arrive, also within a line. Its file has each
// event once, but for lines that were cut short.
func TestFollowHasEachEventOnce(t *testing.T) {
	t.Parallel()
	data, lab := t.TempDir(), t.TempDir()
	s := up(t, data)
	bin, file := filepath.Join(lab, "bin"), filepath.Join(lab, "events.jsonl")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(bin, "linesman")); err != nil {
		t.Fatal(err)
	}
	lines := func() (all []string) {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			if strings.HasSuffix(line, "}\n") {
				all = append(all, strings.TrimSpace(line))
			}
		}
		return all
	}
	recorded := fixture.Path(t, "test", "corpus", "codex", "plan.jsonl")
	for round := range 4 {
		if _, code := execute(t, "run", "--data-dir", data, "--agent", "codex", "--", "cat", recorded); code != 0 {
			t.Fatal("the run failed")
		}
		cmd := exec.Command(fixture.Path(t, "examples", "observability", "follow.sh"), file, "--data-dir", data)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		had := len(lines())
		follow := fixture.Start(t, cmd)
		fixture.Eventually(t, fixture.Patience, "events arrive", func() bool { return len(lines()) > had })
		if round == 3 {
			fixture.Eventually(t, fixture.Patience, "the last event arrives", func() bool {
				return strings.Count(strings.Join(lines(), ""), `"final_text"`) == 4
			})
		}
		follow.Kill()
		if text, err := os.ReadFile(file); err == nil && round < 3 { // as if it was killed within a line
			if err := os.WriteFile(file, text[:len(text)-20], 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Stop()
	for i, line := range lines() {
		if want := fmt.Sprintf(`{"seq":%d,`, i+1); !strings.HasPrefix(line, want) {
			t.Fatalf("line %d is %.60s, want %s", i+1, line, want)
		}
	}
}
