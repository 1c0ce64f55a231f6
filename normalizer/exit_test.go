package normalizer_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

const (
	messageLine  = `{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"Done."}}` + "\n"
	completeLine = `{"type":"turn.completed"}` + "\n"
	failedLine   = `{"type":"turn.failed"}` + "\n"

	messageEvent  = `{"kind":"TextOutput","channel":"assistant","text":"Done."}`
	completeEvent = `{"kind":"Status","channel":"status","message":"turn completed"}`
	failedEvent   = `{"kind":"Status","channel":"status","message":"turn failed"}`
)

func backendError(message string) string {
	return `{"error":{"kind":"backend","message":"` + message + `"}}`
}

// The messages and the final states of runs for all kinds of exits.
func TestExit(t *testing.T) {
	const (
		timeout = "codex backend error: timeout (details redacted when unsafe)"
		lost    = "codex backend error: exit status lost"
		spawn   = "codex backend error: could not be started (details redacted when unsafe)"
		spool   = "codex backend error: output limit reached"
	)
	type last []string
	for _, c := range []struct {
		why     string
		out     string
		cancel  bool
		exit    string
		want    last // all messages
		state   runs.State
		outcome string
	}{
		// The process exited.
		{"success", messageLine + completeLine, false, `{"reason":"exited","code":0}`,
			last{messageEvent, completeEvent, `{"status":{"success":true,"code":0,"signal":null},` +
				`"final_text":"Done."}`}, runs.StateCompleted, "completed"},
		{"success without a turn", "{\"type\":\"x\"}\n", false, `{"reason":"exited","code":0}`,
			last{unknown, `{"status":{"success":true,"code":0,"signal":null}}`}, runs.StateCompleted, "completed"},
		{"success, and the last turn failed", messageLine + completeLine + failedLine, false,
			`{"reason":"exited","code":0}`,
			last{messageEvent, completeEvent, failedEvent,
				`{"status":{"success":true,"code":0,"signal":null},"final_text":"Done."}`}, runs.StateFailed,
			"failed (turn failed)"},
		{"success, and an earlier turn failed", failedLine + completeLine, false, `{"reason":"exited","code":0}`,
			last{failedEvent, completeEvent, `{"status":{"success":true,"code":0,"signal":null}}`},
			runs.StateCompleted, "completed"},
		{"success without a line", "", false, `{"reason":"exited","code":0}`,
			last{`{"status":{"success":true,"code":0,"signal":null}}`}, runs.StateFailed, "failed (silent)"},
		{"success with blank lines alone", "\n \n\u2028", false, `{"reason":"exited","code":0}`,
			last{`{"status":{"success":true,"code":0,"signal":null}}`}, runs.StateFailed, "failed (silent)"},
		{"non-zero", messageLine + failedLine, false, `{"reason":"exited","code":1}`,
			last{messageEvent, failedEvent, failure("codex exited non-zero: exit_code=1 (stderr redacted)"),
				`{"status":{"success":false,"code":1,"signal":null}}`}, runs.StateFailed, "failed (exit status 1)"},
		{"non-zero without a line", "", false, `{"reason":"exited","code":101}`,
			last{failure("codex exited non-zero: exit_code=101 (stderr redacted)"),
				`{"status":{"success":false,"code":101,"signal":null}}`}, runs.StateFailed, "failed (exit status 101)"},
		{"non-zero after a completed turn", completeLine, false, `{"reason":"exited","code":2}`,
			last{completeEvent, failure("codex exited non-zero: exit_code=2 (stderr redacted)"),
				`{"status":{"success":false,"code":2,"signal":null}}`}, runs.StateFailed, "failed (exit status 2)"},
		{"signal", messageLine, false, `{"reason":"exited","signal":15}`,
			last{messageEvent, failure("codex ended by signal: signal=15 (stderr redacted)"),
				`{"status":{"success":false,"code":null,"signal":15}}`}, runs.StateFailed, "failed (signal 15)"},
		{"torn last line", strings.TrimSuffix(messageLine, "\n"), false, `{"reason":"exited","code":0,"torn":true}`,
			last{messageEvent, `{"status":{"success":true,"code":0,"signal":null},"final_text":"Done."}`},
			runs.StateCompleted, "completed"},
		{"torn last line of a failed turn", strings.TrimSuffix(failedLine, "\n"), false, `{"reason":"exited","code":0}`,
			last{failedEvent, `{"status":{"success":true,"code":0,"signal":null}}`}, runs.StateFailed,
			"failed (turn failed)"},

		// End of an input without a process: the last terminal line determines the state.
		{"end of input", messageLine + completeLine, false, `{"reason":"eof"}`,
			last{messageEvent, completeEvent, `{"final_text":"Done."}`}, runs.StateCompleted, "completed"},
		{"end of input, turn failed", completeLine + failedLine, false, `{"reason":"eof"}`,
			last{completeEvent, failedEvent, `{}`}, runs.StateFailed, "failed (turn failed)"},
		{"end of input within a turn", messageLine, false, `{"reason":"eof"}`,
			last{messageEvent, `{"final_text":"Done."}`}, runs.StateFailed, "failed (no terminal event)"},
		{"end of no input", "", false, `{"reason":"eof"}`, last{`{}`}, runs.StateFailed, "failed (no terminal event)"},
		{"terminal line without newline", strings.TrimSuffix(completeLine, "\n"), false, `{"reason":"eof"}`,
			last{completeEvent, `{}`}, runs.StateCompleted, "completed"},

		// Ended by linesman, or unknown.
		{"idle", messageLine, false, `{"reason":"idle","signal":15}`,
			last{messageEvent, failure(timeout), backendError(timeout)}, runs.StateTimeout, "timeout (idle)"},
		{"hard limit", completeLine, false, `{"reason":"hard","signal":9}`,
			last{completeEvent, failure(timeout), backendError(timeout)}, runs.StateTimeout, "timeout (hard)"},
		{"hard limit, but exit code 0", completeLine, false, `{"reason":"hard","code":0}`,
			last{completeEvent, failure(timeout), backendError(timeout)}, runs.StateTimeout, "timeout (hard)"},
		{"no session", "", false, `{"reason":"spawn","spawn":"no_session"}`,
			last{failure("session not found"), backendError("session not found")}, runs.StateFailed, "failed (spawn)"},
		{"spool full", messageLine, false, `{"reason":"spool","signal":15}`,
			last{messageEvent, failure(spool), backendError(spool)}, runs.StateFailed, "failed (spool)"},
		{"not started", "", false, `{"reason":"spawn","spawn":"not_found"}`, last{failure(spawn), backendError(spawn)},
			runs.StateFailed, "failed (spawn)"},
		{"lost", messageLine + completeLine, false, `{"reason":"lost"}`,
			last{messageEvent, completeEvent, failure(lost), backendError(lost)}, runs.StateFailed, "failed (lost)"},
		{"exited with an unknown status", completeLine, false, `{"reason":"exited"}`,
			last{completeEvent, failure(lost), backendError(lost)}, runs.StateFailed, "failed (lost)"},
		{"an unknown reason", completeLine, false, `{"reason":"SECRET","code":0}`,
			last{completeEvent, failure(lost), backendError(lost)}, runs.StateFailed, "failed (lost)"},
		{"an unreadable body", completeLine, false, `{"reason":"exited","code":"SECRET"}`,
			last{completeEvent, failure(lost), backendError(lost)}, runs.StateFailed, "failed (lost)"},
		{"an empty body", completeLine, false, ``, last{completeEvent, failure(lost), backendError(lost)},
			runs.StateFailed, "failed (lost)"},

		// Cancelled: only the completion is published.
		{"cancelled", messageLine, true, `{"reason":"cancelled","signal":15}`, last{backendError("cancelled")},
			runs.StateCancelled, "cancelled"},
		{"cancelled before the start", "", true, `{"reason":"cancelled"}`, last{backendError("cancelled")},
			runs.StateCancelled, "cancelled"},
		{"cancelled, without a cancel entry", messageLine, false, `{"reason":"cancelled"}`,
			last{messageEvent, backendError("cancelled")}, runs.StateCancelled, "cancelled"},
		{"cancelled, but exit code 0", completeLine, true, `{"reason":"exited","code":0}`,
			last{backendError("cancelled")}, runs.StateCancelled, "cancelled"},
		{"cancelled, but exit code 1", failedLine, true, `{"reason":"exited","code":1}`,
			last{backendError("cancelled")}, runs.StateCancelled, "cancelled"},
		{"cancelled, but ended by a limit", "", true, `{"reason":"hard","signal":9}`, last{backendError("cancelled")},
			runs.StateCancelled, "cancelled"},
		{"cancelled, but ended by the spool limit", "", true, `{"reason":"spool","signal":9}`,
			last{backendError("cancelled")}, runs.StateCancelled, "cancelled"},
		{"cancelled, but the input ended", completeLine, true, `{"reason":"eof"}`, last{backendError("cancelled")},
			runs.StateCancelled, "cancelled"},
		{"cancelled, but lost", "", true, `{"reason":"lost"}`, last{backendError(lost)},
			runs.StateFailed, "failed (lost)"},
		{"cancelled with an unfinished line", strings.TrimSuffix(messageLine, "\n"), true, `{"reason":"cancelled"}`,
			last{backendError("cancelled")}, runs.StateCancelled, "cancelled"},
	} {
		t.Run(c.why, func(t *testing.T) {
			r := newRun(codex.Backend{}, 0)
			r.entry(runs.Entry{Kind: runs.Started, Time: 1_000, Body: []byte(`{"source":"run"}`)})
			if c.cancel {
				r.entry(runs.Entry{Kind: runs.Cancelled, Time: 1_500, Body: []byte(`{"reason":"SECRET"}`)})
			}
			r.out(0, c.out)
			r.exit(c.exit)
			backendtest.Expect(t, "codex", r.got, c.want...)
			if r.got[len(r.got)-1].Token != normalizer.CompletionToken || !r.Done() {
				t.Error("the last message is not a completion")
			}
			if r.Record.State != c.state || r.Record.Outcome() != c.outcome || r.Record.EndedAt != 3_000 {
				t.Errorf("record %s, %q, ended at %d; want %s, %q", r.Record.State, r.Record.Outcome(),
					r.Record.EndedAt, c.state, c.outcome)
			}
			for _, b := range append([]normalizer.Message{{Body: r.Record.JSON()}}, r.got...) {
				if strings.Contains(string(b.Body), "SECRET") {
					t.Errorf("leaks: %s", b.Body)
				}
			}
		})
	}
}

