package bus

import (
	"strconv"
	"strings"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// Headers of linesman's messages.
const (
	HeaderRecord = "Linesman-Record" // RAW: kind of the entry
	HeaderTime   = "Linesman-Time"   // RAW: see [runs.Entry], Unix
	HeaderOffset = "Linesman-Offset" // RAW, out, err and in: position of the first byte
	HeaderPos    = "Linesman-Pos"    // EVENTS: RAWSEQ LINE PART TIME
	HeaderRun    = "Linesman-Run"    // RUNS: what is known of the run in lists, see [runs.Header.Text]
)

// DefaultPrefix is the default prefix of subjects and, in capitals, of streams.
const DefaultPrefix = "linesman"

// Names returns the names of streams, buckets and subjects under one prefix. No other
// code spells them out.
type Names struct{ Prefix string }

// Raw is the stream of raw logs, in the inside account.
func (n Names) Raw() string { return strings.ToUpper(n.Prefix) + "_RAW" }

// Events is the stream of bounded events, in the public account.
func (n Names) Events() string { return strings.ToUpper(n.Prefix) + "_EVENTS" }

// Work is the stream of submissions, a work queue.
func (n Names) Work() string { return strings.ToUpper(n.Prefix) + "_WORK" }

// WorkSubject is the subject of a submission.
func (n Names) WorkSubject(queue, run string) string { return n.Prefix + ".work." + queue + "." + run }

// WorkSubjects matches all of them.
func (n Names) WorkSubjects() string { return n.Prefix + ".work.*.*" }

// ControlSubject is the subject of requests to the owner of a run.
func (n Names) ControlSubject(run string) string { return n.Prefix + ".control." + run }

// stopSubject is the subject of requests to stop a `linesman up`.
func (n Names) stopSubject() string { return n.Prefix + ".up.stop" }

// API is the prefix of the subjects of the NATS service.
func (n Names) API() string { return n.Prefix + ".api" }

// Runs is the bucket of run records, by run id.
func (n Names) Runs() string { return n.Prefix + "_runs" }

// State is the bucket of the normalizer's checkpoint, leases and heartbeats.
func (n Names) State() string { return n.Prefix + "_state" }

// Threads is the bucket of the usage of each thread.
func (n Names) Threads() string { return n.Prefix + "_threads" }

// Folds is the bucket of saved folds, by run id and slot: see [Bus.SavedFolds].
func (n Names) Folds() string { return n.Prefix + "_folds" }

// Requests is the bucket of requests with idempotency keys: see [Bus.RequestStore].
func (n Names) Requests() string { return n.Prefix + "_requests" }

// Access is the bucket of what the responders share about callers over HTTP: tokens, codes
// of sign-in links, and the key of the page's sessions.
func (n Names) Access() string { return n.Prefix + "_access" }

// AccessOfResponders are the keys of that bucket which a responder changes. It only reads
// the other one, the tokens.
var AccessOfResponders = []string{"codes", "key"}

// Seen is the bucket of the runs that their owners have opened, by run id.
func (n Names) Seen() string { return n.Prefix + "_seen" }

// Push is the bucket of registrations for notifications: see [pushStore].
func (n Names) Push() string { return n.Prefix + "_push" }

// Outbox is the stream of undelivered notifications.
func (n Names) Outbox() string { return strings.ToUpper(n.Prefix) + "_PUSH" }

// PushSubject is the subject of a notification.
func (n Names) PushSubject(run, key string) string { return n.pushPrefix() + run + "." + key }

// PushSubjects matches all of them.
func (n Names) PushSubjects() string { return n.pushPrefix() + "*.*" }

func (n Names) pushPrefix() string { return n.Prefix + ".push." }

// RawSubject is the subject of the raw log of a run.
func (n Names) RawSubject(agent, run string) string { return n.Prefix + ".raw." + agent + "." + run }

// RawSubjects matches all of them.
func (n Names) RawSubjects() string { return n.Prefix + ".raw.*.*" }

// EventSubject is the subject of the events of a run; token is that of the event's
// kind, or [normalizer.CompletionToken].
func (n Names) EventSubject(agent, run, token string) string {
	return n.Prefix + ".events." + agent + "." + run + "." + token
}

// EventSubjects matches all of them.
func (n Names) EventSubjects() string { return n.Prefix + ".events.>" }

// LiveSubjects matches the subjects on which the server republishes what EVENTS stored.
func (n Names) LiveSubjects() string { return n.Prefix + ".live.>" }

// liveSubject is the republished subject for a subject of EVENTS.
func (n Names) liveSubject(subject string) string {
	return n.Prefix + ".live." + strings.TrimPrefix(subject, n.Prefix+".events.")
}

// ParseRaw returns the agent and the run of a subject of RAW.
func (n Names) ParseRaw(subject string) (agent, run string, ok bool) {
	rest, ok := strings.CutPrefix(subject, n.Prefix+".raw.")
	if !ok {
		return "", "", false
	}
	agent, run, ok = strings.Cut(rest, ".")
	return agent, run, ok && runs.CheckAgent(agent) == nil && runs.CheckID(run) == nil
}

// parseEvent returns the agent, the run and the token of a subject of EVENTS.
func (n Names) parseEvent(subject string) (agent, run, token string, ok bool) {
	rest, ok := strings.CutPrefix(subject, n.Prefix+".events.")
	if !ok {
		return "", "", "", false
	}
	part := strings.Split(rest, ".")
	if len(part) != 3 {
		return "", "", "", false
	}
	return part[0], part[1], part[2], true
}

// AppendPos appends the value of [HeaderPos], which identifies the origin of a message.
func AppendPos(dst []byte, p normalizer.Pos) []byte {
	dst = strconv.AppendUint(dst, p.Raw, 10)
	dst = append(dst, ' ')
	dst = strconv.AppendUint(dst, p.Line, 10)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, int64(p.Part), 10)
	dst = append(dst, ' ')
	return strconv.AppendInt(dst, p.Time, 10)
}

// ParsePos parses the value of [HeaderPos].
func ParsePos(s string) (p normalizer.Pos, ok bool) {
	f := strings.Split(s, " ")
	if len(f) != 4 {
		return p, false
	}
	var err [4]error
	p.Raw, err[0] = strconv.ParseUint(f[0], 10, 64)
	p.Line, err[1] = strconv.ParseUint(f[1], 10, 64)
	p.Part, err[2] = strconv.Atoi(f[2])
	p.Time, err[3] = strconv.ParseInt(f[3], 10, 64)
	return p, err == [4]error{}
}

// AgentSubject is a subject of the Agent Protocol for NATS, which has no prefix: agents.VERB.AGENT.OWNER.NAME.
func AgentSubject(verb, agent, owner, name string) string {
	return "agents." + strings.Join([]string{verb, agent, owner, name}, ".")
}

// AgentInboxes are the prefixes of the inboxes of its callers.
var AgentInboxes = []string{InboxPrefix("prompter"), "_INBOX.agents"}

// AgentReplies are the subjects of answers to questions of a prompt, AgentReply that of one.
func (n Names) AgentReplies() string { return n.AgentReply("*") }

// AgentReply is the subject of the answer to a question, by a random token.
func (n Names) AgentReply(token string) string { return n.Prefix + ".reply." + token }
