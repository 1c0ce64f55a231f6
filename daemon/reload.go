package daemon

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/config"
)

// changeable are the settings that can change while roles run.
type changeable struct {
	mu      sync.Mutex
	level   string // log_level
	scrub   bool
	changed chan struct{} // closed when scrub changes
}

func newChangeable(s config.Config) *changeable {
	return &changeable{level: s.LogLevel, scrub: s.Scrub, changed: make(chan struct{})}
}

// scrubs returns the setting scrub, and a channel that is closed when it changes.
func (n *changeable) scrubs() (bool, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.scrub, n.changed
}

// logLevel returns the level of the settings.
func (n *changeable) logLevel() zapcore.Level {
	n.mu.Lock()
	defer n.mu.Unlock()
	return levelOf(n.level)
}

func (n *changeable) set(s config.Config) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.level = s.LogLevel
	if n.scrub != s.Scrub {
		n.scrub = s.Scrub
		close(n.changed)
		n.changed = make(chan struct{})
	}
}

// Heed keeps signals for the role, which obeys them once it runs: until then they would end the process.
func (c *Config) Heed() {
	if c.Reload == nil || c.signals != nil {
		return
	}
	c.Sources.Required = config.InUse(c.Sources)
	c.signals = make(chan os.Signal, 4)
	signal.Notify(c.signals, syscall.SIGUSR1, syscall.SIGUSR2)
	if !signal.Ignored(syscall.SIGHUP) && !term.IsTerminal(int(os.Stdin.Fd())) {
		signal.Notify(c.signals, syscall.SIGHUP)
	}
}

// obey reacts to signals until stop is called, if the caller can read its settings again.
// SIGHUP reads log_level and scrub again, SIGUSR1 logs at the level debug, and SIGUSR2 at
// that of the settings. At a terminal SIGHUP ends the process: the terminal was closed.
func (c Config) obey() (stop func()) {
	c.Heed()
	if c.signals == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var obeying sync.WaitGroup
	obeying.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-c.signals:
				c.obeyOne(s)
			}
		}
	})
	return func() {
		signal.Stop(c.signals)
		cancel()
		obeying.Wait()
	}
}

// obeyOne reacts to a signal. The settings are not changed while a file is missing that gave one of those.
func (c *Config) obeyOne(s os.Signal) {
	switch s {
	case syscall.SIGUSR1:
		c.setLevel(zapcore.DebugLevel)
	case syscall.SIGUSR2:
		c.setLevel(c.now.logLevel())
	default:
		set, err := c.Reload(c.Sources)
		if err != nil { // as at the start, it names the settings
			c.Log.Error("the settings are not changed", zap.Error(err))
			return
		}
		c.Sources.Required = config.InUse(c.Sources)
		c.now.set(set)
		c.setLevel(c.now.logLevel())
		c.Log.Info("log_level and scrub were read again", zap.String("log_level", set.LogLevel),
			zap.Bool("scrub", set.Scrub))
	}
}

// setLevel changes the level of the log, and logs it if either level permits.
func (c Config) setLevel(to zapcore.Level) {
	from := c.Level.Level()
	c.Level.SetLevel(min(from, to))
	if from != to {
		c.Log.Info("the level of the log changes", zap.Stringer("from", from), zap.Stringer("to", to))
	}
	c.Level.SetLevel(to)
}

// normalize runs a normalizer until ctx ends. When scrub changes, it ends and begins again
// with the new setting, as in a process that is restarted with it.
func (c Config) normalize(ctx context.Context, n *pipeline.Normalizer) error {
	defer c.stages.enter("the normalizer")()
	for {
		_, changed := c.now.scrubs()
		n.Backends, n.By = c.backends(), c.foldsBy()
		if again, err := until(ctx, changed, n.Run); !again {
			return err
		}
	}
}

// until calls run, whose context ends when changed is closed; again reports that it was.
func until(ctx context.Context, changed <-chan struct{}, run func(context.Context) error) (again bool, err error) {
	running, end := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-changed:
			end()
		case <-running.Done():
		}
	})
	err = run(running)
	again = err == nil && running.Err() != nil && ctx.Err() == nil
	end()
	waiting.Wait()
	return again, err
}
