package daemon

import (
	"context"
	"strings"

	"go.uber.org/zap"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry"
	"github.com/linesman/linesman/telemetry/metrics"
)

// export exports traces and metrics until ctx ends, if the environment configures a receiver.
// If it configures one wrongly, that is logged and nothing is exported: it affects no run.
func (s *service) export(ctx context.Context) error {
	e, err := telemetry.New(telemetry.Config{
		Events: s.bus, Store: s.bus.TelemetryStore(), Runs: traced{s}, Env: s.config.env, Version: s.config.Version,
		Log: s.config.Log, Agent: s.config.agent,
	})
	if err != nil {
		s.config.Log.Warn("traces are not exported", zap.Error(err))
	}
	if e == nil {
		return nil
	}
	s.exporter.Store(e)
	return e.Run(ctx)
}

// agent returns what is known of an agent. Codex Cloud has the models of Codex.
func (c Config) agent(kind string) agent.Agent {
	a, _ := c.Agents.Find(kind)
	if kind == codexcloud.Agent {
		a.Provider = codex.Agent.Provider
	}
	return a
}

// traces returns what the exporter has done.
func (s *service) traces() metrics.Traces {
	e := s.exporter.Load()
	if e == nil {
		return metrics.Traces{}
	}
	return metrics.Traces(e.Counts())
}

// env returns a variable of the environment.
func (c Config) env(name string) string {
	for _, v := range c.Environ {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// traced reads what traces have beside events.
type traced struct{ *service }

func (t traced) Record(ctx context.Context, run string) (*runs.Record, error) {
	_, err := t.Look(ctx, run) // waits for that of a new run
	var r *runs.Record
	if err == nil {
		r, err = t.Service.Record(ctx, run)
	}
	if api.Is(err, api.NotFound) {
		return nil, nil
	}
	return r, err
}

func (t traced) Detail(ctx context.Context, run, after string) (api.DetailPage, error) {
	const most = 1 << 20 // bytes
	return t.DetailPage(ctx, api.DetailRequest{Run: run, After: after, Limit: api.MaxDetailItems}, most)
}
