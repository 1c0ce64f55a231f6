package a2a_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/a2a"
	"github.com/linesman/linesman/responder/httpserver"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

func TestMain(m *testing.M) {
	fixture.VerifyGoroutines(m, goleak.IgnoreTopFunction(
		"github.com/nats-io/nats-server/v2/server.(*Server).startOSSignalHandler.func1"))
}

const token = "0123456789abcdef"

// lab is a NATS server with its streams and a running normalizer.
type lab struct {
	t     testing.TB
	dir   string
	bus   *bus.Bus // with the rights of a responder
	write *bus.Bus // with the rights of a worker
}

func newLab(t testing.TB) *lab {
	t.Helper()
	s := servicetest.New(t)
	return &lab{t: t, dir: s.Dir, bus: s.Bus, write: s.Operator}
}

// endpoint is a service and its HTTP server.
type endpoint struct {
	*lab
	service *responder.Service
	url     string
	stop    func()
}

// endpoint starts a responder, as often as one likes.
func (l *lab) endpoint(change func(*a2a.Config)) *endpoint {
	l.t.Helper()
	return l.endpointOf(responder.Config{Requests: &idempotency.Requests{Store: l.bus.RequestStore()}}, change)
}

// endpointOf is endpoint with more settings of the service.
func (l *lab) endpointOf(c responder.Config, change func(*a2a.Config)) *endpoint {
	l.t.Helper()
	c.Streams, c.Queue, c.LostAfter, c.MaxHard = l.bus, bus.DefaultQueue, time.Minute, time.Hour
	c.Patience = fixture.Patience
	d := &endpoint{lab: l, service: responder.New(c)}
	server, err := httpserver.New(httpserver.Config{Listen: "127.0.0.1:0", Token: token, Tokens: l.tokens()})
	if err != nil {
		l.t.Fatal(err)
	}
	addr, err := server.Listen()
	if err != nil {
		l.t.Fatal(err)
	}
	d.url = "http://" + addr.String()
	cfg := a2a.Config{Service: d.service, Tools: tools.New(d.service), URL: d.url, Version: "0.0.0-test", Allows: allows}
	if change != nil {
		change(&cfg)
	}
	for _, r := range a2a.New(cfg).Routes() {
		if r.Scope == "" {
			server.HandlePublic(r.Pattern, r.Handler)
			continue
		}
		scope, err := httpserver.ScopeOf(r.Scope)
		if err != nil {
			l.t.Fatal(err)
		}
		server.HandleFor(scope, r.Pattern, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			r.Handler.ServeHTTP(w, q.WithContext(responder.WithCaller(q.Context(), httpserver.Caller(q.Context()))))
		}))
	}
	stopService := servicetest.During(l.t, "service", d.service.Run)
	stopWeb := servicetest.During(l.t, "web", server.Serve)
	d.stop = func() {
		stopWeb()
		stopService()
	}
	return d
}

func allows(ctx context.Context, scope string) bool {
	s, err := httpserver.ScopeOf(scope)
	return err == nil && httpserver.Allows(ctx, s)
}

func (l *lab) tokens() string { return filepath.Join(l.dir, "tokens.json") }

// surface is one of the ways to speak A2A.
type surface struct {
	name    string
	path    string
	binding sdk.TransportProtocol
	version sdk.ProtocolVersion
}

var surfaces = []surface{
	{"jsonrpc", "/a2a", sdk.TransportProtocolJSONRPC, "1.0"},
	{"rest", "/a2a/v1", sdk.TransportProtocolHTTPJSON, "1.0"},
	{"jsonrpc-0.3", "/a2a", sdk.TransportProtocolJSONRPC, "0.3"},
}

// client is a2a-go's own client.
func (d *endpoint) client(s surface, bearer string) *a2aclient.Client {
	d.t.Helper()
	transport := &http.Transport{}
	d.t.Cleanup(transport.CloseIdleConnections)
	h := &http.Client{Transport: transport}
	at := &sdk.AgentInterface{URL: d.url + s.path, ProtocolBinding: s.binding, ProtocolVersion: s.version}
	c, err := a2aclient.NewFromEndpoints(d.t.Context(), []*sdk.AgentInterface{at},
		a2aclient.WithJSONRPCTransport(h), a2aclient.WithRESTTransport(h),
		a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{Client: h}),
		a2av0.WithRESTTransport(a2av0.RESTTransportConfig{Client: h}),
		a2aclient.WithCallInterceptors(shows(bearer)))
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// shows is an interceptor that shows a token.
type bearerToken struct {
	a2aclient.PassthroughInterceptor
	token string
}

