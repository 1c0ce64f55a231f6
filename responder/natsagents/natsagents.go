// Package natsagents serves the Agent Protocol for NATS, version 0.3: each profile whose agent a live worker has is an
// instance of the micro service agents, which callers discover, prompt and cancel. It owns the form of requests,
// streams and heartbeats; what a prompt may do is decided by package responder.
//
//	agents.prompt.AGENT.OWNER.NAME ──▶ ack ──▶ run ──▶ texts, status, … ──▶ an empty message
//	agents.cancel. …  agents.status. …  one answer            agents.hb. …  each 15 s
//
// A run outlives its caller: NATS does not tell that a caller has left. Several responders form a queue group.
package natsagents

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

const (
	group      = "agents"         // of the service, and of its subscriptions
	maxPayload = 64 << 10         // bytes of a request
	beatTime   = 15 * time.Second // between heartbeats, and of a stream without a message
	lookTime   = time.Second      // between looks for workers
	cancelTime = 30 * time.Second // for a cancel
	maxCancels = 64               // at a time
	retryAfter = 5                // seconds
)

// Config is what the service needs.
type Config struct {
	Conn     *nats.Conn // to the account of the callers
	Names    bus.Names
	Service  *responder.Service
	Owner    string
	Profiles []responder.Profile // none: see [responder.Service.DefaultProfiles]
	Version  string              // of linesman, in the form of Semantic Versioning
	Log      *zap.Logger

	// Slots has one for each prompt that is being answered.
	Slots *responder.Slots
	// Inboxes are the prefixes of reply subjects that are answered. Default: [bus.AgentInboxes].
	Inboxes []string
	// Dropped is called for each request with another reply subject, and Answered for others, as that of natsapi. They
	// may be nil.
	Dropped  func()
	Answered func(endpoint string, code int, took time.Duration)

	Beat time.Duration // replaces 15 s
}

// Serve announces the profiles and answers until ctx ends. Then it ends the streams, not their runs, and returns nil.
func Serve(ctx context.Context, c Config) error {
	c.Beat, c.Names.Prefix = cmp.Or(c.Beat, beatTime), cmp.Or(c.Names.Prefix, bus.DefaultPrefix)
	if len(c.Profiles) == 0 {
		c.Profiles = c.Service.DefaultProfiles(c.Owner)
	}
	if c.Inboxes == nil {
		c.Inboxes = bus.AgentInboxes
	}
	s := &server{Config: c, ctx: ctx, cancels: responder.NewSlots(maxCancels), all: map[string]*instance{},
		looks: make(chan glance), talks: map[string]bool{}}
	defer s.end()
	if s.Service.Filled(ctx) != nil { // ctx ended
		return nil
	}
	look := time.NewTicker(min(lookTime, c.Beat))
	defer look.Stop()
	for {
		s.look()
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		case g := <-s.looks:
			s.look()
			g.is <- s.all[g.subject] != nil
		}
	}
}

type server struct {
	Config
	ctx     context.Context // ends all streams
	cancels *responder.Slots
	all     map[string]*instance // by subject; only used by Serve
	looks   chan glance          // asks Serve to look
	logged  string               // last error of an announcement

	mu    sync.Mutex // guards over, talks and calls.Go
	over  bool
	talks map[string]bool // sessions that a prompt is for
	calls sync.WaitGroup
}

// glance is a question to Serve: whether something is announced, by the subject of its heartbeats.
type glance struct {
	subject string
	is      chan<- bool // has room
}

// instance is a profile, or a session of it, that is announced.
type instance struct {
	micro.Service
	beaten time.Time // the last heartbeat; only used by Serve

	mu   sync.Mutex
	live responder.LiveProfile
}

func (i *instance) profile() responder.LiveProfile {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.live
}

