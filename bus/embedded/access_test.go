package embedded

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// accountOf returns one of the accounts.
func accountOf(t *testing.T, n bus.Names, name string) account {
	t.Helper()
	i := slices.IndexFunc(Accounts(n), func(a account) bool { return a.Name == name })
	if i < 0 {
		t.Fatalf("there is no account %s", name)
	}
	return Accounts(n)[i]
}

func TestReadersAskForWhatIsExportedAndNothingElse(t *testing.T) {
	public, readers := accountOf(t, bustest.Names, PublicAccount), accountOf(t, bustest.Names, readersAccount)
	if readers.JetStream || len(readers.Exports) > 0 || len(public.Imports) > 0 ||
		len(accountOf(t, bustest.Names, InsideAccount).Exports) > 0 {
		t.Error("an account has unexpected streams, imports or exports")
	}
	var exported []string
	for i, e := range public.Exports {
		if e.Account != readersAccount {
			t.Errorf("%s is exported to %s", e.Subject, e.Account)
		}
		in := readers.Imports[i]
		if in.Subject != e.Subject || in.Service != e.Service || in.Account != PublicAccount {
			t.Errorf("%s is exported, %v is imported", e.Subject, in)
		}
		exported = append(exported, e.Subject)
	}
	if len(readers.Imports) != len(public.Exports) {
		t.Errorf("%d imports of %d exports", len(readers.Imports), len(public.Exports))
	}
	for _, u := range readers.Users {
		for _, subject := range u.Publish {
			if !slices.Contains(exported, subject) {
				t.Errorf("%s may publish %s, which is not exported", u.Name, subject)
			}
		}
	}
}

func TestOnlyOperatorsHaveWildcardsBeyondTheirOwn(t *testing.T) {
	for _, a := range Accounts(bustest.Names) {
		for _, u := range a.Users {
			for _, subject := range append(slices.Clone(u.Publish), u.Subscribe...) {
				first, _, _ := strings.Cut(subject, ".")
				wide := first == ">" || first == "*" || strings.HasPrefix(subject, "$JS.API.>") ||
					strings.HasPrefix(subject, "$JS.API.STREAM.*") ||
					subject == bustest.Names.Prefix+".>" || subject == "$KV.>" ||
					subject == "_INBOX.>"
				if wide && !strings.HasPrefix(u.Name, OperatorUser) {
					t.Errorf("%s has %s", u.Name, subject)
				}
			}
		}
	}
}

// Two installations on one server are isolated: all subjects of a user begin with its
// own prefix, or belong to its own streams.
func TestAnotherPrefixIsAllOfItsOwn(t *testing.T) {
	for _, a := range Accounts(bus.Names{Prefix: "other"}) {
		for _, u := range a.Users {
			for _, subject := range append(slices.Clone(u.Publish), u.Subscribe...) {
				if strings.Contains(subject, "linesman") || strings.Contains(subject, "LINESMAN") {
					t.Errorf("%s has %s", u.Name, subject)
				}
			}
		}
	}
}

func TestAccountsConfigIsReadByTheServer(t *testing.T) {
	opts := &server.Options{}
	if err := opts.ProcessConfigString(
		accountsFor(bustest.Names, func(user string) string { return "user: " + user + ", password: \"a b \\\" c\"" }),
	); err != nil {
		t.Fatal(err)
	}
	var users []string
	for _, u := range opts.Users {
		users = append(users, u.Username)
		if u.Permissions == nil || u.Permissions.Publish == nil || len(u.Permissions.Publish.Allow) == 0 ||
			u.Permissions.Subscribe == nil {
			t.Errorf("%s has no permissions, which allows everything", u.Username)
		}
		if u.Password != "a b \" c" {
			t.Errorf("the password of %s is %q", u.Username, u.Password)
		}
	}
	if len(users) != 10 || len(opts.Accounts) != 4 {
		t.Errorf("%d users in %d accounts: %q", len(users), len(opts.Accounts), users)
	}
}

func TestNormalizerOfTheProcessUsesNoSocketAndReconnects(t *testing.T) {
	t.Parallel()
	s, _ := bustest.Serve(t, StartServer)
	b := bustest.Connect(t, s, NormalizerUser)
	for _, nc := range []*nats.Conn{b.JetStream().Conn(), b.PublicJetStream().Conn()} {
		if at := nc.ConnectedAddr(); at != "pipe" {
			t.Errorf("connected to %q", at)
		}
	}
	if err := s.Restart(nil); err != nil {
		t.Fatal(err)
	}
	bustest.Until(t, "no answer after a restart", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a request that was sent before is lost
		defer cancel()
		_, err := b.JetStream().Stream(ctx, b.Raw())
		return err == nil
	})
}
