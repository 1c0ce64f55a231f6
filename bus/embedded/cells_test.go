package embedded

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/test/fixture"
)

func cellAccounts(t *testing.T, prefixes ...string) []account {
	t.Helper()
	all, err := CellAccounts(prefixes)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// No user of a cell may publish or listen to anything of another cell, and the readers of
// all cells may write nothing.
func TestCellsAreIsolated(t *testing.T) {
	for _, a := range cellAccounts(t, "alpha", "beta") {
		own, other := a.Cell, map[string]string{"alpha": "beta", "beta": "alpha"}[a.Cell]
		for _, s := range slices.Concat(a.Exports, a.Imports) {
			for part := range strings.SplitSeq(s.Account+", "+s.Also, ", ") {
				if own != "" && part != "" && part != CellsAccount && !strings.HasPrefix(part, strings.ToUpper(own)) {
					t.Errorf("%s shares %s with %s", a.Name, s.Subject, part)
				}
			}
		}
		for _, u := range a.Users {
			for _, subject := range slices.Concat(u.Publish, u.Subscribe) {
				if own != "" && strings.Contains(strings.ToLower(subject), other) {
					t.Errorf("%s of %s has %s", u.Name, own, subject)
				}
				known := strings.Contains(subject, CellsAccount) || strings.HasPrefix(subject, "_INBOX_subscriber.") ||
					subject == anyLive || subject == accountInfo
				if own == "" && u.Name == SubscriberUser && !known {
					t.Errorf("the subscriber of all cells has %s", subject)
				}
			}
		}
	}
}

// An installation with the default prefix has the accounts that it had alone, so it keeps
// its streams when a second cell is added.
func TestCellWithTheDefaultPrefixKeepsItsAccounts(t *testing.T) {
	alone := Accounts(bus.Names{Prefix: bus.DefaultPrefix})
	for i, a := range cellAccounts(t, bus.DefaultPrefix, "beta")[:len(alone)] {
		if a.Name != alone[i].Name || len(a.Users) != len(alone[i].Users) {
			t.Errorf("%s is now %s", alone[i].Name, a.Name)
		}
	}
}

func TestCellsWithAccountsOfOneNameAreRefused(t *testing.T) {
	for _, prefixes := range [][]string{{"a", "a"}, {"a", "a_public"}, {"linesman_cells"}} {
		if _, err := CellAccounts(prefixes); err == nil {
			t.Errorf("%q are accepted", prefixes)
		}
	}
}

func TestCertificatesNameTheCell(t *testing.T) {
	text := CertificateConfig(cellAccounts(t, "alpha", "beta"))
	for _, want := range []string{`"CN=worker,OU=alpha"`, `"CN=worker,OU=beta"`, `"CN=subscriber"`} {
		if strings.Count(text, want) != 1 {
			t.Errorf("the configuration has not one user %s", want)
		}
	}
}

// Readers send small requests only, by whichever keys the server knows them.
func TestSignedAccountsLimitWhatReadersSend(t *testing.T) {
	t.Parallel()
	all := cellAccounts(t, "alpha", "beta")
	signed, err := SignedConfig(all, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	limits := map[string]int64{}
	for line := range strings.Lines(signed) {
		_, token, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if claims, err := jwt.DecodeAccountClaims(token); err == nil {
			limits[claims.Name] = claims.Limits.Payload
		}
	}
	for _, a := range all {
		want := int64(bus.ReaderPayload)
		if strings.TrimPrefix(a.Name, strings.ToUpper(a.Cell)) == "" { // workers and their like
			want = jwt.NoLimit
		}
		if got, ok := limits[a.Name]; got != want || !ok {
			t.Errorf("users of %s may send %d bytes, want %d", a.Name, got, want)
		}
	}
}

// A stream in the account of all cells sources the events of each, and its subscriber reads
// it, with each kind of keys.
func TestStreamOfAllCellsSourcesEachCell(t *testing.T) {
	cells := cellAccounts(t, "alpha", "beta")
	for how, config := range map[string]func([]account, string) (string, error){"nk": NKeyConfig, "creds": SignedConfig} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			keys := t.TempDir()
			text, err := config(cells, keys)
			if err != nil {
				t.Fatal(err)
			}
			if how == "creds" {
				text += "feature_flags { js_ack_fc_v2: true }\n" // other subjects of flow control
			}
			url := serveConfig(t, text)
			connect := func(cell, user string) jetstream.JetStream {
				t.Helper()
				file := filepath.Join(keys, cell, user+"."+how)
				key := nats.UserCredentials(file)
				if how == "nk" {
					if key, err = nats.NkeyOptionFromSeed(file); err != nil {
						t.Fatal(err)
					}
				}
				return dialAs(t, url, user, key)
			}
			var sources []*jetstream.StreamSource
			for _, prefix := range []string{"alpha", "beta"} {
				n := bus.Names{Prefix: prefix}
				js := connect(prefix, OperatorUser+publicSuffix)
				if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
					Name: n.Events(), Subjects: []string{n.EventSubjects()},
				}); err != nil {
					t.Fatal(err)
				}
				for i := range 3000 { // beyond the limits of one window of flow control
					_, err := js.PublishAsync(fmt.Sprintf("%s.events.codex.r.%d", prefix, i), make([]byte, 4<<10))
					if err != nil {
						t.Fatal(err)
					}
				}
				<-js.PublishAsyncComplete()
				sources = append(sources, &jetstream.StreamSource{Name: n.Events(), FilterSubject: n.EventSubjects(),
					External: &jetstream.ExternalStream{APIPrefix: "JS." + prefix + ".API", DeliverPrefix: prefix + ".deliver"}})
			}
			_, err = connect("", OperatorUser).CreateStream(t.Context(), jetstream.StreamConfig{
				Name: CellsAccount, Sources: sources})
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, connect("", SubscriberUser), 3000)
		})
	}
}

// readAll reads n messages of each cell, in order.
func readAll(t *testing.T, js jetstream.JetStream, n int) {
	t.Helper()
	consumer, err := js.OrderedConsumer(t.Context(), CellsAccount, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{anyEvents}})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	next := map[string]int{}
	for range 2 * n {
		m, err := messages.Next(jetstream.NextMaxWait(time.Minute))
		if err != nil {
			t.Fatalf("after %v: %v", next, err)
		}
		cell, _, _ := strings.Cut(m.Subject(), ".")
		if want := fmt.Sprintf("%s.events.codex.r.%d", cell, next[cell]); m.Subject() != want {
			t.Fatalf("%s in the place of %s", m.Subject(), want)
		}
		next[cell]++
	}
}

// serveConfig starts a server with these accounts.
func serveConfig(t *testing.T, accounts string) string {
	t.Helper()
	opts := &server.Options{}
	if err := opts.ProcessConfigString(accounts); err != nil {
		t.Fatal(err)
	}
	opts.Host, opts.Port, opts.NoSigs = "127.0.0.1", server.RANDOM_PORT, true
	opts.JetStream, opts.StoreDir = true, t.TempDir()
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	return s.ClientURL()
}

func dialAs(t *testing.T, url, user string, key nats.Option) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url, key, nats.CustomInboxPrefix(bus.InboxPrefix(user)),
		nats.Timeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	return js
}
