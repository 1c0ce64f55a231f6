package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// input is files with the output of agents of one kind; each file becomes a run.
type input struct {
	agent  string // as flags name it
	files  []string
	lines  int
	bytes  int64
	events uint64 // that follow from them
}

// write writes a file of the input.
func (in *input) write(file string, backend normalizer.Backend, out []byte) error {
	in.files = append(in.files, file)
	in.lines += bytes.Count(out, []byte{'\n'})
	in.bytes += int64(len(out))
	in.events += expected(backend, out)
	return os.WriteFile(file, out, 0o600)
}

// input writes out as a number of files of Codex, in whole lines.
func (h *harness) input(out []byte, files int) (in input, err error) {
	dir, err := os.MkdirTemp(h.dir, "input-")
	if err != nil {
		return in, err
	}
	in.agent = "codex"
	codex, _ := known.Agents.Find("codex")
	for i := range files {
		rest := out
		if left := files - i; left > 1 {
			rest = out[:bytes.IndexByte(out[len(out)/left:], '\n')+len(out)/left+1]
		}
		out = out[len(rest):]
		if err := in.write(filepath.Join(dir, fmt.Sprintf("%d.jsonl", i)), codex.Backend, rest); err != nil {
			return in, err
		}
	}
	return in, nil
}

// recordings writes each recorded run of the corpus a number of times. It returns an
// input for each agent.
func (h *harness) recordings(copies int) (all []input, err error) {
	for _, a := range known.Agents {
		paths, err := filepath.Glob(filepath.Join("test", "corpus", a.Short, "*.jsonl"))
		if err != nil {
			return nil, err
		}
		dir, err := os.MkdirTemp(h.dir, "recorded-")
		if err != nil {
			return nil, err
		}
		in := input{agent: a.Short}
		for _, path := range paths {
			out, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			for i := range copies {
				if err := in.write(filepath.Join(dir, fmt.Sprint(i, "-", filepath.Base(path))), a.Backend, out); err != nil {
					return nil, err
				}
			}
		}
		all = append(all, in)
	}
	return all, nil
}

// expected returns the number of events that follow from the output of a run that
// linesman imports or starts.
func expected(backend normalizer.Backend, out []byte) (n uint64) {
	f := normalizer.NewFold(backend, "T-local-bench", 0)
	for i, e := range []runs.Entry{
		{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: "tail"})},
		{Kind: runs.Out, Time: 1, Body: out},
		{Kind: runs.Exited, Time: 2, Body: runs.Encode(runs.Exit{Reason: runs.ReasonEOF})},
	} {
		f.Apply(uint64(i+1), e, func(normalizer.Message) { n++ })
	}
	return n
}

// ingested is how long a cell needed.
type ingested struct {
	stored time.Duration // until all events were stored
	ended  time.Duration // until the commands had ended: `tail` does when RAW has all
	procs  []*process
}

// ingest starts commands and waits until they have ended, and the events are stored. It is
// a mistake if there are fewer or more of them.
func (c *cell) ingest(ctx context.Context, want uint64, commands ...command) (r ingested, err error) {
	before, err := c.stored(ctx)
	if err != nil {
		return r, err
	}
	begun := time.Now()
	for _, start := range commands {
		p, err := c.harness.start(ctx, start)
		if err != nil {
			return r, err
		}
		r.procs = append(r.procs, p)
	}
	have := uint64(0)
	// Each look costs the server some time, so there are at most a hundred a second.
	err = until(ctx, fmt.Sprintf("%d events are stored", want), 10*time.Millisecond, func() bool {
		if now, failed := c.stored(ctx); failed == nil { // none while there is no leader
			have = now - before
		}
		return have >= want
	})
	r.stored = time.Since(begun)
	for _, p := range r.procs {
		if err != nil {
			p.stop()
			err = p.failed(err)
		} else {
			err = p.wait()
		}
		r.ended = max(r.ended, p.at.Sub(begun))
	}
	if err != nil {
		return r, fmt.Errorf("%d of %d events: %w", have, want, err)
	}
	after, err := c.stored(ctx)
	if err == nil && after-before != want {
		err = fmt.Errorf("%d events stored, want %d", after-before, want)
	}
	return r, err
}

// tail imports inputs, each with a `tail --once` of its own.
func (c *cell) tail(ctx context.Context, program string, all ...input) (ingested, error) {
	want := uint64(0)
	var commands []command
	for _, in := range all {
		want += in.events
		commands = append(commands,
			c.command(program, "tail", append([]string{"--once", "--agent", in.agent}, in.files...)...))
	}
	return c.ingest(ctx, want, commands...)
}