// look announces profiles that have got a live worker, withdraws those that have none, and sends due heartbeats.
func (s *server) look() {
	seen := map[string]bool{}
	for _, p := range s.Service.LiveProfiles(s.Profiles) {
		subject := subjectOf("hb", p)
		if seen[subject] { // a profile has the name of a session
			continue
		}
		seen[subject] = true
		i := s.all[subject]
		if i == nil {
			var err error
			if i, err = s.announce(p); err != nil {
				if s.logged != err.Error() { // tried again
					s.logged = err.Error()
					s.Log.Warn("an agent is not announced", zap.String("subject", subject), zap.Error(err))
				}
				continue
			}
			s.all[subject] = i
		}
		i.mu.Lock()
		i.live = p
		i.mu.Unlock()
		if time.Since(i.beaten) >= s.Beat {
			i.beaten = time.Now()
			if err := s.Conn.Publish(subject, s.beat(i)); err != nil {
				s.Log.Debug("heartbeat", zap.Error(err))
			}
		}
	}
	for subject, i := range s.all {
		if !seen[subject] {
			_ = i.Stop() // fails only if the connection is closed
			delete(s.all, subject)
		}
	}
}

func subjectOf(verb string, p responder.LiveProfile) string {
	return bus.AgentSubject(verb, p.AgentToken(), p.Owner, p.Token())
}

// announce registers a profile as an instance of the service.
func (s *server) announce(p responder.LiveProfile) (*instance, error) {
	i := &instance{live: p}
	about := map[string]string{
		"agent": p.AgentToken(), "owner": p.Owner, "protocol_version": "0.3",
		"capabilities": strings.Join(s.Service.Agents().Of(p.Agent).Capabilities(), " "),
	}
	what := "prompts that become runs of a coding agent"
	if p.Session != "" {
		about["session"], what = p.Token(), "prompts that are the next turns of a session of a coding agent"
	}
	var err error
	i.Service, err = micro.AddService(s.Conn, micro.Config{
		Name: group, Version: s.Version, Description: what, Metadata: about,
	})
	if err != nil {
		return nil, err
	}
	for verb, e := range map[string]struct {
		metadata map[string]string
		do       func(*instance, call)
	}{
		"prompt": {map[string]string{"max_payload": "64KB", "attachments_ok": strconv.FormatBool(p.Live)}, s.prompt},
		"status": {map[string]string{}, s.status},
		"cancel": {map[string]string{}, s.cancel},
	} {
		err := i.AddEndpoint(verb, micro.HandlerFunc(func(r micro.Request) { s.request(i, e.do, verb, r) }),
			micro.WithEndpointSubject(subjectOf(verb, p)), micro.WithEndpointQueueGroup(group),
			micro.WithEndpointMetadata(e.metadata))
		if err != nil {
			_ = i.Stop()
			return nil, err
		}
	}
	return i, nil
}

// beat returns a heartbeat.
func (s *server) beat(i *instance) []byte {
	type load struct {
		Slots  int `json:"slots"`
		Busy   int `json:"busy"`
		Queued int `json:"queued"`
	}
	p, session := i.profile(), ""
	if p.Session != "" {
		session = p.Token()
	}
	return runs.Encode(struct {
		Agent    string `json:"agent"`
		Owner    string `json:"owner"`
		Session  string `json:"session,omitempty"`
		ID       string `json:"instance_id"`
		TS       string `json:"ts"`
		Interval int    `json:"interval_s"`
		Linesman load   `json:"linesman"`
	}{
		p.AgentToken(), p.Owner, session, i.Info().ID, time.Now().UTC().Format(time.RFC3339), max(int(s.Beat/time.Second), 1),
		load{p.Slots, p.Busy, p.Queued},
	})
}

// request begins to answer a request. It does not block: other requests wait behind it.
func (s *server) request(i *instance, do func(*instance, call), verb string, r micro.Request) {
	if !s.isInbox(r.Reply()) {
		if s.Dropped != nil {
			s.Dropped()
		}
		return
	}
	c := call{s: s, verb: verb, reply: r.Reply(), body: r.Data(), begun: time.Now()}
	slots := s.Slots
	switch verb {
	case "status":
		do(i, c)
		return
	case "cancel":
		slots = s.cancels
	}
	free, ok := slots.Take(group) // all profiles are one caller of these: a quarter is for others
	if !ok {
		c.fail(&api.Error{Code: api.TooMany, Message: "there are as many prompts and streams as there may be"}, "")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		free()
		return
	}
	s.calls.Go(func() {
		defer free()
		do(i, c)
	})
}

// isInbox reports whether a reply subject is one of a caller: answers to any other would go to somebody else.
func (s *server) isInbox(reply string) bool {
	return !strings.ContainsAny(reply, "*> \t\r\n") && !strings.Contains(reply, "..") && !strings.HasSuffix(reply, ".") &&
		slices.ContainsFunc(s.Inboxes, func(prefix string) bool { return strings.HasPrefix(reply, prefix+".") })
}

