package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/linesman/linesman/config"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/cloud"
	"github.com/linesman/linesman/normalizer/external"
	"github.com/linesman/linesman/runs"
)

// backends returns all that a normalizer understands: the agents, the records of
// the cloud driver, and requests that somebody outside answers. With the setting
// scrub they replace secrets in texts.
func (c Config) backends() []normalizer.Backend {
	return Scrubbed(c.Settings, append(c.Agents.Backends(), cloud.Backend{}, external.Backend{})...)
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

// NewNormalizer builds a normalizer over the connection of its user. It expects
// the streams to exist; see [WithStreams].
func NewNormalizer(b *bus.Bus, c Config) *pipeline.Normalizer {
	c = c.withDefaults()
	return &pipeline.Normalizer{
		Bus: b, Out: b.Names, Backends: c.backends(), MaxLine: int(c.Settings.MaxLineBytes), Log: c.Log,
	}
}

// WithStreams has a normalizer create missing streams and configure the others, as
// the normalizer of a cluster must.
func WithStreams(n *pipeline.Normalizer, c Config) *pipeline.Normalizer {
	c = c.withDefaults()
	n.Prepare = func(ctx context.Context) error { return c.ensure(ctx, n.Bus, "") }
	return n
}

// Rebuild derives events and run records again, as [pipeline.Rebuild] does.
func Rebuild(ctx context.Context, b *bus.Bus, c Config) (pipeline.Rebuilt, error) {
	c = c.withDefaults()
	return pipeline.Rebuild(ctx, b, c.backends(), int(c.Settings.MaxLineBytes), c.Log)
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

// quiet makes an end that was asked for no error.
func quiet(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
