// Package doctor checks what linesman needs on a machine: the data directory,
// the server and its streams, the roles, the agents' programs, and limits of the
// system. It changes nothing, except for a key that proves that the streams
// store what is written. Its checks are values, whose texts contain no secret and
// may contain text of other programs: escape them on a terminal.
package doctor

import (
	"context"
	"fmt"
	"io"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/local"
)

// Level is the outcome of a check, in the form that is printed.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn" // unusual, but it works
	Fail Level = "FAIL" // it does not work
	Skip Level = "skip" // could not be checked
)

// Check is the outcome of one check.
type Check struct {
	Name  string `json:"name"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"` // what to do about it
}

// examination has the state of one Examine.
type examination struct {
	dialer   *local.Dialer
	Settings config.Config
	here     local.Instance // of the `up` of the data directory; zero if there is none
	bus      *bus.Bus       // nil if NATS is unreachable
	table    agent.Table
	checks   []Check
}

// Examine runs all checks, one after the other. The programs of the agents in table are
// among them.
func Examine(ctx context.Context, d *local.Dialer, table agent.Table) []Check {
	x := &examination{dialer: d, Settings: d.Config, table: table}
	x.note("settings", OK, "all of them are valid", "") // they were loaded
	x.run(ctx, "data", x.dataDirectory)
	x.run(ctx, "shims", x.shims)
	x.server(ctx)
	if x.bus != nil {
		defer x.bus.Close()
		x.run(ctx, "users", x.users)
		x.streams(ctx)
		x.run(ctx, "lags", x.lags)
		x.run(ctx, "readers", x.readers)
		x.limited()
		x.run(ctx, "responder", x.responder)
		x.run(ctx, "worker", x.worker)
		x.run(ctx, "drift", x.drift)
	} else {
		for _, name := range []string{"users", "streams", "lags", "readers", "responder", "worker", "drift"} {
			x.note(name, Skip, "NATS is unreachable", "")
		}
	}
	x.run(ctx, "http", x.http)
	x.agents(ctx)
	x.run(ctx, "roots", x.roots)
	x.run(ctx, "git", x.git)
	x.run(ctx, "inotify", x.inotify)
	return x.checks
}

func (x *examination) note(name string, level Level, text, do string) {
	x.checks = append(x.checks, Check{name, level, text, do})
}

// run runs a check of one outcome: its level, its text, and what to do about it.
func (x *examination) run(ctx context.Context, name string, check func(context.Context) (Level, string, string)) {
	ctx, cancel := soon(ctx)
	defer cancel()
	level, text, do := check(ctx)
	x.note(name, level, text, do)
}

// Print prints the checks for people, with the colours of r.
func Print(w io.Writer, r *console.Renderer, checks []Check) error {
	colors := map[Level]string{OK: console.Green, Warn: console.Yellow, Fail: console.Red, Skip: console.Dim}
	for _, c := range checks {
		text := c.Text
		if c.Do != "" {
			text += "; " + c.Do
		}
		level := r.Paint(colors[c.Level], fmt.Sprintf("%-4s", c.Level))
		if _, err := fmt.Fprintf(w, "%s  %-9s  %s\n", level, c.Name, console.Safe(text)); err != nil {
			return err
		}
	}
	return nil
}

// Health checks that the server accepts and stores data, and that a normalizer
// keeps up. It uses the keys of any user, and returns which user that is and what
// the keys do not permit to check. The error is the reason why it is not healthy.
func Health(ctx context.Context, d *local.Dialer) (user string, unchecked []string, err error) {
	ctx, cancel := soon(ctx)
	defer cancel()
	user = d.AnyUser()
	b, err := d.Dial(ctx, user)
	if err != nil {
		return user, nil, err
	}
	defer b.Close()
	unchecked, err = b.HealthAs(ctx, embedded.Permitted(b.Names, user))
	return user, unchecked, err
}
