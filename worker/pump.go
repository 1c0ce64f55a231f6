package worker

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// Of stderr only the beginning and the end are sent: the beginning while it is
// written, the end when the agent has ended.
const (
	errHead = 1 << 20
	errTail = 64 << 10
)

// buffers are used by runs that are sending.
var buffers = sync.Pool{New: func() any { return new([runs.MaxChunk]byte) }}

// pumpTime bounds how long continuous output keeps the worker from checking
// the shim.
const pumpTime = time.Second

// pump sends the available output: stdout first, and stderr while there is no
// new stdout. It returns when nothing is left, after pumpTime unless final, or
// when a cancel makes the rest useless, and reports whether it sent anything.
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
		if r.stopped && !r.source.outlivesStop() {
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
	at := r.progress.Log.Out
	found, err := r.refresh(s, at, now)
	if err != nil || at >= s.end() || found == unchanged && !final && s.partialEnd == s.end() {
		return 0, err
	}
	n, at, err := s.read(buf, at)
	if err != nil {
		return 0, err
	}
	n = wholeLines(buf[:n], final)
	if n == 0 {
		s.partialEnd = s.end()
		return 0, nil
	}
	return n, r.append(ctx, now, runs.Out, at, buf[:n])
}

// sendErr sends the next chunk of stderr that is kept, and returns its size.
func (r *Run) sendErr(ctx context.Context, buf []byte, final bool) (int, error) {
	s, now := &r.err, time.Now()
	at := r.progress.Log.Err
	if _, err := r.refresh(s, at, now); err != nil {
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

// refresh refreshes s. If that moved its offsets, they are saved before
// anything is sent with them.
func (r *Run) refresh(s *stream, at int64, now time.Time) (change, error) {
	found, err := s.refresh(at, now)
	if err != nil || found != truncated {
		return found, err
	}
	r.log.Info("output was truncated", zap.Int64("offset", at))
	return found, r.dir.mark.save()
}

// noteIdle stores one note for each silence that comes close to the idle
// limit.
func (r *Run) noteIdle(ctx context.Context) error {
	agent, ok := r.source.(*spawned)
	idle := r.dir.Spec.Limits.Idle
	if !ok || idle == 0 || r.stopped || !agent.agentAlive() {
		return nil
	}
	now := time.Now()
	written := 1 + r.out.end() + r.err.end()
	if r.progress.Noted == written || now.Sub(agent.lastActivity()) < idle/10*9 {
		return nil
	}
	before := r.progress.Noted
	r.progress.Noted = written
	err := r.append(ctx, now, runs.Note, 0, runs.Encode(runs.Remark{Reason: string(runs.ReasonIdle)}))
	if err != nil {
		r.progress.Noted = before
	}
	return err
}
