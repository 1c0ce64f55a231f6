package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

type normalizeCmd struct {
	Agent        agentKind `default:"codex" placeholder:"KIND" help:"The dialect of the input."`
	ExitCode     *int      `name:"exit-code" placeholder:"N" help:"Exit code of the process that printed it: then the completion is printed, too."`
	MaxLineBytes string    `name:"max-line-bytes" setting:"max_line_bytes" placeholder:"SIZE" help:"${max_line_bytes}"`
}

func (c *normalizeCmd) check(a *app) error {
	_, err := a.backend(c.Agent)
	if c.ExitCode != nil && (*c.ExitCode < 0 || *c.ExitCode > 255) {
		err = errors.Join(err, fmt.Errorf("--exit-code: must be from 0 to 255, got %d", *c.ExitCode))
	}
	return err
}

func (c *normalizeCmd) Run(_ context.Context, a *app) error {
	b, err := a.backend(c.Agent)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(a.stdout)
	var failed error
	emit := func(m normalizer.Message) {
		if m.Token == normalizer.CompletionToken && c.ExitCode == nil || failed != nil {
			return
		}
		if _, failed = out.Write(console.JSONFor(a.stdout, m.Body)); failed == nil {
			failed = out.WriteByte('\n')
		}
	}
	fold := normalizer.NewFold(b, "T-local-stdin", int(a.config.MaxLineBytes))
	chunk := make([]byte, runs.MaxChunk)
	var offset int64
	var seq uint64
	for failed == nil {
		n, err := a.stdin.Read(chunk)
		seq++
		fold.Apply(seq, runs.Entry{Kind: runs.Out, Offset: offset, Body: chunk[:n]}, emit)
		offset += int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("stdin: %w", err)
		}
		if failed == nil {
			failed = out.Flush() // what was read is shown: the input may be a pipe that stays open
		}
	}
	exit := runs.Exit{Reason: runs.ReasonEOF}
	if c.ExitCode != nil {
		exit = runs.Exit{Reason: runs.ReasonExited, Code: c.ExitCode}
	}
	fold.Apply(seq+1, runs.Entry{Kind: runs.Exited, Body: runs.Encode(exit)}, emit)
	if failed == nil {
		failed = out.Flush()
	}
	if failed != nil {
		return fmt.Errorf("stdout: %w", failed)
	}
	return nil
}
