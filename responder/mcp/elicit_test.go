package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
)

const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// permission is a question for a command.
func permission(id string) api.Question {
	return api.Question{
		Run: "T-local-polly", ID: id, Kind: api.KindPermission, Agent: "parrot", Title: "Run it", Command: "ls\nrm -r /",
		Digest: digest, Options: []api.QuestionOption{
			{ID: "y", Kind: "allow_once", Name: "Yes"}, {ID: "n", Kind: "reject_once", Name: "No"},
		},
	}
}

// desk is a run that asks, and ends when it has no open question.
type desk struct {
	mu      sync.Mutex
	open    []api.Question
	changed chan struct{}
	answers []string
	talks   bool     // the run is kept: it does not end
	waits   []string // what the waits for it were for
}

func newDesk(open ...api.Question) *desk { return &desk{open: open, changed: make(chan struct{})} }

// reset begins with other questions.
func (d *desk) reset(open ...api.Question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open, d.answers, d.waits = open, nil, nil
}

// close settles a question, and reports whether it was open.
func (d *desk) close(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.open, func(q api.Question) bool { return q.ID == id })
	if i < 0 {
		return false
	}
	d.open = slices.Delete(slices.Clone(d.open), i, i+1)
	close(d.changed)
	d.changed = make(chan struct{})
	return true
}

func (d *desk) ids() (ids []string) {
	for _, q := range d.open {
		ids = append(ids, q.ID)
	}
	return ids
}

