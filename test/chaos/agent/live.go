package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// message is a line that a live agent has accepted.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// live is an agent that asks some questions in each turn. It ignores a line that is no message, as real ones
// do, and keeps each other one.
func live(journals string) int {
	dir, err := os.Getwd()
	must(err)
	a := &agent{key: filepath.Base(dir), random: rand.New(rand.NewPCG(rand.Uint64(), 1)), set: map[string]string{}}
	a.dir = filepath.Join(journals, a.key)
	a.open()
	journal, err := os.OpenFile(filepath.Join(a.dir, "in"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(err)
	a.mark("start %d", os.Getpid())
	in := bufio.NewReader(os.Stdin)
	next := func() (m message) {
		for {
			line, err := in.ReadBytes('\n')
			must(err)
			if m = (message{}); json.Unmarshal(line, &m) != nil {
				continue
			}
			_, err = journal.Write(line)
			must(err)
			if m.Method != "session/cancel" {
				return m
			}
			a.cancelled = true
		}
	}
	for {
		m := next()
		result := "{}"
		switch m.Method {
		case "initialize":
			resume := ""
			if strings.HasPrefix(a.key, "naps") {
				resume = `,"resume":{}`
			}
			result = `{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{}` + resume + `}}}`
		case "session/new":
			result = `{"sessionId":"session-` + a.key + `"}`
		case "session/prompt":
			a.cancelled = false
			a.liveTurn(next)
			reason := "end_turn"
			if (strings.HasPrefix(a.key, "keeps") || strings.HasPrefix(a.key, "naps")) && a.random.IntN(6) == 0 {
				reason = "refusal"
			}
			if a.cancelled {
				reason = "cancelled"
			}
			result = fmt.Sprintf(`{"stopReason":"`+reason+`","usage":{"inputTokens":%d,"outputTokens":2},"extra":%q}`,
				1+a.random.IntN(1e6), a.secret())
		}
		a.line(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`)
		if m.Method == "session/close" {
			a.mark("end 0")
			return 0
		}
	}
}

// liveTurn prints pieces of text, and asks questions: up to three at once.
func (a *agent) liveTurn(next func() message) {
	asked := 0
	for range 3 + a.random.IntN(6) {
		open := map[string]bool{}
		for range a.random.IntN(4) {
			a.line(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"session-` + a.key +
				`","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"piece \n"}}}}`)
			open[fmt.Sprint(asked)] = true
			a.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{`+
				`"sessionId":"session-%s","toolCall":{"toolCallId":"c%d","kind":"execute","title":%q},"options":[`+
				`{"optionId":"yes","kind":"allow_once","name":"Yes"},{"optionId":"no","kind":"reject_once","name":"No"}]}}`,
				asked, a.key, asked, a.secret()))
			asked++
		}
		for len(open) > 0 {
			delete(open, string(next().ID))
		}
		time.Sleep(time.Duration(a.random.IntN(150)) * time.Millisecond)
	}
}
