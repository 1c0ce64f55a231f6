package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/doctor"
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

func (c *doctorCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	checks := doctor.Examine(ctx, doctor.Config{Settings: a.config, Dialer: a.dialer(), Overview: a.overview})
	failed := false
	for _, check := range checks {
		failed = failed || check.Level == doctor.Fail
	}
	end := error(nil)
	if failed {
		end = exitWith(exitFailed, nil)
	}
	if c.JSON {
		return errors.Join(end, console.PrintJSON(a.stdout, struct {
			OK     bool           `json:"ok"`
			Checks []doctor.Check `json:"checks"`
		}{!failed, checks}))
	}
	r := a.shown(a.stdout)
	colors := map[doctor.Level]string{
		doctor.OK: console.Green, doctor.Warn: console.Yellow, doctor.Fail: console.Red, doctor.Skip: console.Dim,
	}
	for _, check := range checks {
		text := check.Text
		if check.Do != "" {
			text += "; " + check.Do
		}
		level := r.Paint(colors[check.Level], fmt.Sprintf("%-4s", check.Level))
		if _, err := fmt.Fprintf(a.stdout, "%s  %-9s  %s\n", level, check.Name, console.Safe(text)); err != nil {
			return err
		}
	}
	return end
}

// overview asks a responder for the numbers of runs that are working and waiting.
func (a *app) overview(ctx context.Context, b *bus.Bus) (working, waiting int, err error) {
	all, err := client.New(b).Overview(ctx, api.OverviewRequest{Limit: 1})
	var e *api.Error
	switch {
	case errors.As(err, &e) && e.Err == nil:
		return 0, 0, &api.Error{Code: e.Code, Message: message(e, "")}
	case err != nil:
		return 0, 0, explain(err, nil, "")
	}
	return all.Counts.Working, all.Counts.Queued, nil
}