// wait is [api.ToolAgentWait]; its seconds are never over, but one that is all.
func (d *desk) wait(ctx context.Context, args json.RawMessage, _ func(v36.Progress)) (v36.Answer, error) {
	var in struct {
		Run     string
		Known   []string `json:"known_questions"`
		Seconds int      `json:"timeout_seconds"`
		Until   string
		After   int
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return v36.Answer{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits = append(d.waits, fmt.Sprint(in.Until, " ", in.After))
	for len(d.open) > 0 && slices.Equal(d.ids(), in.Known) {
		changed := d.changed
		d.mu.Unlock()
		bound, cancel := ctx, func() {}
		if in.Seconds == 1 {
			bound, cancel = context.WithTimeout(ctx, patience/100)
		}
		select {
		case <-bound.Done():
		case <-changed:
		}
		over := bound.Err() != nil
		cancel()
		d.mu.Lock()
		if over {
			break
		}
	}
	run := &api.Run{Summary: runs.Summary{ID: in.Run, State: runs.StateCompleted}}
	if len(d.open) > 0 {
		run.State, run.Questions = runs.StateInputRequired, d.ids()
	}
	if d.talks {
		run.State = runs.StateInputRequired
	}
	return v36.Plain(api.Asking{Run: run, Asked: d.open, Reached: d.talks}, ""), nil
}

// answer is [api.ToolAgentAnswer].
func (d *desk) answer(_ context.Context, args json.RawMessage, _ func(v36.Progress)) (v36.Answer, error) {
	var in struct {
		Question, Digest string
		Option           any
		Content          json.RawMessage
	}
	_ = json.Unmarshal(args, &in)
	code := api.Conflict
	switch {
	case in.Digest != digest:
		code = api.Validation
	case d.close(in.Question):
		d.mu.Lock()
		defer d.mu.Unlock()
		d.answers = append(d.answers, fmt.Sprint(in.Question, " ", in.Option, string(in.Content)))
		return v36.Plain(api.Answered{}, ""), nil
	}
	a := v36.Plain(map[string]any{"error": api.Error{Code: code, Message: "no"}}, "")
	a.IsError = true
	return a, nil
}

func (d *desk) config() Config {
	return config(tools{api.ToolAgentWait: d.wait, api.ToolAgentAnswer: d.answer})
}

// The user of a client that waits for a turn of a live run is asked, too; the wait ends with the turn, not the run.
func TestUserOfALiveRunIsAsked(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.talks = true
	says := says("accept", "y")
	opts := asks(func(context.Context, *sdk.ElicitParams) (*sdk.ElicitResult, error) { return says, nil })
	c := config(tools{api.ToolLiveWait: d.wait, api.ToolAgentAnswer: d.answer})
	for action, left := range map[string]int{"accept": 0, "decline": 1, "cancel": 1} {
		says.Action = action
		everywhere(t, c, opts, func(t *testing.T, client *sdk.ClientSession) {
			d.reset(permission("q1"))
			res := call(t, client, api.ToolLiveWait, map[string]any{"run": "T-local-polly", "until": "input", "after": 7})
			var run api.Asking
			if err := json.Unmarshal([]byte(text(t, res)), &run); err != nil || !run.Reached || run.State.Final() ||
				len(run.Asked) != left || len(d.answers) != 1-left {
				t.Errorf("%s: %v %+v, answers %q", action, err, run, d.answers)
			}
			if slices.ContainsFunc(d.waits, func(w string) bool { return w != "input 7" }) || len(d.waits) > 4 {
				t.Errorf("%s: waits %q", action, d.waits)
			}
		})
	}
}

// asks is a client whose user is asked by f.
func asks(f func(ctx context.Context, q *sdk.ElicitParams) (*sdk.ElicitResult, error)) *sdk.ClientOptions {
	return &sdk.ClientOptions{ElicitationHandler: func(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult,
		error) {
		return f(ctx, r.Params)
	}}
}

func says(action, option string) *sdk.ElicitResult {
	r := &sdk.ElicitResult{Action: action}
	if option != "" {
		r.Content = map[string]any{choice: option}
	}
	return r
}

// waited calls the wait, and returns its result.
func waited(t *testing.T, client *sdk.ClientSession, seconds int) (run api.Asking) {
	t.Helper()
	res := call(t, client, api.ToolAgentWait, map[string]any{"run": "T-local-polly", "timeout_seconds": seconds})
	if err := json.Unmarshal([]byte(text(t, res)), &run); err != nil || res.IsError || run.Run == nil {
		t.Fatalf("%v %+v", err, res)
	}
	return run
}

// The user of a client that waits for a run is asked what its agent asks, and the wait goes on with the answer.
func TestUserOfAClientIsAsked(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		says    map[string]*sdk.ElicitResult // by the command of the question
		answers string
		left    string
	}{
		"accept":  {map[string]*sdk.ElicitResult{"a": says("accept", "y"), "b": says("accept", "n")}, "[q1 y q2 n]", "[]"},
		"decline": {map[string]*sdk.ElicitResult{"a": says("decline", ""), "b": says("accept", "y")}, "[q2 y]", "[q1]"},
		"cancel":  {map[string]*sdk.ElicitResult{"a": says("accept", "y"), "b": says("cancel", "")}, "[q1 y]", "[q2]"},
		"neither": {map[string]*sdk.ElicitResult{"a": says("decline", ""), "b": says("cancel", "")}, "[]", "[q1 q2]"},
	} {
		t.Run(what, func(t *testing.T) {
			var asked sync.Map
			opts := asks(func(_ context.Context, q *sdk.ElicitParams) (*sdk.ElicitResult, error) {
				for command, r := range tt.says {
					if strings.Contains(q.Message, "\nCommand: "+command+"\n") {
						if _, twice := asked.LoadOrStore(command, true); twice {
							t.Errorf("asked twice: %s", q.Message)
						}
						return r, nil
					}
				}
				t.Errorf("asked %s", q.Message)
				return says("cancel", ""), nil
			})
			one, other, d := permission("q1"), permission("q2"), newDesk()
			one.Command, other.Command = "a", "b"
			everywhere(t, d.config(), opts, func(t *testing.T, client *sdk.ClientSession) {
				d.reset(one, other)
				asked.Clear()
				run := waited(t, client, 60)
				slices.Sort(d.answers)
				if got := fmt.Sprint(d.answers); got != tt.answers || fmt.Sprint(run.Questions) != tt.left {
					t.Errorf("answers %s, want %s; open %v, want %s", got, tt.answers, run.Questions, tt.left)
				}
				if run.State.Final() != (tt.left == "[]") {
					t.Errorf("the run is %s", run.State)
				}
			})
		})
	}
}

// A question that is answered elsewhere is taken from the user, and the wait goes on. In the revision without sessions
// the user is not told, and answers in vain.
func TestQuestionAnsweredElsewhereIsTakenBack(t *testing.T) {
	t.Parallel()
	d := newDesk()
	var told bool
	opts := asks(func(ctx context.Context, _ *sdk.ElicitParams) (*sdk.ElicitResult, error) {
		d.close("q1")
		if told {
			<-ctx.Done()
		}
		return says("accept", "y"), nil
	})
	everywhere(t, d.config(), opts, func(t *testing.T, client *sdk.ClientSession) {
		told = client.InitializeResult().ProtocolVersion != stateless
		d.reset(permission("q1"))
		if run := waited(t, client, 60); !run.State.Final() || len(d.answers) > 0 {
			t.Errorf("the run is %s, answers %q", run.State, d.answers)
		}
	})
}

// A user who does not answer holds no wait up: it ends in its time, with the question.
func TestUserWhoIsSilentDoesNotHoldTheWait(t *testing.T) {
	t.Parallel()
	d := newDesk()
	taken := make(chan bool, 1)
	opts := asks(func(ctx context.Context, _ *sdk.ElicitParams) (*sdk.ElicitResult, error) {
		<-ctx.Done()
		taken <- true
		return nil, ctx.Err()
	})
	in, out := serveStdio(t, t.Context(), NewServer(d.config()))
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, opts).Connect(t.Context(),
		&sdk.IOTransport{Reader: out, Writer: in}, &sdk.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d.reset(permission("q1"))
	if run := waited(t, client, 1); len(run.Asked) != 1 || len(d.answers) > 0 {
		t.Errorf("the run is %s, answers %q", run.State, d.answers)
	}
	<-taken
}

// Nobody is asked who cannot be: then the result has the question.
func TestOnlyWhatClientsShowIsElicited(t *testing.T) {
	t.Parallel()
	d := newDesk()
	everywhere(t, d.config(), nil, func(t *testing.T, client *sdk.ClientSession) {
		d.reset(permission("q1"))
		if run := waited(t, client, 60); len(run.Asked) != 1 {
			t.Errorf("a client without the capability: %+v", run)
		}
	})
	everywhere(t, d.config(), asks(func(context.Context, *sdk.ElicitParams) (*sdk.ElicitResult, error) {
		t.Error("the user was asked")
		return says("cancel", ""), nil
	}), func(t *testing.T, client *sdk.ClientSession) {
		cut, nested := permission("q1"), permission("q2")
		cut.Cut = true
		nested.Kind, nested.Fields = api.KindForm, json.RawMessage(`{"type":"object","properties":{"a":{"type":"object"}}}`)
		d.reset(cut, nested)
		if run := waited(t, client, 60); len(run.Asked) != 2 {
			t.Errorf("questions that clients do not show: %+v", run)
		}
	})
}

// The form of a question is that of the revision, and what the agent says cannot pass for another part of it.
func TestFormsOfQuestions(t *testing.T) {
	t.Parallel()
	q := permission("q1")
	for revision, want := range map[string]string{
		"2025-06-18": `{"answer":{"enum":["y","n"],"enumNames":["Yes (allow once)","No (reject once)"],"title":"Answer",` +
			`"type":"string"}}`,
		legacy: `{"answer":{"oneOf":[{"const":"y","title":"Yes (allow once)"},{"const":"n","title":"No (reject once)"}],` +
			`"title":"Answer","type":"string"}}`,
	} {
		got := form(q, revision)
		schema := got.RequestedSchema.(schemaOf)
		if text := string(runs.Encode(schema.Properties)); text != want || !slices.Equal(schema.Required, []string{choice}) {
			t.Errorf("%s: %s, want %s", revision, text, want)
		}
		if !strings.Contains(got.Message, "\nCommand:\n    ls\n    rm -r /\n") {
			t.Errorf("it does not show the command: %s", got.Message)
		}
	}
	for fields, want := range map[string]string{ // the first revision that shows it
		`{"type":"object","properties":{"a":{"type":"string","maxLength":3},"b":{"type":"boolean"}},"required":["a"]}`: elicits,
		`{"type":"object","properties":{"a":{"type":"string","oneOf":[{"const":"x","title":"X"}]}}}`:                   titled,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":["x"]}}}}`:                 titled,
		`{"type":"object","properties":{"a":{"type":"array","minItems":1,"maxItems":2,"default":["x"],"items":{"anyOf":[` +
			`{"const":"x","title":"X"}]}}}}`: titled,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}`:                            "",
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":["x"],"pattern":"x"}}}}`: "",
		`{"type":"object","properties":{"a":{"type":"array"}}}`:                                                      "",
		`{"type":"object","properties":{"a":{"type":"string","pattern":"^(a+)+$"}}}`:                                 "",
		`{"type":"object","properties":{"a":{"type":"string","format":"email","title":null}}}`:                       elicits,
		`{"type":"object","properties":{"a":{"type":"string","format":"hostname"}}}`:                                 "",
		`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`:                                         "",
		`{"type":"object","properties":{"a":{"type":["string","null"]}}}`:                                            "",
		`{"type":"object","properties":{}}`:                                                                          "", `{"type":"string"}`: "", `7`: "", ``: "",
	} {
		q := api.Question{Kind: api.KindForm, Digest: digest, Fields: json.RawMessage(fields)}
		for _, revision := range []string{elicits, titled, stateless} {
			if got := form(q, revision) != nil; got != (want != "" && revision >= want) {
				t.Errorf("%s: in %s it is shown: %t", fields, revision, got)
			}
		}
	}
}

