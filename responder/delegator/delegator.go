// Package delegator is the fifteen tools of the v3.6 delegator: their names,
// their arguments, and answers to them, as an envelope for programs and as
// markdown for whoever reads. It owns what an answer looks like; what it says
// comes from the responder, and so from the streams.
//
//	tool, args ──▶ read ──▶ handler ──▶ data ──┬─▶ envelope (JSON)
//	              (params)  (Responder, Cloud)  ├─▶ markdown
//	                                            └─▶ AdCP (package adcp)
//
// The one rule: every call of a known tool is answered, with an envelope that
// fits its schema. What is wrong with the arguments is told at once and in the
// format that was asked for, and no value of a caller comes back in an error,
// but for short words of plain ASCII.
package delegator

import (
	"context"
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/cloud"
	"github.com/linesman/linesman/responder/push"
)

// Cloud hands tasks over to Codex Cloud. How they stand is read from their
// runs, like everything else.
type Cloud interface {
	Submit(ctx context.Context, r cloud.Request) (cloud.Submitted, error)
}

// Config is what a [Delegator] needs.
type Config struct {
	Responder *responder.Responder

	// Cloud is nil where Codex Cloud is not driven: the tools that need it
	// then answer UNSUPPORTED.
	Cloud Cloud
	// Environments is the path of the file that lists the environments of
	// Codex Cloud; one that is not there lists none.
	Environments string

	// Idle and Hard are the limits of a task that asks for none, for the texts
	// that name them; 0: not told.
	Idle, Hard time.Duration
	// Dir returns where a task works that names no directory, and is asked at
	// each submission; nil, or "", leaves it to the worker.
	Dir func() (string, error)
	// GitGate refuses tasks whose text names a git command that may lose work,
	// unless the caller allows it.
	GitGate bool

	// Requests sees to it that what a key comes with is done once. Where it is
	// nil, calls with a key are refused.
	Requests *adcp.Requests
	// Push keeps who is to be told of a run. Where it is nil, calls that ask
	// for it are refused.
	Push *push.Registry

	// Why is what kept the streams from doing what was asked of them, in words
	// for a caller, as far as an error tells; nil: nothing is known.
	Why func(error) string

	Log *zap.Logger // default: none
}

// Delegator answers calls of the tools. Its methods may be called from several
// goroutines.
type Delegator struct {
	Config
	log   *zap.Logger
	tools map[string]*tool
	list  []*tool
	cloud *cloudIndex
}

// New returns a delegator. The responder must be at work before it is called.
func New(cfg Config) *Delegator {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	d := &Delegator{Config: cfg, log: cfg.Log.Named("delegator"), tools: map[string]*tool{}, cloud: newCloudIndex()}
	d.list = d.all()
	for _, t := range d.list {
		t.begin = t.head()
		d.tools[t.name] = t
	}
	return d
}

// patience is how long a call waits for the responder to have read the run
// table after its start.
const patience = 10 * time.Second

// Call runs a tool. The error is [ErrUnknownTool] alone; whatever else goes
// wrong is an answer. Progress, unless it is nil, is told by the tools that
// wait, from the goroutine of the call. A call whose ctx ends while it waits
// for a task is answered with an error TIMEOUT; the task goes on.
func (d *Delegator) Call(ctx context.Context, name string, args json.RawMessage, progress func(Progress)) (Answer, error) {
	t := d.tools[name]
	if t == nil {
		return Answer{}, ErrUnknownTool
	}
	begun := time.Now()
	c := &call{Delegator: d, tool: t, begun: begun, args: readArguments(t.params, args), tell: rising(progress)}
	r, err := c.run(ctx)
	switch {
	case c.args.adcp:
		return c.adcp(ctx, r, err), nil
	case err != nil:
		return c.fail(err), nil
	}
	return c.succeed(r), nil
}

// MaxQuick is how many bytes a request may have that [Delegator.Quick] is asked.
const MaxQuick = 256

// Quick is Call for what is answered from memory alone: how one run stands that
// the table has. It waits for nothing. It reports false where that is not all
// there is to do, and then nothing was done.
func (d *Delegator) Quick(name string, args json.RawMessage) (Answer, bool) {
	if name != "_codex_local_status" {
		return Answer{}, false
	}
	t := d.tools[name]
	c := &call{Delegator: d, tool: t, begun: time.Now(), args: readArguments(t.params, args)}
	if c.args.broken || c.args.adcp || len(c.args.issues) > 0 || !c.args.has("task_id") || c.args.flag("verbose") {
		return Answer{}, false
	}
	r, err := c.run(atOnce)
	if err != nil {
		return Answer{}, false
	}
	return c.succeed(r), true
}

// atOnce has ended: what would wait for something fails instead.
var atOnce = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// call is one call of a tool.
type call struct {
	*Delegator
	tool  *tool
	begun time.Time
	args  *arguments
	again bool // it tells what an earlier call with the same key came to
	tell  func(percent float64, message string)
}

// reply is what a tool has to say.
type reply struct {
	meta any // small scalars alone
	data data
	of   *subject // the one run that it is about; nil: none, or several
}

// data is the payload of an envelope, which can tell itself to a reader, too.
type data interface {
	markdown(p *page)
}

func (c *call) run(ctx context.Context) (*reply, error) {
	if c.tool.check != nil && !c.args.broken {
		c.tool.check(c)
	}
	if c.args.adcp && c.tool.changes && !c.args.broken && !c.args.has("idempotency_key") {
		c.args.refuse("idempotency_key", "is required with format adcp")
	}
	if err := c.args.err(); err != nil {
		return nil, err
	}
	if c.tool.reads {
		if err := c.Responder.ReadyWithin(ctx, patience); err != nil {
			return nil, err
		}
	}
	return c.tool.handle(c, ctx)
}

// rising is progress that never falls, and is told only when it changes.
func rising(progress func(Progress)) func(float64, string) {
	if progress == nil {
		return func(float64, string) {}
	}
	last := Progress{Percent: -1}
	return func(percent float64, message string) {
		next := Progress{Percent: max(last.Percent, percent, 0), Message: message}
		if next != last {
			last = next
			progress(next)
		}
	}
}
