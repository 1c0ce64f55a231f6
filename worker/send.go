package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// append stores an entry of the time at, or of that of the entry before if that
// is later, and the progress up to it. After an ErrMoved the progress is what the
// log holds now.
func (r *Run) append(ctx context.Context, at time.Time, kind runs.Kind, offset int64, body []byte) error {
	return r.appendAll(ctx, []runs.Entry{{Kind: kind, Time: r.notBefore(at.UnixMilli()), Offset: offset, Body: body}})
}

// appendAll is append for entries of one kind.
func (r *Run) appendAll(ctx context.Context, entries []runs.Entry) error {
	kind := entries[0].Kind
	begun := time.Now()
	err := r.supervised(func() error { return store(ctx, r.raw, entries) })
	r.count(entries, time.Since(begun), err)
	if err != nil && !errors.Is(err, runs.ErrMoved) {
		return fmt.Errorf("append %s entry: %w", kind, err)
	}
	return r.progressed(kind, err)
}

// progressed stores what the log holds, after an entry of a kind was stored, or after [runs.ErrMoved].
func (r *Run) progressed(kind runs.Kind, err error) error {
	before := r.progress.Log
	r.progress.Log = r.raw.Mark()
	if err := r.dir.mark.save(); err != nil {
		return err
	}
	if r.lostSince(before) && err != nil {
		err = errLost
	}
	r.heed()
	if r.progress.Log.Exited && (err != nil || kind != runs.Exited) {
		r.fenced = true
		return ErrEnded
	}
	return err
}

// errLost is a [runs.ErrMoved] of a log that has lost entries: what was to be appended comes after these.
var errLost = fmt.Errorf("%w: it has lost entries", runs.ErrMoved)

// onlyMoved reports whether others have appended to a log that has lost nothing.
func onlyMoved(err error) bool { return errors.Is(err, runs.ErrMoved) && !errors.Is(err, errLost) }

// lostSince reports whether the raw log has lost entries since it was known to reach up to before: they are sent again.
func (r *Run) lostSince(before runs.Mark) bool {
	now := r.progress.Log
	if now.Seq >= before.Seq && now.Out >= before.Out && (now.Started || !before.Started) {
		return false
	}
	r.talk.restart()
	r.refill, r.out.partialEnd = max(r.refill, before.Out+1), 0
	r.leftNoted, r.progress.Noted = false, 0
	if before.Cancelled && !now.Cancelled && r.cancelReason == nil {
		r.cancelReason = &r.cancelled
	}
	return true
}

// refills reports whether the raw log, which was lost, does not have again what it had.
func (r *Run) refills() bool {
	t := r.talk
	return r.refill > 0 && (r.progress.Log.Out < r.refill-1 || t != nil && !t.torn && (t.seen == 0 || t.missing() != nil))
}

