package reader

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// dense is the share of wanted messages, as wanted of all, from which on reading everything costs less: the server
// needs two to three times as long for a message of a filter as for the next one of the stream.
const denseWanted, denseAll = 2, 5

// heldMessages is how many messages a selection requests at once, of all subjects, but for 16 of each.
const heldMessages = 8 * BatchMessages

// NewSelect returns a reader of several subjects, or of one that is spread over the whole stream, from a sequence on, 1
// or more, by direct gets like [NewDirect]: its cost follows the messages that it finds. Where most of the stream is
// wanted it reads everything, which the subject all covers, and calls each with other messages, too. Live are the
// subjects on which the server republishes.
func NewSelect(js jetstream.JetStream, stream, all string, subjects, live []string, from uint64) *Reader {
	r := NewDirect(js, stream, all, "", true, from)
	r.subjects, r.live, r.whole = subjects, live, false
	whole := r.open
	r.open = func(from uint64, patience time.Duration) source {
		s := &selection{js: js, stream: stream, from: from, whole: func(from uint64) source { return whole(from, patience) }}
		for _, subject := range subjects {
			size := max(16, min(BatchMessages, heldMessages/len(subjects))) // the server counts what is left for each batch
			want := size
			if r.Want > 0 {
				want = min(r.Want, size)
			}
			s.parts = append(s.parts, &part{direct: direct{
				conn: js.Conn(), stream: stream, filter: subject, from: from, want: want, size: size, patience: patience,
			}})
		}
		return s
	}
	return r
}

// selection is a source that reads each subject up to the end that the stream has when it
// begins, and merges the messages by their sequences: up to there no other can follow. A
// former leader might say so of a subject wrongly: unless there can be none, everything is read.
type selection struct {
	js     jetstream.JetStream
	stream string
	from   uint64 // the first message that was not returned yet
	parts  []*part
	last   uint64    // the end; 0: not known yet
	asked  time.Time // when it was asked for
	copies bool      // replicas answer, which may lag
	dense  bool      // most of the stream is wanted: what follows the first messages is read with everything
	whole  func(from uint64) source
	rest   source // of everything; nil: by subject
}

// part is one subject of a selection.
type part struct {
	direct
	held []*jetstream.RawStreamMsg
	over bool // there are no more up to the end
}

func (s *selection) close() {
	if s.rest != nil {
		s.rest.close()
	}
}

func (s *selection) next(ctx context.Context) ([]*jetstream.RawStreamMsg, bool, error) {
	if s.last == 0 {
		if more, err := s.begin(ctx); !more || err != nil {
			return nil, false, err
		}
	}
	if s.rest != nil {
		return s.rest.next(ctx)
	}
	for _, p := range s.parts {
		if len(p.held) > 0 || p.over {
			continue
		}
		if s.dense {
			s.rest = s.whole(s.from)
			return s.rest.next(ctx)
		}
		if _, err := s.fill(ctx, p); err != nil {
			return s.merge(), false, err
		}
	}
	messages := s.merge()
	for _, p := range s.parts {
		if len(p.held) > 0 || !p.over {
			return messages, true, nil
		}
	}
	return messages, false, nil
}

// begin looks for the end, gets the first messages of each subject, and decides how to read.
func (s *selection) begin(ctx context.Context) (more bool, err error) {
	info, err := s.look(ctx)
	if err != nil {
		return false, err
	}
	if info.State.LastSeq < s.from {
		return false, nil
	}
	s.last, s.copies = info.State.LastSeq, replicated(info)
	if !heardOfAll(info) {
		s.rest = s.whole(s.from)
		return true, nil
	}
	wanted := uint64(0)
	for _, p := range s.parts {
		left, err := s.fill(ctx, p)
		if err != nil {
			return false, err
		}
		wanted += uint64(len(p.held)) + left
	}
	all := s.last - max(s.from, info.State.FirstSeq) + 1
	s.dense = wanted*denseAll > all*denseWanted && wanted > firstBatch
	return true, nil
}

// look asks the leader for the state of the stream.
func (s *selection) look(ctx context.Context) (*jetstream.StreamInfo, error) {
	s.asked = time.Now()
	stream, err := Look(ctx, s.js, s.stream)
	switch {
	case err != nil && IsAway(err), err == nil && Followed(stream.CachedInfo()) != nil:
		return nil, errUnanswered
	case err != nil:
		return nil, err
	}
	return stream.CachedInfo(), nil
}

// fill gets the next messages of a subject, and returns how many are left after them.
func (s *selection) fill(ctx context.Context, p *part) (left uint64, err error) {
	size := p.want
	if p.want = 0; size == 0 {
		size = p.size
	}
	p.held, left, err = p.get(ctx, size)
	if n := len(p.held); n > 0 {
		p.from = p.held[n-1].Sequence + 1
	}
	for n := len(p.held); n > 0 && p.held[n-1].Sequence > s.last; n-- {
		p.held, p.over = p.held[:n-1], true
	}
	if err != nil || left > 0 || p.over {
		return left, err
	}
	if s.copies {
		if time.Since(s.asked) > heardWithin/2 {
			if info, err := s.look(ctx); err != nil || !heardOfAll(info) {
				return 0, errUnanswered
			}
		}
		lags, err := holds(ctx, s.js.Conn(), s.stream, p.filter, p.from, s.last)
		if err != nil || lags || time.Since(s.asked) >= heardWithin {
			return 0, errUnanswered
		}
	}
	p.over = true
	return 0, nil
}

// merge returns the messages before which no other can come.
func (s *selection) merge() (messages []*jetstream.RawStreamMsg) {
	for {
		var first *part
		for _, p := range s.parts {
			switch {
			case len(p.held) == 0 && !p.over:
				return messages
			case len(p.held) > 0 && (first == nil || p.held[0].Sequence < first.held[0].Sequence):
				first = p
			}
		}
		if first == nil {
			return messages
		}
		messages, first.held = append(messages, first.held[0]), first.held[1:]
		s.from = messages[len(messages)-1].Sequence + 1
	}
}
