package metrics_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/cloud"
	"github.com/linesman/linesman/normalizer/external"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
)

// series returns the number of series as Prometheus stores them: each bucket is one.
func series(t *testing.T, g prometheus.Gatherer) (n int) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); h != nil {
				n += len(h.GetBucket()) + 3
			} else {
				n++
			}
		}
	}
	return n
}

// TestHostileRunsMakeFewSeries counts runs whose agents choose all that they can choose: kinds and
// names of tools, statuses, versions, reasons, and with a publisher of RAW the kind of the agent. The
// process has the other roles, too, and each of its operations is called by clients that make mistakes.
func TestHostileRunsMakeFewSeries(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	var kinds []string
	for _, b := range append(known.All().Backends(), cloud.Backend{}, external.Backend{}) {
		kinds = append(kinds, b.Agent())
	}
	tools := []string{"mcp__x"}
	for _, a := range known.All() {
		tools = slices.AppendSeq(tools, maps.Keys(a.Tools.Classes))
	}
	otherRoles(t, r)
	n := metrics.NewNormalizer(r, kinds, known.All())
	tally := n.NewTally()
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string { return fmt.Sprintf("w%x", random.Uint64()) }
	pick := func(known ...string) string {
		if random.IntN(2) == 0 {
			return word()
		}
		return known[random.IntN(len(known))]
	}
	for i := range 10_000 {
		a := tally.Agent(pick(kinds...))
		for range 20 {
			a.CallEnded(pick("command_execution", "file_change", "web_search", "tool_use", "execute", "edit", "read",
				"fetch"), pick(tools...),
				pick("completed", "failed", "unknown", "unfinished"), random.Int64N(1e6)-1)
		}
		a.TurnEnded(runs.Turn(1+random.IntN(3)), random.Int64N(1e6)-1)
		a.Asked(pick("permission", "form"))
		a.Settled(pick("permission", "form"), pick("allow", "deny", "submitted", "declined", "cancelled"),
			pick("person", "policy", "timeout", "cancel", "agent"), random.Int64N(1e6))
		a.Message(pick("queued", "sent", "removed"))
		var counted metrics.Counted
		a.Record(&counted, &runs.Record{
			ID: word(), Version: fmt.Sprintf("%d.%d.%d", random.IntN(99), random.IntN(99), i),
			Attributes: runs.Attributes{Title: word(), Dir: word()}, State: runs.State(pick("completed", "failed", "cancelled",
				"timeout")),
			Source: pick("run", "tail", "session", "pipe", "queue", "cloud", "external"),
			Reason: pick(append([]string{""}, metrics.Reasons...)...),
			Lines:  5, Malformed: 1, Unknown: 1, Drift: &runs.Drift{Count: 1}, QueuedAt: 1, StartedAt: 2, EndedAt: 3,
			Events: map[string]int64{pick(normalizer.Tokens()...): 1, word(): 1},
			Own:    &runs.Usage{Input: 10, Output: 3},
		})
		if i%100 == 0 {
			tally.Cut()
			tally.Store()
		}
	}
	if have := series(t, r); have > metrics.MaxSeries {
		t.Errorf("%d series, documented are at most %d", have, metrics.MaxSeries)
	} else {
		t.Logf("%d series", have)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if strings.HasPrefix(l.GetValue(), "w") && len(l.GetValue()) > 9 {
					t.Errorf("%s has the label %s=%q, which an agent chose", f.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
	}
}

// otherRoles registers the metrics of a worker and of a responder, with a value of each label.
func otherRoles(t *testing.T, r prometheus.Registerer) {
	t.Helper()
	w := metrics.NewWorker(r)
	w.Read(func() metrics.WorkerState { return metrics.WorkerState{} })
	w.Shim(true)
	office := metrics.NewResponder(r)
	office.Read(func() (metrics.ResponderState, bool) { return metrics.ResponderState{}, true })
	office.Webhook("delivered", time.Second)
	c := metrics.NewCalls(r)
	codes := []int{200, 400, 401, 403, 404, 409, 413, 429, 500, 503}
	routes, verbs := 0, 0
	for page, operation := range map[string]*regexp.Regexp{
		"rest.md": regexp.MustCompile(`(?m)^## ([A-Z]+ /\S+)$`),
		"nats.md": regexp.MustCompile("(?m)^\\| `linesman\\.api\\.(\\w+)`"),
		"mcp.md":  regexp.MustCompile("(?m)^### `(_\\w+)`$"),
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range operation.FindAllStringSubmatch(string(text), -1) {
			for _, code := range codes {
				if page != "rest.md" {
					c.NATS(m[1], code, time.Second)
					continue
				}
				answer := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
				h := c.HTTP(m[1], http.HandlerFunc(answer))
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
			}
			if page == "rest.md" {
				routes++
			} else {
				verbs++
			}
		}
	}
	t.Logf("%d routes, %d verbs and tools", routes, verbs)
	if routes < 20 || verbs < 30 {
		t.Errorf("%d routes and %d verbs and tools are documented", routes, verbs)
	}
}

// TestLinesAreCountedWithoutAllocation folds what a line can end.
func TestLinesAreCountedWithoutAllocation(t *testing.T) {
	tally := metrics.NewNormalizer(prometheus.NewRegistry(), []string{"codex"}, known.Agents).NewTally()
	a := tally.Agent("codex")
	count := func() {
		for range 1000 {
			a.CallEnded("command_execution", "", "completed", 7)
			a.CallEnded("tool_use", "an unknown name", "an unknown status", 7)
			a.TurnEnded(runs.TurnCompleted, 7)
			a.Asked("permission")
			a.Settled("permission", "allow", "person", 7)
			a.Settled("an unknown kind", "an unknown outcome", "an unknown decider", 7)
			a.Message("queued")
		}
		tally.Cut()
		tally.Store()
	}
	count()
	count()
	if n := testing.AllocsPerRun(10, count); n > 100 { // of a cut, none of them of a line
		t.Errorf("%v allocations in 3000 lines", n)
	}
}

func TestNothingIsCountedTwice(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	a := r.tally.Agent("codex")
	var c metrics.Counted
	use := func(in int64) {
		a.Record(&c, &runs.Record{Attributes: runs.Attributes{Agent: "codex"}, Own: &runs.Usage{Input: in}})
		r.tally.Cut()
		r.tally.Store()
	}
	for _, in := range []int64{100, 250, 250, 90, 250, 300} { // in the middle, its thread is found to be resumed
		use(in)
	}
	compare(t, "tokens", values(t, r, "linesman_tokens_total"), map[string]float64{"codex/input": 300})
	// A cut that is not stored is dropped with its tally, and counted by the next term.
	next := r.tally
	a.Record(&c, &runs.Record{Attributes: runs.Attributes{Agent: "codex"}, Own: &runs.Usage{Input: 400}})
	next.Cut()
	compare(t, "tokens", values(t, r, "linesman_tokens_total"), map[string]float64{"codex/input": 300})
}

func TestLagHasAnAge(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	n := metrics.NewNormalizer(r, nil, known.Agents)
	end := n.Active()
	n.Lag(metrics.Lag{Entries: 7, Since: time.Now().Add(-time.Minute), Recording: 3, Recorded: time.Now()})
	compare(t, "entries", values(t, r, "linesman_normalizer_lag_entries"), map[string]float64{"fold": 7, "record": 10})
	for stage, age := range values(t, r, "linesman_normalizer_lag_seconds") {
		if age < 60 || age > 120 {
			t.Errorf("stage %s is %v s behind", stage, age)
		}
	}
	n.Lag(metrics.Lag{Recorded: time.Now(), Since: time.Now()})
	compare(t, "seconds", values(t, r, "linesman_normalizer_lag_seconds"), map[string]float64{})
	end()
	compare(t, "active", values(t, r, "linesman_normalizer_active"), map[string]float64{})
}

func TestNilCountsNothing(t *testing.T) {
	t.Parallel()
	var n *metrics.Normalizer
	n.Active()()
	n.Failed("other")
	n.Refused("events")
	n.Stored()
	n.Stream("raw", 1, 1, 1)
	n.Lag(metrics.Lag{})
	if n.NewTally() != nil {
		t.Error("a tally of no metrics")
	}
	var w *metrics.Worker
	w.Appended(1, 1)
	w.Refused()
	w.Shim(true)
	w.Adopted()
	w.Read(nil)
	var p *metrics.Responder
	p.Webhook("failed", 0)
	p.Read(nil)
	var c *metrics.Calls
	c.NATS("list", 0, 0)
}
