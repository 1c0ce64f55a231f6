package security

import (
	"net/http"
	"strings"
	"testing"
)

// exchange is a request about a live run, and its answer for a caller with the right: one of these statuses, with a
// text. The owner is told of what the answer has.
type exchange struct {
	asking
	codes []int
	says  string
}

// conversing are the requests about the messages of a run that asks people, by the rows of the table, in their order.
// In a path {message} is the newest message that was sent.
func (h *house) conversing(t *testing.T, run string, asked []string) (rows []string, all map[string]exchange) {
	t.Helper()
	all = map[string]exchange{}
	add := func(row string, a asking, says string, codes ...int) {
		rows = append(rows, row)
		all[row] = exchange{a, codes, says}
	}
	accept := []string{"Accept", "application/json"}
	rest := func(row, body string, owner []string, codes ...int) {
		method, path, _ := strings.Cut(row, " ")
		add(row, asking{method, strings.Replace(path, "{id}", run, 1), body, accept, owner}, "", codes...)
	}
	text := func(where string) string { return `{"text":"` + planted[where] + `"}` }
	const of = "/v1/runs/{id}/"
	rest("POST "+of+"messages", text("sub-prompt"), nil, http.StatusOK)
	rest("GET "+of+"messages", "", []string{"sub-prompt"}, http.StatusOK)
	rest("PATCH "+of+"messages/{message}", text("stderr"), nil, http.StatusOK)
	rest("DELETE "+of+"messages/{message}", "", nil, http.StatusOK, http.StatusConflict) // once
	rest("POST "+of+"messages/release", "{}", nil, http.StatusConflict)                  // nothing is held
	rest("POST "+of+"turn/cancel", `{"turn":99}`, nil, http.StatusConflict)              // which does not run

	rest("PATCH "+of+"options", `{"mode":"danger-full-access"}`, nil, http.StatusConflict) // beyond its task

	const tools = "/mcp?tools=live"
	session := []string{"Mcp-Session-Id", h.open(t, tools), "MCP-Protocol-Version", "2025-06-18"}
	tool := func(name, args string, owner []string, says string) {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":{"run":"` + run +
			`"` + args + `}}}`
		add(name+" of MCP", asking{"POST", tools, body, session, owner}, says, http.StatusOK)
	}
	tool("_agent_live_send", `,"text":"`+planted["file"]+`"`, nil, run)
	tool("_agent_live_wait", "", asked, run)
	tool("_agent_answer", `,"question":"q1","option":"else"`, nil, "option")
	tool("_agent_live_stop", `,"turn":99`, nil, "turn 99")
	message := func(row, part string, owner []string, says string) {
		add(row, asking{"POST", "/a2a", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m",` +
			`"role":"ROLE_USER","taskId":"` + run + `","parts":[` + part + `]}}}`, nil, owner}, says, http.StatusOK)
	}
	message("a message of A2A", `{"text":"Go on."}`, []string{"plan"}, "waits for the answer")
	const other = `{"data":{"answer":{"question":"q1","option":"else"}}}`
	message("an answer of A2A", other, nil, "option")
	const row = "an answer of A2A with a receiver"
	message(row, other, nil, "option")
	received := all[row]
	received.body = strings.Replace(received.body, `"params":{`, `"params":{"configuration":{"taskPushNotificationConfig":{`+
		`"url":"https://example.com/hook"}},`, 1)
	all[row] = received

	rest("POST "+of+"end", "{}", nil, http.StatusOK)
	tool("_agent_live_end", "", nil, run)
	message("an end of A2A", `{"data":{"end":true}}`, []string{"arguments", "command", "diff", "plan"}, run)
	return rows, all
}
