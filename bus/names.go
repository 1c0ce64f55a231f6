package bus

import (
	"strconv"
	"strings"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// Headers of linesman's messages. All else in them is NATS's own.
const (
	HeaderRecord = "Linesman-Record" // RAW: kind of the entry
	HeaderTime   = "Linesman-Time"   // RAW: captured, Unix milliseconds
	HeaderOffset = "Linesman-Offset" // RAW, out and err: position of the first byte
	HeaderPos    = "Linesman-Pos"    // EVENTS: RAWSEQ LINE PART TIME
	HeaderRow    = "Linesman-Row"    // RUNS: the row of the record, as [runs.Row] writes it
)

// DefaultPrefix begins every subject and, in capitals, every stream's name.
const DefaultPrefix = "linesman"

// Names are the streams, buckets and subjects under one prefix. Nobody else
// spells one out.
type Names struct{ Prefix string }

// Raw is the stream of raw logs: inside.
func (n Names) Raw() string { return strings.ToUpper(n.Prefix) + "_RAW" }

// Events is the stream of bounded events: public.
func (n Names) Events() string { return strings.ToUpper(n.Prefix) + "_EVENTS" }

// Work is the stream of submissions: a work queue.
func (n Names) Work() string { return strings.ToUpper(n.Prefix) + "_WORK" }

// WorkSubject is where a submission waits.
func (n Names) WorkSubject(queue, run string) string { return n.Prefix + ".work." + queue + "." + run }

// WorkSubjects are all of them.
func (n Names) WorkSubjects() string { return n.Prefix + ".work.*.*" }

// ControlSubject is where the owner of a run listens.
func (n Names) ControlSubject(run string) string { return n.Prefix + ".control." + run }

// StopSubject is where a `linesman up` can be asked to end.
func (n Names) StopSubject() string { return n.Prefix + ".up.stop" }

// API begins the subjects of the NATS service.
func (n Names) API() string { return n.Prefix + ".api" }

// Runs is the bucket of run records, by run id.
func (n Names) Runs() string { return n.Prefix + "_runs" }

// State is the bucket of the normalizer's checkpoint and lease, and of who is at work.
func (n Names) State() string { return n.Prefix + "_state" }

// Threads is the bucket of what each thread has used so far.
func (n Names) Threads() string { return n.Prefix + "_threads" }

// Requests is the bucket of requests that were carried out, or are: see [Requests].
func (n Names) Requests() string { return n.Prefix + "_requests" }

// Push is the bucket of registrations for notifications: see [Push].
func (n Names) Push() string { return n.Prefix + "_push" }

// Outbox is the stream of notifications that wait for their receivers.
func (n Names) Outbox() string { return strings.ToUpper(n.Prefix) + "_PUSH" }

// PushSubject is where a notification waits.
func (n Names) PushSubject(run, key string) string { return n.pushPrefix() + run + "." + key }

// PushSubjects are all of them.
func (n Names) PushSubjects() string { return n.pushPrefix() + "*.*" }

func (n Names) pushPrefix() string { return n.Prefix + ".push." }

// RawSubject is where the raw log of a run is written.
func (n Names) RawSubject(agent, run string) string { return n.Prefix + ".raw." + agent + "." + run }

// RawSubjects are all of them.
func (n Names) RawSubjects() string { return n.Prefix + ".raw.*.*" }

// EventSubject is where an event of a run is published; token is its kind's,
// or [normalizer.CompletionToken].
func (n Names) EventSubject(agent, run, token string) string {
	return n.Prefix + ".events." + agent + "." + run + "." + token
}

// EventSubjects are all of them.
func (n Names) EventSubjects() string { return n.Prefix + ".events.>" }

// LiveSubjects are where the server sends again what EVENTS stored.
func (n Names) LiveSubjects() string { return n.Prefix + ".live.>" }

// liveSubject is where that is, of what is stored under a subject of EVENTS.
func (n Names) liveSubject(subject string) string {
	return n.Prefix + ".live." + strings.TrimPrefix(subject, n.Prefix+".events.")
}

// ParseRaw takes the agent and the run from a subject of RAW.
func (n Names) ParseRaw(subject string) (agent, run string, ok bool) {
	rest, ok := strings.CutPrefix(subject, n.Prefix+".raw.")
	if !ok {
		return "", "", false
	}
	agent, run, ok = strings.Cut(rest, ".")
	return agent, run, ok && runs.CheckAgent(agent) == nil && runs.CheckID(run) == nil
}

// parseEvent takes the agent, the run and the token from a subject of EVENTS.
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

// AppendPos appends the value of [HeaderPos], which says where a message comes from.
func AppendPos(dst []byte, p normalizer.Pos) []byte {
	dst = strconv.AppendUint(dst, p.Raw, 10)
	dst = append(dst, ' ')
	dst = strconv.AppendUint(dst, p.Line, 10)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, int64(p.Part), 10)
	dst = append(dst, ' ')
	return strconv.AppendInt(dst, p.Time, 10)
}

// ParsePos reads it.
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
