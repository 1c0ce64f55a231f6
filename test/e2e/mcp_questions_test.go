package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// parrot is a server of the Agent Client Protocol that asks for a command, and tells what it may.
const parrot = `#!/bin/sh
while read -r line; do
	id=${line#*'"id":'} id=${id%%[,\}]*}
	case $line in
	*'"method":"initialize"'*) result='{"protocolVersion":1,"agentInfo":{"name":"parrot","version":"1.0.0"}}' ;;
	*'"method":"session/new"'*) result='{"sessionId":"perch-1"}' ;;
	*'"method":"session/prompt"'*)
		prompt=$id
		echo '{"jsonrpc":"2.0","id":"ask","method":"session/request_permission","params":{"sessionId":"perch-1","toolCall":` +
	`{"toolCallId":"c1","title":"polly","kind":"execute","rawInput":{"command":"polly --want cracker"}},"options":[` +
	`{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"reject_once"}]}}'
		continue
		;;
	*'"id":"ask"'*)
		said='may not'
		case $line in *'"optionId":"y"'*) said=may ;; esac
		echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"perch-1","update":{"sessionUpdate":` +
	`"agent_message_chunk","content":{"type":"text","text":"Polly '"$said"'."}}}}'
		id=$prompt result='{"stopReason":"end_turn"}'
		;;
	*) continue ;;
	esac
	echo '{"jsonrpc":"2.0","id":'"$id"',"result":'"$result"'}'
done
`

// perch is a server with the agent parrot, and its clients of MCP.
type perch struct {
	*testing.T
	data, url string
	set       string // of tools
}

// client connects over HTTP, with a token, or else over stdio. Ask is its user; nil: it cannot ask one.
func (p perch) client(token, revision string, ask func(context.Context, *sdk.ElicitParams) *sdk.ElicitResult,
) *sdk.ClientSession {
	p.Helper()
	opts := &sdk.ClientOptions{}
	if ask != nil {
		opts.ElicitationHandler = func(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return ask(ctx, r.Params), nil
		}
	}
	var over sdk.Transport = &sdk.StreamableClientTransport{
		Endpoint: p.url + "/mcp?tools=" + p.set, HTTPClient: &http.Client{Transport: fixture.Bearing(token)},
	}
	if token == "" {
		cmd := exec.Command(program, "mcp", "--data-dir", p.data, "--tools", p.set)
		fixture.Watch(p.T, cmd)
		over = &sdk.CommandTransport{Command: cmd}
	}
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts).Connect(p.Context(), over,
		&sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = client.Close() })
	return client
}

// told is what a tool tells of a run.
type told struct {
	api.Asking
	FinalText *string
	Entry     uint64
	Error     *api.Error
	Next      string
	api.Answered
}

func (p perch) call(client *sdk.ClientSession, tool string, args map[string]any) (out told) {
	p.Helper()
	res, err := client.CallTool(p.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		p.Fatal(err)
	}
	text := []byte(res.Content[0].(*sdk.TextContent).Text)
	for _, into := range []any{&out.Asking, &out.Answered} {
		if err := json.Unmarshal(text, into); err != nil {
			p.Fatalf("%s: %v: %s", tool, err, text)
		}
	}
	var rest struct {
		FinalText *string
		Entry     uint64
		Error     *api.Error
		Next      string
	}
	if err := json.Unmarshal(text, &rest); err != nil || res.IsError != (rest.Error != nil) {
		p.Fatalf("%s: %v: %s", tool, err, text)
	}
	out.FinalText, out.Entry, out.Error, out.Next = rest.FinalText, rest.Entry, rest.Error, rest.Next
	return out
}

// start starts the agent, and returns the run.
func (p perch) start(client *sdk.ClientSession) string {
	p.Helper()
	run := p.call(client, "_agent_run", map[string]any{
		"agent": "parrot", "live": true, "prompt": "Say hi.", "directory": p.data, "skipGitRepoCheck": true,
	})
	if run.Error != nil {
		p.Fatal(run.Error)
	}
	return run.Answered.Run
}

