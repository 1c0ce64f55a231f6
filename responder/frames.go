package responder

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Limits of the reading of what a ring does not have.
const (
	// maxCatching is how many streams read at the same time: the server buffers 16 MiB for a connection, and pages of
	// events have most of it.
	maxCatching = 2
	maxCaught   = 256 << 10        // bytes that one of them reads at once, about
	manyCaught  = 2048             // events
	catchTime   = 30 * time.Second // for a reading
	catchTrying = time.Minute      // to read, while it fails
)

// stream is an open stream of frames.
type stream struct {
	*eventStream
	pos    uint64 // all up to here was written, or is not wanted
	encode func(api.Event) ([]byte, error)
	write  func([]byte) error
	want   int // events of the next reading
	frames []*frame
}

// buffers are the buffers of streams that write.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, maxGroup+maxGroup/4)) }}

// Frames calls write with the events until the completion, an error of write, or the end of ctx. Encode makes the
// frame of an event, the same one for all streams of a form: they share it. One call of write has the frames of about
// 20 ms or 64 KiB, and may not keep them. The error is that of write, or an [*api.Error]; that EVENTS was recreated is
// one, too.
func (f *eventStream) Frames(ctx context.Context, form string, encode func(api.Event) ([]byte, error),
	write func([]byte) error,
) error {
	s, hub := &stream{eventStream: f, pos: f.of.After, encode: encode, write: write, want: 256}, &f.service.followers
	if s.of.Made = f.end.Made; s.first.Runs != nil {
		s.pos, s.first.Made = s.first.After, f.end.Made
	}
	for end, read := f.end.Last, s.pos >= f.end.Last; ctx.Err() == nil; {
		if f.of.Follow {
			from, err := hub.join(s.of, form, s.pos, read, f.service.shared(encode))
			if err != nil {
				return err
			}
			if from != nil {
				over, err := s.take(ctx, from)
				hub.leave(from)
				if over || err != nil {
					return err
				}
				end, read = 0, false
				continue
			}
			if read { // something arrived meanwhile
				end = 0
				pause(ctx, groupTime)
			}
		}
		over, err := s.catchUp(ctx, end)
		if over || err != nil || !f.of.Follow {
			return err
		}
		read = true
	}
	return nil
}

// take writes what a follower has and gets, until ctx ends or the ring does not have what comes next. Over: the
// completion was written.
func (s *stream) take(ctx context.Context, from *follower) (over bool, err error) {
	for {
		frames, news, has, last, why := from.after(s.pos, s.frames[:0])
		s.frames = frames
		switch {
		case !has:
			return false, nil
		case len(frames) > 0:
			if over, err = s.pass(ctx, frames); over || err != nil {
				return over, err
			}
			clear(frames)
		case last:
			return why == nil, why
		default:
			select {
			case <-ctx.Done():
				return true, nil
			case <-news:
			}
		}
	}
}

// pass writes frames that are wanted.
func (s *stream) pass(ctx context.Context, frames []*frame) (over bool, err error) {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	buf := (*b)[:0]
	flush := func() error {
		if len(buf) == 0 {
			return nil
		}
		err := s.write(buf)
		buf = buf[:0]
		return err
	}
	for _, f := range frames {
		wanted := true
		if s.wants != nil {
			if _, known := s.service.table.Get(f.event.Run); !known { // that may take a while
				if err := flush(); err != nil {
					return false, err
				}
			}
			if wanted, err = s.wants(ctx, f.event); err != nil {
				return false, err
			}
		}
		if wanted && f.bytes == nil {
			if f, err = s.service.framed(f.event, s.encode); err != nil {
				return false, err
			}
		}
		if wanted && len(buf) > 0 && len(buf)+len(f.bytes) > cap(*b) {
			if err := flush(); err != nil {
				return false, err
			}
		}
		switch {
		case !wanted:
		case len(f.bytes) > cap(*b):
			err = s.write(f.bytes)
		default:
			buf = append(buf, f.bytes...)
		}
		if err != nil {
			return false, err
		}
		s.pos = f.event.Seq
		if over = s.of.Run != "" && f.event.Token == api.Completion; over {
			break
		}
	}
	return over, flush()
}

// catchUp writes what is stored, up to a sequence that was the end; 0: up to that of now.
func (s *stream) catchUp(ctx context.Context, end uint64) (over bool, err error) {
	for more := true; more && !over && ctx.Err() == nil; {
		var frames []*frame
		if frames, more, err = s.stored(ctx, &end); err == nil {
			over, err = s.pass(ctx, frames)
		}
		if err != nil {
			return false, err
		}
	}
	if ctx.Err() == nil {
		s.pos = max(s.pos, end)
	}
	return over, nil
}

// stored reads some of the events that are stored, and sets end if it is 0. More: there may be more of them.
func (s *stream) stored(ctx context.Context, end *uint64) (frames []*frame, more bool, err error) {
	for until := time.Now().Add(catchTrying); ; {
		frames, more, err = s.read(ctx, end)
		switch {
		case ctx.Err() != nil:
			return nil, false, nil
		case err == nil:
			return frames, more, nil
		case errors.Is(err, runs.ErrReplaced), time.Now().After(until):
			return nil, false, s.service.readFailed(err)
		}
		pause(ctx, time.Second) // an election, or an outage
	}
}

func (s *stream) read(ctx context.Context, end *uint64) (frames []*frame, more bool, err error) {
	turns := s.service.turns
	select {
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case turns <- struct{}{}:
		defer func() { <-turns }()
	}
	ctx, cancel := context.WithTimeout(ctx, catchTime)
	defer cancel()
	streams := s.service.cfg.Streams
	if *end == 0 {
		now, err := streams.EventsEnd(ctx, "", "")
		if err == nil && now.Made != s.of.Made {
			err = runs.ErrReplaced
		}
		if err != nil {
			return nil, false, err
		}
		*end = now.Last
	}
	of, size := s.of, 0
	of.After = max(s.pos, s.of.After)
	if s.first.Runs != nil {
		of = s.first
		of.After = s.pos
	}
	of.Follow, of.Want = false, s.want
	err = streams.EachEvent(ctx, of, func(e runs.Event) error {
		frames = append(frames, &frame{event: e})
		if size += len(e.Body); len(frames) == s.want || size >= maxCaught {
			return errEnough
		}
		return nil
	})
	if more = errors.Is(err, errEnough); more {
		s.want, err = min(max(len(frames)*maxCaught/max(size, 1), 16), manyCaught), nil
	} else if err == nil && s.first.Runs != nil {
		s.first.Runs, more = nil, true
	}
	return frames, more, err
}
