package embedded

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linesman/linesman/bus"
)

// account describes an account of a server that linesman uses, see [Accounts]. A
// server's configuration, or signed claims, are generated from it.
type account struct {
	Name      string
	Cell      string // of [CellAccounts]: the prefix of its cell; the keys of its users are in a directory of this name
	JetStream bool   // may have streams
	Consumers int    // maximum number of consumers of a stream; 0: unlimited
	Payload   int    // maximum size of a message that its users send, in bytes; 0: that of the server
	Users     []user
	Exports   []sharedSubject // requests or messages offered to another account
	Imports   []sharedSubject // requests or messages of another account
}

// user lists the permissions of a user of an account. Subscribe includes the user's
// inboxes, see [bus.InboxPrefix].
type user struct {
	Name      string
	Publish   []string
	Subscribe []string
}

// sharedSubject is a subject that one account exports and another one imports.
type sharedSubject struct {
	Account string // the other one
	Also    string // of an export: another account that may import it, or ""
	Subject string
	To      string // of an import: its subject in the importing account; "": Subject
	Service bool   // requests and their answers; otherwise messages
	Many    bool   // a request may have many answers, at most [AnswerTime] apart
}

// answerTime is the maximum time between the answers to an imported request for
// messages; heartbeats count as answers. Afterwards the server discards its state of
// the request, if it did not notice the end.
const answerTime = time.Minute

// Accounts returns all accounts with the permissions of their users.
func Accounts(n bus.Names) []account {
	inside, readers := account{Name: InsideAccount, JetStream: true},
		account{Name: readersAccount, Payload: bus.ReaderPayload}
	public := account{
		Name: PublicAccount, JetStream: true, Consumers: bus.MaxReaders, Payload: bus.ReaderPayload,
	}
	agents := account{Name: agentsAccount, Payload: bus.ReaderPayload}
	of := map[string]*account{InsideAccount: &inside, PublicAccount: &public, readersAccount: &readers,
		agentsAccount: &agents}
	for _, g := range grants(n) {
		a := of[g.account]
		publish := slices.Compact(slices.Sorted(slices.Values(g.publish)))
		a.Users = append(a.Users, user{g.user, publish, append([]string{bus.InboxPrefix(g.user) + ".>"}, g.subscribe...)})
	}
	share := func(subject string, service, many bool) {
		s := sharedSubject{Account: readersAccount, Subject: subject, Service: service, Many: many}
		public.Exports = append(public.Exports, s)
		s.Account = PublicAccount
		readers.Imports = append(readers.Imports, s)
	}
	for _, subject := range reads(n) {
		share(subject, true, strings.HasPrefix(subject, directGet) || strings.HasPrefix(subject, nextMessage))
	}
	share(n.LiveSubjects(), false, false)
	return []account{inside, public, readers, agents}
}

// accountsFor renders all accounts in the format of a server's configuration.
// Identity returns how the server identifies a user, in the same format, such as `nkey:
// UABC`.
func accountsFor(n bus.Names, identity func(user string) string) string {
	return render(Accounts(n), func(_ account, user string) string { return identity(user) })
}

// render is [accountsFor] for any accounts.
func render(all []account, identity func(a account, user string) string) string {
	var b strings.Builder
	lines := func(what string, all []sharedSubject, line func(sharedSubject) string) {
		if len(all) == 0 {
			return
		}
		fmt.Fprintf(&b, "    %s = [\n", what)
		for _, s := range all {
			b.WriteString("      " + line(s) + "\n")
		}
		b.WriteString("    ]\n")
	}
	b.WriteString("accounts {\n")
	for _, a := range all {
		fmt.Fprintf(&b, "  %s {\n", a.Name)
		switch {
		case a.JetStream && a.Consumers > 0:
			fmt.Fprintf(&b, "    jetstream: {max_consumers: %d}\n", a.Consumers)
		case a.JetStream:
			b.WriteString("    jetstream: enabled\n")
		}
		if a.Payload > 0 {
			fmt.Fprintf(&b, "    limits: {max_payload: %d}\n", a.Payload)
		}
		b.WriteString("    users = [\n")
		for _, u := range a.Users {
			fmt.Fprintf(&b, "      # %s\n      {%s, permissions: {publish: {allow: %s}, subscribe: {allow: %s}}}\n",
				u.Name, identity(a, u.Name), list(u.Publish), list(u.Subscribe))
		}
		b.WriteString("    ]\n")
		lines("exports", a.Exports, func(s sharedSubject) string {
			many := ""
			if s.Many {
				many = fmt.Sprintf(", response: stream, threshold: %q", answerTime)
			}
			to := s.Account
			if s.Also != "" {
				to += ", " + s.Also
			}
			return fmt.Sprintf("{%s: %q, accounts: [%s]%s}", s.kind(), s.Subject, to, many)
		})
		lines("imports", a.Imports, func(s sharedSubject) string {
			to := ""
			if s.To != "" {
				to = fmt.Sprintf(", to: %q", s.To)
			}
			return fmt.Sprintf("{%s: {account: %s, subject: %q}%s}", s.kind(), s.Account, s.Subject, to)
		})
		b.WriteString("  }\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func (s sharedSubject) kind() string {
	if s.Service {
		return "service"
	}
	return "stream"
}

func list(subjects []string) string {
	quoted := make([]string, len(subjects))
	for i, s := range subjects {
		quoted[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// accountsConfig is [accountsFor] for the users of the embedded server.
func accountsConfig(n bus.Names, c credentials) string {
	all := accountsFor(n, func(user string) string {
		return "user: " + strconv.Quote(user) + ", password: " + strconv.Quote(c[user])
	})
	return strings.TrimSuffix(all, "}\n") + "  " + fullAccount + " { limits: {max_connections: 0} }\n}\n"
}
