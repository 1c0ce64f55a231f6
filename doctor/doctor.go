// Package doctor checks what linesman needs on a machine: the data directory,
// the server and its streams, the roles, the agent's program, and limits of the
// system. It changes nothing, except for a key that proves that the streams
// store what is written. Its checks are values, whose texts contain no secret and
// may contain text of other programs: escape them on a terminal.
package doctor

import (
	"context"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/config"
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
	checks   []Check
}

// Examine runs all checks, one after the other.
func Examine(ctx context.Context, d *local.Dialer) []Check {
	x := &examination{dialer: d, Settings: d.Config}
	x.note("settings", OK, "all of them are valid", "") // they were loaded
	x.dataDirectory()
	x.shims()
	x.server(ctx)
	if x.bus != nil {
		defer x.bus.Close()
		for _, check := range []func(context.Context){
			x.users, x.streams, x.lags, x.readers, x.limited, x.responder, x.worker,
		} {
			ctx, cancel := soon(ctx)
			check(ctx)
			cancel()
		}
	} else {
		for _, name := range []string{"users", "streams", "lags", "readers", "responder", "worker"} {
			x.note(name, Skip, "NATS is unreachable", "")
		}
	}
	x.http()
	x.agent(ctx)
	x.roots()
	x.git()
	x.inotify()
	return x.checks
}

func (x *examination) note(name string, level Level, text, do string) {
	x.checks = append(x.checks, Check{name, level, text, do})
}
