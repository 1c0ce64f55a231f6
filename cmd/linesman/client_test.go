package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// serve starts a server with its streams and nobody at work, as if an `up` had
// just died. It returns the data directory.
func serve(t *testing.T) (dir string, server *embedded.Server) {
	t.Helper()
	dir = t.TempDir()
	lock, err := (&datadir.Dialer{Config: config.Config{DataDir: dir}, Log: zap.NewNop()}).TakeOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	server, err = embedded.StartServer(dir, "127.0.0.1:0", bus.Names{Prefix: bus.DefaultPrefix}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	b := bustest.Connect(t, server, embedded.OperatorUser)
	if _, err := b.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	if err := (datadir.Instance{NATS: server.URL(), Data: dir, PID: os.Getpid(), Version: "test"}).Write(); err != nil {
		t.Fatal(err)
	}
	return dir, server
}

// linesman runs a command line in this process.
func linesman(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	code = run(ctx, args, []string{"HOME=" + t.TempDir(), "LINESMAN_BACKGROUND_START=false"}, strings.NewReader(""), &out,
		&errs)
	return code, out.String(), errs.String()
}

func TestCommandsSayThatNoResponderAnswers(t *testing.T) {
	t.Parallel()
	dir, _ := serve(t)
	const want = "linesman: no responder answers: start `linesman up`, or `linesman responder` beside a server " +
		"of its own\n"
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
	for _, want := range []string{"FAIL  responder  none answers; start `linesman up`, or `linesman responder`\n",
		"FAIL  streams    no normalizer is at work; "} {
		if code != exitFailed || !strings.Contains(stdout, want) {
			t.Errorf("doctor: exit %d and %q, want %q", code, stdout, want)
		}
	}
}

// answers has a responder give one answer to everything.
func answers(t *testing.T, server *embedded.Server, code, body string) {
	t.Helper()
	header := nats.Header{}
	if code != "" {
		header = nats.Header{micro.ErrorHeader: {"said in the body"}, micro.ErrorCodeHeader: {code}}
	}
	nc := bustest.Connect(t, server, embedded.OperatorUser).Inside()
	bustest.Subscribe(t, nc, "linesman.api.>", func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: header, Data: []byte(body)})
	})
}

