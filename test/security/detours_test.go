package security

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
)

// detours are ways to have the server do what one may not do oneself: it asks
// nobody whether an answer may go where it is wanted, or a consumer's messages.
func (p *place) detours(t *testing.T) {
	p.undo = func() {}
	type way struct {
		row string
		try func(t *testing.T, user string) bool
	}
	live := names.Prefix + ".live.codex.detour.status"
	ways := []way{
		{"have an answer stored in EVENTS", func(t *testing.T, user string) bool {
			return p.grows(t, streams()[1], func() { p.detour(t, user, names.EventSubject("codex", "detour-"+user, "status")) })
		}},
		{"have an answer stored in WORK", func(t *testing.T, user string) bool {
			return p.grows(t, streams()[2], func() { p.detour(t, user, names.WorkSubject("detour", user)) })
		}},
		{"have an answer stored in linesman_runs", func(t *testing.T, user string) bool {
			return p.grows(t, streams()[4], func() { p.detour(t, user, "$KV."+names.Runs()+".detour-"+user) })
		}},
		{"have an answer sent to a worker on control", func(t *testing.T, user string) bool {
			return p.heard(t, embedded.WorkerUser, names.ControlSubject("x"),
				func() { p.detour(t, user, names.ControlSubject("x")) })
		}},
		{"have an answer sent to a responder on the api", func(t *testing.T, user string) bool {
			return p.heard(t, embedded.ResponderUser, names.API()+".status", func() { p.detour(t, user, names.API()+".status") })
		}},
		{"have an answer sent to subscribers on live", func(t *testing.T, user string) bool {
			return p.heard(t, embedded.SubscriberUser, live, func() { p.detour(t, user, live) })
		}},
		{"have a consumer deliver into EVENTS", func(t *testing.T, user string) bool {
			return p.grows(t, streams()[1], func() { p.deliver(t, user, names.EventSubject("codex", "detour-"+user, "status")) })
		}},
		{"have a consumer deliver to a worker on control", func(t *testing.T, user string) bool {
			return p.heard(t, embedded.WorkerUser, names.ControlSubject("x"),
				func() { p.deliver(t, user, names.ControlSubject("x")) })
		}},
		{"have a consumer deliver to subscribers on live", func(t *testing.T, user string) bool {
			return p.heard(t, embedded.SubscriberUser, live, func() { p.deliver(t, user, live) })
		}},
		{"have a consumer deliver to its own inbox", func(t *testing.T, user string) bool {
			inbox := bus.InboxPrefix(user) + ".delivered"
			return p.heard(t, user, inbox, func() { p.deliver(t, user, inbox) })
		}},
		{"have a consumer purge EVENTS by the API", func(t *testing.T, user string) bool {
			before := p.state(t, streams()[1]).FirstSeq
			p.deliver(t, user, "$JS.API.STREAM.PURGE."+names.Events())
			p.undo()
			gone := p.state(t, streams()[1]).FirstSeq != before
			p.repair(t)
			return gone
		}},
		{"have a message without a body delete a stream of its account by the API", func(t *testing.T, user string) bool {
			return p.emptyMessage(t, user)
		}},
		{"have what it wrote to RAW stored in WORK", func(t *testing.T, user string) bool { return p.forge(t, user) }},
		{"empty a bucket by writing one key of it", func(t *testing.T, user string) bool { return p.rollup(t, user) }},
	}
	var rows []string
	by := map[string]way{}
	for _, w := range ways {
		rows = append(rows, w.row)
		by[w.row] = w
	}
	p.compare(t, "Detour", users, rows, func(t *testing.T, row, user string) string {
		if user == embedded.ResponderAgentsUser || user == embedded.PrompterUser {
			return string(no) // it has no requests of the server: see the subjects
		}
		p.freshen(t, consumes(user)) // so that there is something to deliver
		ok := by[row].try(t, user)
		p.undo()
		if ok {
			return string(yes)
		}
		return string(no)
	})
}

// own is a stream that a user may read.
func own(user string) stream {
	switch user {
	case embedded.WorkerUser, embedded.NormalizerUser, embedded.ResponderUser, embedded.OperatorUser:
		return streams()[0]
	}
	return streams()[1]
}

