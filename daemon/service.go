package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/a2a"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/natsapi"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry"
	"github.com/linesman/linesman/telemetry/metrics"
	"github.com/linesman/linesman/worker"
	"github.com/linesman/linesman/worker/launch"
)

// service is the typed service of a responder with its tools, the cloud driver and
// webhooks. It is reached from this process only; see [responderRole].
type service struct {
	*responder.Service

	config    Config
	bus       *bus.Bus
	profiles  []responder.Profile // that are announced; none: those of the workers
	held      *responder.Slots    // of streams of A2A and of prompts
	dropped   func()              // counts a prompt without an inbox
	tools     *tools.Set
	cloud     *codexcloud.Driver
	hooks     webhook.Rules
	push      *webhook.Pusher
	calls     *metrics.Calls
	listening chan struct{} // closed once requests over NATS arrive

	exporter atomic.Pointer[telemetry.Exporter] // nil: none
}

// newService builds a service over the connection of a responder. Its embedded
// Run fills the table of runs, which every request needs.
func newService(b *bus.Bus, c Config) (*service, error) {
	key, err := c.webhookKey()
	if err != nil {
		return nil, err
	}
	s := &service{config: c, bus: b, calls: metrics.NewCalls(c.Registry), listening: make(chan struct{}),
		held: responder.NewSlots(a2a.MaxHeld)}
	counts := metrics.NewResponder(c.Registry)
	set := c.Settings
	s.hooks = webhook.Rules{Private: set.Push.AllowPrivate, Key: key, Log: c.Log}
	s.dropped = counts.Dropped
	if s.profiles, err = c.announced(); err != nil {
		return nil, err
	}
	s.cloud, err = codexcloud.New(codexcloud.Config{
		Command: set.Launches(agent.Table{codex.Agent})[codex.Agent.Kind()].Command,
		Scratch: filepath.Join(set.DataDir, "cloud"), Logs: cloudLogs{b}, Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	s.Service = responder.New(responder.Config{
		Streams: b, Queue: set.Work.Queue, LostAfter: set.LostAfter, StuckAfter: set.StuckAfter,
		Idle: set.Work.Idle, Hard: set.Work.Hard, MaxIdle: set.Work.MaxLimit, MaxHard: set.Work.MaxLimit,
		Danger: set.Work.Danger, GitGate: set.Work.GitGate, Outside: s.outside, Environments: set.Environments,
		Cloud: s.cloud, Cause: b.Cause, Away: func() bool { return !b.Connected() }, Log: c.Log,
		Requests: &idempotency.Requests{Store: b.RequestStore(), TTL: set.IdempotencyTTL},
		Webhooks: webhook.NewRegistry(b.PushStore(), webhook.AdCP, s.hooks),
		Eraser:   c.eraser, Agents: c.Agents, Details: c.details(), Absent: c.absent(b), Version: c.Version,
		BrandJSON: set.AdCP.BrandJSONURL, GiveUp: set.Push.GiveUp,
	})
	s.tools = tools.New(s.Service)
	s.push = webhook.New(webhook.Config{
		Registrations: b.PushStore(), Outbox: b.PushStore(), Runs: s.Standing(), Log: c.Log,
		Private: set.Push.AllowPrivate, Key: key, GiveUp: set.Push.GiveUp,
		Encoders: map[string]webhook.Encoder{webhook.AdCP: adcp.NewNotices(s.Service),
			webhook.A2A: a2a.NewNotices(s.Service)},
		Attempted: func(o webhook.Outcome, took time.Duration) { counts.Webhook(string(o), took) },
	})
	counts.Read(s.counts)
	counts.ReadTraces(s.traces)
	return s, nil
}

// webhookKey reads the key that signs notifications; nil: none is configured.
func (c Config) webhookKey() (*webhook.Key, error) {
	if c.Settings.AdCP.WebhookKey == "" {
		return nil, nil
	}
	key, err := webhook.ReadKey(c.Settings.AdCP.WebhookKey)
	if err != nil {
		return nil, fmt.Errorf("adcp.webhook_key: %w", err)
	}
	return key, nil
}

// absent stores answers to questions of runs whose worker is away.
func (c Config) absent(b *bus.Bus) func(ctx context.Context, agent, run string, cmd runs.Command) (runs.Ruling, error) {
	return func(ctx context.Context, agent, run string, cmd runs.Command) (runs.Ruling, error) {
		a, _ := c.Agents.Find(agent)
		open := func(m runs.Mark) (worker.ReadLog, error) { return b.OpenLog(ctx, agent, run, m) }
		read := func(each func(seq uint64, e runs.Entry) error) error {
			return b.Entries(ctx, agent, run, 0, false, each)
		}
		return worker.Rule(ctx, open, read, a.Live, cmd)
	}
}

// outside is [launch.Rules.Outside] by the rules of all workers of the queue: a task is
// refused if each of them refuses its directory. The rules are known of the worker of the
// data directory, and of the workers on this machine that report their roots. If those of
// any worker are unknown, workers decide: the path may be another directory there.
func (s *service) outside(queue string, t runs.Task, workers []runtable.Worker) error {
	rules, known := s.config.rules()
	known = known && queue == s.config.Settings.Work.Queue
	rules.ToAllow = s.config.toAllow()
	name, err := workerName(s.config.Settings.DataDir)
	host, hostErr := os.Hostname()
	if err != nil || hostErr != nil {
		return nil
	}
	var others []string
	heard := false
	for _, w := range workers {
		if w.Queue != queue || known && w.Name == name {
			continue
		}
		if w.Host != host || len(w.Roots) == 0 {
			return nil
		}
		heard = true
		others = append(others, w.Roots...)
	}
	switch {
	case !heard && known:
		return rules.Outside(t)
	case !heard:
		return nil
	case known:
		others = append(rules.Allowed(), others...)
	}
	slices.Sort(others)
	return launch.Rules{Dir: rules.Dir, Roots: slices.Compact(others), ToAllow: rules.ToAllow}.Outside(t)
}

// toAllow says how to allow tasks in a directory outside of work.roots.
func (c Config) toAllow() string {
	where := "a configuration file"
	if path, err := config.EditFile(c.Sources); err == nil {
		where = path
	}
	return "to allow another one, start `linesman up --root DIR`, or add it to work.add_roots in " + where +
		" (`linesman config edit`) and start `linesman up` again"
}

// answer fills the table of runs, answers requests over NATS, asks Codex Cloud, sends
// webhooks and exports traces, until ctx ends.
func (s *service) answer(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, s.cloud.Stop)
	group.Go(func() error { return s.Service.Run(ctx) })
	group.Go(func() error {
		return natsapi.Serve(ctx, natsapi.Config{
			Conn: s.bus.Inside(), Root: s.bus.API(), Version: s.config.Version, Log: s.config.Log,
			Endpoints: slices.Concat(natsapi.VerbEndpoints(s.Service), natsapi.ToolEndpoints(s.tools, s.tools.List()),
				natsapi.CallEndpoints(s.tools)),
			Listening: func() { close(s.listening) }, Answered: s.calls.NATS, Metadata: capabilities(s.Agents()),
		})
	})
	group.Go(func() error {
		return s.bus.AskCloud(ctx, func(ctx context.Context) error { return s.cloud.Follow(ctx, s.OpenCloud) })
	})
	group.Go(func() error { return s.push.Run(ctx) })
	group.Go(func() error { return s.export(ctx) })
	return group.Wait()
}

// capabilities returns those of all agents for the metadata of a micro service.
func capabilities(agents agent.Table) map[string]string {
	all := map[string]string{}
	for _, a := range agents {
		all["capabilities."+a.Kind()] = strings.Join(a.Capabilities(), " ")
	}
	return all
}

// counts returns what the metrics of a responder read, false until the table of runs is read.
func (s *service) counts() (m metrics.ResponderState, known bool) {
	c, known := s.Counts()
	if !known {
		return m, false
	}
	m = metrics.ResponderState{Runs: map[string]int{metrics.Lost: c.Lost}, Orphans: c.Orphans, Pending: -1}
	m.Asked = c.Asked
	for state, n := range c.States {
		m.Runs[string(state)] = n
	}
	m.Runs[string(runs.StateWorking)] -= c.Lost
	if !c.Oldest.IsZero() {
		m.Oldest = max(time.Since(c.Oldest), 0)
	}
	for _, w := range s.Workers().Workers {
		m.Workers++
		m.Slots += w.Slots
		m.Busy += w.Busy
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if s.bus.Connected() {
		if n, err := s.bus.PushStore().Waiting(ctx); err == nil {
			m.Pending = n
		}
	}
	return m, true
}

// open waits until requests arrive and can be answered.
func (s *service) open(ctx context.Context) error {
	if err := s.Filled(ctx); err != nil {
		return err
	}
	if err := await(ctx, s.listening); err != nil {
		return fmt.Errorf("the NATS service does not listen yet: %w", err)
	}
	return nil
}

// ready returns an error that describes why requests cannot be answered.
func (s *service) ready(ctx context.Context) error {
	if s == nil || !s.bus.Connected() {
		return errors.New("NATS is away")
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	return s.bus.Reachable(ctx, s.bus.Raw())
}

// cloudLogs lets the cloud driver write to a bus.
type cloudLogs struct{ bus *bus.Bus }

func (l cloudLogs) Open(ctx context.Context, agent, run string, m runs.Mark) (codexcloud.Log, error) {
	return l.bus.OpenLog(ctx, agent, run, m)
}

func (l cloudLogs) Output(ctx context.Context, agent, run string) ([]byte, error) {
	out, _, err := l.bus.Output(ctx, agent, run, codexcloud.MaxOutput, false)
	return out.Head, err
}