// Entries after the exit entry are ignored.
func TestEntriesAfterTheExitAreIgnored(t *testing.T) {
	r := newRun(codex.Backend{}, 0)
	r.out(0, messageLine)
	r.exit(exited0)
	got, record := len(r.got), string(r.Record.JSON())
	r.out(len(messageLine), messageLine)
	r.exit(`{"reason":"exited","code":1}`)
	r.entry(runs.Entry{Kind: runs.Cancelled})
	r.entry(runs.Entry{Kind: "x"})
	r.seq++
	r.Unreadable(r.seq, 1, func(m normalizer.Message) { r.got = append(r.got, m) })
	if len(r.got) != got || string(r.Record.JSON()) != record {
		t.Errorf("%d messages after the completion, record %s", len(r.got)-got, r.Record.JSON())
	}
	if state, err := r.State(); state != nil || err != nil {
		t.Errorf("a run that is done has the state %s, %v", state, err)
	}
	r.restore(t, codex.Backend{}, 0)
	r.exit(exited0)
	if !r.Done() || len(r.got) != got {
		t.Error("not done after Restore")
	}
}

// Lines after a cancel are counted, but result in no events.
func TestCancelStopsEvents(t *testing.T) {
	r := newRun(codex.Backend{}, 0)
	r.out(0, messageLine)
	r.entry(runs.Entry{Kind: runs.Cancelled})
	r.out(len(messageLine), completeLine+"{oops\n")
	r.out(5_000, completeLine) // after a gap
	r.entry(runs.Entry{Kind: "x"})
	backendtest.Expect(t, "codex", r.got, messageEvent)
	r.exit(`{"reason":"cancelled"}`)
	backendtest.Expect(t, "codex", r.got, messageEvent, backendError("cancelled"))
	if n := r.Record; n.Lines != 4 || n.TurnsDone != 2 || n.Malformed != 1 || n.Gaps != 1 || n.Bad != 1 ||
		len(n.Events) != 1 || n.Events["text_output"] != 1 {
		t.Errorf("record %s", n.JSON())
	}
}

