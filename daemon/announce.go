package daemon

import (
	"cmp"
	"context"
	"fmt"
	"os/user"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/natsagents"
	"github.com/linesman/linesman/responder/natsapi"
	"github.com/linesman/linesman/runs"
)

// connector connects as a user of linesman's server.
type connector func(ctx context.Context, user string) (*bus.Bus, error)

// redialTime is the pause between attempts to connect for the announced agents.
const redialTime = 5 * time.Second

// announce announces agents by the Agent Protocol for NATS, until ctx ends. What fails is tried again, and harms
// nothing else. At a server with one account only announce.nats makes it announce something.
func (s *service) announce(ctx context.Context, connect connector) {
	set, log := s.config.Settings.Announce, s.config.Log.Named("agents")
	var inboxes []string
	switch {
	case set.NATS != "":
		// Requests of other accounts, over a service import, have reply subjects of the server.
		inboxes = []string{"_INBOX", bus.InboxPrefix(embedded.PrompterUser), "_R_"}
		connect = func(ctx context.Context, _ string) (*bus.Bus, error) {
			login, err := datadir.FileLogin(set.NATS, set.Creds)
			if err != nil {
				return nil, fmt.Errorf("announce.creds: %w", err)
			}
			return bus.Connect(ctx, login, bus.Login{}, s.config.names(), log)
		}
	case s.bus.OneAccount():
		return
	}
	for logged := ""; ; {
		b, err := connect(ctx, embedded.ResponderAgentsUser)
		if err == nil {
			err = natsagents.Serve(ctx, natsagents.Config{
				Conn: b.Inside(), Service: s.Service, Owner: owner(set.Owner), Profiles: s.profiles, Inboxes: inboxes,
				Version: natsapi.Semver(s.config.Version), Slots: s.held, Dropped: s.dropped, Answered: s.calls.NATS, Log: log,
			})
			b.Close()
		}
		if ctx.Err() != nil {
			return
		}
		if why := fmt.Sprint(err); why != logged {
			logged = why
			log.Warn("agents are not announced yet, trying again", zap.String("why", why))
		}
		select {
		case <-ctx.Done():
		case <-time.After(redialTime):
		}
	}
}

// owner is the setting, or else the name of the user as a token.
func owner(set string) string {
	if set == "" {
		if u, err := user.Current(); err == nil {
			set = notToken().ReplaceAllString(strings.ToLower(u.Username), "-")
		}
	}
	return cmp.Or(strings.Trim(set[:min(len(set), 63)], "-"), "linesman")
}

var notToken = lazy.Regexp(`[^a-z0-9_-]+`)

// announced returns the profiles of the settings.
func (c Config) announced() (all []responder.Profile, err error) {
	for _, p := range c.Settings.Announce.Profiles {
		a, known := c.Agents.Find(p.Agent)
		if !known {
			return nil, fmt.Errorf("announce.profiles: %s: its agent is not known", p.Name)
		}
		labels := runs.LabelsOf(p.Labels)
		if err := responder.CheckLabels(labels); err != nil {
			return nil, fmt.Errorf("announce.profiles: %s: %w", p.Name, err)
		}
		all = append(all, responder.Profile{Owner: owner(c.Settings.Announce.Owner), Name: p.Name, Queue: p.Queue,
			Live: p.Live, Attributes: runs.Attributes{Agent: a.Kind(), Dir: p.Dir, Mode: runs.Mode(p.Mode), Model: p.Model,
				Labels: labels}})
	}
	return all, nil
}
