package watch

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linesman/linesman/test/fixture"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/runs"
)

// asked records the requests. A [client.Client] has many more methods: a watcher has the
// four of [service] only.
type asked struct {
	*linesman
	names map[string]bool
}

func (a asked) List(ctx context.Context, q api.List) (api.RunPage, error) {
	a.names["list"] = true
	return a.linesman.List(ctx, q)
}

func (a asked) Status(ctx context.Context, run string) (*api.Run, error) {
	a.names["status"] = true
	return a.linesman.Status(ctx, run)
}

func (a asked) Follow(ctx context.Context, f client.Filter) iter.Seq2[client.Event, error] {
	if len(f.Kinds) != 1 || f.Kinds[0] != api.Completion {
		a.names["events"] = true
	}
	return a.linesman.Follow(ctx, f)
}

func TestWatcherAsksForRunsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := asked{newLinesman(), map[string]bool{}}
		rules := all()
		rules.Budgets = budgets(t, "tokens=1/run", "tokens=1/day/source")
		stop := watching(t, Config{Runs: l, Rules: rules, Sink: &inbox{}})
		time.Sleep(time.Second)
		l.set(nowRun("stalls", nil))
		l.set(nowRun("ends", func(r *api.Run) { r.State, r.Tokens = runs.StateCompleted, &runs.Spend{Input: 2} }))
		time.Sleep(time.Hour)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if len(l.names) != 2 || !l.names["list"] || !l.names["status"] || l.cancelled != nil {
			t.Errorf("asked %v, cancelled %q", l.names, l.cancelled)
		}
	})
}

// A command that hangs, and all that it has started, is ended; what it leaves in the
// background on purpose is not waited for.
func TestCommandsEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for line, want := range map[string]string{
		"exit 0":                               "",
		"true; sleep 0.01 >/dev/null 2>&1 &":   "",
		"exit 3":                               "the command ended with exit status 3",
		"no-such-command 2>&-":                 "the command ended with exit status 127",
		"kill -9 $$":                           "a signal ended the command",
		"sleep 100 | sleep 100":                "the command did not end in time",
		"trap '' TERM; sleep 100 & wait; wait": "the command did not end in time",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			c := commandSink{Line: line, Environ: os.Environ(), Timeout: fixture.Patience}
			if strings.Contains(line, "100") {
				c.Timeout = 100 * time.Millisecond
			}
			err := c.Deliver(t.Context(), notice{Text: dir, Budget: &usage{Group: strings.Repeat("x", 1<<20)}})
			if got := ""; err != nil {
				if got = err.Error(); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			} else if want != "" {
				t.Errorf("delivered, want %q", want)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	var flags config.Watch
	load := func(env ...string) (Config, error) {
		s, err := config.Load(config.Sources{Environ: append(env, "HOME="+t.TempDir())})
		if err != nil {
			t.Fatal(err)
		}
		return Configure(s, flags, Surroundings{})
	}
	c, err := load("LINESMAN_WATCH_BUDGET=tokens=1k/run,time=1h/day/label:team", "LINESMAN_RUN=x", "LINESMAN_NOTICE_ID=x")
	if _, printed := c.Sink.(printer); err != nil || !printed || len(c.Rules.Budgets) != 2 || c.Rules.on(kindCancelled) {
		t.Errorf("%+v, %v", c, err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("ab", 16)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hook := []string{"LINESMAN_WATCH_WEBHOOK=https://example.com/hook", "LINESMAN_WATCH_SECRET_FILE=" + secret}
	if c, err = load(hook...); err != nil {
		t.Error(err)
	} else if _, is := c.Sink.(webhookSink); !is {
		t.Errorf("the sink is %T", c.Sink)
	}
	for _, url := range []string{
		"http://example.com/", "https://10.0.0.1/", "https://localhost/", "https://u:p@example.com/",
	} {
		if _, err := load("LINESMAN_WATCH_WEBHOOK=" + url); err == nil || strings.Contains(err.Error(), url) {
			t.Errorf("%s: %v", url, err)
		}
	}
	flags = config.Watch{Exec: "true", On: config.List{"lost"}, StalledAfter: time.Second}
	if c, err = load(hook...); err != nil || len(c.Rules.On) != 1 || c.Rules.StalledAfter != time.Second {
		t.Errorf("flags: %+v, %v", c, err)
	} else if _, is := c.Sink.(*commandSink); !is {
		t.Errorf("the sink is %T", c.Sink)
	}
	flags = config.Watch{CancelOn: config.List{"budget"}}
	if _, err = load(); err == nil || !strings.Contains(err.Error(), "budget needs a --budget (watch.budget)") {
		t.Errorf("no budget to cancel on: %v", err)
	}
}

func TestNoticesOfACommandAreLines(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "notices")
	c := commandSink{Line: "cat >> '" + file + "'", Environ: os.Environ()}
	for range 2 {
		if err := c.Deliver(t.Context(), notice{Text: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || strings.Count(string(b), "\n") != 2 {
		t.Errorf("%q, %v", b, err)
	}
}
