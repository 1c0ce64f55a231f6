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
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/worker"
)

// server finds the server and connects to it.
func (x *examination) server(ctx context.Context) {
	data := x.Settings.DataDir
	if x.Settings.NATS != "" {
		x.note("up", skip, "a NATS server is named (--nats)", "")
	} else if here, err := datadir.ReadInstance(data); err == nil {
		x.here = here
	} else {
		text, do := "none is running on "+data, "start `linesman up`, or name a server with --nats"
		switch {
		case errors.Is(err, fs.ErrPermission):
			text, do = err.Error(), "run this as the owner of the data directory, or name a server with --nats"
		case !errors.Is(err, fs.ErrNotExist):
			text = err.Error()
		}
		x.note("up", Fail, text, do)
		x.note("nats", skip, "no server is known", "")
		return
	}
	b, err := x.dialer.Dial(ctx, embedded.OperatorUser)
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
		x.note("nats", warn, text+"; events and raw lines are in one account",
			"set public_creds where others read the events")
		return
	}
	x.note("nats", fine, text, "")
}

// up notes which process is the `up` of the data directory. If its program file
// is gone, it can start agents on Linux only.
func (x *examination) up() {
	text := fmt.Sprintf("process %d, version %s", x.here.PID, x.here.Version)
	const do = "`linesman down`, and the next command starts the program that is there then"
	switch {
	case !x.here.ProgramReplaced():
		x.note("up", fine, text, "")
	case runtime.GOOS == "linux":
		text += fmt.Sprintf("; its program %s was removed or replaced; agents can still be started", x.here.Program)
		x.note("up", warn, text, do)
	default:
		text += fmt.Sprintf("; its program %s was removed, and no agent can be started", x.here.Program)
		x.note("up", Fail, text, do)
	}
}

// users checks the logins of the embedded server.
func (x *examination) users(ctx context.Context) (level, string, string) {
	if x.here.PID == 0 {
		return skip, "those of a server of its own are not known", ""
	}
	all := []string{embedded.WorkerUser, embedded.NormalizerUser, embedded.ResponderUser, embedded.SubscriberUser,
		embedded.ResponderAgentsUser, embedded.PrompterUser}
	for _, user := range all {
		b, err := x.dialer.Dial(ctx, user)
		switch {
		case errors.Is(err, bus.ErrManyConnections):
			return warn, user + ": it has all connections that it may have", ""
		case err != nil:
			return Fail, user + ": " + firstLine(err),
				"start `linesman up` again: it reads credentials.json when it starts"
		}
		b.Close()
	}
	return fine, "operator, " + strings.Join(all, ", ") + " are let in", ""
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
	before := x.now()
	raw, err := b.Stream(ctx, b.Raw())
	if err != nil {
		x.note(name, Fail, err.Error(), "")
		return
	}
	after := x.now()
	work, err := b.Stream(ctx, b.Work())
	if err != nil {
		x.note(name, Fail, err.Error(), "start a newer `linesman up` or `linesman normalizer`, which make it")
		return
	}
	x.note(name, fine, fmt.Sprintf("they take and store; %s holds %s, %d tasks wait",
		b.Raw(), console.ShortBytes(int64(raw.CachedInfo().State.Bytes)), work.CachedInfo().State.Msgs), "")

	at := raw.CachedInfo().TimeStamp
	if at.IsZero() {
		return
	}
	if skew := max(before.Sub(at), at.Sub(after)); skew > maxSkew {
		x.note("clock", warn, fmt.Sprintf("the server's clock and this one differ by %s", console.ShortTime(skew)),
			"set them by NTP")
	} else {
		x.note("clock", fine, "as the server's", "")
	}
}

// Larger lags do not result from a short burst.
const (
	longLag     = 10_000   // messages
	longBacklog = 64 << 20 // bytes
)

// lags checks how far each step is behind the previous one.
func (x *examination) lags(ctx context.Context) (level, string, string) {
	spool, err := worker.ReadBacklog(datadir.RunsDir(x.Settings.DataDir))
	if err != nil {
		return warn, fmt.Sprintf("the run directories cannot be read: %v", err), ""
	}
	lag, err := x.bus.Lag(ctx)
	if err != nil {
		return Fail, firstLine(err), ""
	}
	text := fmt.Sprintf("spools of %d runs %s ahead of RAW, RAW %d entries ahead of EVENTS, EVENTS %d ahead of RUNS",
		spool.Runs, console.ShortBytes(spool.Bytes), lag.Raw, lag.Events)
	switch {
	case spool.Bytes > longBacklog:
		return warn, text, "check that a worker is running here, and that RAW has space"
	case lag.Raw > longLag || lag.Events > longLag:
		return warn, text, "look again in a moment: if it grows, the log of the normalizer says why"
	default:
		return fine, text, ""
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

// readers counts the consumers of other programs on the stream of events.
func (x *examination) readers(ctx context.Context) (level, string, string) {
	have, most, err := x.bus.Readers(ctx)
	if err != nil {
		return warn, firstLine(err), ""
	}
	stream := x.bus.Names.Events()
	text := fmt.Sprintf("%d consumers on %s, of %d at most", have, stream, most)
	if have < most/5*4 {
		return fine, text, ""
	}
	return warn, text + "; at the limit programs that need one are refused",
		fmt.Sprintf("remove those that are not needed, with `nats consumer rm %s` in the context that `linesman context "+
			"operator_public` prints; each expires %.0f h after its last request", stream, bus.ReaderAge.Hours())
}

// limited notes when the embedded server last limited a reader.
func (x *examination) limited() {
	const name, recent = "readers", time.Hour
	if x.here.PID == 0 {
		return
	}
	l, err := embedded.ReadLimited(x.here.Data)
	if errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(l.Until) > recent {
		return
	}
	if err != nil {
		x.note(name, warn, err.Error(), "")
		return
	}
	at := l.At.Local().Format(time.TimeOnly)
	if l.Refused {
		x.note(name, warn, fmt.Sprintf("at %s user %s had %d connections, the most there may be, and more were refused",
			at, l.User, l.Connections),
			"end programs that are not needed")
		return
	}
	until := l.Until.Local().Format(time.TimeOnly)
	x.note(name, warn, fmt.Sprintf("at %s %d connections of user %s were closed, because of %s; "+
		"those it makes until %s may only subscribe", at, l.Connections, l.User, l.Why, until),
		"find the program that does so; remove credentials.json while nothing runs to give all users new passwords")
}