func shows(token string) a2aclient.CallInterceptor { return &bearerToken{token: token} }

func (b *bearerToken) Before(ctx context.Context, r *a2aclient.Request) (context.Context, any, error) {
	r.ServiceParams.Append("authorization", "Bearer "+b.token)
	return ctx, nil, nil
}

// post sends a body, and returns the answer to it.
func (d *endpoint) post(path, body string, header ...string) (int, gjson.Result) {
	d.t.Helper()
	return d.ask("POST", path, body, header...)
}

func (d *endpoint) ask(method, path, body string, header ...string) (int, gjson.Result) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Close = true
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	text := strings.TrimSpace(string(got))
	if lines := strings.Split(text, "\n"); strings.HasPrefix(text, "id:") { // the first event of a stream
		text = strings.TrimPrefix(lines[1], "data: ")
	}
	return answer.StatusCode, gjson.Parse(text)
}

// log is the raw log of a run that a test writes in a worker's place.
type log struct {
	d   *endpoint
	id  string
	raw *bus.RawLog
}

// work begins a run that is queued, or one that is not there yet.
func (d *endpoint) work(id string) *log {
	d.t.Helper()
	return d.begin("codex", id, runs.Start{Source: "queue", Attributes: runs.Attributes{Dir: "/home/dev/project"},
		Worker: "w1"})
}

func (d *endpoint) begin(agent, id string, start runs.Start) *log {
	d.t.Helper()
	raw, err := d.write.OpenLog(d.t.Context(), agent, id, runs.Mark{})
	if err != nil {
		d.t.Fatal(err)
	}
	l := &log{d: d, id: id, raw: raw}
	l.append(runs.Entry{Kind: runs.Started, Body: runs.Encode(start)})
	return l
}

func (l *log) append(e runs.Entry) {
	l.d.t.Helper()
	e.Time = time.Now().UnixMilli()
	if err := l.raw.Append(l.d.t.Context(), e); err != nil {
		l.d.t.Fatal(err)
	}
}

func (l *log) out(lines ...string) *log {
	l.d.t.Helper()
	for _, line := range lines {
		l.append(runs.Entry{Kind: runs.Out, Offset: l.raw.Mark().Out, Body: []byte(line + "\n")})
	}
	return l
}

func (l *log) exit(reason runs.Reason, code int) {
	l.d.t.Helper()
	l.append(runs.Entry{Kind: runs.Exited, Body: runs.Encode(runs.Exit{Reason: reason, Code: &code})})
	l.d.await(l.id, func(v runs.Header) bool { return v.State.Final() })
}

// play makes a run of a recording, on a thread of its own.
func (d *endpoint) play(id, name, thread string, code int) {
	d.t.Helper()
	text := strings.TrimSpace(string(servicetest.Recording(d.t, name+".jsonl")))
	if thread != "" {
		text = strings.ReplaceAll(text, gjson.Get(text, "thread_id").String(), thread)
	}
	d.work(id).out(strings.Split(text, "\n")...).exit(runs.ReasonExited, code)
}

// await waits until the responder knows a run to be so.
func (d *endpoint) await(id string, is func(runs.Header) bool) runs.Header {
	d.t.Helper()
	return (&servicetest.Streams{T: d.t, Service: d.service}).Await(id, is)
}

// Lines of an agent.
const (
	thread  = "01a1fd7c-3234-7431-a730-2b1ea25bc865"
	begins  = `{"type":"thread.started","thread_id":"` + thread + `"}`
	turns   = `{"type":"turn.started"}`
	says    = `{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"I will look."}}`
	secret  = `{"type":"item.completed","item":{"id":"item_2","type":"command_execution","command":"cat sentinel-command","aggregated_output":"sentinel-output","exit_code":0,"status":"completed"}}`
	answers = `{"type":"item.completed","item":{"id":"item_3","type":"agent_message","text":"Two files."}}`
	ends    = `{"type":"turn.completed","usage":{"input_tokens":2400,"cached_input_tokens":2000,"cache_write_input_tokens":0,"output_tokens":160,"reasoning_output_tokens":40}}`
)

// finish plays a whole run of a queued task.
func (d *endpoint) finish(id string) {
	d.t.Helper()
	d.work(id).out(begins, turns, says, secret, answers, ends).exit(runs.ReasonExited, 0)
}

func user(text string) *sdk.Message {
	return sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text))
}

func now(m *sdk.Message) *sdk.SendMessageRequest {
	return &sdk.SendMessageRequest{Message: m, Config: &sdk.SendMessageConfig{ReturnImmediately: true}}
}