// What comes back with a retry is checked like any input.
func TestHostileRequestState(t *testing.T) {
	t.Parallel()
	d := newDesk()
	opts := asks(func(context.Context, *sdk.ElicitParams) (*sdk.ElicitResult, error) { return says("cancel", ""), nil })
	opts.MultiRoundTrip = &sdk.MultiRoundTripOptions{Disabled: true}
	everywhere(t, d.config(), opts, func(t *testing.T, client *sdk.ClientSession) {
		if client.InitializeResult().ProtocolVersion != stateless {
			return
		}
		d.reset(permission("q1"))
		send := func(state string, responses sdk.InputResponseMap) (*sdk.CallToolResult, error) {
			return client.CallTool(t.Context(), &sdk.CallToolParams{Name: api.ToolAgentWait, RequestState: state,
				InputResponses: responses, Arguments: map[string]any{"run": "T-local-polly", "timeout_seconds": 60}})
		}
		yes := sdk.InputResponseMap{"q1": says("accept", "y"), "q9": says("accept", "y")}
		for _, state := range []string{
			"x", "{}", "[]", "null", `{"run":"../x"}`, `{"run":"T-local-polly","questions":7}`,
			`{"run":"T-local-polly","x":"` + strings.Repeat("x", maxState) + `"}`,
		} {
			if res, err := send(state, yes); err == nil {
				t.Errorf("%.40s: %+v", state, res)
			}
		}
		for _, state := range []string{"", // no state, so that nobody was asked
			`{"run":"T-local-polly"}`, `{"run":"T-local-polly","questions":{"q9":{"digest":"` + digest + `"}}}`,
			`{"run":"T-local-polly","questions":{"q1":{"digest":"00"}}}`,
		} {
			if _, err := send(state, yes); err != nil || len(d.answers) > 0 {
				t.Errorf("%s: %v, answers %q", state, err, d.answers)
			}
		}
		first, err := send("", nil)
		if err != nil || !first.NeedsInput() || len(first.InputRequests) != 1 {
			t.Fatalf("%v %+v", err, first)
		}
		if again, err := send(first.RequestState, nil); err != nil || !again.NeedsInput() {
			t.Errorf("a retry without the answer: %v %+v", err, again)
		}
		if last, err := send(first.RequestState, yes); err != nil || last.NeedsInput() || fmt.Sprint(d.answers) != "[q1 y]" {
			t.Errorf("%v, answers %q", err, d.answers)
		}
	})
}

