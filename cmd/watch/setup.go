package watch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/responder/webhook"
)

// Surroundings are the world of a command that watches.
type Surroundings struct {
	Environ        []string
	Stdout, Stderr io.Writer
	JSON           bool // print notices as JSON
	Log            *zap.Logger
}

// merged returns settings with flags, which replace them where they are given.
func merged(set, flags config.Watch) config.Watch {
	list := func(flag, setting config.List) config.List {
		if flag != nil {
			return flag
		}
		return setting
	}
	w := config.Watch{
		On: list(flags.On, set.On), Budgets: list(flags.Budgets, set.Budgets), CancelOn: list(flags.CancelOn, set.CancelOn),
		StalledAfter: cmp.Or(flags.StalledAfter, set.StalledAfter), Exec: cmp.Or(flags.Exec, set.Exec),
		Webhook: cmp.Or(flags.Webhook, set.Webhook), SecretFile: cmp.Or(flags.SecretFile, set.SecretFile),
		State: cmp.Or(flags.State, set.State),
	}
	switch { // a flag replaces the other sink of the settings, too
	case flags.Exec != "" && flags.Webhook == "":
		w.Webhook = ""
	case flags.Webhook != "" && flags.Exec == "":
		w.Exec = ""
	}
	return w
}

// Configure returns what the settings and the flags say, without [Config.Runs]. The error
// reports all mistakes, by the names of flags and settings.
func Configure(s config.Config, flags config.Watch, in Surroundings) (Config, error) {
	set := merged(s.Watch, flags)
	c := Config{Rules: rules{StalledAfter: set.StalledAfter}, State: set.State, GiveUp: s.Push.GiveUp, Log: in.Log}
	var errs [6]error
	c.Rules.On, errs[0] = parseKinds(set.On, kinds...)
	c.Rules.Budgets, errs[1] = parseBudgets(set.Budgets)
	c.Rules.CancelOn, errs[2] = parseKinds(set.CancelOn, kindBudget, kindStalled)
	for _, k := range c.Rules.CancelOn {
		if !c.Rules.on(k) && errs[2] == nil {
			errs[2] = fmt.Errorf("needs %s among the kinds of notices", k)
		}
	}
	if len(set.Budgets) > 0 && !c.Rules.on(kindBudget) && errs[0] == nil {
		errs[0] = errors.New("must have budget, because there are budgets")
	}
	if len(set.Budgets) == 0 && slices.Contains(c.Rules.CancelOn, kindBudget) && errs[2] == nil {
		errs[2] = errors.New("budget needs a --budget (watch.budget)")
	}
	if set.StalledAfter < 0 {
		errs[5] = fmt.Errorf("must be positive, got %v", set.StalledAfter)
	}
	switch {
	case set.Exec != "" && set.Webhook != "":
		errs[3] = errors.New("not together with --webhook (watch.webhook)")
	case set.Exec != "":
		c.Sink = &commandSink{Line: set.Exec, Environ: in.Environ, Stdout: in.Stdout, Stderr: in.Stderr}
	case set.Webhook != "":
		c.Sink, errs[4] = receiver(set.Webhook, set.SecretFile, s.Push.AllowPrivate)
	default:
		c.Sink = printer{Out: in.Stdout, JSON: in.JSON}
	}
	var all []error
	for i, name := range []string{
		"--on (watch.on)", "--budget (watch.budget)", "--cancel-on (watch.cancel_on)", "--exec (watch.exec)",
		"--webhook (watch.webhook)", "--stalled-after (watch.stalled_after)",
	} {
		if errs[i] != nil {
			for line := range strings.SplitSeq(errs[i].Error(), "\n") {
				all = append(all, fmt.Errorf("%s: %s", name, line))
			}
		}
	}
	return c, errors.Join(all...)
}

// receiver returns the sink of a webhook.
func receiver(url, secretFile string, private bool) (sink, error) {
	secret := ""
	if secretFile != "" {
		const most = 64 << 10
		text, err := files.ReadSecret(secretFile, most)
		if err != nil {
			return nil, fmt.Errorf("secret file: %w", err)
		}
		if secret = strings.TrimSpace(string(text)); secret == "" {
			return nil, errors.New("the secret file is empty")
		}
	}
	to, err := webhook.NewReceiver(url, secret, private)
	if err != nil {
		if !private {
			err = fmt.Errorf("%w (see the setting push.allow_private)", err)
		}
		return nil, err
	}
	return webhookSink{to}, nil
}
