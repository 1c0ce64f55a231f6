package embedded

import (
	"fmt"
	"strings"

	"github.com/linesman/linesman/bus"
)

// CellsAccount reads the events of all cells, see [CellAccounts]. A stream of this name in
// it can source the EVENTS of all cells.
const CellsAccount = "LINESMAN_CELLS"

// anyEvents and anyLive match the subjects of all cells.
const anyEvents, anyLive = "*.events.>", "*.live.>"

// CellAccounts returns the accounts of several cells that share a server: those of
// [Accounts] for each prefix, with the prefix in capitals in the place of LINESMAN, and
// [CellsAccount]. Prefixes whose accounts would have the same name are an error.
func CellAccounts(prefixes []string) ([]account, error) {
	inboxes := func(user string) string { return bus.InboxPrefix(user) + ".>" }
	cells := account{
		Name: CellsAccount, JetStream: true, Consumers: bus.MaxReaders, Payload: bus.ReaderPayload, Users: []user{
			{OperatorUser, []string{">"}, []string{anyLive, inboxes(OperatorUser)}},
			{SubscriberUser, readsOf(CellsAccount, anyEvents), []string{anyLive, inboxes(SubscriberUser)}},
		},
	}
	var all []account
	taken := map[string]bool{CellsAccount: true}
	for _, prefix := range prefixes {
		for _, a := range Accounts(bus.Names{Prefix: prefix}) {
			public := a.Name == PublicAccount
			a.Cell, a.Name = prefix, ofCell(prefix, a.Name)
			if taken[a.Name] {
				return nil, fmt.Errorf("cells: two accounts would have the name %s", a.Name)
			}
			taken[a.Name] = true
			for i := range a.Exports {
				a.Exports[i].Account = ofCell(prefix, a.Exports[i].Account)
			}
			for i := range a.Imports {
				a.Imports[i].Account = ofCell(prefix, a.Imports[i].Account)
			}
			if public {
				a.shareWith(&cells, bus.Names{Prefix: prefix})
			}
			all = append(all, a)
		}
	}
	return append(all, cells), nil
}

// ofCell returns the name of an account of a cell.
func ofCell(prefix, account string) string {
	return strings.ToUpper(prefix) + strings.TrimPrefix(account, InsideAccount)
}

// shareWith exports what a stream in another account needs to source the EVENTS of a cell:
// the request for a consumer, the messages that it delivers, and its flow control. It also
// exports live messages. Requests for consumers have the API prefix JS.PREFIX.API, since
// the other account has an API of its own.
func (a *account) shareWith(other *account, n bus.Names) {
	create := createConsumer + n.Events() + ".*." + n.EventSubjects()
	for _, s := range []sharedSubject{
		{Subject: create, To: "JS." + n.Prefix + ".API" + strings.TrimPrefix(create, "$JS.API"), Service: true},
		{Subject: "$JS.FC." + n.Events() + ".>", Service: true},
		{Subject: "$JS.FC.*.*." + n.Events() + ".>", Service: true}, // with the feature flag js_ack_fc_v2
		{Subject: n.Prefix + ".deliver.>"},
		{Subject: n.LiveSubjects()},
	} {
		a.export(s, other.Name)
		s.Account = a.Name
		other.Imports = append(other.Imports, s)
	}
}

// export exports a subject to one more account.
func (a *account) export(s sharedSubject, to string) {
	for i := range a.Exports {
		if a.Exports[i].Subject == s.Subject {
			a.Exports[i].Also = to
			return
		}
	}
	a.Exports = append(a.Exports, sharedSubject{Account: to, Subject: s.Subject, Service: s.Service})
}
