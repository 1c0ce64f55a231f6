package cells

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/test/chaos"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// patience limits the wait for what takes an election, or the redelivery of a task after
// 30 s, on a busy machine.
const patience = 150 * time.Second

// cell is one installation: normalizer, standby, responder and worker, processes with a
// prefix and keys of their own.
type cell struct {
	t      testing.TB
	c      *cluster
	prefix string
	dir    string
	roles  map[string]*fixture.Process
	direct []*fixture.Process
	keyOf  map[string]string // of the journal of a run's agent, by run
	made   int
}

func newCell(c *cluster, prefix string) *cell {
	t := c.t
	t.Helper()
	s := &cell{t: t, c: c, prefix: prefix, dir: t.TempDir(), roles: map[string]*fixture.Process{},
		keyOf: map[string]string{}}
	text := fmt.Sprintf("prefix = %q\nnats = %q\ncreds = %q\nreplicas = %d\n[limits]\ngrace = '300ms'\n[work]\n"+
		"roots = [%q]\n[agents.codex]\ncommand = [%q, %q]\n", prefix, c.urls(), filepath.Join(c.keys, prefix),
		len(c.nodes), s.dir, agent, s.journals())
	if err := os.WriteFile(s.config(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// begin starts all roles.
func (s *cell) begin() {
	s.t.Helper()
	s.start("normalizer", "normalizer reading")
	for _, role := range []string{"standby", "worker", "responder"} {
		s.start(role, "ready")
	}
}

func (s *cell) journals() string { return filepath.Join(s.dir, "journals") }
func (s *cell) config() string   { return filepath.Join(s.dir, "linesman.toml") }

// arguments returns the arguments of a command in the cell.
func (s *cell) arguments(name string, args ...string) []string {
	data := filepath.Join(s.dir, "data")
	if name == "responder" {
		data, args = filepath.Join(s.dir, "responder"), append(args, "--http", "127.0.0.1:0")
	}
	return append([]string{name, "--config", s.config(), "--data-dir", data}, args...)
}

// launch starts a command in the cell.
func (s *cell) launch(name string, args ...string) *fixture.Process {
	s.t.Helper()
	cmd := exec.Command(program, s.arguments(name, args...)...)
	cmd.Dir = s.dir
	return fixture.Start(s.t, cmd)
}

// start starts a role, again or for the first time, and waits until it works.
func (s *cell) start(role, ready string) {
	s.t.Helper()
	command := role
	if role == "standby" {
		command = "normalizer"
	}
	p := s.launch(command)
	p.AwaitEither(ready)
	s.roles[role] = p
}

// prompt returns a new one for an agent that writes a number of lines, 10 ms apart on
// average.
func (s *cell) prompt(lines int) (key, prompt string) {
	s.made++
	key = fmt.Sprintf("%s-%d", s.prefix, s.made)
	return key, fmt.Sprintf("%s talk %d secret=%s lines=%d pace=10", key, rand.Uint32(), chaos.Sentinel, lines)
}

// run starts an agent with `linesman run` and returns the id of its run.
func (s *cell) run(lines int) string {
	s.t.Helper()
	key, prompt := s.prompt(lines)
	s.keyOf[key] = key
	s.direct = append(s.direct, s.launch("run", "--run", key, "--json", "--", agent, s.journals(), prompt))
	return key
}

// submit submits a task to the cell's worker.
func (s *cell) submit(lines int) {
	s.t.Helper()
	key, prompt := s.prompt(lines)
	submit := exec.Command(program, s.arguments("submit", "--dir", s.dir, "--skip-git-repo-check", prompt)...)
	submit.Dir = s.dir
	out, said, code := fixture.Run(s.t, submit)
	if code != 0 {
		s.t.Fatalf("%s: submit: exit %d\n%s", s.prefix, code, said)
	}
	s.keyOf[strings.TrimSpace(out)] = key
}

// burden starts what is to be at work during a fault.
func (s *cell) burden() {
	s.t.Helper()
	for range 2 {
		s.run(300)
	}
	s.submit(300)
}

// server returns the connections with which the checker reads the cell.
func (s *cell) server() chaos.Server {
	return chaos.Server{Names: bus.Names{Prefix: s.prefix}, Inside: s.c.connect(s.prefix, embedded.OperatorUser),
		Public: s.c.connect(s.prefix, embedded.OperatorUser+"_public")}
}

// check waits until all runs have ended, and checks the streams of the cell. It returns
// its events.
func (s *cell) check() []chaos.Message {
	s.t.Helper()
	for _, p := range s.direct {
		p.Code() // that of the agent
	}
	server := s.server()
	for run := range s.keyOf {
		fixture.Eventually(s.t, patience, "run "+run+" does not end", func() bool {
			ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
			defer cancel()
			r, err := server.Record(ctx, run)
			return err == nil && r != nil && r.State.Final()
		})
	}
	fixture.Eventually(s.t, patience, "a task is still in the queue of "+s.prefix, func() bool {
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
		defer cancel()
		tasks, err := server.Waiting(ctx)
		return err == nil && len(tasks) == 0
	})
	e, err := server.Gather(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var agents []chaos.Agent
	for run, key := range s.keyOf {
		j, err := chaos.ReadJournal(filepath.Join(s.journals(), key))
		if err != nil {
			s.t.Fatal(err)
		}
		agents = append(agents, j.Agent(run))
	}
	for _, problem := range chaos.Check(e, agents) {
		s.t.Errorf("cell %s: %s", s.prefix, problem)
	}
	return e.Events
}

// subscriber reads the stream of all cells, as the user that the page says.
type subscriber struct {
	t  testing.TB
	js jetstream.JetStream

	stop func() // of live messages

	mu    sync.Mutex
	all   []chaos.Message
	ended map[string]bool // runs whose completion was read

	live map[string]bool // subject and position of what was delivered, read after stop
}

// source creates the stream of all cells as the page does.
func (c *cluster) source() {
	c.t.Helper()
	conn := c.connect("", embedded.OperatorUser).Conn()
	answer, err := conn.Request("$JS.API.STREAM.CREATE."+embedded.CellsAccount, []byte(block(c.t, "{\n")), 10*time.Second)
	if err != nil || bytes.Contains(answer.Data, []byte(`"error"`)) {
		c.t.Fatalf("create the stream of all cells: %v %s", err, answer.Data)
	}
}

// subscribe reads until the test ends: the stream as linesman reads EVENTS, by direct gets,
// and live messages. A plain consumer may stay silent after an election.
func (c *cluster) subscribe() *subscriber {
	t := c.t
	t.Helper()
	s := &subscriber{t: t, js: c.connect("", embedded.SubscriberUser), ended: map[string]bool{}, live: map[string]bool{}}
	s.stop = bustest.Subscribe(t, s.js.Conn(), "*.live.>", func(m *nats.Msg) {
		s.live[m.Header.Get("Nats-Subject")+" "+m.Header.Get(bus.HeaderPos)] = true
	})
	ctx, cancel := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	reading.Go(func() {
		r := reader.NewDirect(s.js, embedded.CellsAccount, "*.events.>", "*.live.>", true, 1)
		if err := r.Follow(ctx, s.take); err != nil {
			t.Errorf("subscriber: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
	})
	return s
}

func (s *subscriber) take(m *jetstream.RawStreamMsg) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, chaos.Message{Seq: m.Sequence, Subject: m.Subject, Header: m.Header, Body: m.Data})
	if part := strings.Split(m.Subject, "."); part[4] == "completion" {
		s.ended[part[3]] = true
	}
	return nil
}

// passes starts a run in each of the cells and waits until the subscriber has read it to
// its end.
func (s *subscriber) passes(what string, cells ...*cell) {
	s.t.Helper()
	began := time.Now()
	for _, c := range cells {
		run := c.run(3)
		if !fixture.Poll(patience, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.ended[run]
		}) {
			s.t.Fatalf("%s: the subscriber does not read run %s of %s\n%s", what, run, c.prefix, s.standing(c))
		}
		s.t.Logf("%s: %s is read again after %v", what, c.prefix, time.Since(began).Round(10*time.Millisecond))
	}
}

// standing describes how far the events of a cell have come.
func (s *subscriber) standing(c *cell) string {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	of := func(js jetstream.JetStream, stream string) string {
		found, err := js.Stream(ctx, stream)
		if err != nil {
			return fmt.Sprintf("%s: %v\n", stream, err)
		}
		info := found.CachedInfo()
		text := fmt.Sprintf("%s: last %d, leader %+v\n", stream, info.State.LastSeq, *info.Cluster)
		for _, source := range info.Sources {
			text += fmt.Sprintf("  source %s: lag %d, active %v ago\n", source.Name, source.Lag, source.Active)
		}
		return text
	}
	server := c.server()
	s.mu.Lock()
	defer s.mu.Unlock()
	return of(server.Inside, server.Names.Raw()) + of(server.Public, server.Names.Events()) +
		of(c.c.connect("", embedded.OperatorUser), embedded.CellsAccount) + fmt.Sprintf("read: %d", len(s.all))
}

// compare compares what was read of a cell with its EVENTS: each message once, in order.
func (s *subscriber) compare(prefix string, events []chaos.Message) {
	s.t.Helper()
	of := func() (all []chaos.Message) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, m := range s.all {
			if m.Seq != uint64(i)+1 {
				s.t.Fatalf("the subscriber read sequence %d in place %d", m.Seq, i+1)
			}
			if strings.HasPrefix(m.Subject, prefix+".events.") {
				all = append(all, m)
			}
		}
		return all
	}
	fixture.Poll(patience, func() bool { return len(of()) >= len(events) })
	have := of()
	if len(have) != len(events) {
		s.t.Errorf("cell %s: the subscriber read %d events of %d", prefix, len(have), len(events))
	}
	live := 0
	for i := range min(len(have), len(events)) {
		have, want := have[i], events[i]
		source, _, _ := strings.Cut(have.Header.Get("Nats-Stream-Source"), " "+prefix+".events.>")
		if want := fmt.Sprintf("%s_EVENTS", strings.ToUpper(prefix)); !strings.HasPrefix(source, want) {
			s.t.Fatalf("cell %s: event %d is from %q", prefix, i+1, source)
		}
		pos := want.Header.Get(bus.HeaderPos)
		if have.Subject != want.Subject || have.Header.Get(bus.HeaderPos) != pos || !bytes.Equal(have.Body, want.Body) {
			s.t.Fatalf("cell %s: event %d was read as %s %q, and is %s %q", prefix, i+1, have.Subject,
				have.Header.Get(bus.HeaderPos), want.Subject, pos)
		}
		if s.live[want.Subject+" "+pos] {
			live++
		}
	}
	if live == 0 {
		s.t.Errorf("cell %s: no event was read live", prefix)
	}
	s.t.Logf("cell %s: %d events, %d of them live", prefix, len(events), live)
}

// Two cells share a cluster of three servers, and one subscriber reads both. Processes of
// one cell and nodes of the cluster are killed while agents write in both. In the end the
// subscriber has read every event once, in order, and a fault of one cell has not stopped
// the other one.
func TestOneSubscriberReadsAllCellsWhateverIsKilled(t *testing.T) {
	fixture.Long(t, "elections of a cluster take seconds")
	c := newCluster(t, 3)
	alpha, beta := newCell(c, "alpha"), newCell(c, "beta")
	alpha.begin()
	beta.begin()
	c.source()
	sub := c.subscribe()
	all := c.connect("", embedded.OperatorUser)
	for round := range *rounds {
		if round%2 == 1 {
			alpha, beta = beta, alpha
		}
		alpha.burden()
		beta.burden()
		alpha.roles["normalizer"].Kill()
		sub.passes("the normalizer of "+alpha.prefix+" was killed", beta, alpha)
		alpha.roles["standby"].Kill()
		alpha.roles["worker"].Kill()
		sub.passes(alpha.prefix+" has neither normalizer nor worker", beta)
		for _, role := range []string{"normalizer", "standby", "worker"} {
			alpha.start(role, "ready")
		}
		alpha.burden()
		beta.burden()
		n := c.leader(all, embedded.CellsAccount)
		if round == 0 { // without this stream's leader NATS may take 45 s to source again
			n = c.follower(n, c.leader(alpha.server().Public, "ALPHA_EVENTS"),
				c.leader(beta.server().Public, "BETA_EVENTS"))
		}
		n.kill()
		sub.passes(n.name+" was killed", beta, alpha)
		c.start(n)
		c.healthy()
	}
	cells := []*cell{alpha, beta}
	events := [][]chaos.Message{alpha.check(), beta.check()}
	sub.stop()
	for i, c := range cells {
		sub.compare(c.prefix, events[i])
	}
}
