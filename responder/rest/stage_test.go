package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"

	"go.uber.org/goleak"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/httpserver"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/adcptest"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

func TestMain(m *testing.M) {
	if os.Getenv("TEST_STREAMS") != "" {
		if err := readStreams(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	fixture.VerifyGoroutines(m, goleak.IgnoreTopFunction(
		"github.com/nats-io/nats-server/v2/server.(*Server).startOSSignalHandler.func1"))
}

const token = "0123456789abcdef"

// stage is a server with its streams, a normalizer and a service, and the API on
// an HTTP server.
type stage struct {
	*servicetest.Streams
	api      *rest.API
	client   *http.Client
	url      string
	document *document
}

// config is what a test may change of a stage.
type config struct {
	rest    rest.Config
	service responder.Config
}

func newStage(t testing.TB, change func(*config)) *stage { return prepare(t, true, change) }

// prepare makes a stage; a responder that does not work has read nothing.
func prepare(t testing.TB, work bool, change func(*config)) *stage {
	t.Helper()
	s := &stage{Streams: servicetest.New(t), document: readDocument(t)}
	cfg := config{service: responder.Config{
		Streams: s.Bus, Queue: bus.DefaultQueue, LostAfter: time.Minute, MaxHard: time.Hour,
		Requests: &idempotency.Requests{Store: s.Bus.RequestStore()}, Away: func() bool { return !s.Bus.Connected() },
		Details: servicetest.Details(), Patience: fixture.Patience,
	}}
	if change != nil {
		change(&cfg)
	}
	s.Service = responder.New(cfg.service)
	if work {
		servicetest.During(t, "responder", s.Service.Run)
		if err := s.Service.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	cfg.rest.Service = s.Service
	cfg.rest.Allows = func(ctx context.Context, scope string) bool {
		needed, err := httpserver.ScopeOf(scope)
		return err == nil && httpserver.Allows(ctx, needed)
	}
	s.serve(cfg.rest)
	return s
}

func (s *stage) serve(cfg rest.Config) {
	s.T.Helper()
	s.api = rest.New(cfg)
	server, err := httpserver.New(httpserver.Config{Listen: "127.0.0.1:0", Token: token, Tokens: filepath.Join(s.Dir,
		"tokens.json"), Refuse: rest.Refuse})
	if err != nil {
		s.T.Fatal(err)
	}
	for _, r := range s.api.Routes() {
		scope, err := httpserver.ScopeOf(r.Scope)
		if err != nil {
			s.T.Fatal(err)
		}
		server.HandleFor(scope, r.Pattern, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			r.Handler.ServeHTTP(w, q.WithContext(responder.WithCaller(q.Context(), httpserver.Caller(q.Context()))))
		}))
	}
	addr, err := server.Listen()
	if err != nil {
		s.T.Fatal(err)
	}
	s.url = "http://" + addr.String()
	servicetest.During(s.T, "web", server.Serve)
	transport := &http.Transport{}
	s.client = &http.Client{Transport: transport}
	s.T.Cleanup(transport.CloseIdleConnections)
}

// reply is an answer that was checked against the document.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// read decodes the body.
func (r reply) read(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
}

// open sends a request; header are pairs. "Authorization" is the whole token's
// unless it is given.
func (s *stage) open(ctx context.Context, method, path, body string, header ...string) *http.Response {
	s.T.Helper()
	answer, err := s.try(ctx, method, path, body, header...)
	if err != nil {
		s.T.Fatal(err)
	}
	return answer
}

// try is open that may fail.
func (s *stage) try(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return s.client.Do(r)
}

// ask sends a request and checks the answer against the document.
func (s *stage) ask(method, path, body string, header ...string) reply {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.T.Context(), time.Minute)
	defer cancel()
	answer := s.open(ctx, method, path, body, header...)
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		s.T.Fatalf("%s %s: %v", method, path, err)
	}
	r := reply{answer.StatusCode, answer.Header, got}
	s.document.check(s.T, method, path, r)
	return r
}

// want is ask, for a status.
func (s *stage) want(status int, method, path, body string, header ...string) reply {
	s.T.Helper()
	r := s.ask(method, path, body, header...)
	if r.status != status {
		s.T.Errorf("%s %s: %d, want %d: %.600s", method, path, r.status, status, r.body)
	}
	return r
}

