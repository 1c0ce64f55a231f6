package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// Stored is one message of EVENTS.
type Stored struct {
	Seq        uint64
	At         time.Time // when EVENTS stored it; zero: a follower got it as it came
	Pos        normalizer.Pos
	Agent, Run string
	Token      string // of the kind, or [normalizer.CompletionToken]
	Body       []byte
}

// reads returns a reader of the subjects of a selection.
func (b *Bus) reads(f runs.Selection) *reader.Reader {
	from := f.After + 1
	if f.Run == "" && f.Runs == nil && f.Agent == "" && len(f.Tokens) == 0 {
		return b.ReadEvents(b.EventSubjects(), from)
	}
	tokens := slices.Compact(slices.Sorted(slices.Values(f.Tokens)))
	if len(tokens) == 0 {
		tokens = []string{"*"}
	}
	of := f.Runs
	if of == nil {
		of = []string{cmp.Or(f.Run, "*")}
	}
	var subjects, live []string
	for _, run := range of {
		for _, token := range tokens {
			subject := b.EventSubject(cmp.Or(f.Agent, "*"), run, token)
			subjects, live = append(subjects, subject), append(live, b.liveSubject(subject))
		}
	}
	if f.Run != "" && len(subjects) == 1 {
		return b.ReadEvents(subjects[0], from)
	}
	return reader.NewSelect(b.jsPub, b.Names.Events(), b.EventSubjects(), subjects, live, from)
}

// Read calls each with the selected messages of EVENTS, in the order of the stream,
// until each returns an error, which Read returns, or there are no more. With Follow it
// continues until ctx ends, which is not an error, and waits while the server is
// unreachable. If EVENTS is recreated meanwhile, it continues with the messages that
// are later, by RAW sequence or time, than all before.
func (b *Bus) Read(ctx context.Context, f runs.Selection, each func(Stored) error) error {
	if f.Runs != nil && len(f.Runs) == 0 {
		return nil
	}
	d := b.reads(f)
	if d.Log, d.Want = b.log, f.Want; f.Since > 0 {
		d.Since = time.UnixMilli(int64(f.Since))
	}
	if f.Made != 0 {
		d.Only(time.Unix(0, f.Made))
	}
	some := map[string]bool{}
	for _, run := range f.Runs {
		some[run] = true
	}
	var previous normalizer.Pos // of the message before, with the latest time
	pass := func(m *jetstream.RawStreamMsg) error {
		s := Stored{Seq: m.Sequence, At: m.Time, Body: m.Data}
		agent, run, token, ok := b.parseEvent(m.Subject)
		pos, isOurs := ParsePos(m.Header.Get(HeaderPos))
		if !ok || !isOurs || f.Agent != "" && agent != f.Agent || f.Run != "" && run != f.Run ||
			f.Runs != nil && !some[run] || len(f.Tokens) > 0 && !slices.Contains(f.Tokens, token) ||
			d.Again() && !after(pos, previous) && pos.Time <= previous.Time {
			return nil
		}
		latest := max(previous.Time, pos.Time)
		previous = pos
		previous.Time = latest
		s.Agent, s.Run, s.Token, s.Pos = agent, run, token, pos
		return each(s)
	}
	if f.Follow {
		// A reader that has started has the permission: the embedded server revokes it
		// for a minute after a flood of requests.
		fresh := func() bool { return !d.Begun() }
		err := b.unlessDenied(ctx, "$JS.API.STREAM.INFO."+b.Names.Events(), fresh,
			func(ctx context.Context) error { return d.Follow(ctx, pass) })
		if errors.Is(err, ErrDenied) {
			err = fmt.Errorf("%w, or not for a minute after a flood of requests: then `linesman doctor` says so", err)
		}
		return whyClosed(b.public, err)
	}
	if f.Runs != nil {
		stream, err := b.Stream(ctx, b.Names.Events())
		if err != nil {
			return err
		}
		info := stream.CachedInfo()
		return whyClosed(b.public, d.UpTo(ctx, info, min(f.Last, info.State.LastSeq), pass))
	}
	return whyClosed(b.public, d.ToEnd(ctx, pass))
}

// ReadEvents returns a reader for a subject of EVENTS, from a sequence on.
func (b *Bus) ReadEvents(subject string, from uint64) *reader.Reader {
	return reader.NewDirect(b.jsPub, b.Names.Events(), subject, b.liveSubject(subject), subject == b.EventSubjects(), from)
}

// after reports whether a message comes after another one in RAW.
func after(p, other normalizer.Pos) bool {
	return cmp.Or(cmp.Compare(p.Raw, other.Raw), cmp.Compare(p.Line, other.Line), cmp.Compare(p.Part, other.Part)) > 0
}

// await waits until a stream answers, or ctx ends: for the end of an election, or for a
// normalizer to create the stream. It logs each reason once, and passes it to notify,
// which may be nil.
func (b *Bus) await(
	ctx context.Context, log *zap.Logger, js jetstream.JetStream, stream string, notify func(why string),
) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 100*time.Millisecond, 2*time.Second
	out := reader.Outage{
		Log: log, Began: "waiting for a stream", Ended: "the stream answers",
		Fields: []zap.Field{zap.String("stream", stream)},
	}
	for {
		_, err := reader.Look(ctx, js, stream)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			out.Over()
			return
		}
		text := b.Explain(err)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			text = "it does not exist yet: a normalizer makes it"
		}
		if out.Failed(text) && notify != nil {
			notify("stream " + stream + ": " + text)
		}
		if reader.Sleep(ctx, pause.NextBackOff()) != nil {
			return
		}
	}
}
