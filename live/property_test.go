package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

// world is a worker and an agent with a raw log between them, in which anything happens in any order.
type world struct {
	*rapid.T
	s       *stage
	printed []byte         // by the agent, and not in the log
	line    []byte         // of the agent, its beginning is in the log
	got     []byte         // by the agent: the beginning of a line
	all     []byte         // that it got
	asked   map[string]int // its requests in the log since it got an answer to the same id, by id
	saved   []byte         // a state
	prompts int
	seq     int
	around  func(e runs.Entry, apply func()) // each entry; may be nil
	answer  func(line []byte, m sent)        // that the agent gets; may be nil
}

func (w *world) apply(e runs.Entry) {
	if w.around != nil {
		w.around(e, func() { w.s.append(e) })
	} else {
		w.s.append(e)
	}
	s := &w.s.c.s
	if len(s.Open) > runs.MaxQuestions || len(s.Open) > 0 && (!s.Running || s.Cancelled) || len(s.Await) > 3 {
		w.Fatalf("%d questions are open, %d requests have no response, in %+v", len(s.Open), len(s.Await), w.s.c.Status())
	}
}

// print stores the next n bytes of the agent's output.
func (w *world) print(n int) {
	n = min(n, len(w.printed))
	if n == 0 {
		return
	}
	piece := w.printed[:n]
	alive := w.s.c.s.Alive && !w.s.c.over()
	w.apply(runs.Entry{Kind: runs.Out, Offset: w.s.out, Body: bytes.Clone(piece)})
	w.s.out += int64(n)
	w.printed = w.printed[n:]
	w.line = append(w.line, piece...)
	for {
		line, rest, whole := bytes.Cut(w.line, []byte("\n"))
		if !whole {
			return
		}
		if m, _ := acp.Read(line); m.Kind == acp.Request && alive {
			w.asked[m.RequestID()]++
		}
		w.line = rest
	}
}

// send stores the next n bytes for the agent, which acts on each line.
func (w *world) send(n int) {
	offset, body := w.s.c.Due()
	if len(body) == 0 {
		return
	}
	if offset != int64(len(w.all)) || len(body) > runs.MaxChunk {
		w.Fatalf("%d bytes at %d are due, the log has %d", len(body), offset, len(w.all))
	}
	body = bytes.Clone(body[:min(n, len(body))])
	w.all = append(w.all, body...)
	w.apply(runs.Entry{Kind: runs.Sent, Offset: offset, Body: body})
	w.got = append(w.got, body...)
	if line, rest, whole := bytes.Cut(w.got, []byte("\n")); whole {
		w.got = rest
		w.take(line)
	}
}