// A tool call that never ended stays in the record.
func TestOpenCallsStayListed(t *testing.T) {
	r := newRun(codex.Backend{}, 0)
	r.out(0, `{"type":"item.started","item":{"id":"item_0","type":"command_execution"}}
{"type":"item.started","item":{"id":"item_1","type":"mcp_tool_call","tool":"echo"}}
{"type":"item.updated","item":{"id":"item_1","type":"mcp_tool_call","tool":"echo"}}
{"type":"item.started","item":{"id":"item_2","type":"command_execution"}}
{"type":"item.completed","item":{"id":"item_0","type":"command_execution"}}
{"type":"item.failed","item":{"id":"item_2","type":"command_execution"}}
{"type":"item.completed","item":{"id":"item_3","type":"file_change"}}
{"type":"turn.completed"}
`)
	r.exit(exited0)
	open := r.Record.OpenCalls
	if len(open) != 1 || open[0] != (runs.Call{ID: "item_1", Kind: "mcp_tool_call", Name: "echo", At: 2_000}) ||
		r.Record.MoreCalls != 0 || r.Record.ToolCalls != 4 {
		t.Errorf("record %s", r.Record.JSON())
	}
}

// Updates of a call that is not listed do not count it again.
func TestUnlistedCallsAreCountedOnce(t *testing.T) {
	r := newRun(codex.Backend{}, 0)
	long := strings.Repeat("i", 100)
	var out string
	for _, kind := range []string{"item.started", "item.updated", "item.updated"} {
		out += `{"type":"` + kind + `","item":{"id":"` + long + `","type":"command_execution"}}` + "\n"
	}
	r.out(0, out)
	if r.Record.ToolCalls != 1 || r.Record.MoreCalls != 1 {
		t.Errorf("open: %d calls, %d of them not listed; want 1, 1", r.Record.ToolCalls, r.Record.MoreCalls)
	}
	r.out(len(out), `{"type":"item.completed","item":{"id":"`+long+`","type":"command_execution"}}`+"\n")
	if r.Record.ToolCalls != 1 || r.Record.MoreCalls != 0 {
		t.Errorf("ended: %d calls, %d of them not listed; want 1, 0", r.Record.ToolCalls, r.Record.MoreCalls)
	}
}
