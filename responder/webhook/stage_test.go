package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// Secrets that only receivers may see.
const (
	secret = "sentinel-credentials-5f0c2a9b77e14d"
	token  = "sentinel-token-91c3d6"
	path   = "/sentinel-path-e21b"

	echoed = `{"b":1, "a":"<é>"}` // a context with unusual formatting
)

var names = bus.Names{Prefix: bus.DefaultPrefix}

// stage is a server with its streams and a running normalizer.
type stage struct {
	t         *testing.T
	dir       string
	server    *embedded.Server
	bus       *bus.Bus // the operator's
	logs      *zap.Logger
	logged    *bytes.Buffer
	hurry     bool // requests take half a second at most
	impatient bool // notifications are given up soon if the outbox is crowded
	key       *webhook.Key
	mu        sync.Mutex
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, logged: &bytes.Buffer{}}
	s.logs = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(s),
		zap.DebugLevel))
	s.server, s.bus = bustest.Serve(t, func(dir, addr string, n bus.Names, log *zap.Logger) (*embedded.Server, error) {
		s.dir = dir
		return embedded.StartServer(dir, addr, n, log)
	})
	n := &pipeline.Normalizer{Bus: s.connect(embedded.NormalizerUser), Out: names, Backends: []normalizer.Backend{
		codex.Backend{}}, Log: zap.NewNop()}
	s.during("normalizer", n.Run)
	return s
}

// Write collects the log.
func (s *stage) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logged.Write(b)
}

func (s *stage) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logged.String()
}

func (s *stage) connect(user string) *bus.Bus {
	s.t.Helper()
	b, err := s.server.Connect(s.t.Context(), user, names, s.logs)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(b.Close)
	return b
}

// during runs something until the test ends, or stop is called.
func (s *stage) during(what string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("%s: %v", what, err)
		}
	})
	s.t.Cleanup(stop)
	return stop
}

// node is a responder with its tools and its pusher.
type node struct {
	*stage
	config    responder.Config
	responder *responder.Service
	tools     *tools.Set
	registry  *webhook.Registry
	pusher    *webhook.Pusher
	stop      func()
}

// node starts one. Change may change how its pusher is configured.
func (s *stage) node(change func(*webhook.Config)) *node {
	s.t.Helper()
	b := s.connect(embedded.ResponderUser)
	n := &node{stage: s, registry: webhook.NewRegistry(b.PushStore(), webhook.AdCP,
		webhook.Rules{Private: true, Key: s.key, Log: s.logs})}
	n.config = configured(b, s.logs)
	n.config.Webhooks, n.config.Requests = n.registry, &idempotency.Requests{Store: b.RequestStore(), TTL: time.Hour}
	n.serve()
	cfg := webhook.Config{
		Registrations: b.PushStore(), Outbox: b.PushStore(), Runs: n.responder.Standing(), Private: true, Key: s.key,
		Log: s.logs, Encoders: map[string]webhook.Encoder{webhook.AdCP: adcp.NewNotices(n.responder)},
	}
	if change != nil {
		change(&cfg)
	}
	n.pusher = webhook.New(cfg)
	n.pusher.Pace(50 * time.Millisecond)
	if s.hurry {
		n.pusher.Hurry(500 * time.Millisecond)
	}
	if s.impatient {
		n.pusher.Patience(time.Millisecond)
	}
	n.stop = s.during("pusher", n.pusher.Run)
	return n
}

