// Package security breaks in: as each user of a server, with what that user
// has, it tries all that a page says it may not, and all that it may.
package security

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

func TestMain(m *testing.M) {
	code := fixture.Main(m, "each right of each user is tried on four servers", func(dir string) error {
		bin = dir
		return nil
	})
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is how long something may take that has to come.
const patience = fixture.Patience

var names = bus.Names{Prefix: bus.DefaultPrefix}

// place is a server with linesman's accounts and streams. Whatever a test
// does there, repair makes whole again.
type place struct {
	own     bool // an own server
	url     string
	store   string                          // where it has its accounts, and their streams
	options func(user string) []nats.Option // how a user gets in

	inside, public jetstream.JetStream   // the operator's
	watch          map[string]*nats.Conn // one connection of each user
	repair         func(t *testing.T)

	expected bool   // the page says that what is tried now comes true
	undo     func() // ends what deliver began
}

// embeddedServer is the server of `linesman up`.
func embeddedServer(t *testing.T) *place {
	dir := t.TempDir()
	s, err := embedded.StartServer(dir, "127.0.0.1:0", names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	p := &place{url: s.URL(), store: filepath.Join(dir, "jetstream", "jetstream")}
	p.options = func(user string) []nats.Option {
		return []nats.Option{nats.UserInfo(user, s.Credentials[user])}
	}
	operator, err := s.Connect(bustest.Patient(t), embedded.OperatorUser, names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(operator.Close)
	p.furnish(t, operator)
	return p
}

// furnish makes the streams, with something in each.
func (p *place) furnish(t *testing.T, operator *bus.Bus) {
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 64<<20, 64<<20, 64<<20
	p.watch = map[string]*nats.Conn{}
	for _, user := range users {
		p.watch[user] = p.enter(t, user)
	}
	var err error
	if p.inside, err = jetstream.New(p.watch[embedded.OperatorUser]); err != nil {
		t.Fatal(err)
	}
	if p.public, err = jetstream.New(p.watch[embedded.OperatorUser+"_public"]); err != nil {
		t.Fatal(err)
	}
	p.repair = func(t *testing.T) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := operator.Ensure(ctx, limits); err != nil {
			t.Fatal(err)
		}
		for _, s := range streams() {
			p.furnishOne(ctx, t, s)
		}
	}
	p.repair(t)
	for _, s := range streams() {
		if !p.stored(t, s) {
			t.Fatalf("%s is not in %s", s.name, p.store)
		}
	}
}

// stored reports whether the server has files of a stream.
func (p *place) stored(t *testing.T, s stream) bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(p.store, "*", "streams", s.name))
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

// theirs is a consumer of somebody else, in every stream.
const theirs = "theirs"

func (p *place) furnishOne(ctx context.Context, t *testing.T, s stream) {
	t.Helper()
	js := p.of(s)
	soon(t, "a consumer on "+s.name, func() bool {
		_, err := js.CreateOrUpdateConsumer(ctx, s.name, jetstream.ConsumerConfig{
			Durable: theirs, FilterSubject: s.subject("theirs"), AckPolicy: jetstream.AckExplicitPolicy,
		})
		var api *jetstream.APIError
		if errors.As(err, &api) && api.Code == 500 { // the files of the one before are just being removed
			return false
		}
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		return true
	})
	for _, of := range []string{"theirs", "mine"} {
		_, err := js.Publish(ctx, s.subject(of), []byte("{}"))
		var api *jetstream.APIError
		if err != nil && !errors.As(err, &api) { // a work queue may have it still
			t.Fatalf("%s: %v", s.name, err)
		}
	}
}

func (p *place) of(s stream) jetstream.JetStream {
	if s.public {
		return p.public
	}
	return p.inside
}

// enter connects as a user.
func (p *place) enter(t *testing.T, user string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(p.url, append(p.options(user), nats.CustomInboxPrefix(bus.InboxPrefix(user)),
		nats.NoReconnect(), nats.Timeout(patience),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	if err != nil {
		t.Fatalf("%s: %v", user, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// stream is one that linesman has.
type stream struct {
	name    string
	public  bool
	subject func(of string) string // one that it keeps
}

func streams() []stream {
	key := func(bucket string) func(string) string {
		return func(of string) string { return "$KV." + bucket + "." + of }
	}
	return []stream{
		{names.Raw(), false, func(of string) string { return names.RawSubject("codex", of) }},
		{names.Events(), true, func(of string) string { return names.EventSubject("codex", of, "status") }},
		{names.Work(), false, func(of string) string { return names.WorkSubject(of, "run") }},
		{names.Outbox(), false, func(of string) string { return names.PushSubject(of, "key") }},
		{"KV_" + names.Runs(), false, key(names.Runs())},
		{"KV_" + names.State(), false, key(names.State())},
		{"KV_" + names.Threads(), false, key(names.Threads())},
		{"KV_" + names.Folds(), false, key(names.Folds())},
		{"KV_" + names.Requests(), false, key(names.Requests())},
		{"KV_" + names.Push(), false, key(names.Push())},
		{"KV_" + names.Seen(), false, key(names.Seen())},
		{"KV_" + names.Access(), false, key(names.Access())},
	}
}

// verdict is what came of a try.
type verdict string

const (
	yes     verdict = "yes"
	no      verdict = "no" // the server said that it is not permitted
	nothing verdict = "–"  // permitted, but there is no such thing in this account
)

// refused reports whether the server refused something on a connection. All
// that was sent has been dealt with when it returns.
func refused(t *testing.T, nc *nats.Conn) bool {
	t.Helper()
	if err := nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	return errors.Is(nc.LastError(), nats.ErrPermissionViolation)
}

// answer is what came of a request of the JetStream API.
type answer struct {
	verdict
	code int // of an error
	body []byte
	text string
}

// ask makes a request. All requests of a user are on one connection: to
// connect takes longer than to ask.
func (p *place) ask(t *testing.T, user, subject string, header nats.Header, body string) answer {
	t.Helper()
	nc := p.watch[user]
	before := nc.LastError()
	sub, err := nc.SubscribeSync(nc.NewRespInbox())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishMsg(&nats.Msg{Subject: subject, Reply: sub.Subject, Header: header,
		Data: []byte(body)}); err != nil {
		t.Fatal(err)
	}
	if refused(t, nc) && nc.LastError() != before { //nolint:errorlint // each refusal is an error of its own
		return answer{verdict: no}
	}
	m, err := sub.NextMsg(patience)
	if errors.Is(err, nats.ErrNoResponders) {
		return answer{verdict: nothing}
	}
	if err != nil {
		t.Fatalf("%s: %s: %v", user, subject, err)
	}
	if m.Header.Get("Status") == "503" {
		return answer{verdict: nothing}
	}
	var v struct {
		Error *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	_ = json.Unmarshal(m.Data, &v) // what is no JSON is no error
	a := answer{verdict: yes, body: m.Data}
	if v.Error != nil {
		a.code, a.text = v.Error.Code, v.Error.Description
		if a.code == 10059 { // no such stream: in another account it is
			a.verdict = nothing
		}
	}
	return a
}

// comes reports whether something has come true. What the page expects is
// waited for.
func (p *place) comes(ok func() bool) bool {
	if !p.expected {
		return ok()
	}
	return fixture.Poll(patience, ok)
}

// soon waits for what has to come true.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	fixture.Eventually(t, patience, "in vain: "+what, ok)
}

var users = []string{
	embedded.WorkerUser, embedded.NormalizerUser, embedded.NormalizerUser + "_public", embedded.ResponderUser,
	embedded.ResponderUser + "_public",
	embedded.OperatorUser, embedded.OperatorUser + "_public", embedded.SubscriberUser,
	embedded.ResponderAgentsUser, embedded.PrompterUser,
}

// page is the tables of the page, by the first cell of their heading.
var page = sync.OnceValues(func() (map[string]*table, error) {
	b, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		return nil, err
	}
	all := map[string]*table{}
	var now *table
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") {
			now = nil
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "`", ""))
		}
		switch {
		case now == nil:
			now = &table{name: cells[0], columns: cells[1:], rows: map[string]map[string]string{}}
			switch strings.Join(now.columns, " ") {
			case "allowed":
				now.list, now.columns = true, users
			case "scopes":
				now.list, now.columns = true, tokens
			}
			all[cells[0]] = now
		case strings.HasPrefix(cells[0], "--"):
		default:
			if err := now.add(cells); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
})

// table is the headings of a table's columns, and the cells of each row, by its
// first cell and the column.
type table struct {
	name    string
	list    bool // its only column names the users, or the tokens, with a right
	columns []string
	rows    map[string]map[string]string
}

// add adds a line of the page, whose first cell may name several rows.
func (t *table) add(cells []string) error {
	for row := range strings.SplitSeq(cells[0], "; ") {
		values := map[string]string{}
		if t.list {
			if err := t.expand(values, cells[1:]); err != nil {
				return fmt.Errorf("%s, row %q: %w", t.name, row, err)
			}
		} else if len(cells) == len(t.columns)+1 {
			for i, c := range t.columns {
				values[c] = cells[i+1]
			}
		}
		if t.rows[row] != nil || len(values) != len(t.columns) {
			return fmt.Errorf("%s: row %q is there twice, or has %d cells", t.name, row, len(cells))
		}
		t.rows[row] = values
	}
	return nil
}

// expand makes a cell of each user of a list such as "worker: info get; operator".
func (t *table) expand(values map[string]string, cells []string) error {
	list := strings.Join(cells, "|")
	for item := range strings.SplitSeq(list, "; ") {
		named, value, given := strings.Cut(item, ": ")
		if !given {
			value = string(yes)
		}
		for _, user := range strings.Fields(named) {
			if list == "nobody" {
				break
			}
			if !slices.Contains(t.columns, user) || values[user] != "" {
				return fmt.Errorf("%q is none of %q, or is there twice", user, t.columns)
			}
			values[user] = value
		}
	}
	other := string(no)
	if slices.Contains([]string{"Publish", "Subscribe", "Stream", "Request", "Request of a live run"}, t.name) &&
		values[embedded.OperatorUser]+values[embedded.OperatorUser+"_public"] != "" {
		other = string(nothing) // in the account of the other operator
	}
	for _, user := range t.columns {
		if values[user] == "" && operates(user) {
			values[user] = other
		} else if values[user] == "" {
			values[user] = string(no)
		}
	}
	return nil
}

// tableOf is a table of the page. Its columns, and its rows, have to be these.
func tableOf(t *testing.T, name string, columns, rows []string) *table {
	t.Helper()
	all, err := page()
	if err != nil {
		t.Fatal(err)
	}
	have, ok := all[name]
	if !ok {
		t.Fatalf("the page has no table %q", name)
	}
	if strings.Join(have.columns, " ") != strings.Join(columns, " ") {
		t.Fatalf("table %q has the columns %q, want %q", name, have.columns, columns)
	}
	for _, r := range rows {
		if have.rows[r] == nil {
			t.Errorf("table %q has no row %q", name, r)
			have.rows[r] = map[string]string{}
		}
	}
	if len(have.rows) != len(rows) {
		t.Errorf("table %q has %d rows, and %d are tried", name, len(have.rows), len(rows))
	}
	return have
}
