package security

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
)

// tokens are the callers over HTTP of a live run: by the scopes of the token, or of that of the cookie.
var tokens = []string{
	"read", "read,submit", "read,raw", "read,answer", "read,submit,raw", "read,submit,raw,answer", "cookie:read",
	"cookie:read,answer", "nothing",
}

// inquiry is a house with a run that takes messages and waits for people: its agent asks for a permission and for a
// form, with the planted words in each of their texts, behind what a record has of a title.
func inquiry(t *testing.T) (h *house, run string) {
	t.Helper()
	dir := t.TempDir()
	long := strings.Repeat("x", 1000) + " "
	lines := map[string]string{
		"permission": `{"jsonrpc":"2.0","id":10,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{` +
			`"toolCallId":"c1","kind":"execute","title":"` + long + planted["arguments"] + `","rawInput":{"command":"` + long +
			planted["command"] + `"},"content":[{"type":"diff","path":"a","oldText":"","newText":"` + planted["diff"] + `"}]},` +
			`"options":[{"optionId":"yes","kind":"allow_once","name":"` + planted["plan"] + `"}]}}`,
		"form": `{"jsonrpc":"2.0","id":11,"method":"elicitation/create","params":{"sessionId":"s1","mode":"form","message":"` +
			planted["result"] + `","requestedSchema":{"type":"object","properties":{"a":{"type":"string","title":"` +
			planted["output"] + `"}}}}}`,
	}
	for name, line := range lines {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := `#!/bin/sh
cd "` + dir + `"
get() { IFS= read -r line || exit 98; printf '%s\n' "$line" >>accepted; }
answer() { echo '{"jsonrpc":"2.0","id":'$1',"result":{'"$2"'}}'; }
while get; do
	case "$line" in
	*'"initialize"'*) answer 1 '"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{}}}' ;;
	*'"session/new"'*) answer 2 '"sessionId":"s1"' ;;
	*'"session/set_mode"'*) answer 3 ;;
	*'"session/prompt"'*)
		cat permission form; get; get
		answer 4 '"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2}' ;;
	*'"session/close"'*) answer 5; exit 0 ;;
	esac
done
`
	agent, config := filepath.Join(dir, "agent"), filepath.Join(dir, "linesman.toml")
	settings := fmt.Sprintf("log_level = 'debug'\n[work]\nroots = [%q]\n[agents.codex]\nacp = [%q]\n", dir, agent)
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(agent, []byte(script), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	h = &house{data: filepath.Join(t.TempDir(), "data")}
	at := fixture.Up(t, program(t, "linesman"), h.data, []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")},
		"--config", config)
	h.http, h.pid, h.token = at.HTTP, at.PID, at.Token
	code, said, _ := h.post(t, "POST", "/v1/runs", fmt.Sprintf(`{"agent":"codex","task":"Ask.","live":true,"workingDir":%q,`+
		`"skipGitRepoCheck":true,"mode":"read-only","keep":true}`, dir), "Accept", "application/json")
	if run = gjson.Get(said, "run").String(); run == "" {
		t.Fatalf("submit: %d %s", code, said)
	}
	fixture.Eventually(t, fixture.Patience, "two questions are not open", func() bool {
		_, open, _ := h.post(t, "GET", "/v1/questions", "", "Accept", "application/json")
		return gjson.Get(open, "requests.#").Int() == 2
	})
	t.Cleanup(func() { // in the log, too
		for _, where := range told(at.Stderr.String() + at.Stdout.String()) {
			t.Errorf("the log has %s", where)
		}
	})
	return h, run
}

// cookie signs in with a token, and returns the cookie; "": it is refused.
func (h *house) cookie(t *testing.T, token string) string {
	t.Helper()
	_, _, header := h.post(t, "POST", "/session", fmt.Sprintf(`{"token":%q}`, token), "Authorization", "")
	name, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	return name
}

// What an agent asks, and what is answered, is for those who may answer: for them while a question is open, and else in
// RAW alone.
func TestQuestionsNeedTheirRight(t *testing.T) {
	t.Parallel()
	h, run := inquiry(t)
	p := &place{}
	asked := []string{"arguments", "command", "diff", "output", "plan", "result"}
	of := "/v1/runs/" + run + "/questions/q1/"
	rows := []string{
		"GET /v1/questions", "GET /v1/runs/{id}/questions/{question}/request",
		"POST /v1/runs/{id}/questions/{question}/answer",
	}
	more, requests := h.conversing(t, run, asked)
	accept := []string{"Accept", "application/json"}
	rest := func(row, method, path, body string, owner []string, code int) {
		requests[row] = exchange{asking{method, path, body, accept, owner}, []int{code}, ""}
	}
	rest(rows[0], "GET", "/v1/questions", "", asked, http.StatusOK)
	rest(rows[1], "GET", of+"request", "", []string{"arguments", "command", "diff", "plan"}, http.StatusOK)
	rest(rows[2], "POST", of+"answer", `{"option":"else"}`, nil, http.StatusBadRequest) // which is none
	header := map[string][]string{"nothing": {"Authorization", ""}}
	for _, scopes := range tokens {
		if of, is := strings.CutPrefix(scopes, "cookie:"); is {
			token := strings.TrimPrefix(header[of][1], "Bearer ")
			header[scopes] = []string{"Authorization", "", "Cookie", h.cookie(t, token)}
		} else if scopes != "nothing" {
			header[scopes] = []string{"Authorization", "Bearer " + h.scoped(t, scopes)}
		}
	}
	message := ""
	p.compare(t, "Live runs over HTTP", tokens, append(rows, more...), func(t *testing.T, row, scopes string) string {
		a := requests[row]
		code, said, _ := h.post(t, a.method, strings.ReplaceAll(a.path, "{message}", message), a.body,
			append(slices.Clone(header[scopes]), a.header...)...)
		where := told(said)
		if id := gjson.Get(said, "message").String(); code == http.StatusOK && id != "" {
			message = id
		}
		switch {
		case len(where) == 0 && (code == http.StatusForbidden || code == http.StatusUnauthorized ||
			strings.Contains(said, "lacks the scope")):
			return string(no)
		case !slices.Contains(a.codes, code) || !strings.Contains(said, a.says):
			t.Errorf("%s with %s: %d %.300s", row, scopes, code, said)
		case len(where) == 0 && len(a.owner) > 0:
			return without
		case !slices.Equal(where, a.owner):
			t.Errorf("%s with %s: it tells of %v, want %v", row, scopes, where, a.owner)
		}
		return string(yes)
	})

	p.watch = map[string]*nats.Conn{}
	verbs := map[string]string{
		"waiting": "{}", "request": `{"run":"` + run + `","question":"q1"}`,
		"answer": `{"request":"` + run + `","question":"q1","option":"else"}`,
		"send":   `{"run":"` + run + `","text":"x"}`, "edit": `{"run":"` + run + `","message":"m","text":"x"}`,
		"unsend": `{"run":"` + run + `","message":"m"}`, "stop": `{"run":"` + run + `","turn":99}`,
		"set": `{"run":"` + run + `","mode":"danger-full-access"}`,
	}
	var subjects []string
	for _, verb := range []string{
		"waiting", "request", "answer", "send", "messages", "edit", "unsend", "release", "stop", "set", "end",
	} {
		if verbs[verb] == "" {
			verbs[verb] = `{"run":"` + run + `"}`
		}
		subjects = append(subjects, names.API()+"."+verb)
	}
	for _, user := range users {
		p.watch[user] = h.login(t, user)
	}
	p.compare(t, "Request of a live run", users, subjects, func(t *testing.T, row, user string) string {
		verb := strings.TrimPrefix(row, names.API()+".")
		a := p.ask(t, user, row, nil, verbs[verb])
		if a.verdict == yes && (len(told(string(a.body))) > 0) != (verb == "waiting" || verb == "request") {
			t.Errorf("%s as %s: %.300s", row, user, a.body)
		}
		return string(a.verdict)
	})

	for _, path := range []string{
		"/v1/runs", "/v1/runs/" + run, "/v1/runs/" + run + "/events?limit=1000", "/v1/events?limit=1000", "/metrics",
	} {
		_, said, _ := h.post(t, "GET", path, "", "Accept", "application/json")
		for _, where := range told(said) {
			t.Errorf("%s has %s", path, where)
		}
	}
	digest := func() string {
		_, open, _ := h.post(t, "GET", "/v1/questions", "", "Accept", "application/json")
		return gjson.Get(open, `requests.#(id=="q1").digest`).String()
	}()
	for question, body := range map[string]string{
		"q1": `{"option":"allow","digest":"` + digest + `"}`, "q2": `{"content":{"a":"` + planted["prompt"] + `"}}`,
	} {
		code, said, _ := h.post(t, "POST", "/v1/runs/"+run+"/questions/"+question+"/answer", body, header["read,answer"]...)
		if code != http.StatusOK || len(told(said)) > 0 || gjson.Get(said, "by").String() != "read-answer" {
			t.Errorf("%s: %d %s", question, code, said)
		}
	}
	fixture.Eventually(t, fixture.Patience, "the run does not end", func() bool {
		_, said, _ := h.post(t, "GET", "/v1/runs/"+run, "", "Accept", "application/json")
		return gjson.Get(said, "state").String() == "completed"
	})
	for _, path := range []string{of + "request", "/v1/questions"} {
		if code, said, _ := h.post(t, "GET", path, "", header["read,answer"]...); len(told(said)) > 0 {
			t.Errorf("%s after the answer: %d %s", path, code, said)
		}
	}
	h.storedOnly(t, len(asked)+4)
	m, err := p.watch[embedded.OperatorUser].Request("$SRV.STATS.linesman", nil, patience)
	if err != nil || len(told(string(m.Data))) > 0 {
		t.Errorf("the statistics: %v, %v", err, told(string(m.Data)))
	}
}
