package main

import (
	"context"
	"errors"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/console"
)

type resultsCmd struct {
	Run_     runID `arg:"" name:"run" help:"Id of the run."`
	Output   bool  `help:"Show what the agent printed, too: of a run in the cloud, its diff. That of a run that failed is always shown."`
	Events   bool  `help:"Show the last events, at most 50."`
	MaxBytes int   `name:"max-output-bytes" placeholder:"N" default:"65536" help:"Most bytes of output to show, 1024 to 1048576 (default 65536): of a longer one its beginning and its end."`
	JSON     bool  `name:"json" help:"Print the responder's answer, a v3.6 envelope, on one line."`
}

// Help is printed by `linesman results --help`.
func (resultsCmd) Help() string {
	return `Tells what came of a run that has ended: its summary, the files that it changed, what tests said, tokens, what went wrong,
and the agent's answer.

Examples:

    linesman results T-local-0mwqeheq41ojmir
    linesman results --json T-local-0mwqeheq41ojmir | jq -r .data.ext.final_text

Exit status: 0 done, 1 failed, or the run has not ended, 2 bad flags or settings, 3 NATS or the responder is out of reach,
4 there is no such run.`
}

func (c *resultsCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	if c.Events && c.Run_.inCloud() {
		return exitWith(exitUsage, errors.New("--events: not for a run in the cloud; see `linesman events`"))
	}
	l, err := a.responder(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	const flag = "--max-output-bytes"
	if c.JSON {
		e, err := l.Tool(ctx, c.Run_.tool("results"), c.args())
		return a.printEnvelope(e, err, map[string]string{"max_output_bytes": flag}, c.Run_)
	}
	if c.MaxBytes == 0 { // which is the default of a request
		return exitWith(exitUsage, errors.New(flag+": must be 1024 to 1048576"))
	}
	r, err := l.Results(ctx, api.ResultsRequest{Run: string(c.Run_), ResultRequest: api.ResultRequest{
		Output: c.Output, MaxBytes: c.MaxBytes, Events: c.Events,
	}})
	if err != nil {
		return explain(err, map[string]string{"maxOutputBytes": flag}, c.Run_)
	}
	return a.shown(a.stdout).Result(r, console.ResultOptions{Ended: true, WholeText: c.Output})
}

// args are the arguments of the tool for the envelope.
func (c *resultsCmd) args() map[string]any {
	args := c.Run_.named()
	args["include_output"], args["max_output_bytes"] = c.Output, c.MaxBytes
	if c.Events {
		args["include_events"] = true
	}
	return args
}
