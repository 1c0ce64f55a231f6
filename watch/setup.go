package watch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.uber.org/zap"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/responder/webhook"
)

// Surroundings are the world of a command that watches.
type Surroundings struct {
	Environ        []string
	Stdout, Stderr io.Writer
	JSON           bool // print notices as JSON
	Log            *zap.Logger
}

// Configure returns what the settings say, without [Config.Runs]. The error reports all
// mistakes, by the names of flags and settings.
func Configure(s config.Config, in Surroundings) (Config, error) {
	set := s.Watch
	c := Config{Rules: Rules{StalledAfter: set.StalledAfter}, State: set.State, GiveUp: s.Push.GiveUp, Log: in.Log}
	var errs [5]error
	c.Rules.On, errs[0] = ParseKinds(set.On, Kinds...)
	c.Rules.Budgets, errs[1] = ParseBudgets(set.Budgets)
	c.Rules.CancelOn, errs[2] = ParseKinds(set.CancelOn, OverBudget, Stalled)
	for _, k := range c.Rules.CancelOn {
		if !c.Rules.on(k) && errs[2] == nil {
			errs[2] = fmt.Errorf("needs %s among the kinds of notices", k)
		}
	}
	if len(set.Budgets) > 0 && !c.Rules.on(OverBudget) && errs[0] == nil {
		errs[0] = errors.New("must have budget, because there are budgets")
	}
	switch {
	case set.Exec != "" && set.Webhook != "":
		errs[3] = errors.New("not together with --webhook (watch.webhook)")
	case set.Exec != "":
		c.Sink = &Command{Line: set.Exec, Environ: in.Environ, Stdout: in.Stdout, Stderr: in.Stderr}
	case set.Webhook != "":
		c.Sink, errs[4] = receiver(set.Webhook, set.SecretFile, s.Push.AllowPrivate)
	default:
		c.Sink = Printer{Out: in.Stdout, JSON: in.JSON}
	}
	var all []error
	for i, name := range []string{
		"--on (watch.on)", "--budget (watch.budget)", "--cancel-on (watch.cancel_on)", "--exec (watch.exec)",
		"--webhook (watch.webhook)",
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
func receiver(url, secretFile string, private bool) (Sink, error) {
	secret := ""
	if secretFile != "" {
		info, err := os.Stat(secretFile)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = fmt.Errorf("others can read %s: chmod 600", secretFile)
		}
		var text []byte
		if err == nil {
			text, err = os.ReadFile(secretFile)
		}
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
	return Webhook{to}, nil
}
