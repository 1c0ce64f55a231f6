package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/local"
	"github.com/linesman/linesman/runs"
)

func (x *examination) responder(ctx context.Context) (Level, string, string) {
	begun := time.Now()
	all, err := client.New(x.bus).Overview(ctx, api.OverviewRequest{Limit: 1})
	var refused *api.Error
	switch {
	case errors.Is(err, client.ErrNoResponder):
		return Fail, "none answers", "start `linesman up`, or `linesman responder`"
	case errors.As(err, &refused) && refused.Err == nil:
		return Fail, refused.Message, "look at its log"
	case errors.Is(err, client.ErrDenied):
		const user = embedded.OperatorUser
		return Fail, firstLine(err), fmt.Sprintf("use the keys of %s, %s", user, local.Permission(user))
	case err != nil:
		return Fail, firstLine(err), ""
	default:
		took := time.Since(begun).Round(10 * time.Microsecond)
		return OK, fmt.Sprintf("answers in %s; %d runs work, %d wait", took, all.Counts.Working,
			all.Counts.Queued), ""
	}
}

// worker listens for heartbeats for a moment.
func (x *examination) worker(ctx context.Context) (Level, string, string) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	queue := x.Settings.Work.Queue
	slots, busy := map[string]int{}, map[string]int{}
	var quiet *time.Timer // stored heartbeats arrive at once
	err := x.bus.WatchHeartbeats(ctx, func(b runs.Heartbeat, at time.Time) {
		if b.Slots > 0 && b.Queue == queue && time.Since(at) < x.Settings.LostAfter {
			slots[b.Name], busy[b.Name] = b.Slots, b.Busy
		}
		if quiet == nil {
			quiet = time.AfterFunc(300*time.Millisecond, cancel)
		}
	})
	if quiet != nil {
		quiet.Stop()
	}
	switch {
	case err != nil:
		return Fail, firstLine(err), ""
	case len(slots) == 0:
		return Fail, "none takes tasks of the queue " + queue,
			"start `linesman up`, or `linesman worker`, with work.max_runs above 0"
	default:
		all, taken := 0, 0
		for worker, n := range slots {
			all, taken = all+n, taken+busy[worker]
		}
		return OK, fmt.Sprintf("%d at work for the queue %s, %d of %d slots are taken",
			len(slots), queue, taken, all), ""
	}
}

// recentRuns is how many of the newest runs are looked at for drift.
const recentRuns = 20

// drift names what recent runs printed that linesman does not know.
func (x *examination) drift(ctx context.Context) (Level, string, string) {
	page, err := client.New(x.bus).List(ctx, api.List{Limit: recentRuns})
	if err != nil {
		return Skip, firstLine(err), ""
	}
	var records []*runs.Record
	for _, run := range page.Runs {
		r, ok, err := x.bus.Record(ctx, run.ID)
		switch {
		case err != nil:
			return Skip, firstLine(err), ""
		case ok && r.Drift != nil:
			records = append(records, r)
		}
	}
	if len(records) == 0 {
		return OK, fmt.Sprintf("the last %d runs printed nothing that linesman does not know", len(page.Runs)), ""
	}
	return Warn, fmt.Sprintf("%d of the last %d runs printed things that linesman does not know: %s",
		len(records), len(page.Runs), driftOf(records)), "look for a newer linesman: their events may lack something"
}

// driftOf names the unknown things in records, the first ones of each agent and version.
func driftOf(records []*runs.Record) string {
	const most = 5
	unknown := map[string][]string{}
	for _, r := range records {
		agent := strings.TrimSpace(r.Agent + " " + r.Version)
		for _, t := range r.Drift.Things {
			name := string(t.What) + " " + cmp.Or(t.Name, t.Hash)
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

func (x *examination) http(context.Context) (Level, string, string) {
	if x.here.HTTP == "" {
		return Skip, "no `linesman up` here says where it is", ""
	}
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy
	response, err := client.Get(x.here.HTTP + "/healthz")
	if err != nil {
		return Fail, err.Error(), "start `linesman up` again"
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return Fail, fmt.Sprintf("%s/healthz answers %d", x.here.HTTP, response.StatusCode),
			"look at the log of `linesman up`"
	}
	return OK, x.here.HTTP + ", MCP at /mcp", ""
}
