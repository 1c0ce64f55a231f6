package embedded

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/linesman/linesman/atomicfile"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
)

// Accounts of the embedded server. Permissions alone cannot isolate them: a user that
// may create a consumer chooses its delivery subject, and any requester chooses the
// reply subject, which may belong to a stream. So the readers of EVENTS have an account
// of their own, whose requests are imported into the account of EVENTS.
const (
	InsideAccount  = "LINESMAN"
	PublicAccount  = "LINESMAN_PUBLIC"  // EVENTS and its writers
	readersAccount = "LINESMAN_READERS" // readers of EVENTS; has no streams
)

// Users of the embedded server. The normalizer, the responder and the operator work in
// two accounts, and have a user in each.
const (
	WorkerUser     = "worker"
	NormalizerUser = "normalizer"
	ResponderUser  = "responder"
	OperatorUser   = "operator"
	SubscriberUser = "subscriber"

	publicSuffix = "_public"
)

// grant lists the permissions of one user.
type grant struct {
	account   string
	user      string
	publish   []string
	subscribe []string
}

// grants returns the permissions of all users.
func grants(n bus.Names) []grant {
	raw, events, work := n.Raw(), n.Events(), n.Work()
	runs, state, threads, requests := bucket.Stream(
		n.Runs(),
	), bucket.Stream(
		n.State(),
	), bucket.Stream(
		n.Threads(),
	), bucket.Stream(
		n.Requests(),
	)
	push, outbox := bucket.Stream(n.Push()), n.Outbox()
	all := func(lists ...[]string) (out []string) {
		for _, l := range lists {
			out = append(out, l...)
		}
		return out
	}
	info := func(stream string) []string {
		return []string{"$JS.API.INFO", "$JS.API.STREAM.INFO." + stream}
	}
	// No direct gets: their answer is the message itself, and goes to the reply subject
	// of the request. A user that may write RAW could write a task that way.
	get := func(stream string) []string { return []string{"$JS.API.STREAM.MSG.GET." + stream} }
	share := func(stream string) []string { // a shared, durable consumer
		return []string{
			"$JS.API.CONSUMER.CREATE." + stream + ".>", "$JS.API.CONSUMER.INFO." + stream + ".*",
			"$JS.API.CONSUMER.MSG.NEXT." + stream + ".*",
		}
	}
	consume := func(stream string) []string { // a temporary consumer, deleted after use
		return append(share(stream), "$JS.API.CONSUMER.DELETE."+stream+".*")
	}
	build := func(streams ...string) (out []string) { // for [bus.Bus.Ensure]
		for _, s := range streams {
			out = append(out, "$JS.API.STREAM.INFO."+s, "$JS.API.STREAM.CREATE."+s, "$JS.API.STREAM.UPDATE."+s)
		}
		return out
	}
	// Users that answer requests may publish to the inboxes of the requesters. The
	// server's own mechanism, allow_responses, keeps track of every delivered message
	// with a reply subject, JetStream's included: it made a replay of the run table
	// twice as slow.
	requesters := []string{bus.InboxPrefix(ResponderUser) + ".>", bus.InboxPrefix(OperatorUser) + ".>"}
	return []grant{
		{
			InsideAccount,
			WorkerUser,
			all(
				requesters,
				[]string{n.Prefix + ".raw.*.*", bucket.Subject(n.State(), bus.WorkerKey("*"))},
				info(raw),
				get(raw),
				info(runs),
				get(runs),
				info(work),
				share(work),
				[]string{"$JS.ACK." + work + ".>"},
			),
			[]string{n.Prefix + ".control.*"},
		},
		{InsideAccount, NormalizerUser,
			all(info(raw), get(raw), consume(raw), []string{"$JS.API.STREAM.PURGE." + raw},
				[]string{bucket.Subject(n.Runs(), "*"), bucket.Subject(n.State(), "*"), bucket.Subject(n.Threads(), "*")},
				get(runs), get(state), get(threads), build(raw, work, outbox, runs, state, threads, requests, push)),
			nil},
		{
			PublicAccount,
			NormalizerUser + publicSuffix,
			all(
				[]string{n.Prefix + ".events.>"},
				info(events),
				get(events),
				[]string{directGet + events, directGet + events + ".>"},
				consume(events),
				[]string{"$JS.API.CONSUMER.LIST." + events, "$JS.API.CONSUMER.NAMES." + events},
				build(events),
			),
			nil,
		},
		{
			InsideAccount,
			ResponderUser,
			all(
				requesters,
				[]string{n.Prefix + ".raw.*.*", n.Prefix + ".work.*.*", n.Prefix + ".control.*"},
				info(raw),
				get(raw),
				consume(raw),
				info(runs),
				get(runs),
				consume(runs),
				[]string{bucket.Subject(n.Runs(), "*")}, // only to remove ended runs
				info(state),
				get(state),
				consume(state),
				[]string{bucket.Subject(n.State(), bus.CloudLease)},
				info(requests),
				get(requests),
				[]string{bucket.Subject(n.Requests(), "*")},
				info(
					push,
				),
				get(push),
				consume(push),
				[]string{bucket.Subject(n.Push(), "*"), bucket.Subject(n.State(), bus.PushLease)},
				info(outbox),
				share(outbox),
				[]string{n.PushSubjects(), "$JS.ACK." + outbox + ".>"},
				info(work),
				get(work),
				[]string{"$JS.API.STREAM.PURGE." + work},
			),
			[]string{n.Prefix + ".api.>", "$SRV.>"},
		},
		{readersAccount, ResponderUser + publicSuffix, reads(n), []string{n.LiveSubjects()}},
		{InsideAccount, OperatorUser, []string{">"}, []string{n.Prefix + ".>"}},
		{PublicAccount, OperatorUser + publicSuffix, []string{">"}, []string{n.Prefix + ".>"}},
		{readersAccount, SubscriberUser, reads(n), []string{n.LiveSubjects()}},
	}
}

