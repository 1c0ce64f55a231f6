package rest_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// list reads all pages; between is called after each.
func (s *stage) list(query string, between func()) (ids []string) {
	s.T.Helper()
	for cursor := ""; ; {
		path := "/v1/runs?" + query
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		var page api.RunPage
		s.want(200, "GET", path, "").read(s.T, &page)
		for _, r := range page.Runs {
			ids = append(ids, r.ID)
			if r.Detail != nil {
				s.T.Fatalf("a list has details: %+v", r)
			}
		}
		if cursor = page.Next; cursor == "" {
			return ids
		}
		if between != nil {
			between()
		}
	}
}

func TestPagesOfAThousandRunsStayWhileRunsComeAndEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	n := 1000 / fixture.Every(2)
	type seed struct {
		at int64
		id string
	}
	var seeds []seed
	logs := map[string]*servicetest.Log{}
	for i := range n {
		// Many begin in the same millisecond, and none in the order of its id.
		one := seed{servicetest.Begun + int64(i/7)*1000, fmt.Sprintf("r%d-%d", rand.IntN(1e6), i)}
		dir := "/srv/a"
		if i%3 == 0 {
			dir = "/srv/b & c"
		}
		logs[one.id] = s.BeginAt("codex", one.id, one.at, runs.Start{Source: "run", Attributes: runs.Attributes{Dir: dir}})
		seeds = append(seeds, one)
	}
	for id := range logs {
		s.Await(id, func(runs.Header) bool { return true })
	}
	slices.SortFunc(seeds, func(a, b seed) int {
		if a.at != b.at {
			return int(b.at - a.at)
		}
		return strings.Compare(b.id, a.id)
	})
	var want []string
	for _, one := range seeds {
		want = append(want, one.id)
	}
	came := 0
	got := s.list("limit=90", func() {
		came++
		// A newer run begins, and one of an earlier and one of a later page end.
		s.BeginAt("codex", fmt.Sprintf("new-%d", came), servicetest.Begun+1e9, runs.Start{Source: "run"})
		logs[want[came]].Exit(0)
		logs[want[len(want)-came]].Exit(0)
		s.Await(fmt.Sprintf("new-%d", came), func(runs.Header) bool { return true })
	})
	if came < n/100 || !slices.Equal(got, want) {
		t.Errorf("%d runs on %d pages, want %d, each once and in order", len(got), came+1, len(want))
	}
	var b []string
	for _, id := range want {
		if v, _ := s.Service.Get(id); v.Dir == "/srv/b & c" {
			b = append(b, id)
		}
	}
	if got := s.list("limit=100&workingDir="+url.QueryEscape("/srv/b & c"), nil); !slices.Equal(got, b) || len(b) == 0 {
		t.Errorf("%d runs in a directory, want %d", len(got), len(b))
	}
	if got := s.list("limit=100&state=failed", nil); len(got) != 2*came {
		t.Errorf("%d failed runs, want %d", len(got), 2*came)
	}
}

