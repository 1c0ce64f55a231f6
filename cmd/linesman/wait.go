package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
)

type waitCmd struct {
	Run_    runID         `arg:"" name:"run" help:"Id of the run."`
	Timeout time.Duration `placeholder:"DURATION" help:"Wait no longer than this, in whole seconds; the run goes on. By default for ever."`
	JSON    bool          `name:"json" help:"Print the responder's answer, a v3.6 envelope, on one line."`
}

// Help is printed by `linesman wait --help`.
func (waitCmd) Help() string {
	return `Waits until a run has ended and prints its result. On a terminal the bottom line shows the progress of the run. Ctrl-C
ends this command, not the run. If the responder becomes unavailable, the command waits up to 30 s for its return.

Examples:

    linesman wait T-local-0mwqeheq41ojmir && git diff
    linesman wait --timeout 10m --json T-local-0mwqeheq41ojmir | jq -r .data.state

Exit status: 0 the run completed, 1 it ended otherwise, or something failed, 2 bad flags or settings, 3 NATS or the
responder is out of reach, 4 there is no such run, 124 --timeout passed.`
}

func (c *waitCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	if c.Timeout < 0 {
		return exitWith(exitUsage, fmt.Errorf("--timeout: must not be negative, got %s", c.Timeout))
	}
	caller, err := a.caller(ctx)
	if err != nil {
		return err
	}
	defer caller.bus.Close()
	return caller.wait(ctx, c.Run_, c.Timeout, c.JSON)
}

// A wait asks anew every waitSlice, for an answer can be lost with the
// responder that owed it, and ends when there was no responder for maxResponderOutage.
const (
	waitSlice          = 30 * time.Second
	maxResponderOutage = 30 * time.Second
)

// firstDraw is how long a wait lasts before it draws its line: a run that has
// ended is told without one.
const firstDraw = 100 * time.Millisecond

// wait waits for the end of a run, at most for timeout unless that is 0, and
// tells what came of it.
func (c *caller) wait(ctx context.Context, run runID, timeout time.Duration, asJSON bool) error {
	type outcome struct {
		answer
		err error
	}
	ended := make(chan outcome, 1)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		a, err := c.end(waiting, run, timeout)
		ended <- outcome{a, err}
	}()
	c.app.log.Debug("waiting", zap.String("run", string(run)))
	line := c.progressLine(run)
	redraw := time.NewTimer(firstDraw)
	defer redraw.Stop()
	for {
		select {
		case o := <-ended:
			line.erase()
			if ctx.Err() != nil {
				return exitWith(exitFailed, fmt.Errorf("no longer waiting; run %s goes on", run))
			}
			if o.err != nil {
				return o.err
			}
			return c.tellEnd(o.answer, run, asJSON)
		case <-redraw.C:
			line.draw(ctx)
			redraw.Reset(time.Second)
		}
	}
}

// end asks until the run has ended or the time is over, and returns the last
// answer.
func (c *caller) end(ctx context.Context, run runID, timeout time.Duration) (answer, error) {
	began := time.Now()
	var met bool       // there was a responder
	var lost time.Time // since when none does
	for {
		slice := waitSlice
		if timeout > 0 {
			slice = min(slice, max(timeout-time.Since(began), time.Second))
		}
		a, err := c.ask(ctx, slice+5*time.Second, run.tool("wait"), map[string]any{"task_id": run, "timeout_sec": wholeSeconds(slice)})
		over := timeout > 0 && time.Since(began) >= timeout
		if err == nil {
			if a.Error == nil || !a.Error.late() || over {
				return a, nil
			}
			met, lost = true, time.Time{}
			continue
		}
		if lost.IsZero() {
			lost = time.Now()
		}
		nobody := errors.Is(err, bus.ErrNoResponder)
		switch {
		case ctx.Err() != nil, exitCode(err) != exitNATS, errors.Is(err, bus.ErrRefused), nobody && !met, time.Since(lost) > maxResponderOutage:
			return answer{}, err
		case over:
			return answer{}, exitWith(exitTimeout, fmt.Errorf("run %s has not ended, as far as is known: %w", run, err))
		}
		met = met || !nobody
		select { // it may be on its way back
		case <-ctx.Done():
			return answer{}, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// late reports whether an error says that a run has not ended within the time
// that was to be waited.
func (p *problem) late() bool { return p.Code == "TIMEOUT" && p.Details.TimeoutType == "wait" }

// tellEnd prints the answer of a wait.
func (c *caller) tellEnd(a answer, run runID, asJSON bool) error {
	if a.Error != nil && a.Error.late() {
		if asJSON {
			if err := a.writeEnvelope(c.app.stdout); err != nil {
				return err
			}
		}
		return exitWith(exitTimeout, fmt.Errorf("run %s has not ended: it is %s", run, safeWord(a.Error.Details.State)))
	}
	var r result
	if a.Error == nil {
		if err := a.read(&r); err != nil {
			return err
		}
	}
	err := c.finish(a, asJSON, nil, run, func() error { return r.print(newRenderer(c.app.stdout, c.app.environ)) })
	if err == nil && r.State != "completed" {
		err = exitWith(exitFailed, nil) // the answer says it all
	}
	return err
}

// progressLine is the line at the bottom of a terminal that says how far a run
// is. It is on stderr, for what comes of the run goes to stdout, which may lead
// elsewhere. On anything but a terminal there is none.
type progressLine struct {
	caller *caller
	run    runID
	on     *renderer
}

func (c *caller) progressLine(run runID) *progressLine {
	return &progressLine{c, run, newRenderer(c.app.stderr, c.app.environ)}
}

// draw asks how the run stands and says so; without an answer the line stays
// as it is.
func (p *progressLine) draw(ctx context.Context) {
	if !p.on.terminal {
		return
	}
	a, err := p.caller.ask(ctx, 2*time.Second, p.run.tool("status"), p.run.named())
	var s snapshot
	if err != nil || a.Error != nil || a.read(&s) != nil {
		return
	}
	rows := s.rows(time.Now())
	if len(rows) != 1 {
		return
	}
	line := fold(rows[0].state+"  "+rows[0].about, max(p.on.width()-1, 8))[0]
	_ = p.on.screen.show(p.on.out, "", p.on.paint(dim, line)) // a terminal that has gone needs none
}

// erase takes the line away. A terminal that has gone needs none.
func (p *progressLine) erase() { _ = p.on.close() }
