package daemon

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/cloud"
	"github.com/linesman/linesman/normalizer/codex"
	"github.com/linesman/linesman/normalizer/external"
	"github.com/linesman/linesman/runs"
)

// Agents returns the backends of the agents that write their output themselves.
// With scrub they replace secrets in texts.
func Agents(scrub bool) []normalizer.Backend { return scrubbed(scrub, codex.Backend{}) }

// backends returns all that a normalizer understands: the agents, the records of
// the cloud driver, and requests that are answered from outside.
func backends(scrub bool) []normalizer.Backend {
	return append(Agents(scrub), scrubbed(scrub, cloud.Backend{}, external.Backend{})...)
}

func scrubbed(scrub bool, all ...normalizer.Backend) []normalizer.Backend {
	if scrub {
		for i, b := range all {
			all[i] = normalizer.Scrubbed(b, runs.Scrub)
		}
	}
	return all
}

// newNormalizer builds a normalizer over the connection of its user. It expects
// the streams to exist, or its Prepare creates them.
func newNormalizer(b *bus.Bus, c Config) *pipeline.Normalizer {
	return &pipeline.Normalizer{
		Bus: b, Out: b.Names, Backends: backends(c.Settings.Scrub), MaxLine: int(c.Settings.MaxLineBytes), Log: c.Log,
	}
}

// ensure creates and configures the streams, and logs each change. Sizes that are
// not configured become shares of the disk of dir, if that is not empty.
func (c Config) ensure(ctx context.Context, b *bus.Bus, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	changed, err := b.Ensure(ctx, c.limits(dir))
	for _, change := range changed {
		c.Log.Warn("changed as configured", zap.String("what", change))
	}
	return err
}

func (c Config) limits(dir string) bus.Limits {
	s := c.Settings
	l := bus.Limits{
		RawAge: s.Raw.MaxAge, EventsAge: s.Events.MaxAge, RunsAge: s.Runs.MaxAge,
		RawBytes: int64(s.Raw.MaxBytes), EventsBytes: int64(s.Events.MaxBytes), RunsBytes: int64(s.Runs.MaxBytes),
		Replicas: s.Replicas,
	}
	var fs unix.Statfs_t
	if dir != "" && unix.Statfs(dir, &fs) == nil {
		l.Disk = int64(fs.Bavail) * int64(fs.Bsize)
	}
	return l
}

// quiet returns err, or nil if a context was cancelled.
func quiet(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