// ends waits until a run has ended, and compares what its agent said.
func (p perch) ends(client *sdk.ClientSession, run, want string) {
	p.Helper()
	wait := map[string]string{"agents": api.ToolAgentWait, "live": api.ToolLiveWait}[p.set]
	if got := p.call(client, wait, map[string]any{"run": run}); got.FinalText == nil || *got.FinalText != want {
		p.Errorf("%+v, want %s", got, want)
	}
}

func newPerch(t *testing.T) (p perch, token string) {
	t.Helper()
	data := t.TempDir()
	script := filepath.Join(data, "parrot")
	write(t, script, parrot)
	config := filepath.Join(data, "linesman.toml")
	write(t, config, fmt.Sprintf("[work]\nroots = [%q]\n[agents.parrot]\nacp = [\"/bin/sh\", %q]\n", data, script))
	server := up(t, data, "--config", config)
	return perch{t, data, server.HTTP, "agents"}, server.Token
}

// Clients of both revisions, over HTTP and stdio, see what an agent asks: their users answer it, or leave it to others.
func TestMCPClientsAnswerQuestions(t *testing.T) {
	t.Parallel()
	p, token := newPerch(t)
	for _, way := range []string{token, ""} {
		for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
			t.Run(fmt.Sprintf("http %t %s", way != "", revision), func(t *testing.T) {
				p := perch{t, p.data, p.url, p.set}
				by := "owner"
				if way == "" {
					by = "operator"
				}
				says := make(chan *sdk.ElicitResult, 1)
				client := p.client(way, revision, func(_ context.Context, q *sdk.ElicitParams) *sdk.ElicitResult {
					if !strings.Contains(q.Message, "\nCommand: polly --want cracker\n") {
						t.Errorf("the user sees %q", q.Message)
					}
					return <-says
				})
				says <- &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "y"}}
				p.ends(client, p.start(client), "Polly may.")

				says <- &sdk.ElicitResult{Action: "decline"}
				run := p.start(client)
				got := p.call(client, api.ToolAgentWait, map[string]any{"run": run})
				if got.State.Final() || len(got.Asked) != 1 || got.Asked[0].Command != "polly --want cracker" ||
					!strings.Contains(got.Next, api.ToolAgentAnswer) {
					t.Fatalf("the user declined: %+v", got)
				}
				if got = p.call(client, "_agent_status", map[string]any{"run": run}); !slices.Equal(got.Questions, []string{"q1"}) {
					t.Errorf("open questions: %q", got.Questions)
				}
				answer := map[string]any{"run": run, "question": "q1", "option": "deny"}
				if got = p.call(client, api.ToolAgentAnswer, answer); got.Outcome != "deny" || got.By != by || got.Via != "mcp" {
					t.Errorf("%+v %v", got.Answered, got.Error)
				}
				answer["option"] = "y"
				if got = p.call(client, api.ToolAgentAnswer, answer); got.Error == nil || got.Error.Code != api.Conflict &&
					got.Error.Code != api.Ended {
					t.Errorf("another answer: %+v", got)
				}
				p.ends(client, run, "Polly may not.")
			})
		}
	}
}

