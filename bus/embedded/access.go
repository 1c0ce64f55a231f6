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

// Accounts of the embedded server. Permissions alone would not keep them
// apart: who may create a consumer chooses where it delivers to, and who may
// ask anything chooses where the answer goes, into a stream as well. So the
// readers of EVENTS are not in its account. Their requests are imported into
// it, and what is answered stays in theirs.
const (
	InsideAccount  = "LINESMAN"
	PublicAccount  = "LINESMAN_PUBLIC"  // EVENTS, and who writes it
	ReadersAccount = "LINESMAN_READERS" // who reads it; without streams of its own
)

// Users of the embedded server. The normalizer, the responder and the
// operator work inside and on EVENTS, so they have a user for each.
const (
	WorkerUser     = "worker"
	NormalizerUser = "normalizer"
	ResponderUser  = "responder"
	OperatorUser   = "operator"
	SubscriberUser = "subscriber"

	publicSuffix = "_public"
)

// grant is what one user may do.
type grant struct {
	account   string
	user      string
	publish   []string
	subscribe []string
}

// grants is the table of who may do what.
func grants(n bus.Names) []grant {
	raw, events, work := n.Raw(), n.Events(), n.Work()
	runs, state, threads, requests := bucket.Stream(n.Runs()), bucket.Stream(n.State()), bucket.Stream(n.Threads()), bucket.Stream(n.Requests())
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
	// Not directly: the answer to that is the message itself, and goes wherever
	// the request says. Who can write RAW could so write a task.
	get := func(stream string) []string { return []string{"$JS.API.STREAM.MSG.GET." + stream} }
	share := func(stream string) []string { // a consumer that others use, too
		return []string{
			"$JS.API.CONSUMER.CREATE." + stream + ".>", "$JS.API.CONSUMER.INFO." + stream + ".*",
			"$JS.API.CONSUMER.MSG.NEXT." + stream + ".*",
		}
	}
	consume := func(stream string) []string { // one's own, which is removed in the end
		return append(share(stream), "$JS.API.CONSUMER.DELETE."+stream+".*")
	}
	build := func(streams ...string) (out []string) { // what [Bus.Ensure] does
		for _, s := range streams {
			out = append(out, "$JS.API.STREAM.INFO."+s, "$JS.API.STREAM.CREATE."+s, "$JS.API.STREAM.UPDATE."+s)
		}
		return out
	}
	// Who answers requests may publish to the inboxes of those who ask. The
	// server's own way, allow_responses, notes every message that is delivered
	// with a reply subject, those of JetStream too: it made a replay of the run
	// table twice as slow.
	askers := []string{bus.InboxPrefix(ResponderUser) + ".>", bus.InboxPrefix(OperatorUser) + ".>"}
	return []grant{
		{InsideAccount, WorkerUser,
			all(askers, []string{n.Prefix + ".raw.*.*", bucket.Subject(n.State(), bus.WorkerKey("*"))}, info(raw), get(raw), info(runs), get(runs), info(work), share(work),
				[]string{"$JS.ACK." + work + ".>"}),
			[]string{n.Prefix + ".control.*"}},
		{InsideAccount, NormalizerUser,
			all(info(raw), get(raw), consume(raw), []string{"$JS.API.STREAM.PURGE." + raw},
				[]string{bucket.Subject(n.Runs(), "*"), bucket.Subject(n.State(), "*"), bucket.Subject(n.Threads(), "*")},
				get(runs), get(state), get(threads), build(raw, work, outbox, runs, state, threads, requests, push)),
			nil},
		{PublicAccount, NormalizerUser + publicSuffix,
			all([]string{n.Prefix + ".events.>"}, info(events), get(events), []string{directGet + events, directGet + events + ".>"}, consume(events),
				[]string{"$JS.API.CONSUMER.LIST." + events, "$JS.API.CONSUMER.NAMES." + events}, build(events)),
			nil},
		{InsideAccount, ResponderUser,
			all(askers, []string{n.Prefix + ".raw.*.*", n.Prefix + ".work.*.*", n.Prefix + ".control.*"}, info(raw), get(raw), consume(raw),
				info(runs), get(runs), consume(runs), []string{bucket.Subject(n.Runs(), "*")}, // only to remove what has ended
				info(state), get(state), consume(state), []string{bucket.Subject(n.State(), bus.CloudLease)},
				info(requests), get(requests), []string{bucket.Subject(n.Requests(), "*")},
				info(push), get(push), consume(push), []string{bucket.Subject(n.Push(), "*"), bucket.Subject(n.State(), bus.PushLease)},
				info(outbox), share(outbox), []string{n.PushSubjects(), "$JS.ACK." + outbox + ".>"},
				info(work), get(work), []string{"$JS.API.STREAM.PURGE." + work}),
			[]string{n.Prefix + ".api.>", "$SRV.>"}},
		{ReadersAccount, ResponderUser + publicSuffix, reads(n), []string{n.LiveSubjects()}},
		{InsideAccount, OperatorUser, []string{">"}, []string{n.Prefix + ".>"}},
		{PublicAccount, OperatorUser + publicSuffix, []string{">"}, []string{n.Prefix + ".>"}},
		{ReadersAccount, SubscriberUser, reads(n), []string{n.LiveSubjects()}},
	}
}

// reads are the requests of who reads EVENTS: what its account lets in, and
// that of its readers asks for.
func reads(n bus.Names) []string {
	events := n.Events()
	return []string{
		accountInfo, "$JS.API.STREAM.INFO." + events, "$JS.API.STREAM.MSG.GET." + events,
		directGet + events, directGet + events + ".>",
		"$JS.API.CONSUMER.CREATE." + events + ".*." + n.Prefix + ".events.>", "$JS.API.CONSUMER.INFO." + events + ".*",
		nextMessage + events + ".*", "$JS.API.CONSUMER.DELETE." + events + ".*",
	}
}

// Permitted returns whether a user, or its other self in the account of the
// events, may publish a subject.
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
	// accountInfo has to be among what readers import: in an account that
	// does not import it the server itself answers all of the API, and says
	// that there is no JetStream.
	accountInfo = "$JS.API.INFO"
	directGet   = "$JS.API.DIRECT.GET."
	nextMessage = "$JS.API.CONSUMER.MSG.NEXT."
)

// Credentials are the passwords of the embedded server's users.
type Credentials map[string]string

// LoadCredentials reads the credentials of the embedded server from dir, and
// makes those that are missing. The file is readable by its owner alone.
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
			return nil, fmt.Errorf("credentials: %s is damaged; remove it, and new ones are made", path)
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
