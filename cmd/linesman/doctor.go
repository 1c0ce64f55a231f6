package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

type doctorCmd struct {
	JSON bool `name:"json" help:"Print one line of JSON, not for people."`
}

// Help is printed by `linesman doctor --help`.
func (doctorCmd) Help() string {
	return `Looks at all that linesman needs on this machine: the data directory and the shims of its runs, the "linesman up" that has it or
the NATS server of --nats, users and streams, a responder, HTTP, a worker, the agent's program, and a few limits. Each line is one check,

    ok    what was found
    warn  what is odd, and what to do; it works all the same
    FAIL  what does not work, and what to do
    skip  what could not be looked at, and why

It changes nothing, but for a key that proves that the streams take what is written, and shows no secret. Whether an agent
is signed in is not asked.

Examples:

    linesman doctor
    linesman doctor --json | jq -r '.checks[] | select(.level != "ok")'

Exit status: 0 nothing has failed, 1 something has, 2 bad flags or settings.`
}

// The levels of a check, as they are printed.
const (
	levelOK   = "ok"
	levelWarn = "warn"
	levelFail = "FAIL"
	levelSkip = "skip"
)

// check is the outcome of one check.
type check struct {
	Name  string `json:"name"`
	Level string `json:"level"`
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"` // what helps
}

// doctor looks at one thing after the other.
type doctor struct {
	app    *app
	here   instance // of the `up` of the data directory, if there is one
	caller *caller  // nil where NATS is out of reach
	checks []check
}

func (c *doctorCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	d := &doctor{app: a}
	d.note("settings", levelOK, "all of them are valid", "") // else this command would not run
	d.dataDirectory()
	d.shims()
	d.server(ctx)
	if d.caller != nil {
		defer d.caller.bus.Close()
		d.users(ctx)
		d.streams(ctx)
		d.lags(ctx)
		d.readers(ctx)
		d.limited()
		d.responder(ctx)
		d.worker(ctx)
	} else {
		for _, name := range []string{"users", "streams", "lags", "readers", "responder", "worker"} {
			d.note(name, levelSkip, "NATS is out of reach", "")
		}
	}
	d.http(ctx)
	d.agent(ctx)
	d.roots()
	d.git()
	d.inotify()
	return d.report(c.JSON)
}

func (d *doctor) note(name, level, text, do string) {
	d.checks = append(d.checks, check{name, level, text, do})
}

func (d *doctor) report(asJSON bool) error {
	failed := false
	for _, c := range d.checks {
		failed = failed || c.Level == levelFail
	}
	end := error(nil)
	if failed {
		end = exitWith(exitFailed, nil)
	}
	if asJSON {
		return errors.Join(end, printJSON(d.app.stdout, struct {
			OK     bool    `json:"ok"`
			Checks []check `json:"checks"`
		}{!failed, d.checks}))
	}
	r := newRenderer(d.app.stdout, d.app.environ)
	colors := map[string]string{levelOK: green, levelWarn: yellow, levelFail: red, levelSkip: dim}
	for _, c := range d.checks {
		text := c.Text
		if c.Do != "" {
			text += "; " + c.Do
		}
		if _, err := fmt.Fprintf(d.app.stdout, "%s  %-9s  %s\n", r.paint(colors[c.Level], fmt.Sprintf("%-4s", c.Level)), c.Name, safe(text)); err != nil {
			return err
		}
	}
	return end
}

// Free bytes of the data directory's disk below which a check warns or fails.
const (
	littleDisk    = 4 << 30
	tooLittleDisk = 512 << 20
)

func (d *doctor) dataDirectory() {
	const name = "data"
	dir := d.app.config.DataDir
	if err := brokenLink(dir, d.app.runsDir(), filepath.Join(dir, "jetstream")); err != nil {
		d.note(name, levelFail, err.Error(), "mount its disk, or remove the link")
		return
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.note(name, levelWarn, dir+" does not exist yet", "`linesman up` makes it")
		return
	case err != nil:
		d.note(name, levelFail, err.Error(), "choose another with --data-dir")
		return
	case !info.IsDir():
		d.note(name, levelFail, dir+" is not a directory", "choose another with --data-dir")
		return
	case unix.Access(dir, unix.W_OK|unix.X_OK) != nil:
		d.note(name, levelFail, dir+" is not writable", "make it your own, or choose another with --data-dir")
		return
	}
	for _, secret := range []string{"credentials.json", "token", "linesman.json"} {
		path := filepath.Join(dir, secret)
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			d.note(name, levelFail, path+" can be read by others", "chmod 600 it, and make new secrets: remove credentials.json and token, and start again")
			return
		}
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		d.note(name, levelFail, fmt.Sprintf("%s: %v", dir, err), "choose another with --data-dir")
		return
	}
	free := int64(disk.Bavail) * int64(disk.Bsize)
	room := fmt.Sprintf("%s, %s free", dir, gibibytes(free))
	switch {
	case free < tooLittleDisk:
		d.note(name, levelFail, room, "make room: what agents print can soon not be stored")
	case free < littleDisk:
		d.note(name, levelWarn, room, "make room, or bound the streams with raw.max_bytes and events.max_bytes")
	case info.Mode().Perm()&0o077 != 0:
		d.note(name, levelWarn, dir+" is open to others", "chmod 700 it")
	default:
		d.note(name, levelOK, room, "")
	}
}

