package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
)

// Of the stderr of an agent that failed, so much is shown.
const (
	stderrShown = 2 << 10
	stderrLines = 10
)

// tellStderr shows the end of a failed agent's stderr to whoever started it on a
// terminal, and to nobody else: it is in no event and no log.
func (a *app) tellStderr(ctx context.Context, b *bus.Bus, agent, run string, x runs.Exit) {
	failed := x.Reason == runs.ReasonExited && (x.Signal != 0 || x.Code != nil && *x.Code != 0 && *x.Code != runs.ExitNeedsAgent)
	if !failed || !newRenderer(a.stderr, a.environ).terminal {
		return
	}
	ctx, cancel := soon(ctx)
	defer cancel()
	_, said, err := b.Output(ctx, agent, run, 2*stderrShown, true)
	if err != nil {
		return // what is wrong with NATS is said elsewhere
	}
	text := bytes.TrimSpace(append(said.Head, said.Tail...))
	if len(text) == 0 {
		return
	}
	cut := len(text) > stderrShown
	text = text[max(len(text)-stderrShown, 0):]
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	if cut && len(lines) > 1 {
		lines = lines[1:] // the rest of a line
	}
	lines = lines[max(len(lines)-stderrLines, 0):]
	fmt.Fprintln(a.stderr, "linesman: the end of the agent's stderr:")
	for _, line := range lines {
		fmt.Fprintf(a.stderr, "    %s\n", safe(line))
	}
}