// Clients of both revisions talk to an agent: it asks their users in each turn, and goes on after it. Who may not
// answer talks, too, and sees the ids of questions.
func TestMCPClientsTalkToALiveRun(t *testing.T) {
	t.Parallel()
	p, token := newPerch(t)
	p.set = "live"
	for _, way := range []string{token, ""} {
		for _, revision := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(fmt.Sprintf("http %t %s", way != "", revision), func(t *testing.T) {
				p := perch{t, p.data, p.url, p.set}
				option := "y"
				client := p.client(way, revision, func(context.Context, *sdk.ElicitParams) *sdk.ElicitResult {
					return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": option}}
				})
				run := p.call(client, "_agent_live_start", map[string]any{
					"agent": "parrot", "prompt": "Say hi.", "directory": p.data, "skipGitRepoCheck": true,
				}).Asking.ID
				wait := map[string]any{"run": run}
				for i, want := range []string{"Polly may.", "Polly may not."} {
					if i > 0 {
						option = "n"
						message := map[string]any{"run": run, "text": "Once more.", "idempotency_key": "key"}
						for range 2 {
							wait["after"] = p.call(client, "_agent_live_send", message).Entry
						}
					}
					if got := p.call(client, api.ToolLiveWait, wait); !got.Reached || got.FinalText == nil ||
						*got.FinalText != want || got.Conversation.Turn != i+1 {
						t.Fatalf("turn %d: %+v %+v", i+1, got, got.Error)
					}
				}
				p.call(client, "_agent_live_end", map[string]any{"run": run})
				if got := p.call(client, api.ToolLiveWait, map[string]any{"run": run, "until": "end"}); !got.State.Final() {
					t.Errorf("after the end: %+v", got)
				}
			})
		}
	}
	scoped, code := execute(t, "token", "create", "scoped", "--scope", "read,submit,raw", "--data-dir", p.data)
	if code != 0 {
		t.Fatal("no token")
	}
	client := p.client(strings.TrimSpace(scoped), "2025-11-25", nil)
	list, err := client.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 5 {
		t.Errorf("%d tools, %v", len(list.Tools), err)
	}
	run := p.call(client, "_agent_live_start", map[string]any{
		"agent": "parrot", "prompt": "Say hi.", "directory": p.data, "skipGitRepoCheck": true, "keep": false,
	}).Asking.ID
	got := p.call(client, api.ToolLiveWait, map[string]any{"run": run})
	if !got.Reached || len(got.Asked) > 0 || !slices.Equal(got.Questions, []string{"q1"}) {
		t.Errorf("%+v", got)
	}
	p.call(p.client("", "2025-11-25", nil), api.ToolAgentAnswer, map[string]any{"run": run, "option": "y"})
	p.ends(client, run, "Polly may.")
}

// Of two clients whose users are asked, one decides; the wait of the other goes on, and its user is told.
func TestOneOfTwoMCPClientsDecides(t *testing.T) {
	t.Parallel()
	p, token := newPerch(t)
	both, first := new(sync.WaitGroup), make(chan bool, 1)
	first <- true
	both.Add(2)
	ask := func(ctx context.Context, _ *sdk.ElicitParams) *sdk.ElicitResult {
		both.Done()
		both.Wait()
		select {
		case <-first:
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "n"}}
		case <-ctx.Done():
			return &sdk.ElicitResult{Action: "cancel"}
		}
	}
	web, stdio := p.client(token, "2025-11-25", ask), p.client("", "2025-11-25", ask)
	run := p.start(stdio)
	var done sync.WaitGroup
	for _, client := range []*sdk.ClientSession{web, stdio} {
		done.Go(func() { p.ends(client, run, "Polly may not.") })
	}
	done.Wait()

	// All at once, without a user in between.
	run = p.start(stdio)
	plain := p.client(token, "2025-11-25", nil)
	if got := p.call(plain, api.ToolAgentWait, map[string]any{"run": run}); len(got.Asked) != 1 {
		t.Fatalf("%+v", got)
	}
	var won sync.Map
	for i, option := range []string{"y", "n", "y", "n"} {
		client := []*sdk.ClientSession{plain, stdio}[i%2]
		done.Go(func() {
			if got := p.call(client, api.ToolAgentAnswer, map[string]any{"run": run, "option": option}); got.Error == nil {
				won.Store(got.Option, true)
			}
		})
	}
	done.Wait()
	var options []any
	won.Range(func(option, _ any) bool {
		options = append(options, option)
		return true
	})
	if len(options) != 1 {
		t.Errorf("%v have won", options)
	}
}