func TestWhatAResponderSaysIsSafeAndHasAnExitCode(t *testing.T) {
	t.Parallel()
	const otherForm = "linesman: the responder's answer is not of the known form: is it of another version?\n"
	for _, tt := range []struct {
		name   string
		failed string // code of an answer that is an error
		body   string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{"escapes in an activity", "",
			`{"counts":{"working":1},"working":[{"run":"T-\u001b[2J1","state":"working","startedAt":"STARTED","progress":{"completedSteps":1,"totalSteps":3},"activity":"a\u001b]0;x\u0007\nworking b"}]}`,
			[]string{"status"}, exitDone,
			"working    T-\\x1b[2J1  1h01m  1 of 3 steps  a\\x1b]0;x\\x07\\nworking b\n1 working, 0 queued, 0 ended\n", ""},
		{"no steps that anybody counted", "",
			`{"counts":{"working":2},"working":[{"run":"T-1","state":"working","startedAt":"STARTED"},{"run":"T-2","state":"input-required","startedAt":"STARTED","progress":{"completedSteps":0,"totalSteps":0}}]}`,
			[]string{"status"}, exitDone, "needs you  T-2  1h01m  needs an answer\nworking    T-1  1h01m\n2 working (1 needs you), 0 queued, 0 ended\n", ""},
		{"escapes in a message", "500", `{"code":"INTERNAL","message":"bad\u001b[2J\nlinesman: x"}`,
			[]string{"status"}, exitFailed, "", "linesman: bad\\x1b[2J\\nlinesman: x\n"},
		{"a field under its flag's name", "400",
			`{"code":"VALIDATION","message":"no","field":"workingDir","issues":[{"field":"workingDir","problem":"no"}],"issuesUnlisted":2}`,
			[]string{"submit", "hi"}, exitUsage, "", "linesman: the current directory (--dir): no\nlinesman: and 2 more mistakes\n"},
		{"a field under its flag's name, and for programs as it is", "400",
			`{"code":"VALIDATION","message":"no","field":"env.policy","issues":[{"field":"env.policy","problem":"no"}],"issuesUnlisted":2}`,
			[]string{"submit", "--json", "hi"}, exitUsage,
			`{"code":"VALIDATION","message":"no","field":"env.policy","issues":[{"field":"env.policy","problem":"no"}],"issuesUnlisted":2}` + "\n",
			"linesman: --env: no\nlinesman: and 2 more mistakes\n"},
		{"a refusal about a run, for programs", "409",
			`{"code":"ENDED","message":"the task has ended: it is failed","field":"run","run":"T-1","state":"failed"}`,
			[]string{"cancel", "--json", "T-1"}, exitFailed,
			`{"code":"ENDED","message":"the task has ended: it is failed","field":"run","run":"T-1","state":"failed"}` +
				"\n",
			"linesman: run T-1: the task has ended: it is failed\n"},
		{"a cancel in the cloud", "501", `{"code":"UNSUPPORTED","message":"not here","webUrl":"https://example.com/1"}`,
			[]string{"cancel", "T-cloud-1"}, exitFailed, "", "linesman: run T-cloud-1: not here: https://example.com/1\n"},
		{"a state that does not fit", "409", `{"code":"ENDED","message":"the task has ended: it is failed","field":"run","run":"T-1","state":"failed"}`,
			[]string{"cancel", "T-1"}, exitFailed, "", "linesman: run T-1: the task has ended: it is failed\n"},
		{"no object", "", `[1,2]`, []string{"status"}, exitFailed, "", otherForm},
		{"no object, for programs", "", `[1,2]`, []string{"status", "--json"}, exitFailed, "", otherForm},
		{"no error", "500", `{}`, []string{"status"}, exitFailed, "", otherForm},
		{"an id that is none", "", `{"run":"a\u001b[2J"}`, []string{"submit", "hi"}, exitFailed, "", otherForm},
		{"a run without an id", "", `{}`, []string{"status", "T-1"}, exitFailed, "", otherForm},
		{"a result of no run", "", `{}`, []string{"results", "T-1"}, exitFailed, "", otherForm},
		{"an outcome of another form", "", `{"counts":3}`, []string{"status"}, exitFailed, "", otherForm},
		{"an answer too large for a message", "413", "",
			[]string{"results", "T-1"}, exitFailed, "",
			"linesman: request results: the responder refused it: \"said in the body\"\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, server := serve(t)
			started := time.Now().Add(-time.Hour - 90*time.Second).UTC().Format(time.RFC3339Nano)
			answers(t, server, tt.failed, strings.ReplaceAll(tt.body, "STARTED", started))
			code, stdout, stderr := linesman(t, append(tt.args, "--data-dir", dir)...)
			if code != tt.code || stdout != tt.stdout || stderr != tt.stderr {
				t.Errorf("exit %d\nstdout %q\nstderr %q\nwant %d\nstdout %q\nstderr %q", code, stdout, stderr, tt.code, tt.stdout,
					tt.stderr)
			}
		})
	}
}

