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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon/datadir"
)

// level is the outcome of a check, in the form that is printed.
type level string

// The levels.
const (
	fine level = "ok"
	warn level = "warn" // unusual, but it works
	Fail level = "FAIL" // it does not work
	skip level = "skip" // could not be checked
)

// Check is the outcome of one check.
type Check struct {
	Name  string `json:"name"`
	Level level  `json:"level"`
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"` // what to do about it
}

// examination has the state of one Examine.
type examination struct {
	dialer   *datadir.Dialer
	Settings config.Config
	here     datadir.Instance // of the `up` of the data directory; zero if there is none
	bus      *bus.Bus         // nil if NATS is unreachable
	table    agent.Table
	ask      time.Duration // as of [programs.Here]
	now      func() time.Time
	checks   []Check
	told     told

	done chan struct{} // of one step: closed once its checks are there
}

// told is what the workers at work say of themselves. They may have other settings than these.
type told struct{ agents, roots []string }

// correct returns a check of these settings as it is for the workers at work.
func (t told) correct(c Check) Check {
	switch {
	case c.Name == "agents" && len(t.agents) > 0:
		return Check{c.Name, fine, "none is found with these settings; workers have " + strings.Join(t.agents, ", "), ""}
	case c.Name == "roots" && len(t.roots) > 0:
		c.Text = "tasks may work in " + strings.Join(t.roots, ", ") + ", as the workers say"
	}
	return c
}

// step is a part of an examination, with one check or several.
type step struct {
	name  string
	needs bool // NATS
	do    func(x *examination, ctx context.Context)
}

// one is a step with one check.
func one(name string, needs bool, check func(*examination, context.Context) (level, string, string)) step {
	return step{name, needs, func(x *examination, ctx context.Context) {
		x.run(ctx, name, func(ctx context.Context) (level, string, string) { return check(x, ctx) })
	}}
}

// serverStep finds the server. Those of served are behind it, the others are done meanwhile.
var (
	serverStep = step{"server", false, (*examination).server}
	before     = []step{one("data", false, (*examination).dataDirectory), one("shims", false, (*examination).shims)}
	served     = []step{
		one("users", true, (*examination).users),
		{"streams", true, (*examination).streams},
		one("lags", true, (*examination).lags),
		{"readers", true, func(x *examination, ctx context.Context) {
			x.run(ctx, "readers", x.readers)
			x.limited()
		}},
		one("responder", true, (*examination).responder),
		one("worker", true, (*examination).worker),
		one("drift", true, (*examination).drift),
		one("http", false, (*examination).http),
	}
	others = []step{
		{"agents", false, (*examination).agents},
		one("roots", false, (*examination).roots),
		one("git", false, (*examination).git),
		one("inotify", false, (*examination).inotify),
	}
)

// Examine runs all checks, at the same time as far as they do not need each other, and returns
// them in a fixed order. The programs of the agents in table are among them. Whenever one ends
// it calls waits, which may be nil, with the names of those that are still running.
func Examine(ctx context.Context, d *datadir.Dialer, table agent.Table, waits func(names []string)) []Check {
	return (&examination{dialer: d, Settings: d.Config, table: table, now: time.Now}).all(ctx, waits)
}

func (x *examination) all(ctx context.Context, waits func(names []string)) []Check {
	x.note("settings", fine, "all of them are valid", "") // they were loaded
	r := &round{ctx: ctx, x: x, waits: waits}
	first := r.begin(before)
	last := r.begin(others)
	server := r.begin([]step{serverStep})
	r.wait(server)
	x.bus, x.here = server[0].bus, server[0].here
	if x.bus != nil {
		defer x.bus.Close()
	}
	middle := r.begin(served)
	for _, results := range [][]*examination{first, server, middle, last} {
		r.wait(results)
		for _, result := range results {
			x.told.agents = append(x.told.agents, result.told.agents...)
			x.told.roots = append(x.told.roots, result.told.roots...)
			for _, c := range result.checks {
				x.checks = append(x.checks, x.told.correct(c))
			}
		}
	}
	return x.checks
}

// round is an examination in progress.
type round struct {
	ctx   context.Context
	x     *examination
	waits func(names []string)

	mu      sync.Mutex
	running []string
}

// begin starts steps, each with the facts that are known so far.
func (r *round) begin(steps []step) (results []*examination) {
	for _, s := range steps {
		x := &examination{
			dialer: r.x.dialer, Settings: r.x.Settings, table: r.x.table, ask: r.x.ask, now: r.x.now, bus: r.x.bus,
			here: r.x.here, done: make(chan struct{}),
		}
		results = append(results, x)
		if s.needs && x.bus == nil {
			x.note(s.name, skip, "NATS is unreachable", "")
			close(x.done)
			continue
		}
		r.change(func() { r.running = append(r.running, s.name) })
		go func() { // until the check ends, which is bounded; wait waits for it
			defer close(x.done)
			s.do(x, r.ctx)
			r.change(func() {
				r.running = slices.DeleteFunc(r.running, func(name string) bool { return name == s.name })
			})
		}()
	}
	return results
}

func (r *round) wait(results []*examination) {
	for _, x := range results {
		<-x.done
	}
}

// change changes the list of running steps, and tells it.
func (r *round) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	if r.waits != nil {
		r.waits(slices.Clone(r.running))
	}
}

func (x *examination) note(name string, level level, text, do string) {
	x.checks = append(x.checks, Check{name, level, text, do})
}

// run runs a check of one outcome: its level, its text, and what to do about it.
func (x *examination) run(ctx context.Context, name string, check func(context.Context) (level, string, string)) {
	ctx, cancel := soon(ctx)
	defer cancel()
	level, text, do := check(ctx)
	x.note(name, level, text, do)
}

// Print prints the checks for people, with the colours of r.
func Print(w io.Writer, r *console.Renderer, checks []Check) error {
	colors := map[level]string{fine: console.Green, warn: console.Yellow, Fail: console.Red, skip: console.Dim}
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
func Health(ctx context.Context, d *datadir.Dialer) (user string, unchecked []string, err error) {
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
