package security

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
)

var show = flag.Bool("show", false, "print the cells of the tables as they are found to be")

func TestEveryCellOfThePageHolds(t *testing.T) {
	t.Parallel()
	everyCell(t, embeddedServer(t))
}

func everyCell(t *testing.T, p *place) {
	t.Run("subjects", func(t *testing.T) { p.subjects(t) })
	t.Run("inboxes", func(t *testing.T) { p.inboxes(t) })
	t.Run("streams", func(t *testing.T) {
		if p.own {
			fixture.Long(t, "tries each right of each user on the streams of an own server")
		}
		p.streams(t)
	})
	t.Run("account", func(t *testing.T) { p.account(t) })
	t.Run("bounds", func(t *testing.T) { p.bounds(t) })
	t.Run("detours", func(t *testing.T) { p.detours(t) })
}

// compare holds what was found against a table of the page.
func (p *place) compare(t *testing.T, name string, columns, rows []string, found func(t *testing.T, row,
	column string) string) {
	var want *table
	if !*show {
		want = tableOf(t, name, columns, rows)
	}
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&b, "\n%s, %s:", name, row)
		for _, column := range columns {
			p.expected = !*show && want.rows[row][column] == string(yes)
			got := found(t, row, column)
			fmt.Fprintf(&b, " `%s`: %s;", column, got)
			if !*show && got != want.rows[row][column] {
				t.Errorf("%s: %q, %s: it is %q, and the page says %q", name, row, column, got, want.rows[row][column])
			}
		}
	}
	if *show {
		t.Log(b.String())
	}
}

// subjects are all families of them: who may write there, and who hears it.
func (p *place) subjects(t *testing.T) {
	pos := func(of string) string { return "cell-" + of }
	kept := map[string]func(user string) string{ // what a stream keeps
		names.RawSubjects(): func(u string) string { return names.RawSubject("codex", pos(u)) },
		names.EventSubjects(): func(u string) string {
			return names.EventSubject("codex", pos(u),
				"status")
		},
		names.WorkSubjects():                   func(u string) string { return names.WorkSubject("cell", pos(u)) },
		names.PushSubjects():                   func(u string) string { return names.PushSubject(pos(u), "key") },
		"$KV." + names.Runs() + ".*":           func(u string) string { return "$KV." + names.Runs() + "." + pos(u) },
		"$KV." + names.State() + ".worker.*":   func(u string) string { return "$KV." + names.State() + ".worker." + pos(u) },
		"$KV." + names.State() + ".cloud":      func(string) string { return "$KV." + names.State() + ".cloud" },
		"$KV." + names.State() + ".push":       func(string) string { return "$KV." + names.State() + ".push" },
		"$KV." + names.State() + ".normalizer": func(string) string { return "$KV." + names.State() + ".normalizer" },
		"$KV." + names.Threads() + ".*":        func(u string) string { return "$KV." + names.Threads() + "." + pos(u) },
		"$KV." + names.Folds() + ".>":          func(u string) string { return "$KV." + names.Folds() + "." + pos(u) + ".0" },
		"$KV." + names.Requests() + ".*":       func(u string) string { return "$KV." + names.Requests() + "." + pos(u) },
		"$KV." + names.Push() + ".*":           func(u string) string { return "$KV." + names.Push() + "." + pos(u) },
		"$KV." + names.Seen() + ".*":           func(u string) string { return "$KV." + names.Seen() + "." + pos(u) },
		"$KV." + names.Access() + ".codes":     func(string) string { return "$KV." + names.Access() + ".codes" },
		"$KV." + names.Access() + ".key":       func(string) string { return "$KV." + names.Access() + ".key" },
		"$KV." + names.Access() + ".tokens":    func(string) string { return "$KV." + names.Access() + ".tokens" },
	}
	said := map[string]struct { // what nobody keeps, and whom it is for
		to      string
		subject func(user string) string
	}{
		names.LiveSubjects(): {embedded.SubscriberUser, func(u string) string {
			return names.Prefix + ".live.codex." +
				pos(u) + ".status"
		}},
		names.ControlSubject("*"): {embedded.WorkerUser, func(u string) string { return names.ControlSubject(pos(u)) }},
		names.API() + ".>":        {embedded.ResponderUser, func(u string) string { return names.API() + ".status" }},
		"$SRV.>":                  {embedded.ResponderUser, func(string) string { return "$SRV.PING" }},
	}
	for _, row := range agents {
		to := embedded.ResponderAgentsUser
		if speakerOf(row) == to {
			to = embedded.PrompterUser
		}
		said[row] = struct {
			to      string
			subject func(user string) string
		}{to, func(string) string { return example(row) }}
	}
	order := []string{
		names.RawSubjects(), names.EventSubjects(), names.LiveSubjects(), names.WorkSubjects(), names.PushSubjects(),
		names.ControlSubject("*"), names.API() + ".>",
		"$KV." + names.Runs() + ".*", "$KV." + names.State() + ".worker.*", "$KV." + names.State() + ".cloud",
		"$KV." + names.State() + ".push",
		"$KV." + names.State() + ".normalizer", "$KV." + names.Threads() + ".*", "$KV." + names.Folds() + ".>",
		"$KV." + names.Requests() + ".*",
		"$KV." + names.Push() + ".*", "$KV." + names.Seen() + ".*", "$SRV.>",
		"$KV." + names.Access() + ".codes", "$KV." + names.Access() + ".key", "$KV." + names.Access() + ".tokens",
	}
	order = append(order, agents...)
	p.compare(t, "Publish", users, order, func(t *testing.T, row, user string) string {
		if subject := kept[row]; subject != nil {
			return string(p.ask(t, user, subject(user), nil, "{}").verdict)
		}
		return string(p.say(t, user, said[row].to, said[row].subject(user)))
	})

	// Everything that can be heard is said by an operator of each account.
	everything := append(order, "_INBOX.>", "$JS.API.>", "$JS.EVENT.>", "$SYS.>", ">")
	p.compare(t, "Subscribe", users, everything, func(t *testing.T, row, user string) string {
		subject := example(row)
		if row == ">" {
			subject = names.EventSubject("codex", "cell", "status")
		}
		return string(p.hear(t, user, row, subject))
	})
}