// Output can be read in pieces of any size, from any offset; gaps are reported.
func TestOutputIsTheBytesOfTheRawLog(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	stdout := servicetest.Recording(t, "long-message.jsonl")
	stderr := bytes.Repeat([]byte("warning: é\n"), 500)
	l := s.Begin("codex", "one", runs.Start{Source: "run"})
	rest := stdout
	for i := 0; len(rest) > 0; i++ {
		n := min(len(rest), 1+rand.IntN(3000))
		l.OutIn(rest[:n], n)
		rest = rest[n:]
		if at := int(l.Raw.Mark().Err); i%2 == 0 && at < len(stderr) {
			l.Err(stderr[at:min(at+100, len(stderr))])
		}
	}
	if at := int(l.Raw.Mark().Err); at < len(stderr) {
		l.Err(stderr[at:])
	}
	// The spool left something of stderr out.
	l.Append(runs.Entry{Kind: runs.ErrOut, Offset: int64(len(stderr)) + 1000, Body: []byte("the end\n")})
	l.Exit(0)
	for range 60 {
		at, n := rand.IntN(len(stdout)), 1+rand.IntN(9000)
		r := s.want(200, "GET", fmt.Sprintf("/v1/runs/one/output?offset=%d&limit=%d", at, n), "")
		if want := stdout[at:min(at+n, len(stdout))]; !bytes.Equal(r.body, want) ||
			r.header.Get("X-Linesman-Offset") != fmt.Sprint(at) {
			t.Fatalf("stdout at %d: %d bytes from %s, want %d", at, len(r.body), r.header.Get("X-Linesman-Offset"), len(want))
		}
		if got := r.header.Get("X-Linesman-Size"); got != fmt.Sprint(len(stdout)) {
			t.Fatalf("size %s, want %d", got, len(stdout))
		}
	}
	for _, c := range []struct {
		offset, limit int
		at            int
		want          string
	}{
		{len(stderr) - 5, 100, len(stderr) - 5, string(stderr[len(stderr)-5:])}, // up to the hole
		{len(stderr), 100, len(stderr) + 1000, "the end\n"},                     // in it
		{len(stderr) + 1004, 2, len(stderr) + 1004, "en"},
		{len(stderr) + 1008, 100, len(stderr) + 1008, ""}, // the end
		{len(stderr) + 9999, 100, len(stderr) + 9999, ""},
	} {
		r := s.want(200, "GET", fmt.Sprintf("/v1/runs/one/output?stream=stderr&offset=%d&limit=%d", c.offset, c.limit), "")
		if string(r.body) != c.want || r.header.Get("X-Linesman-Offset") != fmt.Sprint(c.at) ||
			r.header.Get("X-Linesman-Size") != fmt.Sprint(len(stderr)+1008) {
			t.Errorf("stderr at %d: %.80q at %s of %s, want %.80q at %d", c.offset, r.body, r.header.Get("X-Linesman-Offset"),
				r.header.Get("X-Linesman-Size"), c.want, c.at)
		}
	}
}

