package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	agents "github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// talk returns the log of a live run: lines that begin with > are to the agent, those with < from it, and others are
// commands.
func talk(lines ...string) []runs.Entry {
	log := []runs.Entry{
		{Kind: runs.Started, Body: runs.Encode(runs.Start{
			Source: runs.SourceQueue, Prompt: "first task", PromptBytes: 10, Live: &runs.Terms{}, Keep: true,
		})},
		{Kind: runs.Proc, Body: runs.Encode(runs.Process{N: 1, Do: runs.ProcessStart, How: "new"})},
	}
	offsets := map[runs.Kind]int64{}
	for _, l := range lines {
		kind, text := runs.Ordered, l
		switch direction, line, _ := strings.Cut(l, " "); direction {
		case ">":
			kind, text = runs.Sent, line+"\n"
		case "<":
			kind, text = runs.Out, line+"\n"
		}
		log = append(log, runs.Entry{Kind: kind, Offset: offsets[kind], Body: []byte(text)})
		offsets[kind] += int64(len(text))
	}
	return log
}

// play folds a log to the events of a run, a second apart, and to its details.
func (s *stage) play(run string, log []runs.Entry) (details []api.DetailItem) {
	a, _ := agents.Agents.Find("codex")
	events, detailed := normalizer.NewFold(a.Backend, run, 0), normalizer.NewDetailFold(a.Backend, run, 0, nil)
	for i, e := range log {
		seq := uint64(i + 1)
		e.Time = int64(900_000_000_000 + 1000*i)
		events.Apply(seq, e, func(m normalizer.Message) {
			s.events = append(s.events, runs.Event{
				Seq: s.first + uint64(len(s.events)), Agent: "codex", Run: run, Raw: m.Raw, Line: m.Line, Part: m.Part,
				Token: m.Token, Time: m.Time, Body: bytes.Clone(m.Body),
			})
		})
		n := 0
		detailed.Apply(seq, e, func(m normalizer.Message) {
			n++
			details = append(details, api.DetailItem{Pos: fmt.Sprintf("%d.%d", seq, n), Line: m.Line, Part: m.Part,
				Kind: m.Token, Event: bytes.Clone(m.Body), Detail: m.Detail})
		})
	}
	return details
}

// recorded has details, which are read from a position on.
type recorded struct {
	*stage
	items []api.DetailItem
}

func (r recorded) Detail(_ context.Context, _, after string) (api.DetailPage, error) {
	at := slices.IndexFunc(r.items, func(i api.DetailItem) bool { return i.Pos == after })
	return api.DetailPage{Items: r.items[at+1:], Done: true}, nil
}

// Of a live run most events are of no line. Its turns have their own prompts and texts, the last one also if it is
// cancelled, however often the exporter is another one.
func TestTurnsOfALiveRunHaveTheirContent(t *testing.T) {
	const (
		update = `< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{%s}}}`
		prompt = `> {"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":"s","prompt":` +
			`[{"type":"text","text":%q}]}}`
		says = `"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}`
		call = `"toolCallId":%q,"kind":"execute","title":"Run it","rawInput":{"command":%q}`
		asks = `< {"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"sessionId":"s",` +
			`"toolCall":{%s},"options":[{"optionId":"y","kind":"allow_once"}]}}`
		chosen = `> {"jsonrpc":"2.0","id":%d,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}`
	)
	worked := func(n int) []string {
		of := fmt.Sprintf(call, fmt.Sprint("c", n), fmt.Sprint("command ", n))
		return []string{
			fmt.Sprintf(asks, 70+n, of), fmt.Sprintf(`{"id":"a%d","do":"ask","question":"q%d","by":"policy"}`, n, n),
			fmt.Sprintf(`{"id":"b%d","do":"answer","by":"phone","question":"q%d","option":"y"}`, n, n),
			fmt.Sprintf(chosen, 70+n),
			fmt.Sprintf(update, `"sessionUpdate":"tool_call","status":"in_progress",`+of),
			fmt.Sprintf(update, `"sessionUpdate":"tool_call_update","status":"completed","rawOutput":`+
				fmt.Sprintf(`"output %d",`, n)+of),
			fmt.Sprintf(update, fmt.Sprintf(says, fmt.Sprint("text ", n))),
			fmt.Sprintf(update, `"sessionUpdate":"tool_call","status":"in_progress",`+
				strings.Replace(of, `"c`, `"open`, 1)),
		}
	}
	log := talk(slices.Concat([]string{
		`> {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w"}}`,
		`< {"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`,
		fmt.Sprintf(prompt, 2, "first task"),
	}, worked(1), []string{
		`< {"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}`,
		`{"id":"m","do":"send","by":"owner","text":"second task"}`,
		fmt.Sprintf(prompt, 3, "second task"),
	}, worked(2))...)
	log = append(log, runs.Entry{Kind: runs.Cancelled, Body: []byte("{}")},
		runs.Entry{Kind: runs.Proc, Body: runs.Encode(runs.Process{N: 1, Do: runs.ProcessEnd, Signal: 15})},
		runs.Entry{Kind: runs.Exited, Body: []byte(`{"reason":"cancelled"}`)})

	want := []string{
		`execute_tool execute gen_ai.tool.call.arguments command 1`,
		`execute_tool execute gen_ai.tool.call.arguments command 1`, // of the call that is open when the turn ends
		`execute_tool execute gen_ai.tool.call.arguments command 2`,
		`execute_tool execute gen_ai.tool.call.arguments command 2`,
		`execute_tool execute gen_ai.tool.call.result output 1`,
		`execute_tool execute gen_ai.tool.call.result output 2`,
		`invoke_agent codex gen_ai.input.messages [{"role":"user","parts":[{"type":"text","content":"first task"}]}]`,
		`invoke_agent codex gen_ai.input.messages [{"role":"user","parts":[{"type":"text","content":"second task"}]}]`,
		`invoke_agent codex gen_ai.output.messages [{"role":"assistant","parts":[{"type":"text","content":"text 1"}]}]`,
		`invoke_agent codex gen_ai.output.messages [{"role":"assistant","parts":[{"type":"text","content":"text 2"}]}]`,
	}
	synctest.Test(t, func(t *testing.T) {
		play := newStage(t)
		details := recorded{play, play.play("r", log)}
		each := make([]int, len(play.events))
		cases := [][]int{nil, each} // before which events the exporter is another one
		for at := range play.events {
			each[at] = at
			cases = append(cases, []int{at})
		}
		for _, restarts := range cases {
			s := newStage(t)
			s.value = []byte(`{"stream":"a","seq":0}`)
			for _, to := range append(slices.Clip(restarts), len(play.events)) {
				s.events = play.events[:to]
				e := s.exporter(map[string]string{captureContent: "true", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1"})
				e.cfg.Runs = details
				s.export(e, 2*time.Second)
			}
			var got []string
			for _, span := range s.spans {
				for _, kv := range span.Attributes {
					if kv.Key == attrToolArguments || kv.Key == attrToolResult ||
						strings.HasSuffix(kv.Key, "put.messages") {
						got = append(got, fmt.Sprint(span.Name, " ", kv.Key, " ", kv.Value.GetStringValue()))
					}
				}
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("restarts %v: got\n%s\nwant\n%s", restarts, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}