// play makes a run of a recording.
func (s *stage) play(id, name string, code int) {
	s.T.Helper()
	l := s.Begin("codex", id, runs.Start{Source: "run", Attributes: runs.Attributes{Dir: "/home/dev/project",
		Labels: runs.LabelsOf(map[string]string{"team": "a"})}, Worker: "w1"})
	l.OutIn(servicetest.Recording(s.T, name+".jsonl"), 700).Err(servicetest.Recording(s.T, name+".stderr")).Exit(code)
}

// document is openapi.json, compiled, and what of it was answered.
type document struct {
	compiler *jsonschema.Compiler
	paths    map[string]map[string]operation

	mu      sync.Mutex
	reached map[string]bool
}

type operation struct {
	ID        string              `json:"operationId"`
	Security  []map[string]any    `json:"security"`
	Responses map[string]response `json:"responses"`
}

type response struct {
	Headers map[string]struct {
		Required bool `json:"required"`
	} `json:"headers"`
	Content map[string]json.RawMessage `json:"content"`
}

func readDocument(t testing.TB) *document {
	t.Helper()
	d := &document{compiler: jsonschema.NewCompiler(), paths: map[string]map[string]operation{},
		reached: map[string]bool{}}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(rest.Document))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.compiler.AddResource("http://linesman/openapi.json", whole); err != nil {
		t.Fatal(err)
	}
	var paths struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(rest.Document, &paths); err != nil {
		t.Fatal(err)
	}
	for path, item := range paths.Paths {
		d.paths[path] = map[string]operation{}
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var o operation
			if err := json.Unmarshal(raw, &o); err != nil {
				t.Fatal(err)
			}
			d.paths[path][strings.ToUpper(method)] = o
		}
	}
	return d
}

// template is the path of the document that a request fits.
func template(path string) string {
	path, _, _ = strings.Cut(path, "?")
	part := strings.Split(path, "/")
	if len(part) > 3 && part[2] == "runs" {
		part[3] = "{id}"
	}
	if len(part) > 5 && part[4] == "questions" {
		part[5] = "{question}"
	}
	if len(part) > 5 && part[4] == "messages" && part[5] != "release" {
		part[5] = "{message}"
	}
	return strings.Join(part, "/")
}

func escape(s string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }

// check holds an answer against what the document says of it.
func (d *document) check(t testing.TB, method, path string, r reply) {
	t.Helper()
	at := template(path)
	o, known := d.paths[at][method]
	if !known {
		return // what is not there is answered by the HTTP server
	}
	status := fmt.Sprint(r.status)
	answer, listed := o.Responses[status]
	if !listed {
		status = "default"
		if answer, listed = o.Responses[status]; !listed || r.status < 400 {
			t.Errorf("%s %s: the document does not know status %d: %.300s", method, path, r.status, r.body)
			return
		}
	}
	d.mu.Lock()
	d.reached[method+" "+at+" "+status] = true
	d.mu.Unlock()
	for name, header := range answer.Headers {
		if header.Required && r.header.Get(name) == "" {
			t.Errorf("%s %s: %d without %s", method, path, r.status, name)
		}
	}
	media := r.header.Get("Content-Type")
	if len(answer.Content) == 0 {
		if len(r.body) > 0 {
			t.Errorf("%s %s: %d with a body: %.300s", method, path, r.status, r.body)
		}
		return
	}
	if _, listed := answer.Content[media]; !listed {
		t.Errorf("%s %s: %d as %q, which the document does not know", method, path, r.status, media)
		return
	}
	if !strings.HasSuffix(media, "json") {
		return
	}
	schema, err := d.compiler.Compile(fmt.Sprintf(
		"http://linesman/openapi.json#/paths/%s/%s/responses/%s/content/%s/schema",
		escape(at), strings.ToLower(method), status, escape(media)))
	if err != nil {
		t.Fatal(err)
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.body))
	if err != nil {
		t.Errorf("%s %s: %d is no JSON: %v", method, path, r.status, err)
		return
	}
	if err := schema.Validate(body); err != nil {
		t.Errorf("%s %s: %d does not fit the document: %v\n%.2000s", method, path, r.status, err, r.body)
	}
	if media == "application/adcp+json" {
		adcptest.Envelope(t, r.body)
	} else if r.status >= 400 && (!strings.Contains(string(r.body), fmt.Sprintf(`"status":%d`, r.status))) {
		t.Errorf("%s %s: the problem does not tell status %d: %s", method, path, r.status, r.body)
	}
}