// What was accepted is said, whatever follows, and of an answer that is cut how to get the rest.
func TestWhatWasAcceptedIsSaidWhateverFollows(t *testing.T) {
	t.Parallel()
	const (
		id       = "T-local-000000000000001"
		sent     = `{"run":"` + id + `","state":"working","message":"m1","turn":2,"entry":7}`
		accepted = "linesman: " + id + " · working · message m1 is turn 2\n"
		broken   = "linesman: run " + id + ": broken\n"
		open     = `{"run":"` + id + `","state":"input-required","conversation":{"turn":2,"last_turn":"completed"}`
		cut      = open + `,"finalText":"Häl","finalTextBytes":20000}`
		rest     = "linesman: these are the first 4 of 20000 bytes: linesman logs --full " + id + "\n"
	)
	for name, tt := range map[string]struct {
		answers map[string]string // to the operations; to all others an error
		args    []string
		code    int
		stdout  string
		stderr  string
	}{
		"send": {map[string]string{"send": sent}, []string{"send", "--wait", id, "Hi"}, exitFailed, "", accepted + broken},
		"edit": {map[string]string{"edit": sent}, []string{"send", "--wait", "--edit", "m1", id, "Hi"}, exitFailed, "",
			accepted + broken},
		"chat": {map[string]string{"describe": open + "}", "send": sent}, []string{"chat", "--continue", id, "Hi"},
			exitFailed, "", accepted + broken},
		"cut after send": {map[string]string{"send": sent, "wait": cut}, []string{"send", "--wait", id, "Hi"}, exitDone,
			"Häl\n", accepted + rest},
		"cut in chat": {map[string]string{"describe": open + "}", "send": sent, "wait": cut},
			[]string{"chat", "--continue", id, "Hi"}, exitDone, "Häl\n", rest},
		"cut after wait": {map[string]string{"wait": cut}, []string{"wait", "--until", "turn", id}, exitDone, "Häl\n",
			rest},
		"whole": {map[string]string{"wait": strings.Replace(cut, "20000", "4", 1)}, []string{"wait", "--until", "turn", id},
			exitDone, "Häl\n", ""},
		"cancel": {map[string]string{"cancel": `{"run":"` + id + `","state":"working"}`}, []string{"cancel", id}, exitDone,
			id + " cancelling\n", ""},
		"cancel in the queue": {map[string]string{"cancel": `{"run":"` + id + `","state":"cancelled"}`},
			[]string{"cancel", id}, exitDone, id + " cancelled\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, server := serve(t)
			nc := bustest.Connect(t, server, embedded.OperatorUser).Inside()
			bustest.Subscribe(t, nc, "linesman.api.*", func(m *nats.Msg) {
				answer := &nats.Msg{Data: []byte(tt.answers[strings.TrimPrefix(m.Subject, "linesman.api.")])}
				if len(answer.Data) == 0 {
					answer.Header = nats.Header{micro.ErrorHeader: {"broken"}, micro.ErrorCodeHeader: {"500"}}
					answer.Data = []byte(`{"code":"INTERNAL","message":"broken"}`)
				}
				_ = m.RespondMsg(answer)
			})
			code, stdout, stderr := linesman(t, append(tt.args, "--data-dir", dir)...)
			if code != tt.code || stdout != tt.stdout || stderr != tt.stderr {
				t.Errorf("exit %d\nstdout %q\nstderr %q\nwant %d\nstdout %q\nstderr %q", code, stdout, stderr, tt.code, tt.stdout,
					tt.stderr)
			}
		})
	}
}

// A conversation whose beginning got no answer is begun again with its id, and the responder knows its run.
func TestBeginningOfAConversationNamesItsRun(t *testing.T) {
	t.Parallel()
	dir, server := serve(t)
	nc := bustest.Connect(t, server, embedded.OperatorUser).Inside()
	asked := make(chan api.Submission, 3)
	bustest.Subscribe(t, nc, "linesman.api.submit", func(m *nats.Msg) {
		var q api.Submission
		_ = json.Unmarshal(m.Data, &q) // no id then
		asked <- q
		header := nats.Header{micro.ErrorHeader: {"lost"}, micro.ErrorCodeHeader: {"503"}}
		body := []byte(`{"code":"UNAVAILABLE","message":"lost","retryable":true}`)
		_ = m.RespondMsg(&nats.Msg{Header: header, Data: body})
	})
	l, err := (&datadir.Dialer{
		Config: config.Config{DataDir: dir, Prefix: bus.DefaultPrefix}, Log: zap.NewNop(),
	}).Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = (&chatCmd{}).start(t.Context(), l, "T-local-1", "Hi.")
	var e *api.Error
	if !errors.As(err, &e) || !e.Retryable {
		t.Errorf("got %v, want an error that tells that it may be begun again", err)
	}
	select {
	case q := <-asked:
		if q.Run != "T-local-1" || q.Prompt != "Hi." {
			t.Errorf("asked for %+v", q)
		}
	default:
		t.Error("asked for nothing")
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
				nats.Timeout(fixture.Patience),
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
			js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(fixture.Patience))
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
			case <-time.After(fixture.Patience):
				t.Errorf("publish on %s was let through", tt.denied)
			}
		})
	}
}
