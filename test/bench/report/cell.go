package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/daemon/datadir"
)

var names = bus.Names{Prefix: bus.DefaultPrefix}

// cell is a running linesman, or a server alone, as processes of their own.
type cell struct {
	harness *harness
	data    string   // of the `up`, or of the commands beside the roles
	nats    []string // of a server without accounts; nil: that of data
	bus     *bus.Bus // of the operator
	roles   map[string][]*process
}

// up starts a `linesman up` on a new data directory.
func (h *harness) up(ctx context.Context, program string) (*cell, error) {
	c := h.cell()
	err := c.add(ctx, "up", command{
		program: program, piped: true,
		args: []string{"up", "--data-dir", c.data, "--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0"},
	})
	return c.ready(ctx, program, err)
}

// bare starts the server of an `up` alone, with its streams.
func (h *harness) bare(ctx context.Context) (*cell, error) {
	c := h.cell()
	err := c.add(ctx, "server", command{program: h.self, args: []string{"serve", c.data}, piped: true})
	return c.ready(ctx, "", err)
}

// cluster starts servers; of several, each stream has a copy on each. With roles it
// starts a normalizer and a responder, too.
func (h *harness) cluster(ctx context.Context, size int, roles bool) (_ *cell, err error) {
	c := h.cell()
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	ports, err := freeAddresses(3 * size)
	if err != nil {
		return nil, err
	}
	var routes, health []string
	for _, address := range ports[size : 2*size] {
		routes = append(routes, "nats://"+address)
	}
	for i := range size {
		conf := fmt.Sprintf("server_name: n%d\nlisten: %q\nhttp: %q\njetstream { store_dir: %q, max_file: 1TB }\n",
			i, ports[i], ports[2*size+i], filepath.Join(c.data, fmt.Sprint("store", i)))
		if size > 1 {
			conf += fmt.Sprintf("cluster { name: bench, listen: %q, routes: [%s] }\n", ports[size+i], strings.Join(routes, ","))
		}
		file := filepath.Join(c.data, fmt.Sprint("n", i, ".conf"))
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			return nil, err
		}
		if err := c.add(ctx, "server", command{program: h.server, args: []string{"-c", file}}); err != nil {
			return nil, err
		}
		c.nats = append(c.nats, "nats://"+ports[i])
		health = append(health, "http://"+ports[2*size+i]+"/healthz")
	}
	if err := until(ctx, "the servers are healthy", time.Second/10, func() bool {
		return healthy(ctx, health)
	}); err != nil {
		return nil, err
	}
	if c.bus, err = c.connect(ctx); err != nil {
		return nil, err
	}
	limits := bus.DefaultLimits()
	limits.Replicas = size
	if err := until(ctx, "the streams exist", time.Second/10, func() bool {
		_, err = c.bus.Ensure(ctx, limits)
		return err == nil
	}); err != nil || !roles {
		return c, err
	}
	copies := []string{fmt.Sprint("LINESMAN_REPLICAS=", size)} // the normalizer configures existing streams
	for _, role := range [][]string{{"normalizer"}, {"responder", "--http", "127.0.0.1:0"}} {
		args := append(role, "--nats", strings.Join(c.nats, ","), "--data-dir", filepath.Join(c.data, role[0]))
		if err := c.add(ctx, role[0], command{program: h.linesman, args: args, env: copies}); err != nil {
			return nil, err
		}
	}
	return c, c.warm(ctx, h.linesman)
}

func (h *harness) cell() *cell {
	h.cells++
	c := &cell{harness: h, data: filepath.Join(h.dir, fmt.Sprint("data", h.cells)), roles: map[string][]*process{}}
	_ = os.Mkdir(c.data, 0o700) // what is written there reports the error
	return c
}

// add starts a process of a role. If its stdout is piped, add returns when it has printed a line.
func (c *cell) add(ctx context.Context, role string, start command) error {
	p, err := c.harness.start(ctx, start)
	if err != nil {
		return err
	}
	c.roles[role] = append(c.roles[role], p)
	if start.piped {
		_, err = p.line()
	}
	return err
}

// ready connects to a cell, and has it import a short file if it is more than a server.
func (c *cell) ready(ctx context.Context, program string, err error) (*cell, error) {
	if err == nil {
		c.bus, err = c.connect(ctx)
	}
	if err == nil && program != "" {
		err = c.warm(ctx, program)
	}
	if err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// warm returns when all roles work: a first file was imported.
func (c *cell) warm(ctx context.Context, program string) error {
	_, err := c.tail(ctx, program, c.harness.warmUp)
	return err
}

// command is a command of linesman at the cell.
func (c *cell) command(program, name string, args ...string) command {
	all := []string{name, "--data-dir", c.data}
	if c.nats != nil {
		all = append(all, "--nats", strings.Join(c.nats, ","))
	}
	return command{program: program, args: append(all, args...)}
}

func (c *cell) connect(ctx context.Context) (*bus.Bus, error) {
	return dial(ctx, c.data, strings.Join(c.nats, ","))
}

// dial connects as the operator, to a server without accounts or to that of a data
// directory.
func dial(ctx context.Context, data, url string) (*bus.Bus, error) {
	inside, public := bus.Login{URL: url}, bus.Login{}
	if url == "" {
		here, err := datadir.ReadInstance(data)
		if err != nil {
			return nil, err
		}
		credentials, err := embedded.LoadCredentials(data)
		if err != nil {
			return nil, err
		}
		inside, public = credentials.Logins(here.NATS, embedded.OperatorUser)
	}
	return bus.Connect(ctx, inside, public, names, zap.NewNop())
}

// copies returns the number of copies of EVENTS.
func (c *cell) copies(ctx context.Context) (int, error) {
	s, err := c.bus.PublicJetStream().Stream(ctx, names.Events())
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().Config.Replicas, nil
}

// stored returns the last sequence of EVENTS.
func (c *cell) stored(ctx context.Context) (uint64, error) {
	s, err := c.bus.PublicJetStream().Stream(ctx, names.Events())
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.LastSeq, nil
}

// cpu returns what the processes of a role have used.
func (c *cell) cpu(role string) (total time.Duration, err error) {
	for _, p := range c.roles[role] {
		used, failed := p.cpu()
		total, err = total+used, errors.Join(err, failed)
	}
	return total, err
}

// stop ends all processes of the cell, roles before servers, and removes its files.
func (c *cell) stop() {
	if c.bus != nil {
		c.bus.Close()
	}
	for _, role := range []string{"up", "normalizer", "responder", "server"} {
		for _, p := range c.roles[role] {
			p.stop()
		}
	}
	_ = os.RemoveAll(c.data) // the directory of all is removed at the end
}

// until polls until holds returns true. A minute is not a target: what takes longer will
// never happen.
func until(ctx context.Context, what string, pause time.Duration, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for tick := time.NewTicker(pause); !holds(); {
		select {
		case <-ctx.Done():
			return fmt.Errorf("not so in a minute: %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

func healthy(ctx context.Context, urls []string) bool {
	return !slices.ContainsFunc(urls, func(url string) bool {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return true
		}
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			return true
		}
		defer answer.Body.Close()
		return answer.StatusCode != http.StatusOK
	})
}

// freeAddresses returns addresses of loopback with ports that the system selects.
func freeAddresses(n int) (all []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}
