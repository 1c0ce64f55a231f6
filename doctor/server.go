package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/local"
	"github.com/linesman/linesman/worker"
)

// server finds the server and connects to it.
func (x *examination) server(ctx context.Context) {
	data := x.Settings.DataDir
	if x.Settings.NATS != "" {
		x.note("up", Skip, "a NATS server is named (--nats)", "")
	} else if here, err := local.ReadInstance(data); err == nil {
		x.here = here
	} else {
		text := "none is running on " + data
		if !errors.Is(err, fs.ErrNotExist) {
			text = err.Error()
		}
		x.note("up", Fail, text, "start `linesman up`, or name a server with --nats")
		x.note("nats", Skip, "no server is known", "")
		return
	}
	b, err := x.Dialer.Dial(ctx, embedded.OperatorUser)
	if x.here.PID != 0 {
		switch gone := errors.Is(unix.Kill(x.here.PID, 0), unix.ESRCH); {
		case err == nil:
			x.up()
		case gone:
			x.note("up", Fail, fmt.Sprintf("process %d of linesman.json is gone: it was killed", x.here.PID),
				"start `linesman up` again")
		default:
			x.note("up", Fail, fmt.Sprintf("process %d is there, and its server cannot be used", x.here.PID),
				"look at its log, or start it again")
		}
	}
	if err != nil {
		do := "is it running, and are the address and the credentials right?"
		if errors.Is(err, bus.ErrUnfit) {
			do = "change its configuration, or use a newer one"
		}
		x.note("nats", Fail, firstLine(err), do)
		return
	}
	x.bus = b
	url, version, maxPayload := b.Server()
	text := fmt.Sprintf("%s, server %s, max_payload %s", url, version, console.ShortBytes(maxPayload))
	if b.OneAccount() {
		x.note("nats", Warn, text+"; events and raw lines are in one account",
			"set public_creds where others read the events")
		return
	}
	x.note("nats", OK, text, "")
}

// up notes which process is the `up` of the data directory. If its program file
// is gone, it can start agents on Linux only.
func (x *examination) up() {
	text := fmt.Sprintf("process %d, version %s", x.here.PID, x.here.Version)
	const do = "`linesman down`, and the next command starts the program that is there then"
	switch {
	case !x.here.ProgramReplaced():
		x.note("up", OK, text, "")
	case runtime.GOOS == "linux":
		text += fmt.Sprintf("; its program %s was removed or replaced; agents start all the same", x.here.Program)
		x.note("up", Warn, text, do)
	default:
		text += fmt.Sprintf("; its program %s was removed, and no agent can be started", x.here.Program)
		x.note("up", Fail, text, do)
	}
}

// users checks the logins of the embedded server.
func (x *examination) users(ctx context.Context) {
	if x.here.PID == 0 {
		x.note("users", Skip, "those of a server of its own are not known", "")
		return
	}
	ctx, cancel := soon(ctx)
	defer cancel()
	all := []string{embedded.WorkerUser, embedded.NormalizerUser, embedded.ResponderUser, embedded.SubscriberUser}
	for _, user := range all {
		b, err := x.Dialer.Dial(ctx, user)
		if errors.Is(err, bus.ErrManyConnections) {
			x.note("users", Warn, user+": it has all connections that it may have", "")
			return
		}
		if err != nil {
			x.note("users", Fail, user+": "+firstLine(err),
				"start `linesman up` again: it reads credentials.json when it starts")
			return
		}
		b.Close()
	}
	x.note("users", OK, "operator, "+strings.Join(all, ", ")+" are let in", "")
}

// maxSkew is the accepted difference between the server's clock and this one.
const maxSkew = 5 * time.Second

func (x *examination) streams(ctx context.Context) {
	const name = "streams"
	ctx, cancel := soon(ctx)
	defer cancel()
	b := x.bus
	if err := b.Health(ctx); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			x.note(name, Fail, line, "the log of the normalizer, or of `linesman up`, may say more")
		}
		return
	}
	before := time.Now()
	raw, err := b.Stream(ctx, b.Raw())
	if err != nil {
		x.note(name, Fail, err.Error(), "")
		return
	}
	after := time.Now()
	work, err := b.Stream(ctx, b.Work())
	if err != nil {
		x.note(name, Fail, err.Error(), "start a newer `linesman up` or `linesman normalizer`, which make it")
		return
	}
	x.note(name, OK, fmt.Sprintf("they take and store; %s holds %s, %d tasks wait",
		b.Raw(), console.ShortBytes(int64(raw.CachedInfo().State.Bytes)), work.CachedInfo().State.Msgs), "")

	skew := time.Duration(0)
	switch at := raw.CachedInfo().TimeStamp; {
	case at.IsZero():
		return
	case at.Before(before):
		skew = before.Sub(at)
	case at.After(after):
		skew = at.Sub(after)
	}
	if skew > maxSkew {
		x.note("clock", Warn, fmt.Sprintf("the server's clock and this one differ by %s", console.ShortTime(skew)),
			"set them by NTP")
	} else {
		x.note("clock", OK, "as the server's", "")
	}
}

// Larger lags do not result from a short burst.
const (
	longLag     = 10_000   // messages
	longBacklog = 64 << 20 // bytes
)

// lags checks how far each step is behind the previous one.
func (x *examination) lags(ctx context.Context) {
	const name = "lags"
	ctx, cancel := soon(ctx)
	defer cancel()
	spool, err := worker.ReadBacklog(local.RunsDir(x.Settings.DataDir))
	if err != nil {
		x.note(name, Warn, fmt.Sprintf("the run directories cannot be read: %v", err), "")
		return
	}
	lag, err := x.bus.Lag(ctx)
	if err != nil {
		x.note(name, Fail, firstLine(err), "")
		return
	}
	text := fmt.Sprintf("spools of %d runs %s ahead of RAW, RAW %d entries ahead of EVENTS, EVENTS %d ahead of RUNS",
		spool.Runs, console.ShortBytes(spool.Bytes), lag.Raw, lag.Events)
	switch {
	case spool.Bytes > longBacklog:
		x.note(name, Warn, text, "look whether a worker is at work here, and RAW has room")
	case lag.Raw > longLag || lag.Events > longLag:
		x.note(name, Warn, text, "look again in a moment: if it grows, the log of the normalizer says why")
	default:
		x.note(name, OK, text, "")
	}
}

// soon limits the time of the requests of one check.
func soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 10*time.Second)
}

// firstLine returns the first line of an error.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