// A caller without the scope answer is not offered the tool, also in a session of another caller, and what it sends is
// no answer of the user of another.
func TestCallersWithoutAnswersAreOfferedNone(t *testing.T) {
	t.Parallel()
	d := newDesk()
	may := map[string]bool{}
	c := d.config()
	wait := c.Tools.(tools)[api.ToolAgentWait]
	c.Tools.(tools)[api.ToolAgentWait] = func(ctx context.Context, args json.RawMessage, p func(v36.Progress)) (v36.Answer,
		error) {
		may[responder.Caller(ctx)] = responder.MayAnswer(ctx)
		return wait(ctx, args, p)
	}
	e := Handler(NewServer(c))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Header.Get("Authorization")
		ctx := responder.WithSurface(responder.WithCaller(r.Context(), name), responder.OverMCP)
		e.ServeHTTP(w, r.WithContext(responder.WithAnswers(ctx, name == "owner")))
	}))
	defer server.Close()
	defer e.Close()
	var session string
	read := func(body string) (status int) { // by a caller who knows the session
		r, err := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0
		}
		r.Header = http.Header{"Authorization": {"reader"}, sessionHeader: {session},
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		res, err := server.Client().Do(r)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	for name, tools := range map[string]int{"reader": 1, "owner": 2} {
		for _, revision := range []string{legacy, stateless} {
			client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, asks(
				func(context.Context, *sdk.ElicitParams) (*sdk.ElicitResult, error) {
					for id := range 8 { // of the elicitation
						status := read(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"action":"accept","content":{"answer":"y"}}}`, id))
						if revision == legacy && status != http.StatusBadRequest {
							t.Errorf("status %d", status)
						}
					}
					return says("accept", "n"), nil
				})).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: server.URL, MaxRetries: -1,
				HTTPClient: &http.Client{Transport: bearing(name)}}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
			if err != nil {
				t.Fatal(err)
			}
			session = client.ID()
			list, err := client.ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != tools {
				t.Errorf("%s, %s: %d tools, %v", name, revision, len(list.Tools), err)
			}
			d.reset(permission("q1"))
			if name == "owner" {
				if waited(t, client, 60); fmt.Sprint(d.answers) != "[q1 n]" {
					t.Errorf("%s: answers %q", revision, d.answers)
				}
			} else {
				d.reset()
				waited(t, client, 60)
			}
			if may[name] != (name == "owner") {
				t.Errorf("%s may answer: %t", name, may[name])
			}
			if revision == legacy {
				may["reader"] = true
				d.reset()
				if status := read(`{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"` + api.ToolAgentWait +
					`","arguments":{"run":"r"}}}`); status != http.StatusOK || may["reader"] {
					t.Errorf("in the session of %s the reader may answer: %t, status %d", name, may["reader"], status)
				}
			}
			_ = client.Close()
		}
	}
}

// bearing sends requests with a token.
type bearing string

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", string(b))
	return http.DefaultTransport.RoundTrip(r)
}