func gibibytes(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// shims looks for agents that nobody holds to their limits.
func (d *doctor) shims() {
	const name, most = "shims", 5
	list, err := worker.Unsupervised(d.app.runsDir())
	switch {
	case err != nil:
		d.note(name, levelWarn, fmt.Sprintf("the run directories cannot be read: %v", err), "")
	case len(list) == 0:
		d.note(name, levelOK, "no agent here runs without one", "")
	default:
		text := strings.Join(list[:min(len(list), most)], ", ")
		if more := len(list) - most; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		d.note(name, levelWarn, "killed, and the agent runs without limits: "+text, "start `linesman up` or `linesman worker` here, which takes over; if one is running, its log says why it does not")
	}
}

// server finds the server and connects to it.
func (d *doctor) server(ctx context.Context) {
	a := d.app
	if a.config.NATS != "" {
		d.note("up", levelSkip, "a NATS server is named (--nats)", "")
	} else if here, err := readInstance(a.config.DataDir); err == nil {
		d.here = here
	} else {
		text := "none is running on " + a.config.DataDir
		if !errors.Is(err, fs.ErrNotExist) {
			text = err.Error()
		}
		d.note("up", levelFail, text, "start `linesman up`, or name a server with --nats")
		d.note("nats", levelSkip, "no server is known", "")
		return
	}
	b, err := a.connect(ctx, embedded.OperatorUser) // it starts nothing
	if d.here.PID != 0 {
		switch gone := errors.Is(unix.Kill(d.here.PID, 0), unix.ESRCH); {
		case err == nil:
			d.up()
		case gone:
			d.note("up", levelFail, fmt.Sprintf("process %d of linesman.json is gone: it was killed", d.here.PID), "start `linesman up` again")
		default:
			d.note("up", levelFail, fmt.Sprintf("process %d is there, and its server cannot be used", d.here.PID), "look at its log, or start it again")
		}
	}
	if err != nil {
		level, do := levelFail, "is it running, and are the address and the credentials right?"
		if errors.Is(err, bus.ErrUnfit) {
			do = "change its configuration, or use a newer one"
		}
		d.note("nats", level, first(err), do)
		return
	}
	d.caller = &caller{a, b}
	nc := b.Inside()
	text := fmt.Sprintf("%s, server %s, max_payload %s", nc.ConnectedUrlRedacted(), nc.ConnectedServerVersion(), shortBytes(nc.MaxPayload()))
	if b.OneAccount() {
		d.note("nats", levelWarn, text+"; events and raw lines are in one account", "set public_creds where others read the events")
		return
	}
	d.note("nats", levelOK, text, "")
}

// users tries the logins of a server of our own.
func (d *doctor) users(ctx context.Context) {
	if d.here.PID == 0 {
		d.note("users", levelSkip, "those of a server of its own are not known", "")
		return
	}
	ctx, cancel := soon(ctx)
	defer cancel()
	all := []string{embedded.WorkerUser, embedded.NormalizerUser, embedded.ResponderUser, embedded.SubscriberUser}
	for _, user := range all {
		b, err := d.app.connect(ctx, user)
		if errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
			d.note("users", levelWarn, user+": it has all connections that it may have", "")
			return
		}
		if err != nil {
			d.note("users", levelFail, user+": "+first(err), "start `linesman up` again: it reads credentials.json when it starts")
			return
		}
		b.Close()
	}
	d.note("users", levelOK, "operator, "+strings.Join(all, ", ")+" are let in", "")
}

// maxSkew is how far the server's clock may be from ours.
const maxSkew = 5 * time.Second

func (d *doctor) streams(ctx context.Context) {
	const name = "streams"
	ctx, cancel := soon(ctx)
	defer cancel()
	b := d.caller.bus
	if err := b.Health(ctx); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			d.note(name, levelFail, line, "the log of the normalizer, or of `linesman up`, may say more")
		}
		return
	}
	js, err := jetstream.New(b.Inside())
	if err != nil {
		d.note(name, levelFail, err.Error(), "")
		return
	}
	before := time.Now()
	raw, err := js.Stream(ctx, b.Raw())
	if err != nil {
		d.note(name, levelFail, fmt.Sprintf("stream %s: %v", b.Raw(), err), "")
		return
	}
	after := time.Now()
	work, err := js.Stream(ctx, b.Work())
	if err != nil {
		d.note(name, levelFail, fmt.Sprintf("stream %s: %v", b.Work(), err), "start a newer `linesman up` or `linesman normalizer`, which make it")
		return
	}
	info := raw.CachedInfo()
	d.note(name, levelOK, fmt.Sprintf("they take and store; %s holds %s, %d tasks wait", b.Raw(), shortBytes(int64(info.State.Bytes)), work.CachedInfo().State.Msgs), "")

	skew := time.Duration(0)
	switch at := info.TimeStamp; {
	case at.IsZero():
		return // it does not say
	case at.Before(before):
		skew = before.Sub(at)
	case at.After(after):
		skew = at.Sub(after)
	}
	if skew > maxSkew {
		d.note("clock", levelWarn, fmt.Sprintf("the server's clock and this one differ by %s", shortTime(skew)), "set them by NTP")
	} else {
		d.note("clock", levelOK, "as the server's", "")
	}
}

