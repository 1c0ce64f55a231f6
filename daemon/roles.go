package daemon

import (
	"context"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/daemon/memory"
	"github.com/linesman/linesman/worker/launch"
)

// limitMemory keeps what this process takes of memory and processors small until the returned function is called.
func (c Config) limitMemory(ctx context.Context) (stop func()) {
	if err := memory.Limit(int64(c.Settings.Memory)); err != nil {
		c.Log.Warn("memory is not limited", zap.Error(err))
	}
	ctx, cancel := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { memory.Keep(ctx) })
	keeping.Go(func() { keepProcessors(ctx, useWindow) })
	return func() {
		cancel()
		keeping.Wait()
	}
}

// RunWorker runs a worker at the server of the dialer, until ctx ends.
func RunWorker(ctx context.Context, c Config) error {
	c = c.withDefaults()
	defer c.limitMemory(ctx)()
	defer c.obey()()
	return c.boundedRole(ctx, "--http", func(ctx context.Context, dialed func(connected)) error {
		b, err := c.Dialer.DialWithRetry(ctx, embedded.WorkerUser)
		if err != nil {
			return quiet(err)
		}
		defer b.Close()
		w, err := newWorker(b, c)
		if err != nil {
			return err
		}
		dialed(w)
		c.Log.Info("worker ready", zap.String("name", w.worker.Name()), zap.Int("slots", c.Settings.Work.MaxRuns))
		return w.run(ctx)
	})
}

// RunNormalizer runs a normalizer at the server of the dialer, until ctx ends. It
// creates the streams that are missing, unless that server is the one of a data
// directory, which does so.
func RunNormalizer(ctx context.Context, c Config) error {
	c = c.withDefaults()
	defer c.limitMemory(ctx)()
	defer c.obey()()
	return c.boundedRole(ctx, "--http", func(ctx context.Context, dialed func(connected)) error {
		b, err := c.Dialer.DialWithRetry(ctx, embedded.NormalizerUser)
		if err != nil {
			return quiet(err)
		}
		defer b.Close()
		n := newNormalizer(b, c)
		if c.Settings.NATS != "" {
			n.Prepare = func(ctx context.Context) error { return c.ensure(ctx, b, "", false) }
		}
		dialed(single{n})
		c.Log.Info("normalizer ready")
		return c.normalize(ctx, n)
	})
}

// RunResponder runs a [responderRole] at the server of the dialer, until ctx ends. It
// calls ready once requests are answered.
func RunResponder(ctx context.Context, c Config, ready func(url string)) error {
	c = c.withDefaults()
	defer c.limitMemory(ctx)()
	defer c.obey()()
	if _, _, err := c.Dialer.Logins(embedded.ResponderUser); err != nil { // no waiting repairs it
		return err
	}
	r, err := newResponder(c, c.Dialer.DialWithRetry)
	if err != nil {
		return err
	}
	return c.boundedRole(ctx, "monitor_http", func(ctx context.Context, dialed func(connected)) error {
		dialed(r)
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return r.run(ctx) })
		group.Go(func() error {
			if r.listening(ctx) == nil {
				ready(r.URL())
				c.Log.Info("responder ready", zap.String("http", r.URL()))
			}
			return nil
		})
		return group.Wait()
	})
}

// instanceRules returns the rules of the worker of the `linesman up` of the data
// directory, false if it takes no tasks or is not known.
func (c Config) instanceRules() (launch.Rules, bool) {
	here, err := datadir.ReadInstance(c.Settings.DataDir)
	return launch.Rules{Dir: here.Dir, Roots: here.Roots}, c.Settings.NATS == "" && err == nil && len(here.Roots) > 0
}