// A token without the scope answer uses MCP as before, and neither sees what is asked nor answers it.
func TestMCPTokenWithoutAnswer(t *testing.T) {
	t.Parallel()
	p, token := newPerch(t)
	scoped, code := execute(t, "token", "create", "scoped", "--scope", "read,submit,raw", "--data-dir", p.data)
	if code != 0 {
		t.Fatal("no token")
	}
	asked := func(context.Context, *sdk.ElicitParams) *sdk.ElicitResult {
		t.Error("its user was asked")
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "y"}}
	}
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		client, owner := p.client(strings.TrimSpace(scoped), revision, asked), p.client(token, revision, nil)
		for c, want := range map[*sdk.ClientSession]bool{client: false, owner: true} {
			list, err := c.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.ContainsFunc(list.Tools, func(tool *sdk.Tool) bool {
				return tool.Name == api.ToolAgentAnswer
			}); got != want {
				t.Errorf("%s: the tool is offered: %t", revision, got)
			}
		}
		run := p.start(client)
		got := p.call(client, api.ToolAgentWait, map[string]any{"run": run})
		if len(got.Asked) > 0 || !slices.Equal(got.Questions, []string{"q1"}) || got.State != runs.StateInputRequired ||
			!strings.Contains(got.Next, "known_questions") {
			t.Errorf("%s: %+v", revision, got)
		}
		answer := map[string]any{"run": run, "option": "y"}
		if got = p.call(client, api.ToolAgentAnswer, answer); got.Error == nil || got.Error.Code != api.Unsupported {
			t.Errorf("%s: it answered: %+v", revision, got.Answered)
		}
		over := make(chan told, 1)
		go func() {
			over <- p.call(client, api.ToolAgentWait, map[string]any{"run": run, "known_questions": []string{"q1"}})
		}()
		answer["option"] = "n"
		if got = p.call(owner, api.ToolAgentAnswer, answer); got.Error != nil || got.Outcome != "deny" {
			t.Errorf("%s: %+v", revision, got)
		}
		if got = <-over; got.Error != nil || len(got.Questions) > 0 {
			t.Errorf("%s: it waited on: %+v", revision, got)
		}
		p.ends(client, run, "Polly may not.")
	}
}

// What a retry brings back is for the question that was shown, and for no other one.
func TestMCPStateIsForTheQuestionThatWasShown(t *testing.T) {
	t.Parallel()
	p, token := newPerch(t)
	opts := &sdk.ClientOptions{MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) { return nil, nil }}
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: p.url + "/mcp?tools=agents",
			HTTPClient: &http.Client{Transport: fixture.Bearing(token)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	run := p.start(client)
	send := func(state string) (*sdk.CallToolResult, error) {
		params := &sdk.CallToolParams{Name: api.ToolAgentWait, Arguments: map[string]any{"run": run}, RequestState: state}
		if state != "" {
			params.InputResponses = sdk.InputResponseMap{"q1": &sdk.ElicitResult{Action: "accept",
				Content: map[string]any{"answer": "y"}}}
		}
		return client.CallTool(t.Context(), params)
	}
	first, err := send("")
	if err != nil || !first.NeedsInput() {
		t.Fatalf("%v %+v", err, first)
	}
	var state struct {
		Run       string
		Questions map[string]struct{ Kind, Digest string }
	}
	if err := json.Unmarshal([]byte(first.RequestState), &state); err != nil || state.Run != run {
		t.Fatalf("%v %s", err, first.RequestState)
	}
	shown := state.Questions["q1"].Digest
	for _, forged := range []string{
		strings.Replace(first.RequestState, shown, strings.Repeat("0", 64), 1), // of another request
		strings.Replace(first.RequestState, run, "T-local-none", 1),
		strings.Replace(first.RequestState, "q1", "q2", 1),
		strings.Replace(first.RequestState, "permission", "form", 1),
		first.RequestState + "x",
	} {
		_, _ = send(forged)
		if got := p.call(client, "_agent_status", map[string]any{"run": run}); !slices.Equal(got.Questions, []string{"q1"}) {
			t.Fatalf("%s decided it", forged)
		}
	}
	if last, err := send(first.RequestState); err != nil || last.NeedsInput() {
		t.Errorf("%v %+v", err, last)
	}
	p.ends(client, run, "Polly may.")
}