// agents are the subjects of the account of the Agent Protocol.
var agents = []string{
	"agents.prompt.*.*.*", "agents.status.*.*.*", "agents.cancel.*.*.*", "agents.hb.*.*.*", names.AgentReplies(),
	"$SRV.PING.agents", "$SRV.PING.agents.*", "$SRV.INFO.agents", "$SRV.INFO.agents.*", "_INBOX.agents.>",
}

// speakerOf is who may publish on a subject of that account.
func speakerOf(subject string) string {
	if strings.HasPrefix(subject, "agents.hb.") || strings.HasPrefix(subject, "_INBOX.") {
		return embedded.ResponderAgentsUser
	}
	return embedded.PrompterUser
}

// example is a subject that a pattern matches.
func example(pattern string) string {
	return strings.NewReplacer(".*", ".x", ".>", ".x").Replace(pattern)
}

// say publishes, and finds out whether it is heard by whom it is for.
func (p *place) say(t *testing.T, user, to, subject string) verdict {
	t.Helper()
	listener := p.enter(t, to)
	defer listener.Close()
	sub, err := listener.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if refused(t, listener) {
		t.Fatalf("%s may not hear %s", to, subject)
	}
	nc := p.enter(t, user)
	defer nc.Close()
	if err := nc.Publish(subject, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if refused(t, nc) {
		return no
	}
	return overheard(t, ear{listener, sub})
}

// ear is a subscription and its connection.
type ear struct {
	nc  *nats.Conn
	sub *nats.Subscription
}

// overheard reports whether it has heard something that the server
// has dealt with.
func overheard(t *testing.T, e ear) verdict {
	t.Helper()
	if err := e.nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	if n, _, err := e.sub.Pending(); err == nil && n > 0 {
		return yes
	}
	return nothing
}

// hear subscribes, and finds out whether what an operator says can be heard.
func (p *place) hear(t *testing.T, user, pattern, subject string) verdict {
	t.Helper()
	nc := p.enter(t, user)
	defer nc.Close()
	sub, err := nc.SubscribeSync(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if refused(t, nc) {
		return no
	}
	speakers := []string{embedded.OperatorUser, embedded.OperatorUser + "_public"}
	if slices.Contains(agents, pattern) {
		speakers = []string{speakerOf(pattern)}
	}
	for _, operator := range speakers {
		if operates(operator) && (operator == embedded.OperatorUser) == public(subject) {
			continue // in this account there is no such thing
		}
		speaker := p.watch[operator]
		if err := speaker.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := speaker.FlushTimeout(patience); err != nil {
			t.Fatal(err)
		}
	}
	return overheard(t, ear{nc, sub})
}

func public(subject string) bool {
	return strings.HasPrefix(subject, names.Prefix+".events.") || strings.HasPrefix(subject, names.Prefix+".live.")
}

// inboxes: who may send to whose, and listen there.
func (p *place) inboxes(t *testing.T) {
	p.compare(t, "Inbox of", users, users, func(t *testing.T, owner, user string) string {
		var rights []string
		inbox := bus.InboxPrefix(owner) + ".x"
		own := p.enter(t, owner)
		defer own.Close()
		sub, err := own.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		if refused(t, own) {
			t.Fatalf("%s may not listen to its own inbox", owner)
		}
		nc := p.enter(t, user)
		defer nc.Close()
		if err := nc.Publish(inbox, nil); err != nil {
			t.Fatal(err)
		}
		if !refused(t, nc) && overheard(t, ear{own, sub}) == yes {
			rights = append(rights, "send")
		}
		other := p.enter(t, user)
		defer other.Close()
		if _, err := other.SubscribeSync(inbox); err != nil {
			t.Fatal(err)
		}
		if !refused(t, other) {
			rights = append(rights, "listen")
		}
		return words(rights)
	})
}

func words(rights []string) string {
	if len(rights) == 0 {
		return string(no)
	}
	return strings.Join(rights, " ")
}

// streams are all of them, and all that can be asked of each.
func (p *place) streams(t *testing.T) {
	var of []string
	by := map[string]stream{}
	for _, s := range streams() {
		of = append(of, s.name)
		by[s.name] = s
	}
	fresh := map[string]bool{}
	p.compare(t, "Stream", users, of, func(t *testing.T, name, user string) string {
		s := by[name]
		var may []string
		none, every := 0, rights()
		for _, r := range every {
			if !fresh[name] {
				p.freshen(t, s)
			}
			answers := r.ask(t, p, user, s)
			got := answers[0].verdict
			fresh[name] = !r.take && (got != yes || !r.harm)
			if operates(user) && strings.HasSuffix(user, "_public") != s.public {
				if got == no {
					t.Errorf("%s, %s: an operator is refused", user, r.name)
				}
				p.sweep(t, user, name) // it may have made one of this name
				continue
			}
			for _, a := range answers {
				if a.verdict != got {
					t.Errorf("%s on %s, %s: one request of several: %v", user, name, r.name, answers)
				}
			}
			if got == yes {
				may = append(may, r.name)
			}
			if got == nothing && operates(user) {
				none++ // as direct reading, where the stream does not allow it
			} else if got == nothing {
				t.Errorf("%s on %s, %s: permitted, and there is nothing", user, name, r.name)
			}
			if got == yes && r.harm {
				p.repair(t)
			}
		}
		if len(may) > 0 && len(may)+none == len(every) {
			return "everything"
		}
		if len(may) == 0 && operates(user) {
			return string(nothing)
		}
		return words(may)
	})
}

func operates(user string) bool { return strings.HasPrefix(user, embedded.OperatorUser) }

// sweep removes a stream that an operator made in its own account.
func (p *place) sweep(t *testing.T, user, name string) {
	t.Helper()
	js := p.inside
	if user != embedded.OperatorUser {
		js = p.public
	}
	if err := js.DeleteStream(t.Context(), name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatal(err)
	}
}

// freshen makes another's consumer anew: it has nothing given out.
func (p *place) freshen(t *testing.T, s stream) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_ = p.of(s).DeleteConsumer(ctx, s.name, theirs) // it may be gone
	p.furnishOne(ctx, t, s)
}

// bounds are those of the accounts: readers can fill nothing but EVENTS' own
// list of consumers.
func (p *place) bounds(t *testing.T) {
	for _, js := range []struct {
		jetstream.JetStream
		most int
	}{{p.inside, -1}, {p.public, bus.MaxReaders}} {
		info, err := js.AccountInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Limits.MaxConsumers; got != js.most {
			t.Errorf("at most %d consumers of a stream, want %d", got, js.most)
		}
	}
}

// account is what can be asked of the API beside the streams that there are.
func (p *place) account(t *testing.T) {
	foreign := map[string]string{
		"see the account's usage":        "$JS.API.INFO",
		"list streams":                   "$JS.API.STREAM.LIST",
		"find the stream of a subject":   "$JS.API.STREAM.NAMES",
		"make a stream":                  "$JS.API.STREAM.CREATE.FOREIGN",
		"make a stream of others":        "$JS.API.STREAM.CREATE.FOREIGN",
		"restore a stream":               "$JS.API.STREAM.RESTORE.FOREIGN",
		"read over another's API prefix": "$JS.LINESMAN.API.STREAM.INFO." + names.Raw(),
	}
	body := map[string]string{
		"make a stream":           `{"name":"FOREIGN","subjects":["foreign.>"],"storage":"memory","republish":{"src":"foreign.>","dest":"linesman.live.>"}}`,
		"make a stream of others": `{"name":"FOREIGN","storage":"memory","sources":[{"name":"LINESMAN_RAW"},{"name":"LINESMAN_EVENTS"}]}`,
	}
	var rows []string
	for row := range foreign {
		rows = append(rows, row)
	}
	slices.Sort(rows)
	p.compare(t, "Ask the API", users, rows, func(t *testing.T, row, user string) string {
		a := p.ask(t, user, foreign[row], nil, body[row])
		for _, js := range []jetstream.JetStream{p.inside, p.public} {
			_ = js.DeleteStream(t.Context(), "FOREIGN")
		}
		return string(a.verdict)
	})
}