// take is what the agent does with a line: it checks it, and responds.
func (w *world) take(line []byte) {
	var m sent
	if json.Unmarshal(line, &m) != nil {
		w.Fatalf("no line: %q", line)
	}
	if m.Method == "" {
		if w.asked[string(m.ID)] == 0 {
			w.Fatalf("an answer to nothing: %s", line)
		}
		if w.answer != nil {
			w.answer(line, m)
		}
		w.asked[string(m.ID)] = 0
		return
	}
	if m.Method == "session/prompt" {
		if w.prompts++; w.prompts > 1 {
			w.Fatalf("a second prompt")
		}
	}
	if m.ID != nil {
		result := map[string]string{
			"initialize":     `{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{}}}}`,
			"session/new":    `{"sessionId":"s"}`,
			"session/prompt": `{"stopReason":"end_turn"}`,
		}[m.Method]
		if result == "" {
			result = "{}"
		}
		w.noise(rapid.IntRange(0, 6).Draw(w.T, "noise"))
		w.printed = fmt.Appendf(w.printed, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
	}
}

// noise prints lines that nobody asked for.
func (w *world) noise(n int) {
	for range n {
		id := rapid.SampledFrom([]string{"1", "2", "3", `"4"`}).Draw(w.T, "id")
		line := rapid.SampledFrom([]string{
			permission(id, "execute", ""), permission(id, "read", ""), permission(id, "read", ""),
			`{"jsonrpc":"2.0","id":` + id + `,"method":"fs/read_text_file"}`,
			`{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create"}`,
			`{"jsonrpc":"2.0","id":` + id + `,"result":{"stopReason":"end_turn"}}`,
			`{"jsonrpc":"2.0","id":` + id + `,"result":{"sessionId":"t","protocolVersion":1}}`,
			`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32000}}`,
			`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":` + id + `}}`,
			update("tool_call_update", `"toolCallId":"c","status":"completed"`), "", "x", "\x00",
		}).Draw(w.T, "line")
		w.printed = append(w.printed, line+"\n"...)
	}
}

// command stores a command, perhaps one that does not fit.
func (w *world) command() {
	w.seq++
	cmd := runs.Command{ID: fmt.Sprint("c", rapid.IntRange(max(w.seq-3, 0), w.seq).Draw(w.T, "id"))}
	cmd.Do = rapid.SampledFrom([]string{
		"answer", "answer", "answer", "answer", "stop", "limit", "end", "x",
	}).Draw(w.T, "do")
	cmd.Turn = rapid.IntRange(0, 2).Draw(w.T, "turn")
	cmd.Question = fmt.Sprint("q", rapid.IntRange(1, 9).Draw(w.T, "question"))
	if open := w.s.c.Open(); len(open) > 0 && rapid.Bool().Draw(w.T, "is open") {
		cmd.Question = rapid.SampledFrom(open).Draw(w.T, "question").ID
	}
	cmd.Option = rapid.SampledFrom([]string{"yes", "no", "", "else"}).Draw(w.T, "option")
	w.apply(runs.Entry{Kind: runs.Ordered, Body: runs.Encode(cmd)})
}

// again returns the conversation of another worker: from a state that was saved before, or from none, with the
// entries after it in pieces of at most n bytes.
func (w *world) again(saved []byte, n int) *Conversation {
	c := New(w.s.config)
	if saved != nil {
		var err error
		if c, err = restore(w.s.config, saved); err != nil || len(saved) > maxState {
			w.Fatalf("%d bytes: %v", len(saved), err)
		}
	}
	for i, e := range w.s.log {
		seq := uint64(i + 1)
		for (e.Kind == runs.Out || e.Kind == runs.Sent) && len(e.Body) > n && seq > c.Seen() {
			first := e
			first.Body = e.Body[:n]
			c.s.Seq = seq - 1 // all pieces are of one entry
			c.Apply(seq, first)
			e.Offset, e.Body = e.Offset+int64(n), e.Body[n:]
			c.s.Seq = seq - 1
		}
		c.Apply(seq, e)
	}
	return c
}

func same(a, b *Conversation) bool {
	offset, body := a.Due()
	offsetB, bodyB := b.Due()
	return bytes.Equal(a.State(), b.State()) && offset == offsetB && bytes.Equal(body, bodyB) &&
		bytes.Equal(a.lines.line, b.lines.line)
}

// Any interleaving of output, what is sent, commands and restarts makes each line due once.
func TestAnyInterleavingSendsEachLineOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := config()
		if rapid.Bool().Draw(rt, "long") {
			cfg.Task.Prompt = strings.Repeat("long ", 30_000)
		}
		w := &world{T: rt, s: newStage(t, cfg), asked: map[string]int{}}
		if rapid.Bool().Draw(rt, "in a turn") {
			for range 3 { // initialize, new, prompt
				w.send(1 << 20)
				w.print(1 << 20)
			}
		}
		sizes := rapid.OneOf(rapid.IntRange(1, 50), rapid.Just(100), rapid.Just(1<<20))
		rt.Repeat(map[string]func(*rapid.T){
			"send":    func(t *rapid.T) { w.send(sizes.Draw(t, "n")) },
			"send on": func(t *rapid.T) { w.send(1 << 20) },
			"print":   func(t *rapid.T) { w.print(sizes.Draw(t, "n")) },
			"print on": func(t *rapid.T) {
				w.print(1 << 20)
			},
			"command":    func(*rapid.T) { w.command() },
			"command on": func(*rapid.T) { w.command() },
			"noise":      func(*rapid.T) { w.noise(1) },
			"noise on":   func(*rapid.T) { w.noise(3) },
			"known": func(t *rapid.T) { // output that the log has already
				if i := slices.IndexFunc(w.s.log, func(e runs.Entry) bool { return e.Kind == runs.Out }); i >= 0 {
					w.apply(w.s.log[i])
				}
			},
			"save": func(*rapid.T) {
				if saved := w.s.c.State(); saved != nil {
					w.saved = saved
				}
			},
			"restart": func(t *rapid.T) {
				saved := w.saved
				if rapid.Bool().Draw(t, "from the beginning") {
					saved = nil
				}
				c := w.again(saved, sizes.Draw(t, "n"))
				if !same(c, w.s.c) {
					t.Fatalf("restored\n%s\nwas\n%s", c.State(), w.s.c.State())
				}
				w.s.c = c
			},
		})
		w.settle()
	})
}