// Lags that are no matter of a moment.
const (
	longLag  = 10_000   // messages
	longTail = 64 << 20 // bytes
)

// lags tells how far each step is behind the one before it.
func (d *doctor) lags(ctx context.Context) {
	const name = "lags"
	ctx, cancel := soon(ctx)
	defer cancel()
	spool, err := worker.ReadBacklog(d.app.runsDir())
	if err != nil {
		d.note(name, levelWarn, fmt.Sprintf("the run directories cannot be read: %v", err), "")
		return
	}
	lag, err := d.caller.bus.Lag(ctx)
	if err != nil {
		d.note(name, levelFail, first(err), "")
		return
	}
	text := fmt.Sprintf("spools of %d runs %s ahead of RAW, RAW %d entries ahead of EVENTS, EVENTS %d ahead of RUNS",
		spool.Runs, shortBytes(spool.Bytes), lag.Raw, lag.Events)
	switch {
	case spool.Bytes > longTail:
		d.note(name, levelWarn, text, "look whether a worker is at work here, and RAW has room")
	case lag.Raw > longLag || lag.Events > longLag:
		d.note(name, levelWarn, text, "look again in a moment: if it grows, the log of the normalizer says why")
	default:
		d.note(name, levelOK, text, "")
	}
}

func (d *doctor) responder(ctx context.Context) {
	begun := time.Now()
	a, err := d.caller.ask(ctx, answerTime, "_codex_local_status", map[string]any{"limit": 1})
	switch {
	case errors.Is(err, bus.ErrNoResponder):
		d.note("responder", levelFail, "none answers", "start `linesman up`, or `linesman responder`")
	case err != nil:
		d.note("responder", levelFail, first(err), "")
	case a.Error != nil:
		d.note("responder", levelFail, a.Error.text(""), "look at its log")
	default:
		var s snapshot
		if err := a.read(&s); err != nil {
			d.note("responder", levelFail, err.Error(), "")
			return
		}
		d.note("responder", levelOK, fmt.Sprintf("answers in %s; %d runs work, %d wait", time.Since(begun).Round(10*time.Microsecond), s.Summary.Running, s.Summary.Queued), "")
	}
}

// worker listens for a moment to who is at work.
func (d *doctor) worker(ctx context.Context) {
	const name = "worker"
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	queue := d.app.config.Work.Queue
	slots, busy := map[string]int{}, map[string]int{}
	var quiet *time.Timer // what is remembered comes at once
	err := d.caller.bus.WatchBeats(ctx, func(b runs.Beat, at time.Time) {
		if b.Slots > 0 && b.Queue == queue && time.Since(at) < d.app.config.LostAfter {
			slots[b.Name], busy[b.Name] = b.Slots, b.Busy
		}
		if quiet == nil {
			quiet = time.AfterFunc(300*time.Millisecond, cancel)
		}
	})
	if quiet != nil {
		quiet.Stop()
	}
	switch {
	case err != nil:
		d.note(name, levelFail, first(err), "")
	case len(slots) == 0:
		d.note(name, levelFail, "none takes tasks of the queue "+queue, "start `linesman up`, or `linesman worker`, with work.max_runs above 0")
	default:
		all, taken := 0, 0
		for worker, n := range slots {
			all, taken = all+n, taken+busy[worker]
		}
		d.note(name, levelOK, fmt.Sprintf("%d at work for the queue %s, %d of %d slots are taken", len(slots), queue, taken, all), "")
	}
}

func (d *doctor) http(ctx context.Context) {
	const name = "http"
	if d.here.HTTP == "" {
		d.note(name, levelSkip, "no `linesman up` here says where it is", "")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.here.HTTP+"/healthz", nil)
	if err != nil {
		d.note(name, levelFail, err.Error(), "")
		return
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy
	response, err := client.Do(request)
	if err != nil {
		d.note(name, levelFail, err.Error(), "start `linesman up` again")
		return
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		d.note(name, levelFail, fmt.Sprintf("%s/healthz answers %d", d.here.HTTP, response.StatusCode), "look at the log of `linesman up`")
		return
	}
	d.note(name, levelOK, d.here.HTTP+", MCP at /mcp", "")
}

// first is the first line of an error.
func first(err error) string { return firstLine(err.Error()) }
