package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	v36 "github.com/linesman/linesman/responder/v36"
)

func write(t *testing.T, w io.Writer, line string) {
	t.Helper()
	if _, err := io.WriteString(w, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	if !lines.Scan() {
		t.Fatalf("the output ended: %v", lines.Err())
	}
	return lines.Text()
}

func ask(t *testing.T, in io.Writer, lines *bufio.Scanner, line string) string {
	t.Helper()
	write(t, in, line)
	return next(t, lines)
}

func TestLineThatIsNoMessageIsAnsweredAndPassed(t *testing.T) {
	in, out := serveStdio(t, t.Context(), NewServer(config(nil)))
	lines := bufio.NewScanner(out)
	for i, c := range []struct {
		line string
		code int
	}{
		{`{"jsonrpc":`, -32700},
		{`words`, -32700},
		{`[]`, -32600},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600},
		{`7`, -32600},
		{strings.Repeat("x", maxMessage+1), -32600},
		{strings.Repeat("x", 3*maxMessage), -32600},
		{`{"a":"` + strings.Repeat("x", maxMessage) + `"}`, -32600},
	} {
		var refusal struct {
			ID    json.RawMessage
			Error struct{ Code int }
		}
		got := ask(t, in, lines, c.line)
		if err := json.Unmarshal([]byte(got), &refusal); err != nil || refusal.Error.Code != c.code || refusal.ID != nil {
			t.Errorf("%.20s: got %s, want code %d and no id", c.line, got, c.code)
		}
		write(t, in, "") // an empty line is nothing
		ping := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, 100+i)
		if got := ask(t, in, lines, ping); !strings.Contains(got, fmt.Sprintf(`"id":%d`, 100+i)) {
			t.Errorf("after %.20s: got %s, want the answer to the ping", c.line, got)
		}
	}
}

func TestLineOfTheBoundIsTaken(t *testing.T) {
	const begin, end = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"pad":"`, `"}}}`
	in, out := serveStdio(t, t.Context(), NewServer(config(nil)))
	got := ask(t, in, bufio.NewScanner(out), begin+strings.Repeat("x", maxMessage-len(begin)-len(end))+end)
	if !strings.Contains(got, `"result"`) {
		t.Errorf("got %s, want a result", got)
	}
}

// A script may pipe its requests in and close; the last line may lack its end.
func TestWhatWasAskedBeforeTheEndOfInputIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(tools{"slow": func(ctx context.Context, _ json.RawMessage, _ func(v36.Progress)) (v36.Answer, error) {
			select {
			case <-ctx.Done():
			case <-time.After(lastAnswers / 2):
			}
			return v36.Answer{Envelope: []byte(`{}`), Markdown: "slow"}, nil
		}, "wait": func(ctx context.Context, _ json.RawMessage, _ func(v36.Progress)) (v36.Answer, error) {
			<-ctx.Done()
			return v36.Answer{Envelope: []byte(`{}`), Markdown: "wait"}, nil
		}})
		for name, took := range map[string]time.Duration{"slow": lastAnswers / 2, "wait": lastAnswers} {
			begin := time.Now()
			in := strings.NewReader(initialize + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` +
				name + `"}}`)
			var out bytes.Buffer
			if err := ServeStdio(t.Context(), NewServer(c), in, &out); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(begin); got != took {
				t.Errorf("%s: served for %v, want %v", name, got, took)
			}
			if answered := strings.Contains(out.String(), `"id":2`); answered != (name == "slow") {
				t.Errorf("%s: answered: %t\n%s", name, answered, out.String())
			}
		}
	})
}

func TestEndOfContextEndsCallsOverStdio(t *testing.T) {
	c, begun, ended := waiting()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, out := serveStdio(t, ctx, NewServer(c))
	ask(t, in, bufio.NewScanner(out), initialize)
	write(t, in, callWait)
	<-begun
	cancel()
	<-ended
}

func TestClientThatTakesNoAnswersDoesNotHoldUpTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		fromClient, in := io.Pipe()
		out, toClient := io.Pipe() // nobody reads
		done := make(chan error, 1)
		go func() { done <- ServeStdio(ctx, NewServer(config(nil)), fromClient, toClient) }()
		write(t, in, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		synctest.Wait()
		begin := time.Now()
		cancel()
		if err := <-done; err == nil || time.Since(begin) != lastAnswers {
			t.Errorf("got %v after %v, want an error after %v", err, time.Since(begin), lastAnswers)
		}
		out.Close()
		in.Close()
	})
}

func TestNoMoreIsReadFromAClientThatTakesNoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in strings.Builder
		for i := range maxOpen + 1 {
			fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i)
		}
		c := newStdio(strings.NewReader(in.String()), io.Discard, nil)
		if _, err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var first jsonrpc.ID
		for i := range maxOpen {
			msg, err := c.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = msg.(*jsonrpc.Request).ID
			}
		}
		read := make(chan error, 1)
		go func() {
			_, err := c.Read(t.Context())
			read <- err
		}()
		synctest.Wait()
		select {
		case err := <-read:
			t.Fatalf("one more call was read (%v), with %d open", err, maxOpen)
		default:
		}
		if err := c.Write(t.Context(), &jsonrpc.Response{ID: first, Result: json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
		if err := <-read; err != nil {
			t.Error(err)
		}
	})
}

func FuzzLinesAreSplitAtNewlinesAlone(f *testing.F) {
	f.Add([]byte("a\nb"))
	f.Add([]byte("\n\r\n" + strings.Repeat("x", 40) + "\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		r := bufio.NewReaderSize(bytes.NewReader(input), 16) // the least: a line comes in pieces
		for rest := input; ; {
			want, after, _ := bytes.Cut(rest, []byte("\n"))
			got, _, err := readLine(r)
			if err != nil {
				if len(rest) > 0 || got != nil {
					t.Fatalf("got %q, %v with %q left", got, err, rest)
				}
				return
			}
			if got = bytes.TrimSuffix(got, []byte("\n")); !bytes.Equal(got, want) {
				t.Fatalf("got %q, want %q", got, want)
			}
			rest = after
		}
	})
}