// settle lets both go on to the end: then each request has its answer, but open questions.
func (w *world) settle() {
	for range 200 {
		w.print(1 << 20)
		w.send(1 << 20)
	}
	if _, over := w.s.c.Ended(); over {
		return
	}
	for _, q := range w.s.c.s.Open {
		delete(w.asked, q.Request)
	}
	for id, n := range w.asked {
		if n > 0 {
			w.Fatalf("%d requests with the id %s have no answer", n, id)
		}
	}
}

// Whatever a line has, the state stays small, and answers go to requests.
func FuzzLine(f *testing.F) {
	f.Add(permission("1", "read", "") + "\n" + turned)
	f.Add(permission(`"`+strings.Repeat("<", acp.MaxID)+`"`, "read", ""))
	f.Add(update("tool_call", `"toolCallId":"c"`))
	f.Add(update("config_option_update", `"configOptions":[{"id":"mode","currentValue":"x"}]`))
	f.Add(hello + "\n" + created + "\n" + closed)
	f.Add(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`)
	f.Add(strings.Repeat(`{"jsonrpc":"2.0","id":"\u0001","method":"x"}`+"\n", 40))
	f.Fuzz(func(t *testing.T, lines string) {
		cfg := config()
		cfg.Agent.Modes = map[string]string{"workspace-write": "edits"}
		s := &stage{t: t, config: config(), c: New(config()), quick: true}
		s.process(runs.Process{N: 1, Do: runs.ProcessStart})
		s.drain()
		s.print(hello + "\n")
		s.drain()
		s.print(created + "\n")
		s.drain()
		s.config, s.c.config = cfg, cfg
		asked := map[string]int{}
		for line := range strings.Lines(lines) {
			if m, _ := acp.Read([]byte(strings.TrimSuffix(line, "\n"))); m.Kind == acp.Request {
				asked[m.RequestID()]++
			}
		}
		s.print(lines + "\n")
		for _, q := range s.c.Open() {
			if cmd, ok := (Policy{Mode: cfg.Task.Mode}).Decide(q, 0); ok && q.ID != "q3" {
				s.order(cmd)
			}
		}
		if saved := s.c.State(); saved == nil && len(s.c.s.Due) < 64 || len(saved) > maxState {
			t.Errorf("a state of %d bytes", len(saved))
		}
		s.restart()
		for {
			offset, body := s.c.Due()
			if len(body) == 0 {
				return
			}
			s.append(runs.Entry{Kind: runs.Sent, Offset: offset, Body: bytes.Clone(body)})
			var m sent
			if err := json.Unmarshal(body, &m); err != nil {
				t.Fatalf("%q: %v", body, err)
			}
			if asked[string(m.ID)]--; m.Method == "" && asked[string(m.ID)] < 0 {
				t.Fatalf("an answer to nothing: %s", body)
			}
		}
	})
}