// consumes is a stream that a user may have a consumer of.
func consumes(user string) stream {
	if user == embedded.WorkerUser {
		return streams()[2]
	}
	return own(user)
}

// detour asks for something that the user may ask for, and wants the answer
// elsewhere. When it returns the server has answered.
func (p *place) detour(t *testing.T, user, to string) {
	t.Helper()
	nc := p.enter(t, user)
	defer nc.Close()
	if err := nc.PublishRequest("$JS.API.STREAM.INFO."+own(user).name, to, nil); err != nil {
		t.Fatal(err)
	}
	if refused(t, nc) {
		t.Fatalf("%s may not ask for %s", user, own(user).name)
	}
	p.settle(t, user)
}

// settle lets the server deal with what came before: it answers some requests.
func (p *place) settle(t *testing.T, user string) {
	t.Helper()
	for range 5 {
		// the stream may be gone by now
		if a := p.ask(t, user, "$JS.API.STREAM.INFO."+own(user).name, nil, ""); a.verdict == no {
			t.Fatalf("%s: %v", user, a)
		}
	}
}

// deliver makes a consumer of what the user may have one of, with headers alone, that
// delivers to a subject, again and again until p.undo: what it sends at once can be before a
// subscription of another account counts.
func (p *place) deliver(t *testing.T, user, to string) {
	t.Helper()
	s, name := consumes(user), "detour"
	filter := s.subject("mine")
	body, err := json.Marshal(map[string]any{"stream_name": s.name, "config": map[string]any{
		"name": name, "deliver_subject": to, "ack_policy": "explicit", "headers_only": true, "filter_subject": filter,
		"deliver_policy": "all", "ack_wait": time.Second,
	}})
	if err != nil {
		t.Fatal(err)
	}
	a := p.ask(t, user, "$JS.API.CONSUMER.CREATE."+s.name+"."+name+"."+filter, nil, string(body))
	p.settle(t, user)
	if a.verdict == yes && a.code == 0 {
		p.delivered(t, s, name)
		p.undo = func() {
			p.undo = func() {}
			if err := p.of(s).DeleteConsumer(t.Context(), s.name, name); err != nil {
				t.Error(err)
			}
		}
	}
}

// delivered waits until a consumer has delivered something, if that is expected.
func (p *place) delivered(t *testing.T, s stream, consumer string) {
	t.Helper()
	p.comes(func() bool {
		c, err := p.of(s).Consumer(t.Context(), s.name, consumer)
		return err != nil || c.CachedInfo().Delivered.Consumer > 0
	})
}

type state struct {
	FirstSeq uint64
	LastSeq  uint64
}

func (p *place) state(t *testing.T, s stream) state {
	t.Helper()
	have, err := p.of(s).Stream(t.Context(), s.name)
	if err != nil {
		t.Fatal(err)
	}
	i := have.CachedInfo().State
	return state{i.FirstSeq, i.LastSeq}
}

func (p *place) grows(t *testing.T, s stream, do func()) bool {
	t.Helper()
	before := p.state(t, s).LastSeq
	do()
	return p.comes(func() bool { return p.state(t, s).LastSeq != before })
}

func (p *place) heard(t *testing.T, user, subject string, do func()) bool {
	t.Helper()
	nc := p.enter(t, user)
	defer nc.Close()
	sub, err := nc.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if refused(t, nc) {
		t.Fatalf("%s may not hear %s", user, subject)
	}
	do()
	return p.comes(func() bool { return overheard(t, ear{nc, sub}) == yes })
}

