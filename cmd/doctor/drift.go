package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/programs"
)

// recentRuns is how many of the newest runs are looked at for drift.
const recentRuns = 20

// AddDrift adds to agents what their recent runs printed that linesman does not know: "field
// item.new in 0.170.0". That is nothing if no linesman can be reached; none is started.
func AddDrift(ctx context.Context, d *datadir.Dialer, all []programs.Agent) {
	for i, found := 0, driftOfAgents(ctx, d); i < len(all); i++ {
		all[i].Drift = found[all[i].Kind]
	}
}

// driftOfAgents returns what AddDrift adds, by agent kind.
func driftOfAgents(ctx context.Context, d *datadir.Dialer) map[string][]string {
	ctx, cancel := soon(ctx)
	defer cancel()
	b, err := d.Dial(ctx, embedded.OperatorUser)
	if err != nil {
		return nil
	}
	defer b.Close()
	found := make(map[string][]string)
	records, _, _ := drifted(ctx, b)
	for _, r := range records {
		for _, name := range thingsOf(r) {
			if r.Version != "" {
				name += " in " + r.Version
			}
			if !slices.Contains(found[r.Agent], name) {
				found[r.Agent] = append(found[r.Agent], name)
			}
		}
	}
	return found
}

// drifted returns the records of the recent runs with drift, and how many runs it looked at.
func drifted(ctx context.Context, b *bus.Bus) (records []*runs.Record, looked int, err error) {
	page, err := client.New(b).List(ctx, api.List{Limit: recentRuns})
	if err != nil {
		return nil, 0, err
	}
	for _, run := range page.Runs {
		r, ok, err := b.Record(ctx, run.ID)
		switch {
		case err != nil:
			return nil, 0, err
		case ok && len(thingsOf(r)) > 0:
			records = append(records, r)
		}
	}
	return records, len(page.Runs), nil
}

// thingsOf names the unknown things of a record, but for new settings.
func thingsOf(r *runs.Record) (names []string) {
	if r.Drift == nil {
		return nil
	}
	for _, t := range r.Drift.Things {
		if !strings.HasPrefix(t.Name, runs.DriftSetting) {
			names = append(names, string(t.What)+" "+cmp.Or(t.Name, t.Hash))
		}
	}
	return names
}

// drift names what recent runs printed that linesman does not know.
func (x *examination) drift(ctx context.Context) (level, string, string) {
	records, looked, err := drifted(ctx, x.bus)
	if err != nil {
		return skip, firstLine(err), ""
	}
	if len(records) == 0 {
		return fine, fmt.Sprintf("the last %d runs printed nothing that linesman does not know", looked), ""
	}
	return warn, fmt.Sprintf("%d of the last %d runs printed things that linesman does not know: %s",
		len(records), looked, driftOf(records)), "look for a newer linesman: their events may lack something"
}

// driftOf names the unknown things in records, the first ones of each agent and version.
func driftOf(records []*runs.Record) string {
	const most = 5
	unknown := map[string][]string{}
	for _, r := range records {
		agent := strings.TrimSpace(r.Agent + " " + r.Version)
		for _, name := range thingsOf(r) {
			if !slices.Contains(unknown[agent], name) {
				unknown[agent] = append(unknown[agent], name)
			}
		}
	}
	var texts []string
	for _, agent := range slices.Sorted(maps.Keys(unknown)) {
		names := unknown[agent]
		text := agent + ": " + strings.Join(names[:min(len(names), most)], ", ")
		if more := len(names) - most; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}
