package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/runs"
)

func (x *examination) responder(ctx context.Context) (level, string, string) {
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
		return Fail, firstLine(err), fmt.Sprintf("use the keys of %s, %s", user, datadir.Permission(user))
	case err != nil:
		return Fail, firstLine(err), ""
	default:
		took := time.Since(begun).Round(10 * time.Microsecond)
		return fine, fmt.Sprintf("answers in %s; %d runs work, %d wait", took, all.Counts.Working,
			all.Counts.Queued), ""
	}
}

// serverTime is the time by the server's clock, or by this one if that is not told.
func (x *examination) serverTime(ctx context.Context) time.Time {
	raw, err := x.bus.Stream(ctx, x.bus.Raw())
	if err != nil || raw.CachedInfo().TimeStamp.IsZero() {
		return x.now()
	}
	return raw.CachedInfo().TimeStamp
}

// worker listens for heartbeats for a moment. Their times are those of the server.
func (x *examination) worker(ctx context.Context) (level, string, string) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	queue := x.Settings.Work.Queue
	now := x.serverTime(ctx)
	slots, busy := map[string]int{}, map[string]int{}
	var agents, roots []string
	var quiet *time.Timer // stored heartbeats arrive at once
	err := x.bus.WatchHeartbeats(ctx, func(b runs.Heartbeat, at time.Time) {
		if b.Slots > 0 && b.Queue == queue && now.Sub(at) < x.Settings.LostAfter {
			slots[b.Name], busy[b.Name] = b.Slots, b.Busy
			agents, roots = append(agents, b.Agents...), append(roots, b.Roots...)
		}
		if quiet == nil {
			quiet = time.AfterFunc(300*time.Millisecond, cancel)
		}
	})
	if quiet != nil {
		quiet.Stop()
	}
	slices.Sort(agents)
	slices.Sort(roots)
	x.told = told{agents: slices.Compact(agents), roots: slices.Compact(roots)}
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
		return fine, fmt.Sprintf("%d at work for the queue %s, %d of %d slots are taken",
			len(slots), queue, taken, all), ""
	}
}

func (x *examination) http(context.Context) (level, string, string) {
	if x.here.HTTP == "" {
		return skip, "no `linesman up` here says where it is", ""
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
	return fine, x.here.HTTP + ", MCP at /mcp", ""
}
