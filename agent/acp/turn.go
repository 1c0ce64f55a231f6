package acp

import (
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// Sent implements [normalizer.Conversation].
func (d *dialect) Sent(line []byte, out *normalizer.Out) {
	d.by = ""
	m, fault := Read(line)
	if fault != scan.OK || m.Kind == invalid {
		return // none for the agent
	}
	d.Heard = true
	switch m.Kind {
	case Response:
		d.answered(&m, out)
	case Request:
		d.requests(&m, out)
	default:
		if m.Method.Equal("session/cancel") {
			d.status(out, "turn cancel requested", nil)
		}
	}
	d.done(out)
}

// requests maps a request of the client.
func (d *dialect) requests(m *Message, out *normalizer.Out) {
	p := wire.Object(m.Params)
	switch m.Method.View() {
	case "initialize":
		d.expect(m, forHello, scan.Value{})
	case "session/new":
		d.expect(m, forNew, scan.Value{})
	case "session/load", "session/resume":
		d.expect(m, forOld, p["sessionId"])
		d.Replay = true
	case "session/prompt":
		d.expect(m, forPrompt, scan.Value{})
		d.Replay = false
		d.Echo = hash(promptOf(p["prompt"]).Text())
		is := func(m *runs.Message) bool { return m.Hash == d.Echo }
		if d.Turns > 0 && !d.Again && d.Queue.Take(is) { // the first is that of the task
			d.told.Queue, d.told.Message = &d.Queue, "sent"
		}
		d.Again = false
		d.begin(out)
	case "session/set_mode":
		d.expect(m, forMode, p["modeId"])
	case "session/set_model":
		d.expect(m, forModel, p["modelId"])
	case "session/set_config_option":
		option := map[string]string{
			"mode": forMode, "model": forModel, "effort": forEffort, "reasoning_effort": forEffort, "thought_level": forEffort,
		}
		d.expect(m, option[p["configId"].View()], p["value"])
	default:
		d.expect(m, forNothing, scan.Value{})
	}
}

// promptOf returns the first text of a prompt.
func promptOf(prompt scan.Value) (text scan.Value) {
	wire.Each(prompt, func(block scan.Value) {
		if !text.IsString() {
			text = wire.At(block, "text")
		}
	})
	return text
}

// begin maps the beginning of a turn.
func (d *dialect) begin(out *normalizer.Out) {
	d.Turns++
	d.Open, d.Text.Goes, d.Text.Said = true, false, ""
	if d.agent.Tokens == PerRequest {
		d.Spent = runs.Usage{}
	}
	d.told.Turn = d.Turns
	out.NoFinal()
	out.Facts.Turn, out.Facts.MustEnd, out.Facts.Doing.Phase = runs.TurnStarted, true, runs.Thinking
	d.status(out, "turn started", nil)
}

// ended maps the response to a prompt.
func (d *dialect) ended(m *Message, out *normalizer.Out) {
	if !d.Open && !d.Heard {
		d.begin(out)
	}
	d.withdrawAll("agent", out)
	spent, usage := d.spent(m.Result, out)
	reason := StopReason(m.Result)
	switch {
	case m.Failed():
		text := m.Failure()
		if wire.Blank(text) {
			text = "the agent gave no reason"
		}
		d.failed(text, "turn failed", nil, out)
	case reason == "cancelled":
		d.failed("", "turn cancelled", usage, out)
		out.Facts.Error, out.Facts.ErrorSource = "the turn was cancelled", runs.ErrorTurn
	case reason == "end_turn" && d.agent.Silent && spent.Input+spent.Output == 0:
		text := strings.TrimSpace(d.Text.Said)
		if text == "" {
			text = "the turn ended without an answer of the model"
		}
		d.failed(text, "turn failed", usage, out)
	case reason == "end_turn":
		d.closeTurn(true)
		out.Confirm()
		out.Facts.Turn = runs.TurnCompleted
		d.status(out, "turn completed", usage)
	default:
		text, known := stops[reason]
		if !known {
			d.drift.Status(wire.At(m.Result, "stopReason"), "stop/")
			text = "the turn ended for a reason that is not known"
		}
		d.failed(text, "turn failed", usage, out)
	}
}

// stops are the texts of the reasons for which a turn ends before its end.
var stops = map[string]string{
	"max_tokens":        "the turn ended because the model reached its limit of tokens",
	"max_turn_requests": "the turn ended because the agent reached its limit of requests to the model",
	"refusal":           "the turn ended because the agent refused to go on",
}

// failed ends a turn that was not completed. Text is the message of an Error event; "": there is none.
func (d *dialect) failed(text, message string, usage []byte, out *normalizer.Out) {
	d.closeTurn(false)
	out.NoFinal()
	out.Facts.Turn = runs.TurnFailed
	if text != "" {
		out.Facts.Error, out.Facts.ErrorSource = text, runs.ErrorTurn
		d.event(out, normalizer.ErrorMessage(text))
	}
	d.status(out, message, usage)
}

func (d *dialect) closeTurn(completed bool) {
	d.Open, d.Text.Goes = false, false
	if d.Queue.IsZero() {
		return
	}
	if d.told.Queue = &d.Queue; d.lost {
		d.Queue.Unsent()
	} else {
		d.Queue.Ended(completed)
	}
}

// spent returns the tokens of a turn that has ended, and the data of its event; nil: they are not told.
func (d *dialect) spent(result scan.Value, out *normalizer.Out) (spent runs.Usage, data []byte) {
	if d.agent.Tokens == PerRequest {
		if d.Spent == (runs.Usage{}) {
			return spent, nil
		}
		return d.Spent, usageOf(d.Spent)
	}
	spent, told := d.agent.Spent(result)
	if !told {
		return spent, nil
	}
	switch d.agent.Tokens {
	case PerProcess:
		spent, d.Spent = spent.Minus(d.Spent), spent
		out.Facts.SpentAll = &spent
	case LastRequest:
		out.Facts.Spent, out.Facts.Untold = &spent, true
	default:
		out.Facts.SpentAll = &spent
	}
	return spent, usageOf(spent)
}

// requested counts the tokens of a request to the model, in an update.
func (d *dialect) requested(meta scan.Value, out *normalizer.Out) {
	if d.agent.Tokens != PerRequest {
		return
	}
	if told := wire.At(meta, "usage"); told.Kind == scan.Object {
		spent := d.agent.tokens(told)
		d.Spent = d.Spent.Plus(&spent)
		out.Facts.SpentAll = &spent
	}
}

// Spent returns the tokens in the result of a prompt, and whether there are any. Of an agent that tells them per
// process they are those of all turns so far.
func (a *Agent) Spent(result scan.Value) (spent runs.Usage, told bool) {
	at := []string{"usage"}
	if a.Tokens == PerTurnQuota {
		at = []string{"_meta", "quota", "token_count"}
	}
	v := wire.At(result, at...)
	if a.Tokens == noTokens || a.Tokens == PerRequest || v.Kind != scan.Object {
		return spent, false
	}
	return a.tokens(v), true
}

// tokens returns counts of tokens. None is negative; Input and Output are all of it.
func (a *Agent) tokens(told scan.Value) runs.Usage {
	at := wire.Object(told)
	count := func(keys ...string) int64 {
		for _, key := range keys {
			if n, ok := at[key].Int(); ok && 0 < n && n <= maxCount {
				return n
			}
		}
		return 0
	}
	u := runs.Usage{
		Input: count("inputTokens", "input_tokens"), Output: count("outputTokens", "output_tokens"),
		CachedInput: count("cachedReadTokens"), CacheWriteInput: count("cachedWriteTokens"),
		ReasoningOutput: count("thoughtTokens"),
	}
	if a.Apart {
		u.Input += u.CachedInput + u.CacheWriteInput
	}
	if a.ApartThoughts {
		u.Output += u.ReasoningOutput
	}
	return u
}

// maxCount is the largest number of tokens that counts.
const maxCount = 1 << 50

// usageOf returns the data of an event with the tokens of a turn.
func usageOf(u runs.Usage) []byte {
	b := []byte(`{"schema":"backend.acp.usage.v1","usage":{"input_tokens":`)
	b = appendInt(b, u.Input)
	b = appendInt(append(b, `,"cached_input_tokens":`...), u.CachedInput)
	b = appendInt(append(b, `,"cache_write_input_tokens":`...), u.CacheWriteInput)
	b = appendInt(append(b, `,"output_tokens":`...), u.Output)
	b = appendInt(append(b, `,"reasoning_output_tokens":`...), u.ReasoningOutput)
	return append(b, "}}"...)
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// Process implements [normalizer.Conversation].
func (d *dialect) Process(p *runs.Process, out *normalizer.Out) {
	d.Heard = true
	message := "agent started"
	if p.Do == runs.ProcessStart {
		out.Facts.Version = p.Version
	} else {
		if message = "agent ended"; p.Stays && p.Reason == runs.ReasonFinished && !d.Open {
			message = "agent asleep"
		}
		d.withdrawAll("", out)
	}
	b := appendInt([]byte(`{"schema":"backend.process.v1","process":{"n":`), int64(p.N))
	b = appendText(append(b, `,"how":`...), oneOfText(p.How, "new", "resume", "load"))
	b = append(b, `,"code":`...)
	if p.Code == nil {
		b = append(b, "null"...)
	} else {
		b = appendInt(b, int64(*p.Code))
	}
	b = append(b, `,"signal":`...)
	if p.Signal == 0 {
		b = append(b, "null"...)
	} else {
		b = appendInt(b, int64(p.Signal))
	}
	d.status(out, message, append(b, "}}"...))
	if p.Do != runs.ProcessStart && d.Open {
		d.lost, d.Again = p.Unsent, p.Unsent && d.Queue.Sent == nil
		d.failed("the agent ended before its turn", "turn interrupted", nil, out)
		d.lost = false
	} else if p.Unsent && !d.Queue.IsZero() { // the log has a part of it
		d.Queue.Unsent()
		d.told.Queue = &d.Queue
	}
	d.Pending, d.Replay, d.Calls = nil, false, nil
	if d.agent.Tokens == PerProcess {
		d.Spent = runs.Usage{}
	}
	d.done(out)
}

// oneOfText returns s if it is one of some words, else "".
func oneOfText(s string, words ...string) string {
	for _, word := range words {
		if s == word {
			return word
		}
	}
	return ""
}

// Command implements [normalizer.Conversation]. An answer counts when it is sent.
func (d *dialect) Command(c *runs.Command, out *normalizer.Out) {
	again := d.repeated(c)
	switch c.Do {
	case runs.DoAsk:
		d.put(c, out)
	case runs.DoAnswer:
		d.decided(c)
	case runs.DoEnd:
		if !d.Ends {
			d.Ends, d.Queue = true, runs.Queue{}
			d.told.Queue = &d.Queue
			d.status(out, "end requested", nil)
		}
	case runs.DoSend, runs.DoEdit, runs.DoUnsend, runs.DoRelease:
		if again {
			d.place(c)
		} else {
			d.queue(c, out)
		}
	}
	d.done(out)
}

// place tells that the text of a message is in this entry: a log that was lost, and is filled again, has it elsewhere.
func (d *dialect) place(c *runs.Command) {
	id := c.ID
	if c.Do == runs.DoEdit {
		id = c.Message
	}
	m := d.Queue.Of(id)
	if sent := d.Queue.Sent; m == nil && sent != nil && sent.ID == id {
		m = sent
	}
	if m != nil && c.Text != "" && m.Hash == hash(c.Text) {
		d.told.Queue, d.told.Changed = &d.Queue, id
	}
}

// repeated reports whether a command has no effect on the queue, as the conversation has it: it is repeated, or has no
// valid id.
func (d *dialect) repeated(c *runs.Command) bool {
	id := hash(c.ID)
	known := slices.Contains(d.Commands, id)
	if d.Older = d.Older && !known; known || d.Older || c.ID == "" || len(c.ID) > runs.MaxCommandID {
		return true
	}
	if !c.Automatic() {
		d.Commands = append(d.Commands, id)
		d.Commands = d.Commands[max(len(d.Commands)-maxCommands, 0):]
	}
	return false
}

// Forget implements [normalizer.Conversation].
func (d *dialect) Forget() { d.Older = len(d.Commands) == maxCommands }

// queue maps a change of what waits.
func (d *dialect) queue(c *runs.Command, out *normalizer.Out) {
	if d.Ends || !d.Queue.Apply(c) {
		return
	}
	message := map[string]string{
		runs.DoSend: "message queued", runs.DoEdit: "message changed", runs.DoUnsend: "message removed",
		runs.DoRelease: "messages released",
	}[c.Do]
	d.told.Queue, d.told.Changed = &d.Queue, c.ID
	switch c.Do {
	case runs.DoSend:
		d.told.Message = "queued"
	case runs.DoUnsend:
		d.told.Message = "removed"
	case runs.DoEdit:
		d.told.Changed = c.Message
	}
	if m := d.Queue.Of(d.told.Changed); m != nil && c.Text != "" {
		m.Text, m.Hash = "", hash(c.Text)
	}
	b := appendInt([]byte(`{"schema":"backend.queue.v1","queue":{"waiting":`), int64(len(d.Queue.Messages)))
	b = appendInt(append(b, `,"bytes":`...), int64(len(c.Text)))
	d.status(out, message, append(b, "}}"...))
}

// Finish implements [normalizer.Conversation].
func (d *dialect) Finish(out *normalizer.Out) { d.flush(out) }
