package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
)

// The test binary is also the agent of [BenchmarkAnswers].
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "asks" {
		asker(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// asker is an agent that asks questions, one after the other. It keeps in its directory when it asked, and when it had
// the answer, both in nanoseconds.
func asker(questions string) {
	in := bufio.NewReader(os.Stdin)
	times, err := os.OpenFile("times", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(1)
	}
	next := func() gjson.Result {
		line, err := in.ReadString('\n')
		if err != nil {
			os.Exit(1)
		}
		return gjson.Parse(line)
	}
	n, _ := strconv.Atoi(questions)
	for {
		m := next()
		result := "{}"
		switch m.Get("method").String() {
		case "initialize":
			result = `{"protocolVersion":1}`
		case "session/new":
			result = `{"sessionId":"s"}`
		case "session/prompt":
			for q := range n {
				<-time.After(50 * time.Millisecond) // so that nothing before it is on its way
				fmt.Fprintf(times, "%d ", time.Now().UnixNano())
				fmt.Printf(`{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"sessionId":"s",`+
					`"toolCall":{"toolCallId":"c","kind":"execute"},"options":[{"optionId":"y","name":"Y","kind":"allow_once"}]}}`+
					"\n", 100+q)
				next()
				fmt.Fprintln(times, time.Now().UnixNano())
			}
			result = `{"stopReason":"end_turn"}`
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.Get("id").Raw, result)
	}
}

// asking is an `up` whose tasks ask.
type asking struct {
	b           *testing.B
	up          *process
	dir, data   string
	http, token string
}

func newAsking(b *testing.B, questions int) *asking {
	b.Helper()
	a := &asking{b: b, dir: b.TempDir()}
	a.data = filepath.Join(a.dir, "data")
	program, config := filepath.Join(a.dir, "linesman"), filepath.Join(a.dir, "linesman.toml")
	if err := fixture.Build(a.dir, "./cmd/linesman"); err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err == nil {
		err = os.WriteFile(config, fmt.Appendf(nil, "[work]\nmax_runs = 50\nroots = [%q]\n[agents.codex]\n"+
			"acp = [%q, 'asks', '%d']\n", a.dir, self, questions), 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	a.up = start(b, program, append([]string{"up", "--data-dir", a.data, "--config", config}, fixture.Loopback()...)...)
	a.up.lines(1)
	at := fixture.ReadAddress(b, a.data)
	a.http, a.token = at.HTTP, at.Token
	b.Cleanup(func() { fixture.EndShims(a.data, program) })
	return a
}

func (a *asking) request(method, path, accept, body string) *http.Response {
	a.b.Helper()
	r, err := http.NewRequestWithContext(a.b.Context(), method, a.http+path, strings.NewReader(body))
	if err != nil {
		a.b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+a.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		a.b.Fatal(err)
	}
	return answer
}

func (a *asking) ask(method, path, body string) gjson.Result {
	a.b.Helper()
	answer := a.request(method, path, "application/json", body)
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode > 299 {
		a.b.Fatalf("%s %s: %d %s, error %v", method, path, answer.StatusCode, said, err)
	}
	return gjson.ParseBytes(said)
}

// submit starts a run in a directory of its own.
func (a *asking) submit() (run, dir string) {
	dir, err := os.MkdirTemp(a.dir, "work")
	if err != nil {
		a.b.Fatal(err)
	}
	task, _ := json.Marshal(map[string]any{
		"agent": "codex", "task": "Ask.", "live": true, "workingDir": dir, "skipGitRepoCheck": true,
	})
	return a.ask("POST", "/v1/runs", string(task)).Get("run").String(), dir
}

// BenchmarkAnswers measures the median times, in milliseconds, from a question that an agent writes to its row in the
// stream of runs; from an answer over HTTP to the agent's stdin, and to the answer of HTTP; and what each is of a bare
// request over the same NATS server.
func BenchmarkAnswers(b *testing.B) {
	const questions = 100
	for b.Loop() {
		a := newAsking(b, questions)
		credentials, err := embedded.LoadCredentials(a.data)
		if err != nil {
			b.Fatal(err)
		}
		user := embedded.OperatorUser
		nc, err := nats.Connect(fixture.ReadAddress(b, a.data).NATS, nats.UserInfo(user, credentials[user]),
			nats.CustomInboxPrefix(bus.InboxPrefix(user)))
		if err != nil {
			b.Fatal(err)
		}
		stream := a.request("GET", "/v1/runs", "text/event-stream", "")
		rows := bufio.NewReader(stream.Body)
		run, dir := a.submit()
		var seen, answers, posts, bare []time.Duration
		var shown, given []time.Time
		for n := 1; n <= questions; n++ {
			q := fmt.Sprintf(`"questions":["q%d"]`, n)
			for line := ""; !strings.Contains(line, q); {
				if line, err = rows.ReadString('\n'); err != nil {
					b.Fatal(err)
				}
			}
			shown = append(shown, time.Now())
			begun := time.Now()
			if _, err := nc.Request("$SRV.PING.linesman", nil, time.Second); err != nil {
				b.Fatal(err)
			}
			bare = append(bare, time.Since(begun))
			given = append(given, time.Now())
			a.ask("POST", fmt.Sprintf("/v1/runs/%s/questions/q%d/answer", run, n), `{"option":"y"}`)
			posts = append(posts, time.Since(given[n-1]))
		}
		text, err := os.ReadFile(filepath.Join(dir, "times"))
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			var asked, got int64
			if _, err := fmt.Sscan(line, &asked, &got); err != nil || n == questions {
				break
			}
			seen = append(seen, time.Duration(shown[n].UnixNano()-asked))
			answers = append(answers, time.Duration(got-given[n].UnixNano()))
			n++
		}
		ms := func(all []time.Duration, name string) float64 {
			slices.Sort(all)
			p50 := float64(all[len(all)/2].Microseconds()) / 1000
			b.ReportMetric(p50, name)
			return p50
		}
		base := ms(bare, "nats-ms")
		b.ReportMetric(ms(seen, "shown-ms")/base, "shown/nats")
		b.ReportMetric(ms(answers, "agent-ms")/base, "agent/nats")
		b.ReportMetric(ms(posts, "http-ms")/base, "http/nats")
		b.ReportMetric(0, "ns/op")
		stream.Body.Close()
		nc.Close()
		a.up.end()
	}
}

// BenchmarkWaitingRuns has 50 runs wait for people, and tells what that takes of a core, in percent: of `up` and
// the shims, of `up` alone, and of `up` before there was a run.
func BenchmarkWaitingRuns(b *testing.B) {
	for b.Loop() {
		a := newAsking(b, 1)
		const watched = 20 * time.Second
		busy := func() (up, all float64) {
			upBefore, before := a.up.cpu(), a.cpu()
			<-time.After(watched)
			share := func(d time.Duration) float64 { return 100 * float64(d) / float64(watched) }
			return share(a.up.cpu() - upBefore), share(a.cpu() - before)
		}
		a.up.settle()
		_, idle := busy()
		for range 50 {
			a.submit()
		}
		fixture.Eventually(b, fixture.Patience, "not all wait", func() bool {
			return a.ask("GET", "/v1/questions", "").Get("requests.#").Int() == 50
		})
		a.up.settle()
		up, all := busy()
		b.ReportMetric(all, "cpu-%")
		b.ReportMetric(up, "up-cpu-%")
		b.ReportMetric(idle, "idle-cpu-%")
		b.ReportMetric(0, "ns/op")
		a.up.end()
	}
}

// cpu is what `up` and its shims have had of a core.
func (a *asking) cpu() (all time.Duration) {
	stats, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), filepath.Join(a.dir, "linesman")+"\x00") {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		if err != nil {
			continue
		}
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		user, _ := strconv.Atoi(f[11])
		system, _ := strconv.Atoi(f[12])
		all += time.Duration(user+system) * 10 * time.Millisecond
	}
	return all
}
