package embedded

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/internal/files"
)

// Accounts of the embedded server. Permissions alone cannot isolate them: a user that
// may create a consumer chooses its delivery subject, and any requester chooses the
// reply subject, which may belong to a stream. So the readers of EVENTS have an account
// of their own, whose requests are imported into the account of EVENTS.
const (
	InsideAccount  = "LINESMAN"
	PublicAccount  = "LINESMAN_PUBLIC"  // EVENTS and its writers
	readersAccount = "LINESMAN_READERS" // readers of EVENTS; has no streams
	agentsAccount  = "LINESMAN_AGENTS"  // callers of agents, and the responders; neither streams nor imports
)

// Users of the embedded server. The normalizer, the responder and the operator work in
// two accounts, and have a user in each.
const (
	WorkerUser     = "worker"
	NormalizerUser = "normalizer"
	ResponderUser  = "responder"
	OperatorUser   = "operator"
	SubscriberUser = "subscriber"

	// Users of the account of the Agent Protocol: the further connection of a responder, and its callers.
	ResponderAgentsUser = ResponderUser + "_agents"
	PrompterUser        = "prompter"

	publicSuffix = "_public"
)

// grant lists the permissions of one user.
type grant struct {
	account   string
	user      string
	publish   []string
	subscribe []string
}

// Requests about one stream, without the prefix of the JetStream API: STREAM is its name.
// There are no direct gets: their answer is the message itself, and goes to the reply
// subject of the request. A user that may write RAW could write a task that way.
var (
	info    = []string{"STREAM.INFO.STREAM"}
	get     = []string{"STREAM.INFO.STREAM", "STREAM.MSG.GET.STREAM"}
	purge   = []string{"STREAM.PURGE.STREAM"}
	build   = []string{"STREAM.INFO.STREAM", "STREAM.CREATE.STREAM", "STREAM.UPDATE.STREAM"} // for [bus.Bus.Ensure]
	share   = []string{"CONSUMER.CREATE.STREAM.>", "CONSUMER.INFO.STREAM.*", "CONSUMER.MSG.NEXT.STREAM.*"}
	consume = append(slices.Clip(share), "CONSUMER.DELETE.STREAM.*") // a temporary consumer, deleted after use
)

