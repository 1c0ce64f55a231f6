package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	v36 "github.com/linesman/linesman/responder/v36"
)

func TestMain(m *testing.M) { fixture.VerifyGoroutines(m) }

const legacy = "2025-11-25"

// tool is a tool of a test; tools are the tools of a server.
type (
	tool  func(ctx context.Context, args json.RawMessage, progress func(v36.Progress)) (v36.Answer, error)
	tools map[string]tool
)

func (t tools) Call(ctx context.Context, name string, args json.RawMessage, progress func(v36.Progress)) (v36.Answer,
	error) {
	f, ok := t[name]
	if !ok {
		return v36.Answer{}, v36.ErrUnknownTool
	}
	return f(ctx, args, progress)
}

// echo returns its arguments, as JSON if they ask for it.
func echo(_ context.Context, args json.RawMessage, _ func(v36.Progress)) (v36.Answer, error) {
	var in struct{ Format string }
	if err := json.Unmarshal(args, &in); err != nil {
		return v36.Answer{Envelope: []byte(`{"status":"error"}`), Markdown: "bad arguments: " + string(args), IsError: true},
			nil
	}
	envelope := []byte(`{"status":"ok","data":` + string(args) + `}`)
	if in.Format == "json" {
		return v36.Answer{Envelope: envelope, JSON: true}, nil
	}
	return v36.Answer{Envelope: envelope, Markdown: "**said** " + string(args)}, nil
}

var schema = v36.Schema{
	URI: "linesman://schemas/codex/v3.6/status_snapshot/v1", Name: "status_snapshot", Description: "Envelope.",
	Body: []byte(`{"type":"object"}`),
}

