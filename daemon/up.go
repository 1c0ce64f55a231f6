package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon/datadir"
)

// Up runs a [Daemon] as the `linesman up` of its data directory, whose lock the
// caller holds, until ctx ends, `linesman down` stops it, or something breaks that
// waiting does not repair. It calls ready, beside the roles, once all of them work
// and the instance file is written.
func Up(ctx context.Context, c Config, lock *datadir.Lock, ready func(context.Context, *Daemon) error) error {
	return c.up(ctx, lock, nil, func(ctx context.Context, d *Daemon, _ *datadir.Registration) error {
		return ready(ctx, d)
	})
}

// UpInBackground is [Up] in a process that [datadir.Dialer.DialOrStart] started. It
// logs to a file, and ends after the idle timeout. The error is [datadir.ErrLocked] if the process is not needed.
func UpInBackground(ctx context.Context, c Config, from config.Sources, stdout io.Writer) error {
	c.Heed()
	p, err := datadir.Detach(ctx, &c.Settings, from, stdout)
	if err != nil {
		p.Close()
		return err
	}
	defer p.Close()
	c.Settings.NATSListen, c.Settings.HTTP = p.NATSListen, p.HTTPListen
	c.Log, c.Level = NewLeveledLogger(c.Settings, p.Log)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = c.up(ctx, p.Lock, p, func(ctx context.Context, d *Daemon, r *datadir.Registration) error {
		c.Log.Info("ready", zap.String("nats", d.Server.URL()), zap.String("http", d.Responder.URL()))
		if err := p.Ready(d.Server.URL()); err != nil {
			return err
		}
		if r.AwaitIdle(ctx, d, c.Settings.Background.Idle) {
			c.Log.Info("idle, ending", zap.Duration("for", c.Settings.Background.Idle))
			cancel()
		}
		return nil
	})
	if err != nil && !p.Log.IsStderr() { // else stderr is the log
		c.Log.Error("cannot start", zap.Error(err))
	}
	return err
}

// up is [Up], or [UpInBackground] if the process is detached.
func (c Config) up(
	ctx context.Context, lock *datadir.Lock, detached *datadir.Detached,
	ready func(context.Context, *Daemon, *datadir.Registration) error,
) error {
	c = c.withDefaults()
	defer c.limitMemory(ctx)()
	defer c.obey()()
	data := c.Settings.DataDir
	if err := os.Remove(datadir.InstanceFile(data)); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a kill
		return fmt.Errorf("data directory: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	here := datadir.Instance{
		TokenFile: tokenFile(c.Settings), Data: data, PID: os.Getpid(), Version: c.Version, Program: self,
		Background: detached != nil,
	}
	return c.bounded(ctx, func(ctx context.Context, end func()) error {
		return c.serve(ctx, end, here, lock, detached, ready)
	})
}

// serve starts a daemon and runs it until ctx ends; it calls end once anything else ends it.
func (c Config) serve(
	ctx context.Context, end func(), here datadir.Instance, lock *datadir.Lock, detached *datadir.Detached,
	ready func(context.Context, *Daemon, *datadir.Registration) error,
) error {
	d, err := New(ctx, c)
	if err != nil {
		return err
	}
	defer d.Close()
	here.NATS, here.HTTP = d.Server.URL(), d.Responder.URL()
	if detached != nil {
		for _, note := range detached.Notes {
			here.Notes = append(here.Notes, fmt.Sprintf("%s; the one in the background serves at %s and %s", note, here.NATS,
				here.HTTP))
			c.Log.Warn(note)
		}
	}
	if rules, takes := d.worker.rules(); takes {
		here.Dir, here.Roots = rules.Dir, rules.Allowed()
	}
	if err := d.Server.operator.ListenStop(os.Getpid(), end); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, end)()
	group.Go(func() error {
		if detached != nil { // it must not take the address from a role that is meant
			return d.Run(ctx)
		}
		return c.monitored(ctx, "monitor_http", func(ctx context.Context, dialed func(connected)) error {
			dialed(d.Responder)
			return d.Run(ctx)
		})
	})
	group.Go(func() error {
		if d.Ready(ctx) != nil { // ctx ended
			return nil
		}
		c.stages.started()
		if err := c.describe(d, detached).Write(here.Data); err != nil {
			c.Log.Warn("the next `linesman up` in the background will not have the settings of this one", zap.Error(err))
		}
		r, err := datadir.Register(here, lock)
		if err != nil {
			return err
		}
		defer r.Withdraw()
		beside, ctx := errgroup.WithContext(ctx)
		beside.Go(func() error { return r.Keep(ctx, c.Log) })
		beside.Go(func() error { return ready(ctx, d, r) })
		return beside.Wait()
	})
	return group.Wait()
}

// describe returns what the next `up` in the background takes over from this one.
func (c Config) describe(d *Daemon, detached *datadir.Detached) datadir.Previous {
	listens := func(address, served string) string {
		u, err := url.Parse(served)
		host, _, bad := net.SplitHostPort(address)
		if err != nil || bad != nil {
			return ""
		}
		return net.JoinHostPort(host, u.Port())
	}
	nats, http := listens(c.Settings.NATSListen, d.Server.URL()), listens(c.Settings.HTTP, d.Responder.URL())
	if detached != nil {
		return detached.Previous(nats, http)
	}
	p := datadir.Describe(c.Sources, c.Settings)
	p.NATSListen, p.HTTP = nats, http
	return p
}

// NewLeveledLogger returns a log that is written to w, with the level and the format of
// the settings, which are valid. The level can be changed.
func NewLeveledLogger(c config.Config, w io.Writer) (*zap.Logger, zap.AtomicLevel) {
	level := zap.NewAtomicLevelAt(levelOf(c.LogLevel))
	form := zap.NewProductionEncoderConfig()
	form.TimeKey = "time"
	form.EncodeTime = func(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
		enc.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	form.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(form)
	if c.LogFormat == "console" {
		form.ConsoleSeparator = " "
		encoder = zapcore.NewConsoleEncoder(form)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level)), level
}

func levelOf(name string) zapcore.Level {
	level, err := zapcore.ParseLevel(name)
	if err != nil {
		level = zapcore.InfoLevel
	}
	return level
}