// serve starts a service with the node's configuration, and its tools.
func (n *node) serve() {
	n.t.Helper()
	n.responder = responder.New(n.config)
	n.during("responder", n.responder.Run)
	if err := n.responder.Ready(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	n.tools = tools.New(n.responder)
}

func configured(b *bus.Bus, log *zap.Logger) responder.Config {
	return responder.Config{Streams: b, Queue: bus.DefaultQueue, LostAfter: time.Minute, MaxHard: time.Hour, Log: log,
		Patience: fixture.Patience}
}

// call calls a tool, in format adcp.
func (n *node) call(ctx context.Context, tool string, arguments map[string]any) (answer map[string]any, raw string) {
	n.t.Helper()
	arguments["format"] = "adcp"
	args, err := json.Marshal(arguments)
	if err != nil {
		n.t.Fatal(err)
	}
	args = bytes.Replace(args, []byte(`"@echoed"`), []byte(echoed), 1)
	a, err := n.tools.Call(ctx, tool, args, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := json.Unmarshal(a.Envelope, &answer); err != nil {
		n.t.Fatal(err)
	}
	shown := a.Envelope // but for the address that the answer confirms
	if confirmed, ok := answer["push_notification_config"].(map[string]any); ok {
		shown = bytes.Replace(shown, fmt.Append(nil, confirmed["url"]), nil, 1)
	}
	if bytes.Contains(shown, []byte("sentinel")) {
		n.t.Errorf("an answer shows what is secret: %s", a.Envelope)
	}
	return answer, string(a.Envelope)
}

// submit submits a task with a webhook, and returns its run.
func (n *node) submit(key, url, scheme string) string {
	n.t.Helper()
	answer, raw := n.call(n.t.Context(), "_codex_local_exec", map[string]any{
		"task": "do it", "idempotency_key": key, "context": "@echoed",
		"push_notification_config": config(url, scheme),
	})
	run, _ := answer["task_id"].(string)
	if answer["status"] != "submitted" || run == "" {
		n.t.Fatalf("not submitted: %s", raw)
	}
	return run
}

func config(url, scheme string) map[string]any {
	c := map[string]any{"url": url + path, "operation_id": "op_1", "token": token}
	if scheme != "" {
		c["authentication"] = map[string]any{"schemes": []string{scheme}, "credentials": secret}
	}
	return c
}

// start starts a run as a worker would, and end ends it.
func (s *stage) start(run string) *bus.RawLog {
	s.t.Helper()
	raw, err := s.bus.OpenLog(s.t.Context(), "codex", run, runs.Mark{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.append(raw, runs.Entry{Kind: runs.Started, Time: 1_763_461_801_000,
		Body: runs.Encode(runs.Start{Source: "queue", Worker: "w"})})
	return raw
}

func (s *stage) append(raw *bus.RawLog, e runs.Entry) {
	s.t.Helper()
	if err := raw.Append(s.t.Context(), e); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) end(raw *bus.RawLog, code int) {
	s.t.Helper()
	out, err := os.ReadFile(filepath.Join("..", "..", "test", "corpus", "codex", "hello.jsonl"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.append(raw, runs.Entry{Kind: runs.Out, Time: 1_763_461_802_000, Body: out})
	s.append(raw, runs.Entry{Kind: runs.Exited, Time: 1_763_461_803_000,
		Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code})})
}

// waiting counts the notifications in the outbox.
func (s *stage) waiting() int {
	s.t.Helper()
	n, err := s.bus.PushStore().Waiting(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *stage) until(what string, ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(fixture.Patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			s.t.Fatalf("%s: it does not come to that\n%s", what, s.log())
		}
	}
}

// quiet checks that no secret was logged.
func (s *stage) quiet() {
	s.t.Helper()
	if i := strings.Index(s.log(), "sentinel"); i >= 0 {
		s.t.Errorf("the log shows what is secret: %s", s.log()[max(0, i-300):i+20])
	}
}

// receiver is a webhook receiver.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got []request
}

type request struct {
	header http.Header
	body   []byte
	status int // of the response; 0: none
}

// receive starts a receiver. Answer returns the status for the n-th request
// with a key, from 1; a negative status closes the connection.
func receive(t *testing.T, answer func(n int, w http.ResponseWriter, body []byte, gone <-chan struct{}) int) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		r.mu.Lock()
		n := 1
		for _, before := range r.got {
			if bytes.Equal(before.body, body) {
				n++
			}
		}
		at := len(r.got)
		r.got = append(r.got, request{q.Header, body, 0})
		r.mu.Unlock()
		status := http.StatusOK
		if answer != nil {
			status = answer(n, w, body, q.Context().Done())
		}
		r.mu.Lock()
		r.got[at].status = status
		r.mu.Unlock()
		if status < 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.Repeat("sentinel-answer ", 1<<12))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]request(nil), r.got...)
}

// taken returns the bodies that were answered 200, by run and status.
func (r *receiver) taken() map[string][]string {
	all := map[string][]string{}
	for _, q := range r.requests() {
		if q.status == http.StatusOK {
			var b struct {
				Task   string `json:"task_id"`
				Status string
			}
			if json.Unmarshal(q.body, &b) == nil {
				at := fmt.Sprint(b.Task, " ", b.Status)
				all[at] = append(all[at], string(q.body))
			}
		}
	}
	return all
}
