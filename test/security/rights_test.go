package security

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// right is something that one can ask of a stream. The subjects that belong
// together have to be permitted together.
type right struct {
	name string
	ask  func(t *testing.T, p *place, user string, s stream) []answer
	harm bool // afterwards something may be missing
	take bool // the operator takes a message from another's consumer for it
}

// jsapi is a request of the API of JetStream, with S for the stream and C for
// another's consumer.
func jsapi(verb, rest, body string, harm bool) right {
	return right{ask: func(t *testing.T, p *place, user string, s stream) []answer {
		subject := "$JS.API." + verb + "." + strings.NewReplacer("S", s.name, "C", theirs).Replace(rest)
		return []answer{p.ask(t, user, subject, nil, strings.NewReplacer("%S", s.name, "%F",
			s.subject("theirs")).Replace(body))}
	}, harm: harm}
}

func rights() []right {
	several := func(all ...right) (one right) {
		one.ask = func(t *testing.T, p *place, user string, s stream) (answers []answer) {
			for _, r := range all {
				answers = append(answers, r.ask(t, p, user, s)...)
			}
			return answers
		}
		for _, r := range all {
			one.harm = one.harm || r.harm
		}
		return one
	}
	named := func(name string, r right) right { r.name = name; return r }
	return []right{
		named("info", jsapi("STREAM.INFO", "S", "", false)),
		named("get", right{ask: func(t *testing.T, p *place, user string, s stream) []answer {
			query := fmt.Sprintf(`{"last_by_subj":%q}`, s.subject("theirs"))
			return []answer{p.ask(t, user, "$JS.API.STREAM.MSG.GET."+s.name, nil, query)}
		}}),
		named("direct", right{ask: func(t *testing.T, p *place, user string, s stream) []answer {
			subject, body := "$JS.API.DIRECT.GET."+s.name, fmt.Sprintf(`{"last_by_subj":%q}`, s.subject("theirs"))
			return []answer{p.ask(t, user, subject, nil, body), p.ask(t, user, subject+"."+s.subject("theirs"), nil, "")}
		}}),
		named("consume", right{ask: consume, harm: true}),
		named("drop", jsapi("CONSUMER.DELETE", "S.C", "", true)),
		named("names", several(jsapi("CONSUMER.NAMES", "S", "", false), jsapi("CONSUMER.LIST", "S", "", false))),
		named("pause", jsapi("CONSUMER.PAUSE", "S.C", "{}", true)),
		named("old", several( // older ways to make a consumer, which name no filter
			jsapi("CONSUMER.CREATE", "S", `{"stream_name":"%S","config":{"ack_policy":"explicit","filter_subject":"%F"}}`, true),
			jsapi("CONSUMER.DURABLE.CREATE", "S.old",
				`{"stream_name":"%S","config":{"durable_name":"old","ack_policy":"explicit","filter_subject":"%F"}}`, true))),
		named("ack", right{ask: acknowledge, harm: true, take: true}),
		named("purge", jsapi("STREAM.PURGE", "S", "", true)),
		named("erase", jsapi("STREAM.MSG.DELETE", "S", `{"seq":1}`, true)),
		named("make", jsapi("STREAM.CREATE", "S", `{"name":"%S","subjects":["x.%S"]}`, false)),
		named("update", right{ask: update, harm: true}),
		named("delete", jsapi("STREAM.DELETE", "S", "", true)),
		named("copy", several(jsapi("STREAM.SNAPSHOT", "S", `{}`, false), jsapi("STREAM.RESTORE", "S", `{}`, false))),
		named("lead", several(jsapi("STREAM.LEADER.STEPDOWN", "S", "", false), jsapi("CONSUMER.LEADER.STEPDOWN", "S.C", "",
			false),
			jsapi("STREAM.PEER.REMOVE", "S", `{}`, false), jsapi("CONSUMER.UNPIN", "S.C", `{}`, false))),
	}
}

// consume makes a consumer and has it bring something, looks at another's,
// changes that, and takes a message from it.
func consume(t *testing.T, p *place, user string, s stream) []answer {
	create := func(name, filter, action string) answer {
		body, err := json.Marshal(map[string]any{"stream_name": s.name, "action": action, "config": map[string]any{
			"durable_name": name, "name": name, "filter_subject": filter, "ack_policy": "explicit",
		}})
		if err != nil {
			t.Fatal(err)
		}
		return p.ask(t, user, "$JS.API.CONSUMER.CREATE."+s.name+"."+name+"."+filter, nil, string(body))
	}
	next := func(name string) answer {
		return p.ask(t, user, "$JS.API.CONSUMER.MSG.NEXT."+s.name+"."+name, nil, `{"batch":1,"no_wait":true}`)
	}
	made := create("mine", s.subject("mine"), "")
	all := []answer{
		made, create(theirs, s.subject("theirs"), "update"),
		p.ask(t, user, "$JS.API.CONSUMER.INFO."+s.name+"."+theirs, nil, ""), next(theirs),
	}
	if made.verdict == yes {
		if made.code != 0 {
			t.Errorf("%s on %s: %s", user, s.name, made.text)
		}
		all = append(all, next("mine"))
		if err := p.of(s).DeleteConsumer(t.Context(), s.name, "mine"); err != nil {
			t.Error(err)
		}
	}
	return all
}

// acknowledge takes a message of the operator's from the stream's consumer.
func acknowledge(t *testing.T, p *place, user string, s stream) []answer {
	js := p.of(s)
	c, err := js.Consumer(t.Context(), s.name, theirs)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Next(jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	a := p.ask(t, user, m.Reply(), nil, "")
	if a.verdict != yes {
		return []answer{a}
	}
	info, err := c.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.NumAckPending != 0 {
		t.Errorf("%s: %s acknowledged a message, and it is pending", s.name, user)
	}
	return []answer{a}
}

func update(t *testing.T, p *place, user string, s stream) []answer {
	have, err := p.of(s).Stream(t.Context(), s.name)
	if err != nil {
		t.Fatal(err)
	}
	config := have.CachedInfo().Config
	config.Description = "theirs now"
	body, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return []answer{p.ask(t, user, "$JS.API.STREAM.UPDATE."+s.name, nil, string(body))}
}
