package delegator

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/cloud"
	"github.com/linesman/linesman/runs"
)

// basis is what an answer is based on: the newest sequence of RAW that was
// taken in, and when.
type basis struct {
	Seq uint64 `json:"seq"`
	TS  string `json:"ts"`
}

func (c *call) basis() *basis {
	seq, at := c.Responder.Basis()
	if seq == 0 {
		return nil
	}
	b := &basis{Seq: seq, TS: stamp(at)}
	if at.IsZero() {
		b.TS = stamp(time.Now())
	}
	return b
}

func (p *page) stream(b *basis) {
	if b != nil {
		p.gap()
		p.line("As of stream sequence " + number(int64(b.Seq)) + ", " + b.TS)
	}
}

// ofCloud reports whether a run is one of Codex Cloud.
func ofCloud(r runs.Row) bool { return r.Agent == cloud.Agent }

// local finds the run that a local tool was asked about. The error names the
// tool to use where it is one of Codex Cloud.
func (c *call) local(ctx context.Context, param string) (responder.View, error) {
	id, field := c.args.text(param), c.args.spelled(param)
	other := func() error {
		problem := "is a task of Codex Cloud"
		if t := strings.Replace(c.tool.name, "_local_", "_cloud_", 1); c.tools[t] != nil {
			problem += ": use " + t
		}
		return invalid(field, problem, details{})
	}
	if strings.HasPrefix(id, "T-cloud-") {
		return responder.View{}, other()
	}
	if runs.CheckID(id) != nil {
		if _, isRef := cloud.Ref(id); isRef {
			return responder.View{}, other()
		}
		return responder.View{}, invalid(field, "must be the id of a task: 1 to 64 letters, digits, '-' and '_'", details{})
	}
	v, err := c.Responder.Look(ctx, id)
	switch {
	case errors.Is(err, runs.ErrNoRun) && strings.HasPrefix(id, "task_"):
		return v, other()
	case errors.Is(err, runs.ErrNoRun):
		return v, notFound(id)
	case err != nil:
		return v, err
	case v.Agent == cloud.Agent:
		return v, other()
	}
	return v, c.onIts(&v)
}

// onIts refuses a run of another thread than the caller says.
func (c *call) onIts(v *responder.View) error {
	const name = "context_id"
	if c.args.param(name) == nil || !c.args.has(name) || v.Thread == "" || strings.EqualFold(v.Thread, c.args.text(name)) {
		return nil
	}
	return invalid(c.args.spelled(name), "the task belongs to another thread", details{})
}

// ofTheCloud finds the run of a task of Codex Cloud by our id, the service's,
// or the address of its page.
func (c *call) ofTheCloud(ctx context.Context, param string) (responder.View, error) {
	id, field := c.args.text(param), c.args.spelled(param)
	local := func() error {
		problem := "is a task of this machine"
		if t := strings.Replace(c.tool.name, "_cloud_", "_local_", 1); c.tools[t] != nil {
			problem += ": use " + t
		}
		return invalid(field, problem, details{})
	}
	if strings.HasPrefix(id, "T-local-") {
		return responder.View{}, local()
	}
	run := id
	if !strings.HasPrefix(id, "T-cloud-") {
		ref, ok := cloud.Ref(id)
		if !ok {
			return responder.View{}, invalid(field, "must be the id of a task in Codex Cloud, or the address of its page", details{})
		}
		if v, ok := c.Responder.Get(ref); ok && !ofCloud(v.Row) {
			return v, local()
		}
		found, err := c.cloud.find(ctx, c.Responder, ref)
		if err != nil {
			return responder.View{}, err
		}
		if found == "" {
			return responder.View{}, &failure{wireError{
				Code: codeNotFound, Message: "no run follows this task of Codex Cloud", Details: details{CloudID: ref},
			}}
		}
		run = found
	}
	v, err := c.Responder.Look(ctx, run)
	if errors.Is(err, runs.ErrNoRun) {
		return v, notFound(run)
	}
	if err == nil && !ofCloud(v.Row) {
		return v, local()
	}
	return v, err
}

// cloudIndex knows the runs of tasks in Codex Cloud by the service's ids,
// which only their records tell. It reads each record once, and is bounded: at
// the bound it begins anew.
type cloudIndex struct {
	mu   sync.Mutex
	runs map[string]string // by the service's id
	read map[string]bool   // runs whose record names a task
}

const (
	maxIndexed = 10_000
	maxLooked  = 1_000 // records that one call reads
)

func newCloudIndex() *cloudIndex {
	return &cloudIndex{runs: map[string]string{}, read: map[string]bool{}}
}

// add notes the run of a task.
func (x *cloudIndex) add(id, run string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.read) >= maxIndexed {
		clear(x.runs)
		clear(x.read)
	}
	x.runs[id], x.read[run] = run, true
}

func (x *cloudIndex) get(id string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.runs[id]
}

func (x *cloudIndex) has(run string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.read[run]
}

// find returns the run of a task, "" if none follows it.
func (x *cloudIndex) find(ctx context.Context, r *responder.Responder, id string) (string, error) {
	if run := x.get(id); run != "" {
		return run, nil
	}
	s := r.Snapshot(maxIndexed, ofCloud)
	looked := 0
	for _, views := range [][]responder.View{s.Working, s.Queued, s.Ended} {
		for _, v := range views {
			if x.has(v.ID) {
				continue
			}
			if looked++; looked > maxLooked {
				return "", nil
			}
			record, err := r.Record(ctx, v.ID)
			if errors.Is(err, runs.ErrNoRun) {
				continue
			}
			if err != nil {
				return "", err
			}
			if record.Cloud != nil && record.Cloud.ID != "" {
				x.add(record.Cloud.ID, v.ID)
			}
		}
	}
	return x.get(id), nil
}
