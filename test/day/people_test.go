package day

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/browsertest"
)

// phone is a person at the page.
type phone struct {
	t       *testing.T
	browser *browsertest.Browser
	m       *machine
}

// does does a step of test/page/day.mjs.
func (p *phone) does(step string, args map[string]any) gjson.Result {
	p.t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	defer p.m.tell("the phone: %s %v", step, args["text"])
	args["stay"], args["shots"] = true, fixture.Path(p.t, "bin", "page")
	return gjson.ParseBytes(p.browser.Do(p.t, "day"+step, args, browsertest.Calls{
		"link": func(json.RawMessage) any { return p.m.linesman("page", "--http", p.m.http) },
	}))
}

// client is a client of MCP with a user. It connects again when a call is cut off, and then calls again.
type client struct {
	t          *testing.T
	url, token string
	asked      chan *sdk.ElicitParams // its user sees it
	says       chan string            // what the user chooses: an option of the form
	waited     chan gjson.Result      // the answer of a wait

	mu  sync.Mutex
	now session
}

// session is one with a server.
type session struct {
	*sdk.ClientSession
	over context.CancelFunc // what it still asks its user is over
}

func newClient(t *testing.T, url, token string) *client {
	c := &client{t: t, url: url, token: token, asked: make(chan *sdk.ElicitParams), says: make(chan string),
		waited: make(chan gjson.Result, 1)}
	t.Cleanup(func() { c.drop(c.now) })
	return c
}

// session is the one that is open, or a new one.
func (c *client) session(ctx context.Context) (session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now.ClientSession != nil {
		return c.now, nil
	}
	cut, over := context.WithCancel(ctx)
	opts := &sdk.ClientOptions{}
	opts.ElicitationHandler = func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		select {
		case c.asked <- r.Params:
		case <-cut.Done():
			return nil, cut.Err()
		}
		select {
		case option := <-c.says:
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": option}}, nil
		case <-cut.Done():
			return nil, cut.Err()
		}
	}
	s, err := sdk.NewClient(&sdk.Implementation{Name: "day", Version: "1"}, opts).Connect(ctx,
		&sdk.StreamableClientTransport{Endpoint: c.url + "/mcp?tools=live",
			HTTPClient: &http.Client{Transport: fixture.Bearing(c.token)}},
		&sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		over()
		return session{}, err
	}
	c.now = session{s, over}
	return c.now, nil
}

// drop ends a session that is of no use any more.
func (c *client) drop(s session) {
	if s.ClientSession == nil {
		return
	}
	c.mu.Lock()
	if c.now.ClientSession == s.ClientSession {
		c.now = session{}
	}
	c.mu.Unlock()
	s.over()
	_ = s.Close() // its server may be gone
}

// call calls a tool, again if it is cut off.
func (c *client) call(ctx context.Context, tool string, args map[string]any) (out gjson.Result, err error) {
	fixture.Poll(fixture.Patience, func() bool {
		var s session
		if s, err = c.session(ctx); err == nil {
			var res *sdk.CallToolResult
			if res, err = s.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args}); err == nil {
				out = gjson.Parse(res.Content[0].(*sdk.TextContent).Text)
				return !out.Get("error.retryable").Bool()
			}
		}
		c.drop(s)
		return ctx.Err() != nil
	})
	return out, err
}

// calls is call for a tool that answers at once.
func (c *client) calls(tool string, args map[string]any) gjson.Result {
	c.t.Helper()
	out, err := c.call(c.t.Context(), tool, args)
	if err != nil || out.Get("error").Exists() {
		c.t.Fatalf("%s: %s, %v", tool, out, err)
	}
	return out
}

// waits waits for a turn, beside all else.
func (c *client) waits(run string, after int64) {
	go func() {
		args := map[string]any{"run": run}
		if after > 0 {
			args["after"] = after
		}
		for {
			out, err := c.call(c.t.Context(), "_agent_live_wait", args)
			if err != nil {
				out = gjson.Parse(fmt.Sprintf(`{"error":%q}`, err))
			}
			if err != nil || out.Get("reached").Bool() || out.Get("error").Exists() {
				c.waited <- out
				return
			}
		}
	}()
}

// isAsked waits until its user sees a question.
func (c *client) isAsked() *sdk.ElicitParams {
	c.t.Helper()
	select {
	case q := <-c.asked:
		return q
	case out := <-c.waited:
		c.t.Fatalf("its user is not asked, and the turn has ended: %s", out)
	case <-time.After(fixture.Patience):
		c.t.Fatal("its user is not asked")
	}
	return nil
}

// chooses answers a question with the option of a kind.
func (c *client) chooses(q *sdk.ElicitParams, kind string) {
	c.t.Helper()
	schema, err := json.Marshal(q.RequestedSchema)
	option := gjson.GetBytes(schema, `properties.answer.oneOf.#(title%"*(`+kind+`)").const`)
	if err != nil || !option.Exists() {
		c.t.Fatalf("there is no option %s: %s", kind, schema)
	}
	select {
	case c.says <- option.String():
	case <-time.After(fixture.Patience):
		c.t.Fatal("the question is not open any more")
	}
}

// hears waits for the end of the turn.
func (c *client) hears() gjson.Result {
	c.t.Helper()
	select {
	case out := <-c.waited:
		if out.Get("error").Exists() {
			c.t.Fatal(out)
		}
		return out
	case <-time.After(fixture.Patience):
		c.t.Fatal("the turn does not end")
	}
	return gjson.Result{}
}
