package worker

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// What is kept of stderr: its beginning as it comes, its end at the end.
const (
	errHead = 1 << 20
	errTail = 64 << 10
)

// buffers are for runs that have something to send at the moment.
var buffers = sync.Pool{New: func() any { return new([runs.MaxChunk]byte) }}

// pumpTime is how long an agent that prints without a pause keeps the worker
// from looking after its shim.
const pumpTime = time.Second

// pump sends what there is: stdout first, stderr while stdout has nothing. It
// returns with nothing left to send, after pumpTime unless it is the final one,
// or when a cancel makes the rest useless, and reports whether it sent anything.
func (r *Run) pump(ctx context.Context, final bool) (sent bool, err error) {
	buf := buffers.Get().(*[runs.MaxChunk]byte)
	defer buffers.Put(buf)
	for begun := time.Now(); final || !r.dir.Spec.process() || time.Since(begun) < pumpTime; {
		if err := ctx.Err(); err != nil {
			return sent, err
		}
		if err := r.cancel(ctx); err != nil {
			return sent, err
		}
		if r.stopped && !r.source.lasting() {
			return sent, nil
		}
		n, err := r.sendOut(ctx, buf[:], final)
		if n == 0 && err == nil && r.dir.Spec.process() {
			n, err = r.sendErr(ctx, buf[:], final)
		}
		if n == 0 || err != nil {
			return sent, err
		}
		sent = true
	}
	return sent, nil
}

// sendOut sends the next chunk of stdout and returns its size.
func (r *Run) sendOut(ctx context.Context, buf []byte, final bool) (int, error) {
	s, now := &r.out, time.Now()
	at := r.place.Log.Out
	found, err := r.look(s, at, now)
	if err != nil || at >= s.end() || found == same && !final && s.stuck == s.end() {
		return 0, err
	}
	n, at, err := s.read(buf, at)
	if err != nil {
		return 0, err
	}
	n = wholeLines(buf[:n], final)
	if n == 0 {
		s.stuck = s.end()
		return 0, nil
	}
	return n, r.append(ctx, now, runs.Out, at, buf[:n])
}

// sendErr sends the next chunk of what is kept of stderr and returns its size.
func (r *Run) sendErr(ctx context.Context, buf []byte, final bool) (int, error) {
	s, now := &r.err, time.Now()
	at := r.place.Log.Err
	if _, err := r.look(s, at, now); err != nil {
		return 0, err
	}
	to := s.end()
	switch {
	case at < errHead:
		to = min(to, errHead)
	case final:
		at = max(at, to-errTail)
	default:
		return 0, nil
	}
	if at >= to {
		return 0, nil
	}
	n, at, err := s.read(buf[:min(int64(len(buf)), to-at)], at)
	if n == 0 || err != nil {
		return 0, err
	}
	return n, r.append(ctx, now, runs.ErrOut, at, buf[:n])
}

// look looks at s. When that moved its offsets, they are kept before anything
// is sent by them.
func (r *Run) look(s *stream, at int64, now time.Time) (change, error) {
	found, err := s.look(at, now)
	if err != nil || found != truncated {
		return found, err
	}
	r.log.Info("output was truncated", zap.Int64("offset", at))
	return found, r.dir.mark.save()
}

// remark stores one note for each silence that comes near to the idle limit.
func (r *Run) remark(ctx context.Context) error {
	agent, ok := r.source.(*spawned)
	idle := r.dir.Spec.Limits.Idle
	if !ok || idle == 0 || r.stopped || !agent.lives() {
		return nil
	}
	now := time.Now()
	written := 1 + r.out.end() + r.err.end()
	if r.place.Noted == written || now.Sub(agent.active()) < idle/10*9 {
		return nil
	}
	before := r.place.Noted
	r.place.Noted = written
	err := r.append(ctx, now, runs.Note, 0, runs.Encode(runs.Remark{Reason: string(runs.ReasonIdle)}))
	if err != nil {
		r.place.Noted = before
	}
	return err
}
