package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/codex"
)

// serve starts a server with its streams and nobody at work, as if an `up` had
// just died. It returns the data directory.
func serve(t *testing.T) (dir string, server *embedded.Server) {
	t.Helper()
	dir = t.TempDir()
	lock, err := lockData(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	server, err = embedded.StartServer(dir, "127.0.0.1:0", bus.Names{Prefix: bus.DefaultPrefix}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	b := as(t, server, embedded.OperatorUser)
	if _, err := b.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	if err := (instance{NATS: server.URL(), Data: dir, PID: os.Getpid(), Version: "test"}).Write(); err != nil {
		t.Fatal(err)
	}
	return dir, server
}

func as(t *testing.T, server *embedded.Server, user string) *bus.Bus {
	t.Helper()
	b, err := server.Connect(t.Context(), user, bus.Names{Prefix: bus.DefaultPrefix}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// linesman runs a command line in this process.
func linesman(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	code = run(ctx, args, []string{"HOME=" + t.TempDir(), "LINESMAN_BACKGROUND_START=false"}, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestCommandsSayThatNoResponderAnswers(t *testing.T) {
	t.Parallel()
	dir, _ := serve(t)
	const want = "linesman: no responder answers: start `linesman up`, or `linesman responder` beside a server of its own\n"
	for _, args := range [][]string{
		{"submit", "hi"}, {"submit", "--wait", "hi"}, {"status"}, {"status", "T-1"}, {"results", "T-1"}, {"wait", "T-1"},
		{"wait", "--timeout=1s", "T-1"}, {"cancel", "T-1"}, {"status", "--json"},
	} {
		code, stdout, stderr := linesman(t, append(args, "--data-dir", dir)...)
		if code != exitNATS || stdout != "" || stderr != want {
			t.Errorf("%q: exit %d, stdout %q, stderr %q; want exit %d and %q", args, code, stdout, stderr, exitNATS, want)
		}
	}
	code, stdout, _ := linesman(t, "doctor", "--data-dir", dir)
	for _, want := range []string{"FAIL  responder  none answers; start `linesman up`, or `linesman responder`\n", "FAIL  streams    no normalizer is at work; "} {
		if code != exitFailed || !strings.Contains(stdout, want) {
			t.Errorf("doctor: exit %d and %q, want %q", code, stdout, want)
		}
	}
}

// answers has a responder give one answer to everything.
func answers(t *testing.T, server *embedded.Server, header nats.Header, body string) {
	t.Helper()
	nc := as(t, server, embedded.OperatorUser).Inside()
	sub, err := nc.Subscribe("linesman.api.>", func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: header, Data: []byte(body)})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatAResponderSaysIsSafeAndHasAnExitCode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		header nats.Header
		body   string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{"escapes in an activity", nil,
			`{"status":"ok","data":{"summary":{"running":1,"queued":0,"recently_completed":0},"tasks":[{"task_id":"T-\u001b[2J1","elapsed_seconds":61,"progress":{"percent":50,"completed_steps":1,"total_steps":2,"current_activity":"a\u001b]0;x\u0007\nworking b"},"ext":{"plan":{"completed_steps":1,"total_steps":3}}}]}}`,
			[]string{"status"}, exitDone,
			"working    T-\\x1b[2J1  1m01s  1 of 3 steps  a\\x1b]0;x\\x07\\nworking b\n1 working, 0 queued, 0 ended\n", ""},
		{"a percentage that nobody measured", nil,
			`{"status":"ok","data":{"summary":{"running":2,"queued":0,"recently_completed":0},"tasks":[{"task_id":"T-1","elapsed_seconds":61,"progress":{"percent":50,"completed_steps":0,"total_steps":1,"current_activity":null}},{"task_id":"T-2","elapsed_seconds":61,"progress":null}]}}`,
			[]string{"status"}, exitDone, "working    T-1  1m01s\nworking    T-2  1m01s\n2 working, 0 queued, 0 ended\n", ""},
		{"escapes in a message", nil, `{"status":"error","error":{"code":"INTERNAL","message":"bad\u001b[2J\nlinesman: x"}}`,
			[]string{"status"}, exitFailed, "", "linesman: bad\\x1b[2J\\nlinesman: x\n"},
		{"a parameter under its flag's name", nil,
			`{"status":"error","error":{"code":"VALIDATION","message":"workingDir: no (and 2 more mistakes)","details":{"field":"workingDir","issues":[{"field":"workingDir","problem":"no"}],"issues_unlisted":2}}}`,
			[]string{"submit", "hi"}, exitUsage, "", "linesman: --dir: no\nlinesman: and 2 more mistakes\n"},
		{"a cancel in the cloud", nil,
			`{"status":"error","error":{"code":"UNSUPPORTED","message":"not here","details":{"web_ui_url":"https://example.com/1"}}}`,
			[]string{"cancel", "T-cloud-1"}, exitFailed, "", "linesman: run T-cloud-1: not here: https://example.com/1\n"},
		{"no envelope", nil, `[1,2]`, []string{"status"}, exitFailed, "",
			"linesman: the responder's answer is not of the known form: is it of another version?\n"},
		{"an id that is none", nil, `{"status":"ok","meta":{},"data":{"task_id":"a\u001b[2J"}}`, []string{"submit", "hi"}, exitFailed, "",
			"linesman: the responder's answer is not of the known form: is it of another version?\n"},
		{"an envelope of another form", nil, `{"status":"ok","data":{"summary":3}}`, []string{"status"}, exitFailed, "",
			"linesman: the responder's answer is not of the known form: is it of another version?\n"},
		{"an answer too large for a message", nats.Header{micro.ErrorHeader: {"too large"}, micro.ErrorCodeHeader: {"413"}}, "",
			[]string{"results", "T-1"}, exitFailed, "", "linesman: request _codex_local_results: the responder refused it: \"too large\"\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, server := serve(t)
			answers(t, server, tt.header, tt.body)
			code, stdout, stderr := linesman(t, append(tt.args, "--data-dir", dir)...)
			if code != tt.code || stdout != tt.stdout || stderr != tt.stderr {
				t.Errorf("exit %d\nstdout %q\nstderr %q\nwant %d\nstdout %q\nstderr %q", code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
			}
		})
	}
}

// The context is what a program needs to be that user, its inboxes included.
func TestContextLetsItsUserIn(t *testing.T) {
	t.Parallel()
	dir, server := serve(t)
	for _, tt := range []struct {
		user   string
		stream string // that it may read
		denied string // that it may not write
	}{
		{"", "LINESMAN_EVENTS", "linesman.events.codex.r.status"},
		{"subscriber", "LINESMAN_EVENTS", "linesman.live.x"},
		{"operator", "LINESMAN_RAW", ""},
		{"operator_public", "LINESMAN_EVENTS", ""},
		{"worker", "LINESMAN_RAW", "linesman.api.status"},
		{"normalizer", "LINESMAN_RAW", "linesman.raw.codex.r"},
		{"normalizer_public", "LINESMAN_EVENTS", "linesman.live.x"},
		{"responder", "LINESMAN_RAW", "linesman.events.codex.r.status"},
		{"responder_public", "LINESMAN_EVENTS", "linesman.events.codex.r.status"},
	} {
		t.Run(tt.user, func(t *testing.T) {
			args := []string{"context", "--data-dir", dir}
			if tt.user != "" {
				args = append(args, tt.user)
			}
			code, stdout, stderr := linesman(t, args...)
			var c map[string]string
			if err := json.Unmarshal([]byte(stdout), &c); err != nil || code != exitDone || stderr != "" {
				t.Fatalf("exit %d, stderr %q, stdout is no JSON of texts: %v", code, stderr, err)
			}
			if c["url"] != server.URL() || c["description"] == "" {
				t.Errorf("got the url %q and the description %q, want %q and some", c["url"], c["description"], server.URL())
			}
			problems := make(chan error, 1)
			nc, err := nats.Connect(c["url"], nats.UserInfo(c["user"], c["password"]), nats.CustomInboxPrefix(c["inbox_prefix"]),
				nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
					select {
					case problems <- err:
					default:
					}
				}))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := js.Stream(t.Context(), tt.stream); err != nil {
				t.Errorf("stream %s: %v", tt.stream, err)
			}
			if tt.denied == "" {
				return
			}
			if err := nc.Publish(tt.denied, nil); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-problems:
				if !errors.Is(err, nats.ErrPermissionViolation) {
					t.Errorf("publish on %s: got %v, want a permission violation", tt.denied, err)
				}
			case <-time.After(10 * time.Second):
				t.Errorf("publish on %s was let through", tt.denied)
			}
		})
	}
}

// Whatever strings an answer holds, what is printed moves no cursor, and no
// text of an agent begins a line.
func TestNoAnswerMovesTheCursor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string) string {
			return rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom(nil, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp), 0, 20, -1)).Draw(t, label)
		}
		read := func(payload map[string]any, into any) {
			body, err := json.Marshal(payload)
			if err = errors.Join(err, answer{Data: body}.read(into)); err != nil {
				t.Fatal(err)
			}
		}
		var r result
		read(map[string]any{
			"task_id": text("id"), "state": text("state"), "summary": text("summary"), "completed_ts": text("time"),
			"metadata": map[string]any{
				"file_operations": map[string]any{"modified_files": []string{text("file")}},
				"test_results":    map[string]any{"failed_tests": []string{text("test")}},
				"error_context":   map[string]any{"error_message": text("error"), "error_locations": []any{map[string]any{"file": text("at")}}, "suggestions": []string{text("try")}},
				"thread_info":     map[string]any{"thread_id": text("thread")},
			},
			"output": map[string]any{"included": true, "stdout": text("stdout"), "stderr": text("stderr")},
			"events": map[string]any{"included": true, "items": []any{map[string]any{"kind": "Status", "message": text("message")}}},
			"ext":    map[string]any{"reason": text("reason"), "final_text": "final " + text("final"), "web_ui_url": text("url")},
		}, &r)
		var s snapshot
		read(map[string]any{
			"tasks": []any{map[string]any{"task_id": text("task"), "started_ts": text("started"),
				"progress": map[string]any{"percent": rapid.Int().Draw(t, "percent"), "current_activity": text("activity")},
				"ext":      map[string]any{"lost": true, "worker": text("worker"), "web_ui_url": text("page"), "plan": map[string]any{"completed_steps": 1, "total_steps": 2}}}},
			"queue":              []any{map[string]any{"task_id": text("queued")}},
			"recently_completed": []any{map[string]any{"task_id": text("ended"), "state": text("end"), "completed_ts": text("at"), "ext": map[string]any{"reason": text("why")}}},
		}, &s)
		for _, terminal := range []bool{false, true} {
			var out bytes.Buffer
			on := newRenderer(&out, nil)
			on.terminal = terminal
			if err := errors.Join(r.print(on), s.print(on), s.printOne(on)); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if bad := strings.TrimSuffix(line, "\n"); safe(bad) != bad {
					t.Errorf("terminal %v: %q", terminal, line)
				}
				if strings.HasPrefix(line, "final") {
					t.Errorf("terminal %v: the agent's text begins a line: %q", terminal, line)
				}
			}
		}
	})
}

// normalize has a normalizer of Codex at work on a server until the test ends.
func normalize(t *testing.T, server *embedded.Server) {
	t.Helper()
	n := &pipeline.Normalizer{
		Bus: as(t, server, embedded.NormalizerUser), Out: bus.Names{Prefix: bus.DefaultPrefix},
		Backends: []normalizer.Backend{codex.Backend{}}, Log: zap.NewNop(),
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := n.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
}