// emptyMessage has a message without a body sent to the API, which takes that
// for an order: one that is read directly, and one of a consumer that brings
// headers alone.
func (p *place) emptyMessage(t *testing.T, user string) bool {
	t.Helper()
	from, target := consumes(user), streams()[6]
	lost := func() bool {
		_, err := p.of(target).Stream(t.Context(), target.name)
		return err != nil
	}
	if from.public {
		target = streams()[1]
		empty := from.subject("empty") // no event is, but who writes there could
		if _, err := p.public.Publish(t.Context(), empty, nil); err != nil {
			t.Fatal(err)
		}
		s, err := p.public.Stream(t.Context(), from.name)
		if err != nil {
			t.Fatal(err)
		}
		p.request(t, user, "$JS.API.DIRECT.GET."+from.name, "$JS.API.STREAM.DELETE."+target.name,
			fmt.Sprintf(`{"last_by_subj":%q}`, empty))
		if s.CachedInfo().Config.AllowDirect && p.comes(lost) { // the server answers later
			p.removed(t, target)
			p.repair(t)
			return true
		}
	}
	filter := from.subject("mine")
	body := fmt.Sprintf(`{"stream_name":%q,"config":{"durable_name":"detour","name":"detour","filter_subject":%q,"ack_policy":"explicit","headers_only":true}}`, from.name, filter)
	if a := p.ask(t, user, "$JS.API.CONSUMER.CREATE."+from.name+".detour."+filter, nil, body); a.verdict != yes ||
		a.code != 0 {
		t.Fatalf("%s: no consumer on %s: %s", user, from.name, a.text)
	}
	p.request(t, user, "$JS.API.CONSUMER.MSG.NEXT."+from.name+".detour", "$JS.API.STREAM.DELETE."+target.name, "1")
	gone := p.comes(lost)
	if gone {
		p.removed(t, target)
	}
	p.repair(t)
	_ = p.of(from).DeleteConsumer(t.Context(), from.name, "detour") // it may have gone with its stream
	return gone
}

// removed waits until a server that no longer knows a stream has removed its files: it would
// remove those of the next stream of this name.
func (p *place) removed(t *testing.T, s stream) {
	t.Helper()
	soon(t, "the files of "+s.name+" are removed", func() bool { return !p.stored(t, s) })
}

// forge writes to RAW what would be a task, and has it sent on to WORK.
func (p *place) forge(t *testing.T, user string) bool {
	t.Helper()
	raw, target := streams()[0], names.WorkSubject("forged", user)
	subject := names.RawSubject("codex", "forged-"+user)
	if a := p.ask(t, user, subject, nil, `{"run":"forged"}`); a.verdict != yes || a.code != 0 {
		return false // it cannot write there in the first place
	}
	return p.grows(t, streams()[2], func() {
		p.request(t, user, "$JS.API.DIRECT.GET."+raw.name, target, fmt.Sprintf(`{"last_by_subj":%q}`, subject))
		p.request(t, user, "$JS.API.DIRECT.GET."+raw.name+"."+subject, target, "")
		body := fmt.Sprintf(`{"stream_name":%q,"config":{"durable_name":"detour","name":"detour","filter_subject":%q,"ack_policy":"explicit"}}`, raw.name, subject)
		if a := p.ask(t, user, "$JS.API.CONSUMER.CREATE."+raw.name+".detour."+subject, nil, body); a.verdict == yes &&
			a.code == 0 {
			p.request(t, user, "$JS.API.CONSUMER.MSG.NEXT."+raw.name+".detour", target, "1")
			p.delivered(t, raw, "detour")
			if err := p.of(raw).DeleteConsumer(t.Context(), raw.name, "detour"); err != nil {
				t.Error(err)
			}
		}
	})
}

// request makes one whose answer goes elsewhere, and lets the server deal with it.
func (p *place) request(t *testing.T, user, subject, to, body string) {
	t.Helper()
	nc := p.enter(t, user)
	defer nc.Close()
	if err := nc.PublishRequest(subject, to, []byte(body)); err != nil {
		t.Fatal(err)
	}
	_ = refused(t, nc) // which way it goes shows elsewhere
	p.settle(t, user)
}

// rollup writes a key with the header that removes all others.
func (p *place) rollup(t *testing.T, user string) bool {
	t.Helper()
	header := nats.Header{"Nats-Rollup": []string{"all"}}
	gone := false
	for _, s := range streams()[4:] {
		for _, key := range []string{"rollup", "worker.rollup", "cloud", "push"} {
			a := p.ask(t, user, s.subject(key), header, "{}")
			if a.verdict == yes && a.code == 0 {
				gone = true
			}
		}
	}
	p.repair(t)
	return gone
}