// grants returns the permissions of all users.
func grants(n bus.Names) []grant {
	raw, events, work, outbox := n.Raw(), n.Events(), n.Work(), n.Outbox()
	kv := func(name string) string { return bucket.Stream(name) }
	runs, state, threads, requests, push := kv(n.Runs()), kv(n.State()), kv(n.Threads()), kv(n.Requests()), kv(n.Push())
	seen, access, folds := kv(n.Seen()), kv(n.Access()), kv(n.Folds())
	may := func(requests []string, streams ...string) (all []string) {
		for _, stream := range streams {
			for _, r := range requests {
				all = append(all, jetstream.DefaultAPIPrefix+strings.Replace(r, ".STREAM", "."+stream, 1))
			}
		}
		return all
	}
	key := func(name, key string) string { return bucket.Subject(name, key) }
	acks := func(stream string) string { return "$JS.ACK." + stream + ".>" }
	var sharedAccess []string
	for _, one := range bus.AccessOfResponders {
		sharedAccess = append(sharedAccess, key(n.Access(), one))
	}
	control, live := n.ControlSubject("*"), []string{n.LiveSubjects()}
	// Users that answer requests may publish to the inboxes of the requesters. The
	// server's own mechanism, allow_responses, keeps track of every delivered message
	// with a reply subject, JetStream's included: it made a replay of the run table
	// twice as slow.
	requesters := []string{bus.InboxPrefix(ResponderUser) + ".>", bus.InboxPrefix(OperatorUser) + ".>", n.RawSubjects()}
	beats := bus.AgentSubject("hb", "*", "*", "*")
	var prompts, inboxes []string
	for _, verb := range []string{"prompt", "status", "cancel"} {
		prompts = append(prompts, bus.AgentSubject(verb, "*", "*", "*"))
	}
	for _, prefix := range bus.AgentInboxes {
		inboxes = append(inboxes, prefix+".>")
	}
	return []grant{
		{InsideAccount, WorkerUser, slices.Concat(
			requesters, []string{accountInfo, key(n.State(), bus.WorkerKey("*")), acks(work)},
			may(get, raw, runs), may(info, work), may(share, work)), []string{control}},
		{InsideAccount, NormalizerUser, slices.Concat(
			[]string{accountInfo, key(n.Runs(), "*"), key(n.State(), "*"), key(n.Threads(), "*"), key(n.Folds(), ">")},
			may(get, raw, runs, state, threads), may(consume, raw), may(purge, raw),
			may(build, raw, work, outbox, runs, state, threads, requests, push, seen, access, folds),
		), nil},
		{PublicAccount, NormalizerUser + publicSuffix, slices.Concat(
			[]string{accountInfo, n.EventSubjects(), directGet + events, directGet + events + ".>"},
			may(get, events), may(consume, events), may(build, events),
			may([]string{"CONSUMER.LIST.STREAM", "CONSUMER.NAMES.STREAM"}, events),
		), nil},
		{InsideAccount, ResponderUser, slices.Concat(
			requesters, []string{accountInfo, n.WorkSubjects(), control, n.PushSubjects(), acks(outbox)},
			[]string{key(n.State(), bus.CloudLease), key(n.State(), bus.PushLease), key(n.Requests(), "*")},
			[]string{key(n.State(), bus.TelemetryLease), key(n.State(), bus.TelemetryPosition), key(n.State(), bus.HealthKey)},
			[]string{key(n.Push(), "*"), key(n.Seen(), "*"), key(n.Runs(), "*")}, // the last one only to remove ended runs
			sharedAccess,
			may(get, raw, runs, state, requests, push, seen, access, work, folds), may(consume, raw, runs, state, push, seen),
			may(info, outbox), may(share, outbox), may(purge, work),
		), []string{n.API() + ".>", "$SRV.>"}},
		{readersAccount, ResponderUser + publicSuffix, reads(n), live},
		{InsideAccount, OperatorUser, []string{">"}, []string{n.Prefix + ".>"}},
		{PublicAccount, OperatorUser + publicSuffix, []string{">"}, []string{n.Prefix + ".>"}},
		{readersAccount, SubscriberUser, reads(n), live},
		{agentsAccount, ResponderAgentsUser, append(slices.Clone(inboxes), beats),
			append(slices.Clone(prompts), "$SRV.>", n.AgentReplies())},
		{agentsAccount, PrompterUser, append(slices.Clone(prompts), n.AgentReplies(),
			"$SRV.PING.agents", "$SRV.PING.agents.*", "$SRV.INFO.agents", "$SRV.INFO.agents.*"),
			[]string{beats, inboxes[1]}}, // the other one is its own
	}
}

// reads lists the requests of readers of EVENTS: the exports of its account, and the
// imports of the readers' account.
func reads(n bus.Names) []string { return readsOf(n.Events(), n.EventSubjects()) }

// readsOf lists the requests of readers of a stream, whose consumers have this filter.
func readsOf(events, filter string) []string {
	return []string{
		accountInfo, "$JS.API.STREAM.INFO." + events, "$JS.API.STREAM.MSG.GET." + events,
		directGet + events, directGet + events + ".>",
		createConsumer + events + ".*." + filter, "$JS.API.CONSUMER.INFO." + events + ".*",
		nextMessage + events + ".*", "$JS.API.CONSUMER.DELETE." + events + ".*",
	}
}

// Permitted returns a function that reports whether a user, or its counterpart in the
// account of EVENTS, may publish to a subject.
func Permitted(n bus.Names, user string) func(subject string) bool {
	return func(subject string) bool {
		return slices.ContainsFunc(grants(n), func(g grant) bool {
			return strings.TrimSuffix(g.user, publicSuffix) == user && slices.ContainsFunc(g.publish, func(pattern string) bool {
				return server.SubjectMatchesFilter(subject, pattern)
			})
		})
	}
}

const (
	// Readers must import accountInfo: otherwise the server itself answers the whole
	// API in their account, and reports that JetStream is not enabled.
	accountInfo    = "$JS.API.INFO"
	directGet      = "$JS.API.DIRECT.GET."
	nextMessage    = "$JS.API.CONSUMER.MSG.NEXT."
	createConsumer = "$JS.API.CONSUMER.CREATE."
)

// credentials are the passwords of the embedded server's users, by user.
type credentials map[string]string

// LoadCredentials reads the credentials of the embedded server from dir, and creates
// those that are missing. Only the owner can read the file.
func LoadCredentials(dir string) (credentials, error) {
	path := filepath.Join(dir, "credentials.json")
	c := credentials{}
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
	if err := files.Replace(path, ".tmp-*", append(b, '\n')); err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	return c, nil
}

func secret() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
