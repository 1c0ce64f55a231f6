package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	v36 "github.com/linesman/linesman/responder/v36"
)

// reports are progress reports of a tool, and how they are sent.
var reports = []v36.Progress{
	{Percent: 0, Message: "a"}, {Percent: 0, Message: "b"}, {Percent: 50, Message: "c"}, {Percent: 50, Message: "c"},
	{Percent: math.NaN(), Message: "dropped"}, {Percent: 20, Message: "d"}, {Percent: 100, Message: "e"},
	{Percent: 100, Message: "dropped"},
}

const reported = "a 0, b 0.001, c 50, c 50.001, d 50.002, e 100"

func TestProgressRisesUnderTheCallersToken(t *testing.T) {
	arrived := make(chan *sdk.ProgressNotificationParams, 2*len(reports))
	opts := &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context,
		r *sdk.ProgressNotificationClientRequest) {
		arrived <- r.Params
	}}
	c := config(tools{"run": func(_ context.Context, _ json.RawMessage, progress func(v36.Progress)) (v36.Answer, error) {
		if progress == nil {
			return v36.Answer{Envelope: []byte(`{}`), Markdown: "nobody listens"}, nil
		}
		var wg sync.WaitGroup
		for _, p := range reports {
			wg.Go(func() { progress(p) }) // from any goroutine
			wg.Wait()
		}
		return v36.Answer{Envelope: []byte(`{}`), Markdown: "done"}, nil
	}})
	everywhere(t, c, opts, func(t *testing.T, client *sdk.ClientSession) {
		if got := text(t, call(t, client, "run", nil)); got != "nobody listens" {
			t.Errorf("without a token: got %q", got)
		}
		for _, token := range []any{"a-token", 7} {
			params := &sdk.CallToolParams{Name: "run"}
			params.SetProgressToken(token)
			if res, err := client.CallTool(t.Context(), params); err != nil || text(t, res) != "done" {
				t.Fatalf("got %v, %v", res, err)
			}
			var got []string
			for len(got) < strings.Count(reported, ",")+1 {
				p := <-arrived
				got = append(got, fmt.Sprintf("%s %g", p.Message, p.Progress))
				if fmt.Sprint(p.ProgressToken) != fmt.Sprint(token) || p.Total != 100 {
					t.Errorf("got %+v, want token %v of 100", p, token)
				}
			}
			if all := strings.Join(got, ", "); all != reported {
				t.Errorf("got %s, want %s", all, reported)
			}
		}
		if len(arrived) > 0 {
			t.Errorf("%d reports too many", len(arrived))
		}
	})
}

func TestNoProgressFollowsTheResponse(t *testing.T) {
	var late func(v36.Progress)
	c := config(tools{"run": func(_ context.Context, _ json.RawMessage, progress func(v36.Progress)) (v36.Answer, error) {
		progress(v36.Progress{Percent: 1, Message: "in time"})
		late = progress
		return v36.Answer{Envelope: []byte(`{}`), Markdown: "done"}, nil
	}})
	in, out := serveStdio(t, t.Context(), NewServer(c))
	lines := bufio.NewScanner(out)
	ask(t, in, lines, initialize)
	write(t, in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run","_meta":{"progressToken":"p"}}}`)
	if got := next(t, lines); !strings.Contains(got, "in time") {
		t.Fatalf("got %s, want the progress", got)
	}
	if got := next(t, lines); !strings.Contains(got, `"id":2`) {
		t.Fatalf("got %s, want the response", got)
	}
	late(v36.Progress{Percent: 99, Message: "too late"})
	if got := ask(t, in, lines, `{"jsonrpc":"2.0","id":3,"method":"ping"}`); !strings.Contains(got, `"id":3`) {
		t.Errorf("got %s, want the answer to the ping", got)
	}
}

// waiting is a tool that signals when it begins and when its context ends.
func waiting() (c Config, begun, ended chan struct{}) {
	begun, ended = make(chan struct{}), make(chan struct{}, 1)
	return config(tools{"wait": func(ctx context.Context, _ json.RawMessage, _ func(v36.Progress)) (v36.Answer, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return v36.Answer{Envelope: []byte(`{}`), Markdown: "nobody waits"}, nil
	}}), begun, ended
}

func TestCancelledCallEnds(t *testing.T) {
	c, begun, ended := waiting()
	everywhere(t, c, nil, func(t *testing.T, client *sdk.ClientSession) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := client.CallTool(ctx, &sdk.CallToolParams{Name: "wait"}); err == nil {
				t.Error("a cancelled call succeeded")
			}
		}()
		<-begun
		cancel()
		<-ended
		<-done
	})
}

// post sends one message over HTTP. The caller must close the response.
func post(ctx context.Context, t *testing.T, url, body string, header ...string) *http.Response {
	t.Helper()
	res, err := try(ctx, url, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func try(ctx context.Context, url, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return http.DefaultClient.Do(req)
}

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"0"}}}`
	callWait   = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait"}}`
	modernWait = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	modernList = `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
)

// open starts a session and returns its id.
func open(t *testing.T, url string) string {
	t.Helper()
	res := post(t.Context(), t, url, initialize)
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	id := res.Header.Get(sessionHeader)
	if res.StatusCode != http.StatusOK || id == "" {
		t.Fatalf("got status %d and session %q", res.StatusCode, id)
	}
	return id
}

// A lost connection sends no "cancelled" message, and need not end its session.
func TestCallEndsWithTheRequestThatBroughtIt(t *testing.T) {
	c, begun, ended := waiting()
	url := serve(t, Handler(NewServer(c)))
	for name, header := range map[string][]string{
		legacy:    {sessionHeader, open(t, url), versionHeader, legacy},
		stateless: {versionHeader, stateless, "Mcp-Method", "tools/call", "Mcp-Name", "wait"},
	} {
		t.Run(name, func(t *testing.T) {
			body := callWait
			if name == stateless {
				body = modernWait
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				if res, err := try(ctx, url, body, header...); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}()
			<-begun
			cancel()
			<-ended
			<-done
		})
	}
}

func TestDeleteEndsTheCallsOfItsSession(t *testing.T) {
	c, begun, ended := waiting()
	url := serve(t, Handler(NewServer(c)))
	mine, other := open(t, url), open(t, url)
	results := make(chan string, 2)
	wait := func(session string) {
		res, err := try(t.Context(), url, callWait, sessionHeader, session, versionHeader, legacy)
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		results <- session
	}
	for _, session := range []string{mine, other} {
		go wait(session)
		<-begun
	}
	for i, session := range []string{mine, other} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(sessionHeader, session)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusNoContent {
			t.Errorf("DELETE: status %d, want 204", res.StatusCode)
		}
		<-ended
		if got := <-results; got != session {
			t.Errorf("DELETE %d ended the call of the other session", i)
		}
	}
}

func TestCloseEndsCallsAndSessions(t *testing.T) {
	c, begun, ended := waiting()
	server := NewServer(c)
	e := Handler(server)
	url := serve(t, e)
	session := open(t, url)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := try(t.Context(), url, callWait, sessionHeader, session, versionHeader, legacy); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}()
	<-begun
	e.Close()
	<-ended
	<-done
	for s := range server.Sessions() {
		t.Errorf("session %s is left", s.ID())
	}
	res := post(t.Context(), t, url, initialize)
	defer res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d after Close, want 503", res.StatusCode)
	}
}
