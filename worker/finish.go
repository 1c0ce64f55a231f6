package worker

import (
	"context"
	"io"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/sessionlog"
)

// maxOutTail is how much of the output is read to see whether it ends with a result, in bytes.
const maxOutTail = 4 << 20

// finishAgent ends an agent that does not exit after its final result, and what an agent has left that
// has ended with one: that could print for ever.
func (r *Run) finishAgent(now time.Time) {
	agent, ok := r.source.(*spawned)
	limits := r.dir.Spec.Limits
	if !ok || r.stopped || r.talk != nil {
		return
	}
	switch {
	case agent.agentAlive():
		if limits.Finish == 0 || now.Sub(agent.lastActivity()) < limits.Finish || !r.endsWithResult(nil) {
			return
		}
		if !r.finishing {
			r.finishing = true
			r.log.Info("the agent does not exit after its result: it is ended", zap.Duration("silence", limits.Finish))
		}
	case agent.exit == nil, now.Sub(agent.exitAt) < limits.Linger, !r.endsWithResult(agent.exit.Out):
		return
	}
	agent.command(now, ctlFinish) // if no shim is listening, the next check repeats it
}

// endsWithResult reports whether the first bytes of stdout, nil for all, end with the last line of a
// turn, as far as the dialect of the agent is known.
func (r *Run) endsWithResult(bytes *int64) bool {
	if bytes == nil && !r.rests && r.judged == r.out.size+1 { // nothing was written since
		return false
	}
	f, size, err := r.outFile(bytes)
	if err != nil {
		return false
	}
	defer f.Close()
	if r.judged != size+1 || bytes != nil {
		a, known := r.w.cfg.Agents.Find(r.dir.Spec.Agent)
		tail, err := outTail(f, size)
		r.judged, r.rests = size+1, known && err == nil && sessionlog.Rests(a.Backend, tail, bytes != nil)
	}
	return r.rests
}

// failed reports whether the run is not completed that ended like ex, as far as the end of stdout says.
func (r *Run) failed(ex runs.Exit) bool {
	f, size, err := r.outFile(ex.Out)
	if err != nil {
		return true
	}
	defer f.Close()
	a, known := r.w.cfg.Agents.Find(r.dir.Spec.Agent)
	tail, err := outTail(f, size)
	return !known || err != nil || sessionlog.State(a.Backend, tail, ex) != runs.StateCompleted
}

// outFile opens stdout, and returns how many bytes of it count: at most so many, nil for all.
func (r *Run) outFile(bytes *int64) (*os.File, int64, error) {
	f, info, err := sessionlog.Open(r.out.path)
	if err != nil {
		return nil, 0, err
	}
	if bytes != nil {
		return f, min(info.Size(), *bytes), nil
	}
	return f, info.Size(), nil
}

// outTail reads the end of the first size bytes of stdout.
func outTail(f *os.File, size int64) ([]byte, error) {
	from := max(size-maxOutTail, 0)
	return io.ReadAll(io.NewSectionReader(f, from, size-from))
}

// beforeLeft returns how many of n bytes at an offset, which were read, are of the agent, and whether
// those of others follow. Before bytes of others it adds a note to the raw log.
func (r *Run) beforeLeft(ctx context.Context, at int64, n int) (own int, others bool, err error) {
	agent, ok := r.source.(*spawned)
	if !ok || r.leftNoted {
		return n, false, nil
	}
	end, known := agent.left()
	end += r.out.segment.Base
	switch {
	case !known || at+int64(n) <= end:
		return n, false, nil
	case at < end:
		return int(end - at), true, nil
	}
	if err := r.append(ctx, time.Now(), runs.Note, 0, runs.Encode(runs.Remark{Reason: runs.NoteLeft})); err != nil {
		return 0, false, err
	}
	r.leftNoted = true
	return n, false, nil
}

// endedBefore reports whether the agent had ended its turn before the run was cancelled.
func (r *Run) endedBefore(ex runs.Exit) bool {
	if r.talk != nil {
		return r.talk.late && ex.Reason == runs.ReasonEOF
	}
	return ex.Reason == runs.ReasonExited && r.endsWithResult(ex.Out)
}

// superviseInterval is how often an agent is supervised while a call to the
// raw log is blocked. Calls that take less time need no supervision.
const superviseInterval = time.Second

// supervised calls f, which may block while the raw log is unreachable.
// Meanwhile it enforces the limits of the agent and executes requested
// cancels. What a call takes beyond superviseInterval is not time of the agent.
func (r *Run) supervised(f func() error) error {
	begun := time.Now()
	defer func() {
		if blocked := time.Since(begun) - superviseInterval; r.talk != nil && blocked > 0 {
			r.talk.pace.skip(blocked)
		}
	}()
	agent, ok := r.source.(*spawned)
	if !ok {
		return f()
	}
	done := make(chan error, 1)
	go func() { done <- f() }() // f uses only the raw log, and the loop below does not
	tick := time.NewTicker(superviseInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case now := <-tick.C:
			r.stopEarly()
			agent.supervise(now)
		}
	}
}

// stopEarly stops an agent if a cancel is requested whose entry has to wait.
func (r *Run) stopEarly() {
	agent, ok := r.source.(*spawned)
	if !ok || !r.cancelRequested() {
		return
	}
	agent.stop()
	if agent.told && !r.dir.Spec.Keep { // a kept run may go on with another process
		closeOnce(r.cancelTold)
	}
}

// maxRefusal is the length of stderr, in bytes, that may say that there is no session.
const maxRefusal = 1024

// knowsNoSession returns the exit of the run: an agent that printed nothing but that it has no session of the thread to
// resume or to fork has done nothing.
func (r *Run) knowsNoSession(ex runs.Exit) runs.Exit {
	spec := &r.dir.Spec
	a, _ := r.w.cfg.Agents.Find(spec.Agent)
	thread, _ := a.Continues(spec.Argv)
	if a.NoSession == nil || thread == "" || spec.Live || ex.Reason != runs.ReasonExited || ex.Code == nil ||
		*ex.Code == 0 || r.out.size > 0 {
		return ex
	}
	said, err := readBounded(r.dir.file(errFile), maxRefusal)
	if err != nil || !a.NoSession(said) {
		return ex
	}
	return runs.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnNoSession, At: ex.At}
}