func config(t tools) Config {
	c := Config{Tools: t, Schemas: []v36.Schema{schema}, Version: "1.2.3"}
	for name := range t {
		c.List = append(c.List, v36.Tool{
			Name: name, Title: "Title of " + name, Description: "Does it.", Category: "status_snapshot",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"format":{"type":"string"}}}`),
			Hints:       v36.Hints{ReadOnly: true, OpenWorld: true},
		})
	}
	return c
}

// everywhere runs a test over each transport and revision that clients use.
func everywhere(t *testing.T, c Config, opts *sdk.ClientOptions, f func(t *testing.T, client *sdk.ClientSession)) {
	for _, transport := range []string{"stdio", "http"} {
		for _, revision := range []string{legacy, stateless} {
			t.Run(transport+" "+revision, func(t *testing.T) {
				server := NewServer(c)
				var to sdk.Transport
				if transport == "http" {
					to = &sdk.StreamableClientTransport{Endpoint: serve(t, Handler(server)), MaxRetries: -1}
				} else {
					in, out := serveStdio(t, t.Context(), server)
					to = &sdk.IOTransport{Reader: out, Writer: in}
				}
				client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, opts).
					Connect(t.Context(), to, &sdk.ClientSessionOptions{ProtocolVersion: revision})
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				if got := client.InitializeResult().ProtocolVersion; got != revision {
					t.Fatalf("revision %s was agreed on, want %s", got, revision)
				}
				f(t, client)
			})
		}
	}
}

// serve serves an endpoint on loopback until the test ends.
func serve(t *testing.T, e *Endpoint) string {
	t.Helper()
	s := httptest.NewServer(e)
	t.Cleanup(func() {
		e.Close()
		s.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return s.URL
}

// serveStdio serves a client over pipes, and waits for its end when the test
// ends.
func serveStdio(t *testing.T, ctx context.Context, server *sdk.Server) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := ServeStdio(ctx, server, fromClient, toClient)
		toClient.Close()
		done <- err
	}()
	t.Cleanup(func() {
		in.Close()
		fromClient.Close()
		go func() { _, _ = io.Copy(io.Discard, out) }()
		if err := <-done; err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
		out.Close()
	})
	return in, out
}

func call(t *testing.T, client *sdk.ClientSession, name string, args any) *sdk.CallToolResult {
	t.Helper()
	res, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

func text(t *testing.T, r *sdk.CallToolResult) string {
	t.Helper()
	if len(r.Content) != 1 {
		t.Fatalf("%d blocks of content, want 1", len(r.Content))
	}
	block, ok := r.Content[0].(*sdk.TextContent)
	if !ok {
		t.Fatalf("content is a %T, want text", r.Content[0])
	}
	return block.Text
}

func TestAnswerIsTextAndAnEnvelopeWhenAskedFor(t *testing.T) {
	everywhere(t, config(tools{"echo": echo}), nil, func(t *testing.T, client *sdk.ClientSession) {
		res := call(t, client, "echo", map[string]any{"n": 1})
		if got, want := text(t, res), `**said** {"n":1}`; got != want || res.StructuredContent != nil || res.IsError {
			t.Errorf("markdown: got %q, structured %v, error %t; want %q alone", got, res.StructuredContent, res.IsError, want)
		}
		res = call(t, client, "echo", map[string]any{"format": "json"})
		want := `{"status":"ok","data":{"format":"json"}}`
		structured := map[string]any{"status": "ok", "data": map[string]any{"format": "json"}}
		if got := text(t, res); got != want || !reflect.DeepEqual(res.StructuredContent, structured) {
			t.Errorf("json: got %q and %v, want %s in both", got, res.StructuredContent, want)
		}
	})
}

func TestBadArgumentsGetTheToolsOwnAnswer(t *testing.T) {
	everywhere(t, config(tools{"echo": echo}), nil, func(t *testing.T, client *sdk.ClientSession) {
		for _, c := range []struct {
			args  any
			want  string
			error bool
		}{
			{map[string]any{"format": 7}, `bad arguments: {"format":7}`, true},
			{"words", `bad arguments: "words"`, true},
			{[]int{1}, `bad arguments: [1]`, true},
			{nil, `**said** {}`, false},
		} {
			res := call(t, client, "echo", c.args)
			if got := text(t, res); got != c.want || res.IsError != c.error {
				t.Errorf("%v: got %q, error %t; want %q, %t", c.args, got, res.IsError, c.want, c.error)
			}
		}
	})
}

func TestUnknownToolIsAProtocolError(t *testing.T) {
	c := config(tools{"echo": echo, "listed": func(context.Context, json.RawMessage, func(v36.Progress)) (v36.Answer,
		error) {
		return v36.Answer{}, v36.ErrUnknownTool
	}})
	everywhere(t, c, nil, func(t *testing.T, client *sdk.ClientSession) {
		for _, name := range []string{"absent", "listed"} {
			_, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: name})
			wantCode(t, err, jsonrpc.CodeInvalidParams)
		}
		call(t, client, "echo", nil) // the client is still served
	})
}

func wantCode(t *testing.T, err error, want int64) (data json.RawMessage) {
	t.Helper()
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code != want {
		t.Fatalf("got error %v, want code %d", err, want)
	}
	return wire.Data
}

func TestToolsAreDescribed(t *testing.T) {
	everywhere(t, config(tools{"echo": echo}), nil, func(t *testing.T, client *sdk.ClientSession) {
		list, err := client.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != 1 {
			t.Fatalf("got %v, %v; want one tool", list, err)
		}
		got := list.Tools[0]
		if got.Name != "echo" || got.Title != "Title of echo" || got.OutputSchema != nil {
			t.Errorf("got %+v", got)
		}
		a := got.Annotations
		if a == nil || !a.ReadOnlyHint || a.IdempotentHint || a.DestructiveHint == nil || *a.DestructiveHint ||
			a.OpenWorldHint == nil || !*a.OpenWorldHint {
			t.Errorf("annotations are %+v, want readOnly and openWorld alone", a)
		}
	})
}

func TestSchemasAreResources(t *testing.T) {
	everywhere(t, config(nil), nil, func(t *testing.T, client *sdk.ClientSession) {
		list, err := client.ListResources(t.Context(), nil)
		if err != nil || len(list.Resources) != 1 || list.Resources[0].URI != schema.URI ||
			list.Resources[0].MIMEType != schemaType {
			t.Fatalf("got %+v, %v; want the schema", list, err)
		}
		read, err := client.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: schema.URI})
		if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != string(schema.Body) ||
			read.Contents[0].MIMEType != schemaType {
			t.Fatalf("got %+v, %v; want the schema's body", read, err)
		}
	})
}

func TestMissingResourceHasTheCodeOfTheRevision(t *testing.T) {
	everywhere(t, config(nil), nil, func(t *testing.T, client *sdk.ClientSession) {
		want := int64(codeNoResource)
		if client.InitializeResult().ProtocolVersion == stateless {
			want = jsonrpc.CodeInvalidParams
		}
		const uri = "linesman://schemas/absent"
		_, err := client.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
		raw := wantCode(t, err, want)
		var data struct{ URI string }
		if err := json.Unmarshal(raw, &data); err != nil || data.URI != uri {
			t.Errorf("data is %s, want the URI", raw)
		}
	})
}

func TestThereAreNoPrompts(t *testing.T) {
	everywhere(t, config(nil), nil, func(t *testing.T, client *sdk.ClientSession) {
		list, err := client.ListPrompts(t.Context(), nil)
		if err != nil || len(list.Prompts) != 0 {
			t.Errorf("got %v, %v; want an empty list", list, err)
		}
		_, err = client.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "absent"})
		wantCode(t, err, jsonrpc.CodeInvalidParams)
	})
}

func TestPanicIsAnInternalErrorAndKeptFromTheLog(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	c := config(tools{"echo": echo, "panic": func(_ context.Context, args json.RawMessage,
		_ func(v36.Progress)) (v36.Answer, error) {
		panic("cannot take " + string(args))
	}, "broken": func(_ context.Context, args json.RawMessage, _ func(v36.Progress)) (v36.Answer, error) {
		return v36.Answer{}, errors.New("cannot take " + string(args))
	}})
	c.Log = zap.New(core)
	const secret = "sentinel-4711"
	everywhere(t, c, nil, func(t *testing.T, client *sdk.ClientSession) {
		for _, name := range []string{"panic", "broken"} {
			res := call(t, client, name, map[string]any{"task": secret})
			var envelope struct {
				Tool, Status string
				Schema       string `json:"schema_id"`
				Category     string `json:"tool_category"`
				Error        struct {
					Code      string
					Retryable bool
				}
			}
			if err := json.Unmarshal([]byte(text(t, res)), &envelope); err != nil {
				t.Fatal(err)
			}
			if !res.IsError || envelope.Tool != name || envelope.Status != "error" || envelope.Category != "status_snapshot" ||
				envelope.Schema != "codex/v3.6/status_snapshot/v1" || envelope.Error.Code != "INTERNAL" ||
				!envelope.Error.Retryable {
				t.Errorf("%s: got %+v, error %t", name, envelope, res.IsError)
			}
		}
		call(t, client, "echo", map[string]any{"task": secret}) // the server lives
	})
	if logs.FilterMessage("panic").Len() == 0 || logs.FilterMessage("tool called").Len() == 0 {
		t.Error("neither the panic nor the call is in the log")
	}
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	for _, entry := range logs.All() {
		b, err := encoder.EncodeEntry(entry.Entry, entry.Context)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), secret) {
			t.Errorf("the log holds an argument: %s", b)
		}
	}
}

func TestCallsAtOnceAreBounded(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	server := newServer(config(tools{"echo": echo, "hold": func(context.Context, json.RawMessage,
		func(v36.Progress)) (v36.Answer, error) {
		entered <- struct{}{}
		<-leave
		return v36.Answer{Envelope: []byte(`{}`), Markdown: "held"}, nil
	}}), 1)
	client := connect(t, server, nil)
	held := make(chan error, 1)
	go func() {
		_, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "hold"})
		held <- err
	}()
	<-entered
	if res := call(t, client, "echo", nil); !res.IsError || !strings.Contains(text(t, res), "too many calls") {
		t.Errorf("got %q, want a refusal", text(t, res))
	}
	close(leave)
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	if res := call(t, client, "echo", nil); res.IsError {
		t.Errorf("got %q once there is room", text(t, res))
	}
}

// connect returns a client over HTTP, of the revision with sessions.
func connect(t *testing.T, server *sdk.Server, opts *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	to := &sdk.StreamableClientTransport{Endpoint: serve(t, Handler(server)), MaxRetries: -1}
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, opts).
		Connect(t.Context(), to, &sdk.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// A tool that is not announced can be called; where the service gives no answer, one of AdCP's answers in its envelope.
func TestToolsThatAreNotAnnouncedAreCalled(t *testing.T) {
	object := json.RawMessage(`{"type":"object"}`)
	c := Config{
		Tools: tools{"tasks/get": echo, "lists": echo},
		List:  []v36.Tool{{Name: "lists", InputSchema: object}},
		Also: []v36.Tool{{Name: "tasks/get", Category: "adcp", InputSchema: object}, {Name: "panics", Category: "adcp",
			InputSchema: object}},
	}
	c.Tools.(tools)["panics"] = func(context.Context, json.RawMessage, func(v36.Progress)) (v36.Answer, error) {
		panic("x")
	}
	everywhere(t, c, nil, func(t *testing.T, client *sdk.ClientSession) {
		list, err := client.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		if got := text(t, call(t, client, "tasks/get", map[string]any{"format": "json", "task_id": "T"})); got !=
			`{"status":"ok","data":{"format":"json","task_id":"T"}}` {
			t.Errorf("called: %s", got)
		}
		if res := call(t, client, "panics", nil); !res.IsError || !strings.Contains(text(t, res), `"adcp_error"`) {
			t.Errorf("without an answer: %+v", res)
		}
		if _, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "nothing"}); err == nil {
			t.Error("an unknown tool is called")
		}
	})
}