// reads lists the requests of readers of EVENTS: the exports of its account, and the
// imports of the readers' account.
func reads(n bus.Names) []string {
	events := n.Events()
	return []string{
		accountInfo, "$JS.API.STREAM.INFO." + events, "$JS.API.STREAM.MSG.GET." + events,
		directGet + events, directGet + events + ".>",
		"$JS.API.CONSUMER.CREATE." + events + ".*." + n.Prefix + ".events.>", "$JS.API.CONSUMER.INFO." + events + ".*",
		nextMessage + events + ".*", "$JS.API.CONSUMER.DELETE." + events + ".*",
	}
}

// Permitted returns a function that reports whether a user, or its counterpart in the
// account of EVENTS, may publish to a subject.
func Permitted(n bus.Names, user string) func(subject string) bool {
	return func(subject string) bool {
		for _, g := range grants(n) {
			if g.user == user || g.user == user+publicSuffix {
				for _, pattern := range g.publish {
					if server.SubjectMatchesFilter(subject, pattern) {
						return true
					}
				}
			}
		}
		return false
	}
}

const (
	// Readers must import accountInfo: otherwise the server itself answers the whole
	// API in their account, and reports that JetStream is not enabled.
	accountInfo = "$JS.API.INFO"
	directGet   = "$JS.API.DIRECT.GET."
	nextMessage = "$JS.API.CONSUMER.MSG.NEXT."
)

// Credentials are the passwords of the embedded server's users, by user.
type Credentials map[string]string

// LoadCredentials reads the credentials of the embedded server from dir, and creates
// those that are missing. Only the owner can read the file.
func LoadCredentials(dir string) (Credentials, error) {
	path := filepath.Join(dir, "credentials.json")
	c := Credentials{}
	b, err := os.ReadFile(path)
	switch {
	case os.IsNotExist(err):
	case err != nil:
		return nil, fmt.Errorf("credentials: %w", err)
	default:
		if err := json.Unmarshal(b, &c); err != nil {
			return nil, fmt.Errorf("credentials: %s is damaged; remove it to create new ones", path)
		}
	}
	missing := false
	for _, g := range grants(bus.Names{Prefix: bus.DefaultPrefix}) {
		if c[g.user] == "" {
			c[g.user] = secret()
			missing = true
		}
	}
	if !missing {
		return c, nil
	}
	b, err = json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	if err := atomicfile.Replace(path, ".tmp-*", append(b, '\n')); err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	return c, nil
}

func secret() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
