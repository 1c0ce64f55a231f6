package rest_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder/httpserver"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// Each status that the document names is given by each operation that it names
// it for, and every answer fits.
func TestEveryAnswerOfTheDocumentIsGiven(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play("done", "shell-ok", 0)
	s.play("bad", "failed", 1)
	cloudRun := s.Begin("codex_cloud", "T-cloud-1", runs.Start{Source: "cloud"})
	cloudRun.Await("T-cloud-1", func(runs.Header) bool { return true })
	working := s.Begin("codex", "working", runs.Start{Source: "run"}).OutIn([]byte("{}\n"), 10)
	working.Await("working", func(v runs.Header) bool { return v.State == runs.StateWorking })
	thread := ""
	s.Await("done", func(v runs.Header) bool { thread = v.Thread; return v.Thread != "" })

	// What goes well.
	document := s.want(200, "GET", "/v1/openapi.json", "")
	if got := document.header.Get("Cache-Control"); got != "private, max-age=300" {
		t.Errorf("the document: Cache-Control %q", got)
	}
	s.want(304, "GET", "/v1/openapi.json", "", "If-None-Match", document.header.Get("ETag"))
	s.want(200, "GET", "/v1/openapi.json", "", "If-None-Match", `"other"`)
	s.want(200, "GET", "/v1/runs?state=failed&agent=codex&limit=5", "")
	s.want(200, "GET", "/v1/workers", "")
	s.want(200, "GET", "/v1/sessions", "")
	for _, id := range []string{"done", "bad", "working", "T-cloud-1"} {
		s.want(200, "GET", "/v1/runs/"+id, "")
		s.want(200, "GET", "/v1/runs/"+id+"/events", "")
		s.want(200, "GET", "/v1/runs/"+id+"/detail", "")
		s.want(200, "GET", "/v1/runs/"+id+"/output", "")
		s.want(map[bool]int{true: 409, false: 200}[id == "working" || id == "T-cloud-1"], "GET", "/v1/runs/"+id+"/diff", "")
		s.want(200, "GET", "/v1/runs/"+id+"/wait?timeout=0", "")
	}
	tag := s.want(200, "GET", "/v1/runs/done", "").header.Get("ETag")
	s.want(304, "GET", "/v1/runs/done", "", "If-None-Match", tag)
	s.want(200, "GET", "/v1/runs/done", "", "If-None-Match", `"other"`)
	s.want(200, "GET", "/v1/runs/done/events", "", "Accept", "text/event-stream")
	var page api.EventPage
	s.want(200, "GET", "/v1/runs/done/events?limit=1000", "").read(t, &page)
	s.want(204, "GET", fmt.Sprintf("/v1/runs/done/events?after=%d", page.Next), "", "Accept", "text/event-stream")
	var details api.DetailPage
	s.want(200, "GET", "/v1/runs/done/detail", "", "Accept", "text/event-stream")
	s.want(200, "GET", "/v1/runs/done/detail?last=1000&limit=1000", "").read(t, &details)
	s.want(204, "GET", "/v1/runs/done/detail?after="+details.Next, "", "Accept", "text/event-stream")
	s.want(200, "PUT", "/v1/runs/done/seen", "")
	s.want(409, "PUT", "/v1/runs/working/seen", "")
	s.want(200, "GET", "/v1/events?run=done", "")
	s.want(200, "GET", "/v1/events?run=done", "", "Accept", "text/event-stream")
	s.want(204, "GET", fmt.Sprintf("/v1/events?run=done&after=%d", page.Next), "", "Accept", "text/event-stream")
	asks := s.BeginLive("codex", "asks", runs.Start{Source: "queue", Worker: "w1"})
	for range 2 {
		asks.Permission("make", servicetest.Hour())
	}
	asks.Asks("q1", "q2")
	var open api.Questions
	s.want(200, "GET", "/v1/questions?run=asks", "").read(t, &open)
	s.want(200, "GET", "/v1/questions", "").read(t, &open)
	if len(open.Requests) != 2 || open.Requests[0].Command != "make" {
		t.Errorf("questions %+v", open)
	}
	if r := s.want(200, "GET", "/v1/questions?run=done", ""); strings.TrimSpace(string(r.body)) != `{"requests":[]}` {
		t.Errorf("questions of another run: %s", r.body)
	}
	var piece api.Request
	s.want(200, "GET", "/v1/runs/asks/questions/q1/request", "").read(t, &piece)
	if sum := sha256.Sum256([]byte(piece.Text)); hex.EncodeToString(sum[:]) != piece.Digest ||
		piece.Digest != open.Requests[0].Digest {
		t.Errorf("request %+v", piece)
	}
	for _, answer := range []string{"", `{"option":"maybe"}`, `{"content":{}}`, `{"text":"yes"}`, `{"option":"allow","digest":"0"}`} {
		s.want(400, "POST", "/v1/runs/asks/questions/q1/answer", answer)
	}
	for range 2 { // the same again
		var done api.Answered
		s.want(200, "POST", "/v1/runs/asks/questions/q1/answer", `{"option":"allow"}`).read(t, &done)
		if done.By != "operator" || done.Option != "yes" {
			t.Errorf("answered %+v", done)
		}
	}
	if r := s.want(409, "POST", "/v1/runs/asks/questions/q1/answer", `{"option":"no"}`); !strings.Contains(string(r.body),
		"the answer was yes, by operator over nats") {
		t.Errorf("another answer: %s", r.body)
	}
	s.want(404, "POST", "/v1/runs/asks/questions/q9/answer", `{"option":"no"}`)
	s.want(409, "GET", "/v1/runs/asks/questions/q1/request", "")
	s.messages()
	submitted := s.want(202, "POST", "/v1/runs", `{"task":"go","workingDir":"/srv","outputSchema":{"type":"object"}}`)
	s.want(200, "GET", submitted.header.Get("Location"), "")
	s.want(200, "POST", submitted.header.Get("Location")+"/cancel", `{"reason":"enough"}`)
	var resumed api.Run
	again := s.want(202, "POST", "/v1/runs/done/resume", `{"task":"go on"}`)
	again.read(t, &resumed)
	if resumed.Dir != "/home/dev/project" || again.header.Get("Location") != "/v1/runs/"+resumed.ID {
		t.Errorf("resumed %s at %q", again.body, again.header.Get("Location"))
	}
	if resumed.ID == "done" || thread == "" {
		t.Errorf("the new turn has no run of its own")
	}
	s.want(202, "POST", "/v1/runs/working/cancel", "")

	// A key makes of two requests one, and is refused for another.
	const keyed = `"idempotencyKey":"0123456789abcdef"}`
	twice := s.want(202, "POST", "/v1/runs", `{"task":"once",`+keyed).header.Get("Location")
	if got := s.want(202, "POST", "/v1/runs", `{"task":"once",`+keyed).header.Get("Location"); got != twice {
		t.Errorf("one request is the runs %s and %s", twice, got)
	}
	s.want(409, "POST", "/v1/runs", `{"task":"other",`+keyed)

	for _, earlier := range []string{"resume", "fork"} {
		r := s.want(404, "POST", "/v1/runs", `{"task":"x","workingDir":"/srv/none","`+earlier+`":{"selector":"last"}}`)
		if !strings.Contains(string(r.body), `"detail":"`+earlier+`: no session found"`) {
			t.Errorf("no last thread: %s", r.body)
		}
	}
	s.want(501, "POST", "/v1/runs", `{"task":"x","agent":"gemini","fork":{"selector":"id","id":"`+thread+`"}}`)

	// What does not.
	runPaths := []string{
		"GET ", "GET /events", "GET /detail", "GET /output", "GET /diff", "GET /wait", "PUT /seen", "POST /cancel",
		"POST /resume", "GET /questions/q1/request", "POST /questions/q1/answer",
	}
	ask := func(status int, op, id, body string, header ...string) reply {
		method, tail, _ := strings.Cut(op, " ")
		return s.want(status, method, "/v1/runs/"+id+tail, body, header...)
	}
	body := func(op string) string {
		switch {
		case !strings.HasPrefix(op, "POST"):
			return ""
		case strings.HasSuffix(op, "/answer"):
			return `{"option":"allow"}`
		}
		return `{"task":"go"}`
	}
	for _, op := range runPaths {
		post := body(op)
		ask(404, op, "none", post)
		ask(400, op+"?no=such", "done", post)
	}
	var all []string
	for path, methods := range s.document.paths {
		for method, o := range methods {
			all = append(all, method+" "+strings.NewReplacer("{id}", "done", "{question}", "q1").Replace(path))
			if len(o.Security) != 1 || o.Security[0]["token"] == nil {
				t.Errorf("%s %s does not say its scope", method, path)
			}
		}
	}
	reader, err := httpserver.CreateToken(filepath.Join(s.Dir, "tokens.json"), "reader", httpserver.Read, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range all {
		method, path, _ := strings.Cut(op, " ")
		post := body(op)
		s.want(401, method, path, post, "Authorization", "Bearer wrong")
		s.want(406, method, path, post, "Accept", "image/png")
		s.want(400, method, path+"?no=such", post)
		scope := "read"
		for _, r := range s.api.Routes() {
			if r.Pattern == method+" "+template(path) {
				scope = r.Scope
			}
		}
		if want, _ := s.document.paths[template(path)][method].Security[0]["token"].([]any); len(want) != 1 ||
			want[0] != scope {
			t.Errorf("%s is for %v in the document, and for %s", op, want, scope)
		}
		if scope != "read" {
			if r := s.want(403, method, path, post, "Authorization", "Bearer "+reader); !strings.Contains(string(r.body),
				"scope "+scope) {
				t.Errorf("%s: the scope is not named: %s", op, r.body)
			}
		}
		if method == "POST" || method == "PATCH" {
			s.want(413, method, path, `{"task":"`+strings.Repeat("x", 8<<20)+`"}`)
			s.want(415, method, path, "task=go", "Content-Type", "application/x-www-form-urlencoded")
		}
		s.want(403, method, path, post, "Origin", "https://evil.example")
	}
	s.want(409, "GET", "/v1/runs/done/events?after=999999999", "")
	s.want(409, "GET", "/v1/runs/done/detail?after=999999999.1", "")
	s.want(409, "GET", "/v1/events?after=999999999", "")
	s.want(404, "GET", "/v1/events?run=none", "")
	s.want(409, "POST", "/v1/runs/done/cancel", "")
	s.want(409, "POST", "/v1/runs/T-none-thread/resume", `{"task":"x"}`, silent(s)...)
	s.want(501, "POST", "/v1/runs/T-cloud-1/cancel", "")
	s.want(501, "POST", "/v1/runs/T-cloud-1/resume", `{"task":"x"}`)

	// A record that cannot be read is an internal error.
	damage(s, "done")
	if r := s.want(500, "GET", "/v1/runs/done", ""); strings.Contains(string(r.body), "KV_") {
		t.Errorf("what is inside is told: %s", r.body)
	}

	// A responder that has not read its table.
	young := prepare(t, false, func(c *config) { c.service.Patience = time.Millisecond })
	for _, op := range all {
		if method, path, _ := strings.Cut(op, " "); path != "/v1/openapi.json" {
			r := young.want(503, method, path, body(op))
			if r.header.Get("Retry-After") == "" {
				t.Errorf("%s: 503 without Retry-After", op)
			}
		}
	}

	maps.Copy(s.document.reached, young.document.reached)
	for path, methods := range s.document.paths {
		for method, o := range methods {
			for status := range o.Responses {
				if _, listed := o.Responses["403"]; listed && status == "default" {
					continue // a foreign page is the 403 there
				}
				if !s.document.reached[method+" "+path+" "+status] {
					t.Errorf("%s %s %s is in the document and was not given", method, path, status)
				}
			}
		}
	}
}

// silent makes a run without a thread.
func silent(s *stage) []string {
	l := s.Begin("codex", "T-none-thread", runs.Start{Source: "run"})
	l.Exit(0)
	return nil
}

// damage overwrites the record of a run.
func damage(s *stage, run string) {
	s.T.Helper()
	credentials, err := embedded.LoadCredentials(s.Dir)
	if err != nil {
		s.T.Fatal(err)
	}
	login, _ := credentials.Logins(s.Server.URL(), embedded.OperatorUser)
	conn, err := nats.Connect(login.URL, nats.UserInfo(login.User, login.Password),
		nats.CustomInboxPrefix(bus.InboxPrefix(login.User)), nats.Timeout(fixture.Patience))
	if err != nil {
		s.T.Fatal(err)
	}
	defer conn.Close()
	m, err := conn.Request("$KV.linesman_runs."+run, []byte("no record"), fixture.Patience)
	if err != nil || strings.Contains(string(m.Data), "error") {
		s.T.Fatalf("damage: %v %s", err, m.Data)
	}
}

// Generators of clients want a server: a relative one is where the document is.
func TestDocumentNamesItsServer(t *testing.T) {
	var doc struct{ Servers []struct{ URL string } }
	if err := json.Unmarshal(rest.Document, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Servers) != 1 || doc.Servers[0].URL != "/" {
		t.Errorf("servers: %+v", doc.Servers)
	}
}

func TestDocumentAndHandlersAreTheSame(t *testing.T) {
	var handled, described []string
	for _, r := range rest.New(rest.Config{}).Routes() {
		handled = append(handled, r.Pattern)
	}
	ids := map[string]bool{}
	for path, methods := range readDocument(t).paths {
		for method, o := range methods {
			described = append(described, method+" "+path)
			if o.ID == "" || ids[o.ID] {
				t.Errorf("%s %s: operationId %q", method, path, o.ID)
			}
			ids[o.ID] = true
		}
	}
	slices.Sort(handled)
	slices.Sort(described)
	if !slices.Equal(handled, described) {
		t.Errorf("handlers %q\ndocument %q", handled, described)
	}
}

// A body has the parameters of the tool, under the same names or in camel case,
// but for what the path and the headers say.
func TestBodiesHaveTheParametersOfTheTools(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any
				Required   []string
			}
		}
	}
	if err := json.Unmarshal(rest.Document, &doc); err != nil {
		t.Fatal(err)
	}
	for schema, params := range map[string][]request.Param{
		"RunRequest": request.TaskParams, "ResumeRequest": request.ContinueParams, "CancelRequest": request.CancelParams,
	} {
		var input struct{ Properties map[string]any }
		if err := json.Unmarshal(request.Schema(params), &input); err != nil {
			t.Fatal(err)
		}
		for _, own := range []string{"format", "threadId", "task_id"} {
			delete(input.Properties, own)
		}
		if schema == "ResumeRequest" {
			delete(input.Properties, "agent") // that of the thread
		}
		maps.DeleteFunc(input.Properties, func(name string, _ any) bool { return slices.Contains(ofAdCP, name) })
		var want []string
		for name := range input.Properties {
			switch name {
			case "allow_destructive_git":
				name = "allowDestructiveGit"
			case "idempotency_key":
				name = "idempotencyKey"
			}
			want = append(want, name)
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(doc.Components.Schemas[schema].Properties)); !slices.Equal(got, want) {
			t.Errorf("%s has %q, and the tool takes %q", schema, got, want)
		}
	}
}

// ofAdCP are parameters of the AdCP envelope, which the tools take too.
var ofAdCP = []string{"context", "context_id", "governance_context", "push_notification_config", "adcp_version",
	"adcp_major_version", "account"}

// The page lists every operation, with its scope.
func TestPageListsEveryOperation(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "rest.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rest.New(rest.Config{}).Routes() {
		if row := "| `" + r.Pattern + "` | " + r.Scope + " | "; !strings.Contains(string(page), row) {
			t.Errorf("docs/rest.md has no row %s", row)
		}
	}
}