// end withdraws all profiles, and waits for the streams.
func (s *server) end() {
	for _, i := range s.all {
		_ = i.Stop()
	}
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.calls.Wait()
}

func (s *server) status(i *instance, c call) { c.answer(s.beat(i)) }

func (s *server) cancel(i *instance, c call) {
	p := i.profile()
	ctx, end := context.WithTimeout(p.In(s.ctx), cancelTime)
	defer end()
	run, state, err := s.stop(ctx, p, c.body)
	if err != nil {
		c.fail(err, "")
		return
	}
	c.answer(runs.Encode(map[string]any{"run": run, "state": state}))
}

// stop cancels a run of a profile; of a session the turn, or it ends it.
func (s *server) stop(
	ctx context.Context, p responder.LiveProfile, body []byte,
) (run string, state runs.State, err error) {
	if p.Session == "" {
		var q struct {
			Run string `json:"run"`
		}
		if err := strictly(body, &q, true); err != nil {
			return "", "", err
		}
		done, err := s.Service.CancelPrompted(ctx, p.Profile, q.Run)
		return done.Run, done.State, err
	}
	q := struct {
		Run string `json:"run"`
		End bool   `json:"end"`
	}{Run: p.Session}
	if len(body) > 0 {
		if err := strictly(body, &q, true); err != nil {
			return "", "", err
		}
	}
	var sent api.Sent
	switch {
	case q.Run != p.Session:
		err = &api.Error{Code: api.NotFound, Message: "that run is not the session"}
	case q.End:
		sent, err = s.Service.End(ctx, api.RunRequest{Run: q.Run})
	default:
		sent, err = s.Service.StopTurn(ctx, api.TurnRequest{Run: q.Run})
	}
	return sent.Run, sent.State, err
}

// call is a request that is being answered.
type call struct {
	s           *server
	verb, reply string
	body        []byte
	begun       time.Time
}

// answer sends the only answer to a request.
func (c call) answer(body []byte) {
	if err := c.s.Conn.Publish(c.reply, body); err != nil {
		c.s.Log.Debug("answer", zap.Error(err))
	}
	c.count(0)
}

func (c call) count(code int) {
	if c.s.Answered != nil {
		c.s.Answered("agents."+c.verb, code, time.Since(c.begun))
	}
}

// statuses are the codes that the protocol has for errors of the service; others are 500.
var statuses = map[api.Code]int{
	api.Validation: 400, api.Unsupported: 400, api.NotFound: 404, api.Conflict: 409, api.Ended: 409, api.KeyConflict: 409,
	api.KeyInFlight: 409, api.KeyExpired: 409, api.RateLimited: 429, api.QueueFull: 429, api.TooMany: 429,
}

// fail sends an error of the service, and of a prompt the end.
func (c call) fail(err error, run string) {
	e := api.Known(err)
	code := cmp.Or(statuses[e.Code], 500)
	body := failure{Error: strings.ToLower(string(e.Code)), Message: e.Error(), Run: run}
	if code == 429 {
		body.RetryAfter = cmp.Or(int(e.RetryAfter/time.Second), retryAfter)
	}
	c.refuse(code, body)
}

// failure is the body of an error.
type failure struct {
	Error      string `json:"error"`
	Message    string `json:"message"`
	Run        string `json:"run,omitempty"`
	RetryAfter int    `json:"retry_after_s,omitempty"`
}

func (c call) refuse(code int, f failure) {
	m := nats.NewMsg(c.reply)
	m.Data = runs.Encode(f)
	m.Header[micro.ErrorCodeHeader], m.Header[micro.ErrorHeader] = []string{strconv.Itoa(code)}, []string{line(f.Message)}
	if err := c.s.Conn.PublishMsg(m); err != nil {
		c.s.Log.Debug("answer", zap.Error(err))
	}
	if c.verb == "prompt" {
		c.end()
	}
	c.count(code)
}

// end sends the empty message after which nothing follows.
func (c call) end() {
	if err := c.s.Conn.Publish(c.reply, nil); err != nil {
		c.s.Log.Debug("end of a stream", zap.Error(err))
	}
}
