package rest_test

import (
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// messages sends messages to a live run, and does to them what can be done.
func (s *stage) messages() {
	s.T.Helper()
	keeps := s.BeginLive("codex", "keeps", runs.Start{
		Source: "queue", Worker: "w1", Keep: true, Attributes: runs.Attributes{Dir: "/home/dev/project"},
	})
	send := func(status int, run, body string, headers ...string) (sent api.Sent) {
		s.T.Helper()
		r := s.want(status, "POST", "/v1/runs/"+run+"/messages", body, headers...)
		if status == 200 {
			r.read(s.T, &sent)
		}
		return sent
	}
	first := send(200, "keeps", `{"text":"one"}`, "Idempotency-Key", "0123456789abcdef")
	if !first.Waits || first.Turn != 1 || first.Waiting != 1 || first.State != runs.StateWorking {
		s.T.Errorf("sent %+v", first)
	}
	if again := send(200, "keeps", `{"text":"one"}`, "Idempotency-Key", "0123456789abcdef"); again.Message != first.Message {
		s.T.Errorf("the same again: %+v", again)
	}
	// The key of one request is for no other one.
	send(409, "keeps", `{"text":"another"}`, "Idempotency-Key", "0123456789abcdef")
	var taken rest.Problem
	s.want(409, "PATCH", "/v1/runs/keeps/options", `{"model":"m1"}`, "Idempotency-Key", "0123456789abcdef").read(s.T, &taken)
	if taken.Field != "Idempotency-Key" || !strings.HasPrefix(taken.Detail, "Idempotency-Key: the idempotency key") {
		s.T.Errorf("%+v", taken)
	}
	second := send(200, "keeps", `{"text":"two","when":"next"}`)
	for _, body := range []string{"", "{}", `{"text":" "}`, `{"text":"x","when":"soon"}`, `{"text":"x","turn":1}`,
		`{"text":"` + strings.Repeat("x", runs.MaxMessage+1) + `"}`,
		`{"text":"` + strings.Repeat(`\u0001`, runs.MaxMessageJSON/6+1) + `"}`} {
		send(400, "keeps", body)
	}
	send(404, "none", `{"text":"x"}`)
	send(409, "done", `{"text":"x"}`)
	send(409, "asks", `{"text":"x"}`)

	one := "/v1/runs/keeps/messages/" + first.Message
	s.want(200, "PATCH", one, `{"text":"uno"}`)
	s.want(400, "PATCH", one, `{}`)
	s.want(404, "PATCH", "/v1/runs/none/messages/m", `{"text":"x"}`)
	s.want(409, "PATCH", "/v1/runs/keeps/messages/m", `{"text":"x"}`)
	for _, method := range []string{"PATCH", "DELETE"} {
		s.want(400, method, "/v1/runs/keeps/messages/"+strings.Repeat("m", runs.MaxCommandID+1), `{"text":"x"}`)
	}
	s.want(200, "DELETE", "/v1/runs/keeps/messages/"+second.Message, "")
	s.want(409, "DELETE", "/v1/runs/keeps/messages/"+second.Message, "")
	s.want(404, "DELETE", "/v1/runs/none/messages/m", "")
	var all api.Messages
	s.want(200, "GET", "/v1/runs/keeps/messages", "").read(s.T, &all)
	want := api.Message{Message: first.Message, Text: "uno", By: "operator", Via: "nats"}
	if len(all.Messages) != 1 || all.Messages[0] != want {
		s.T.Errorf("messages %+v", all)
	}
	s.want(404, "GET", "/v1/runs/none/messages", "")

	s.want(200, "PATCH", "/v1/runs/keeps/options", `{"model":"m1","idempotencyKey":"0123456789abcdef-set"}`)
	for _, body := range []string{"{}", `{"mode":"all"}`, `{"model":" "}`, `{"model":"` + strings.Repeat("m", runs.MaxModel+1) + `"}`} {
		s.want(400, "PATCH", "/v1/runs/keeps/options", body)
	}
	s.want(404, "PATCH", "/v1/runs/none/options", `{"model":"m1"}`)
	s.want(409, "PATCH", "/v1/runs/done/options", `{"model":"m1"}`)
	s.want(409, "PATCH", "/v1/runs/keeps/options", `{"mode":"danger-full-access"}`)

	const held = "/v1/runs/keeps/messages/release"
	s.want(409, "POST", held, "")
	s.want(404, "POST", "/v1/runs/none/messages/release", "")
	s.want(409, "POST", "/v1/runs/keeps/turn/cancel", `{"turn":2}`)
	for range 2 {
		s.want(200, "POST", "/v1/runs/keeps/turn/cancel", `{"turn":1,"idempotencyKey":"0123456789abcdef-stop"}`)
	}
	s.want(404, "POST", "/v1/runs/none/turn/cancel", "")
	keeps.Say(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}`)
	paused := api.Conversation{Turn: 1, Last: "failed", WaitsFor: "message", Waiting: 1, Held: true, Process: 1}
	fixture.Eventually(s.T, fixture.Patience, "the turn has not ended", func() bool {
		var run api.Run
		s.want(200, "GET", "/v1/runs/keeps", "").read(s.T, &run)
		c := run.Conversation
		return c != nil && *c == paused
	})
	s.want(200, "POST", "/v1/runs/keeps/turn/cancel", `{"idempotencyKey":"0123456789abcdef-stop"}`) // the same again
	s.want(409, "POST", "/v1/runs/keeps/turn/cancel", `{"turn":1}`)
	s.want(200, "GET", "/v1/runs/keeps/wait?until=turn&timeout=60", "")
	s.want(400, "GET", "/v1/runs/keeps/wait?until=now", "")
	s.want(200, "POST", held, "")
	s.want(200, "POST", "/v1/runs/keeps/end", "")
	s.want(200, "POST", "/v1/runs/keeps/end", `{}`) // the same again
	s.want(409, "POST", "/v1/runs/done/end", "")
	s.want(404, "POST", "/v1/runs/none/end", "")
	send(409, "keeps", `{"text":"x"}`)
}