// What an agent wrote is in no answer but the output.
func TestRawOutputNeedsItsScope(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	const sentinel = "sentinel-4711"
	l := s.Begin("codex", "one", runs.Start{Source: "run"})
	l.OutIn([]byte(sentinel+" is no JSON\n"+`{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"ls","aggregated_output":"`+sentinel+`","exit_code":0,"status":"completed"}}`+"\n"), 10000)
	l.Err([]byte(sentinel + "\n")).Exit(1)
	for _, path := range []string{"/v1/runs", "/v1/runs/one", "/v1/runs/one/events?limit=1000", "/v1/runs/one/wait",
		"/v1/runs/one/output?offset=x"} {
		if r := s.ask("GET", path, ""); strings.Contains(string(r.body), sentinel) {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	if r := s.want(200, "GET", "/v1/runs/one/output", ""); !strings.HasPrefix(string(r.body), sentinel) {
		t.Errorf("output %.80q", r.body)
	}
}

func TestMistakesAreNamedByTheirField(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play("done", "shell-ok", 0)
	for _, c := range []struct{ method, path, body, field, detail string }{
		{"POST", "/v1/runs", "", "task", "is required"},
		{"POST", "/v1/runs", "[]", "body", "must be a JSON object"},
		{"POST", "/v1/runs", `{"task":`, "body", "must be a JSON object"},
		{"POST", "/v1/runs", `"x"`, "body", "must be a JSON object"},
		{"POST", "/v1/runs", "\v{\"task\":\"x\"}", "body", "must be a JSON object"},
		{"POST", "/v1/runs", "{\"task\":\"\xff\"}", "body", "UTF-8"},
		{"POST", "/v1/runs", `{"task":" "}`, "task", "must not be blank"},
		{"POST", "/v1/runs", `{"task":7}`, "task", "must be a string"},
		{"POST", "/v1/runs", `{"task":"x","workDir":"/srv"}`, "workDir", "did you mean workingDir?"},
		{"POST", "/v1/runs", `{"task":"x","format":"json"}`, "format", "is no parameter of this request"},
		{"POST", "/v1/runs", `{"task":"x","mode":"workspace-write"}`, "confirm", "must be true"},
		{"POST", "/v1/runs", `{"task":"x","mode":"danger-full-access","confirm":true}`, "mode", "not allowed"},
		{"POST", "/v1/runs", `{"task":"x","workingDir":"srv/../x"}`, "workingDir", "absolute path"},
		{"POST", "/v1/runs", `{"task":"x","timeoutSec":7200}`, "timeoutSec", "at most 3600"},
		{"POST", "/v1/runs", `{"task":"x","task":"y"}`, "task", "twice"},
		{"POST", "/v1/runs/done/resume", `{"task":"x","threadId":"y"}`, "threadId", "is no parameter of this request"},
		{"POST", "/v1/runs/done/resume", `{}`, "task", "is required"},
		{"POST", "/v1/runs", `{"task":"x","resume":{"selector":"id","id":"y"}}`, "resume", "must be the id of a thread"},
		{"POST", "/v1/runs/done/end", `{"reason":"x"}`, "reason", "is no parameter"},
		{"POST", "/v1/runs/done/messages/release", `{"text":"x"}`, "text", "is no parameter"},
		{"POST", "/v1/runs/done/cancel", `{"task_id":"x"}`, "task_id", "is no parameter of this request"},
		{"POST", "/v1/runs/done/cancel", `{"reason":7}`, "reason", "must be a string"},
		{"POST", "/v1/runs/done/cancel", `[`, "body", "must be a JSON object"},
		{"GET", "/v1/runs?state=gone", "", "state", "must be one of queued"},
		{"GET", "/v1/runs?agent=Codex", "", "agent", "must be a kind"},
		{"GET", "/v1/runs?threadId=", "", "threadId", "blank"},
		{"GET", "/v1/runs?limit=0", "", "limit", "1 to 100"},
		{"GET", "/v1/runs?limit=1&limit=2", "", "limit", "twice"},
		{"GET", "/v1/runs?limit=%zz", "", "query", "escaped"},
		{"GET", "/v1/runs?cursor=x", "", "cursor", "must be next"},
		{"GET", "/v1/runs?cursor=", "", "cursor", "must be next"},
		{"GET", "/v1/runs?" + strings.Repeat("x", 9000), "", "query", "at most"},
		{"GET", "/v1/runs/done/events?after=-1", "", "after", "whole number"},
		{"GET", "/v1/runs/done/events?after=1e3", "", "after", "whole number"},
		{"GET", "/v1/runs/done/events?limit=1001", "", "limit", "1 to 1000"},
		{"GET", "/v1/runs/done/output?stream=both", "", "stream", "stdout, stderr"},
		{"GET", "/v1/runs/done/output?offset=-1", "", "offset", "whole number"},
		{"GET", "/v1/runs/done/output?limit=1048577", "", "limit", "1 to 1048576"},
		{"GET", "/v1/runs/done/questions/q1/request?offset=abc", "", "offset", "whole number"},
		{"GET", "/v1/runs/done/wait?timeout=3601", "", "timeout", "0 to 3600"},
		{"GET", "/v1/runs/done/wait?timeout=10s", "", "timeout", "whole number"},
	} {
		var p rest.Problem
		r := s.want(400, c.method, c.path, c.body)
		r.read(t, &p)
		if p.Code != "VALIDATION" || p.Field != c.field || !strings.Contains(p.Detail, c.detail) || len(p.Issues) == 0 ||
			p.Issues[0].Field != c.field || strings.HasPrefix(p.Issues[0].Problem, c.field+":") {
			t.Errorf("%s %.60s %s: %s; want the field %s and %q", c.method, c.path, c.body, r.body, c.field, c.detail)
		}
	}
	s.want(400, "GET", "/v1/runs/done/events", "", "Last-Event-ID", "x")
	// A cursor of one list is none of another.
	for i := range 3 {
		s.Begin("codex", fmt.Sprintf("r%d", i), runs.Start{Source: "run"}).Await(fmt.Sprintf("r%d", i),
			func(runs.Header) bool { return true })
	}
	var page api.RunPage
	s.want(200, "GET", "/v1/runs?limit=1", "").read(t, &page)
	s.want(400, "GET", "/v1/runs?state=working&cursor="+page.Next, "")
	for _, id := range []string{"none", "a.b", "é", strings.Repeat("x", 65), "*", "%3E"} {
		s.want(404, "GET", "/v1/runs/"+url.PathEscape(id), "")
	}
}