// store appends entries in order, several at a time if the log can.
func store(ctx context.Context, log Log, entries []runs.Entry) error {
	if all, ok := log.(burstAppender); ok && len(entries) > 1 {
		return all.AppendAll(ctx, entries)
	}
	for _, e := range entries {
		if err := log.Append(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// pumpTime bounds how long continuous output keeps the worker from checking
// the shim.
const pumpTime = time.Second

// pump sends the available output: stdout first, and stderr while there is no
// new stdout. It returns when nothing is left, after pumpTime unless final, or
// when a cancel makes the rest useless, and reports whether it sent anything.
func (r *Run) pump(ctx context.Context, final bool) (sent bool, err error) {
	if r.refills() { // which may take long
		r.stopEarly()
	}
	for begun := time.Now(); final || !r.dir.Spec.process() || time.Since(begun) < pumpTime; {
		if err := ctx.Err(); err != nil {
			return sent, err
		}
		if !r.refills() { // else a cancel would make useless what is lost
			if err := r.cancel(ctx); err != nil {
				return sent, err
			}
		}
		if r.isIgnored() {
			return sent, nil
		}
		if err := r.converse(ctx, final); err != nil {
			return sent, err
		}
		n, err := r.sendOut(ctx, final)
		if n == 0 && err == nil && r.dir.Spec.process() {
			n, err = r.sendErr(ctx, final)
		}
		if n == 0 && err == nil && r.refill > 0 { // it is filled, or the rest is gone: a cancel is next
			r.refill = 0
			continue
		}
		if n == 0 || err != nil {
			return sent, err
		}
		sent = true
	}
	return sent, nil
}

// isIgnored reports whether the remaining output is not read: the source was
// stopped, and is no agent.
func (r *Run) isIgnored() bool { return r.stopped && !r.dir.Spec.process() && !r.refills() }

// sendOut sends the next chunk of stdout, or several of a backlog, and returns their
// size.
func (r *Run) sendOut(ctx context.Context, final bool) (int, error) {
	s, now := r.folded(), time.Now()
	at := r.progress.Log.Out
	found, err := r.refresh(s, at, now)
	if err != nil {
		return 0, err
	}
	if t, follows := r.source.(*tailed); follows {
		if found != unchanged {
			if err := t.bound(at); err != nil {
				return 0, err
			}
		}
		t.looked = now
	}
	r.sent.set(s, at, final)
	if at >= s.end() || found == unchanged && !final && s.partialEnd == s.end() {
		r.backlog.caughtUp(now)
		return 0, nil
	}
	buf, release := r.w.buffers.take(min(r.piece, s.end()-at))
	defer release()
	if lost := r.talk.missing(); lost != nil && lost.Out > at && lost.Out-at <= int64(len(buf)) { // it stood there
		buf, final = buf[:lost.Out-at], true
	}
	n, at, err := s.read(buf, at)
	if err != nil {
		return 0, err
	}
	n, others, err := r.beforeLeft(ctx, at, n)
	if err != nil {
		return 0, err
	}
	entries, size := r.split(s, buf[:n], at, now, final || others)
	if size == 0 {
		s.partialEnd = s.end()
		r.sent.set(s, at, final)
		r.backlog.caughtUp(now)
		return 0, nil
	}
	before := r.progress.Log.At
	s.stores(buf[:size], at+int64(size))
	err = r.appendAll(ctx, entries)
	r.sent.set(s, r.progress.Log.Out, final)
	took := time.Since(now)
	if r.piece = 2 * int64(size); size < n/2 || took > r.w.slowAppend {
		r.piece = int64(size) / 2
	}
	switch {
	case errors.Is(err, runs.ErrMoved): // some of the entries may be sent again
		r.backlog.rewind()
	case at+int64(size) >= s.end():
		r.backlog.caughtUp(now)
	default:
		r.backlog.sent(time.Duration(r.progress.Log.At-before)*time.Millisecond, took)
	}
	return size, err
}

// split returns the entries of output that was read at the offset at, and their size.
// The last line of b is left to the next read, unless it ends the output.
func (r *Run) split(s *stream, b []byte, at int64, now time.Time, final bool) (entries []runs.Entry, size int) {
	var last int64
	for rest := b; len(rest) > 0 && len(entries) < maxEntries; rest = b[size:] {
		chunk, offset := rest[:min(len(rest), runs.MaxChunk)], at+int64(size)
		if size > 0 && len(chunk) < runs.MaxChunk && offset+int64(len(chunk)) < s.end() {
			break
		}
		n, written := r.outTime(s, chunk, offset, now, final)
		if n == 0 {
			break
		}
		last = max(last, r.notBefore(written.UnixMilli()))
		entries = append(entries, runs.Entry{Kind: runs.Out, Time: last, Offset: offset, Body: chunk[:n]})
		size += n
	}
	return entries, size
}

// Of stderr only the beginning and the end are sent: the beginning while it is
// written, the end when the agent has ended.
const (
	errHead = 1 << 20
	errTail = 64 << 10
)

// sendErr sends the next chunk of stderr that is kept, and returns its size.
func (r *Run) sendErr(ctx context.Context, final bool) (int, error) {
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
	buf, release := r.w.buffers.take(0)
	defer release()
	n, at, err := s.read(buf[:min(int64(len(buf)), to-at)], at)
	if n == 0 || err != nil {
		return 0, err
	}
	return n, r.append(ctx, r.errTime(now), runs.ErrOut, at, buf[:n])
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
	since := agent.lastActivity()
	if t := r.talk; t != nil {
		if t.holds() {
			t.asked = now
		}
		if t.asked.After(since) {
			since = t.asked
		}
	}
	written := 1 + r.out.end() + r.err.end()
	if r.progress.Noted == written || now.Sub(since) < idle/10*9 {
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
