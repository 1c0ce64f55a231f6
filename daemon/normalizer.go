package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/linesman/linesman/config"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/cloud"
	"github.com/linesman/linesman/normalizer/external"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
)

// backends returns all that a normalizer understands: the agents, the records of
// the cloud driver, and requests that are answered from outside. With the setting
// scrub they replace secrets in texts.
func (c Config) backends() []normalizer.Backend {
	s := c.Settings
	s.Scrub = c.scrubs()
	return Scrubbed(s, append(c.Agents.Backends(), cloud.Backend{}, external.Backend{})...)
}

// scrubs is the present setting scrub.
func (c Config) scrubs() bool {
	if c.now == nil {
		return c.Settings.Scrub
	}
	scrub, _ := c.now.scrubs()
	return scrub
}

// Scrubbed returns backends that replace secrets in texts, if the setting scrub
// demands it.
func Scrubbed(s config.Config, all ...normalizer.Backend) []normalizer.Backend {
	if s.Scrub {
		for i, b := range all {
			all[i] = normalizer.Scrubbed(b, runs.Scrub)
		}
	}
	return all
}

// newNormalizer builds a normalizer over the connection of its user. It expects
// the streams to exist, or its Prepare creates them.
func newNormalizer(b *bus.Bus, c Config) *pipeline.Normalizer {
	all := c.backends()
	kinds := make([]string, len(all))
	for i, backend := range all {
		kinds[i] = backend.Agent()
	}
	return &pipeline.Normalizer{
		Bus: b, Out: b.Names, Backends: all, MaxLine: int(c.Settings.MaxLineBytes), By: c.foldsBy(), Log: c.Log,
		Metrics: metrics.NewNormalizer(c.Registry, kinds, c.Agents),
	}
}

// ensure creates and configures the streams, and logs each change. Sizes that are
// not configured become shares of the disk of dir, if that is not empty. With keepRaw entries
// of RAW do not expire.
func (c Config) ensure(ctx context.Context, b *bus.Bus, dir string, keepRaw bool) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s := c.Settings
	l := bus.Limits{
		RawAge: s.Raw.MaxAge, EventsAge: s.Events.MaxAge, RunsAge: s.Runs.MaxAge,
		RawBytes: int64(s.Raw.MaxBytes), EventsBytes: int64(s.Events.MaxBytes), RunsBytes: int64(s.Runs.MaxBytes),
		Replicas: s.Replicas,
	}
	if keepRaw {
		l.RawAge = 0
	}
	var disk unix.Statfs_t
	if dir != "" && unix.Statfs(dir, &disk) == nil {
		l.Disk = int64(disk.Bavail) * int64(embedded.DiskUnit(&disk))
	}
	changed, err := b.Ensure(ctx, l)
	for _, change := range changed {
		c.Log.Warn("changed as configured", zap.String("what", change))
	}
	return err
}

// quiet returns err, or nil if a context was cancelled.
func quiet(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// readChunk is how many bytes Normalize reads at once. Only a line at the end of a read is
// copied.
const readChunk = 512 << 10

// normalizeGC is the growth of memory between two garbage collections, in percent: a fold
// keeps a few MiB, and all the rest is garbage once it is printed.
const normalizeGC = 800

// Normalize derives the events of the output of an agent, and prints them as lines
// after each read, because the input may be a pipe that stays open. With an exit
// code, the last line is the completion of the run.
func Normalize(in io.Reader, b normalizer.Backend, maxLine int, exitCode *int, print func(lines []byte) error) error {
	var lines []byte
	fold := normalizer.NewFold(b, "T-local-stdin", maxLine)
	fold.Use(&normalizer.Workspace{Reuse: true}) // each message is copied to lines
	apply := func(seq uint64, e runs.Entry) error {
		lines = lines[:0]
		fold.Apply(seq, e, func(m normalizer.Message) {
			if m.Token != normalizer.CompletionToken || exitCode != nil {
				lines = append(append(lines, m.Body...), '\n')
			}
		})
		if err := print(lines); err != nil {
			return fmt.Errorf("stdout: %w", err)
		}
		return nil
	}
	defer debug.SetGCPercent(debug.SetGCPercent(normalizeGC))
	chunk := make([]byte, readChunk)
	var offset int64
	for seq := uint64(1); ; seq++ {
		n, err := in.Read(chunk)
		failed := apply(seq, runs.Entry{Kind: runs.Out, Offset: offset, Body: chunk[:n]})
		offset += int64(n)
		switch {
		case failed != nil:
			return failed
		case errors.Is(err, io.EOF):
			exit := runs.Exit{Reason: runs.ReasonEOF}
			if exitCode != nil {
				exit = runs.Exit{Reason: runs.ReasonExited, Code: exitCode}
			}
			return apply(seq+1, runs.Entry{Kind: runs.Exited, Body: runs.Encode(exit)})
		case err != nil:
			return fmt.Errorf("stdin: %w", err)
		}
	}
}
