package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/normalizer"
)

// Stored is one message of EVENTS.
type Stored struct {
	Seq        uint64
	Pos        normalizer.Pos
	Agent, Run string
	Token      string // of the kind, or [normalizer.CompletionToken]
	Body       []byte
}

// Filter says which messages of EVENTS to read. Its zero value is all of them,
// from the oldest that is kept to the newest that there is.
type Filter struct {
	Agent, Run string
	Tokens     []string  // kinds; none: all
	FromSeq    uint64    // not before this sequence
	Since      time.Time // not stored before this
	Follow     bool      // go on with what comes
}

// Wants reports whether the filter lets a kind through.
func (f Filter) Wants(token string) bool {
	return len(f.Tokens) == 0 || slices.Contains(f.Tokens, token)
}

// subject is the one to read of what the filter lets through. Without a run it
// is all of them: with each batch the server would count what is left of a
// subject, and that of many runs is in every part of the stream.
func (f Filter) subject(n Names) string {
	if f.Run == "" {
		return n.EventSubjects()
	}
	token := "*"
	if len(f.Tokens) == 1 {
		token = f.Tokens[0]
	}
	return n.EventSubject(cmp.Or(f.Agent, "*"), f.Run, token)
}

// Read calls each with the messages of EVENTS that the filter lets through,
// in the order of the stream, until each returns an error, which it passes
// on, or there is no more to read. With Follow it goes on until ctx ends,
// which is no error, and waits for a server that goes away or does not answer. Where
// EVENTS is made anew meanwhile it passes on what comes later, in RAW or by its
// time, than all before.
func (b *Bus) Read(ctx context.Context, f Filter, each func(Stored) error) error {
	d := b.ReadEvents(f.subject(b.Names), max(f.FromSeq, 1))
	d.Since, d.Log = f.Since, b.log
	var previous normalizer.Pos // of the message before, with the latest time
	pass := func(m *jetstream.RawStreamMsg) (bool, error) {
		s := Stored{Seq: m.Sequence, Body: m.Data}
		agent, run, token, ok := b.parseEvent(m.Subject)
		pos, isOurs := ParsePos(m.Header.Get(HeaderPos))
		if !ok || !isOurs || f.Agent != "" && agent != f.Agent || !f.Wants(token) || d.Again() && !behind(pos, previous) && pos.Time <= previous.Time {
			return true, nil
		}
		latest := max(previous.Time, pos.Time)
		previous = pos
		previous.Time = latest
		s.Agent, s.Run, s.Token, s.Pos = agent, run, token, pos
		return true, each(s)
	}
	if f.Follow {
		// One that has read may do so: the embedded server takes that away for a
		// minute where readers flood it.
		fresh := func() bool { return !d.Begun() }
		err := b.unlessDenied(ctx, "$JS.API.STREAM.INFO."+b.Names.Events(), fresh, func(ctx context.Context) error { return d.Follow(ctx, pass) })
		if errors.Is(err, ErrDenied) {
			err = fmt.Errorf("%w, or not for a minute after a flood of requests: then `linesman doctor` says so", err)
		}
		return whyClosed(b.public, err)
	}
	stream, err := reader.Look(ctx, b.jsPub, b.Names.Events())
	if err != nil {
		return fmt.Errorf("stream %s: %w", b.Names.Events(), err)
	}
	return whyClosed(b.public, d.UpTo(ctx, stream.CachedInfo(), stream.CachedInfo().State.LastSeq, pass))
}

// ReadEvents reads what EVENTS has under a subject, from a sequence on.
func (b *Bus) ReadEvents(subject string, from uint64) *reader.Direct {
	return reader.NewDirect(b.jsPub, b.Names.Events(), subject, b.liveSubject(subject), subject == b.EventSubjects(), from)
}

// behind reports whether a message comes behind another one in RAW.
func behind(p, other normalizer.Pos) bool {
	return cmp.Or(cmp.Compare(p.Raw, other.Raw), cmp.Compare(p.Line, other.Line), cmp.Compare(p.Part, other.Part)) > 0
}
