package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
)

// site is a linesman at work, whole or as roles on somebody else's server, with
// agents that keep journals.
type site struct {
	t        *testing.T
	rng      *rand.Rand
	dir      string
	journals string
	names    bus.Names
	url      string   // of somebody else's server; "": `up` has its own
	data     []string // the data directories in which runs are
	roles    map[string]*process
	direct   map[string]*process // `linesman run`, by run

	struck []string // directories of the runs whose shims were killed last
	spare  int      // how many of them are spared

	made    int // prompts
	waiting sync.WaitGroup

	mu       sync.Mutex
	conn     *nats.Conn // for requests
	accepted []string   // runs that a responder said it has taken
	failure  error      // of a submission that nobody takes
	ends     map[string][]runs.Reason
	cut      map[string]bool
}

// newSite makes the files of one; nothing is started yet.
func newSite(t *testing.T, rng *rand.Rand, settings string) *site {
	t.Helper()
	s := &site{
		t: t, rng: rng, dir: t.TempDir(), names: bus.Names{Prefix: bus.DefaultPrefix}, roles: map[string]*process{},
		direct: map[string]*process{}, ends: map[string][]runs.Reason{}, cut: map[string]bool{},
	}
	s.journals = filepath.Join(s.dir, "journals")
	for _, name := range []string{"journals", "logs", "home"} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf("log_level = 'debug'\n%s\n[limits]\ngrace = '300ms'\n[work]\nmax_runs = 4\nroots = "+
		"[%q]\n[agents.codex]\ncommand = [%q, %q]\nacp = [%[3]q, %[4]q, 'live']\n", settings, s.dir, agent, s.journals)
	if err := os.WriteFile(filepath.Join(s.dir, "linesman.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// newUp starts a whole linesman.
func newUp(t *testing.T, rng *rand.Rand, settings string) *site {
	t.Helper()
	s := newSite(t, rng, settings)
	s.data = []string{filepath.Join(s.dir, "data")}
	s.begin("up")
	return s
}

// newRoles starts a normalizer, a responder and two workers on a server.
func newRoles(t *testing.T, rng *rand.Rand, url string, settings ...string) *site {
	t.Helper()
	s := newSite(t, rng, strings.Join(settings, "\n"))
	s.url = url
	s.data = []string{filepath.Join(s.dir, "worker-a"), filepath.Join(s.dir, "worker-b")}
	for _, role := range []string{"normalizer", "responder", "worker-a", "worker-b"} {
		s.begin(role)
	}
	return s
}

// begin starts a role, again or for the first time, and waits until it works.
func (s *site) begin(role string) {
	s.t.Helper()
	var args []string
	ready := ""
	switch role {
	case "up":
		args, ready = s.at(s.data[0], "up", "--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0"), "ready nats="
	case "responder":
		args, ready = s.at(filepath.Join(s.dir, "office"), role, "--http", "127.0.0.1:0"), "ready http="
	case "worker-a", "worker-b":
		args, ready = s.at(filepath.Join(s.dir, role), "worker"), "worker ready"
	default:
		args, ready = s.at(filepath.Join(s.dir, "office"), "normalizer"), "normalizer ready"
		if len(s.roles) == 0 {
			ready = "reading" // the first one makes the streams
		}
	}
	log := s.log(role)
	from := 0
	if info, err := os.Stat(log); err == nil {
		from = int(info.Size())
	}
	s.roles[role] = start(s.t, filepath.Join(s.dir, "home"), log, args...)
	s.roles[role].await(from, ready)
}

func (s *site) log(name string) string { return filepath.Join(s.dir, "logs", name) }

// at is a command line for one of the data directories.
func (s *site) at(data, command string, args ...string) []string {
	all := []string{command, "--config", filepath.Join(s.dir, "linesman.toml"), "--data-dir", data}
	if s.url != "" {
		all = append(all, "--nats", s.url)
	}
	return append(all, args...)
}

// prompt is a new one, and its key.
func (s *site) prompt(behaviour string, settings ...string) (key, prompt string) {
	s.made++
	key = fmt.Sprintf("%s-%d", behaviour, s.made)
	return key, strings.Join(append([]string{key, behaviour, fmt.Sprint(s.rng.Uint64()), "secret=" + Sentinel},
		settings...), " ")
}

// run starts `linesman run`; the run has the key of its prompt as id.
func (s *site) run(behaviour string, flags []string, settings ...string) (key string) {
	s.t.Helper()
	key, prompt := s.prompt(behaviour, settings...)
	data := s.data[s.rng.IntN(len(s.data))]
	args := append(s.at(data, "run", "--run", key, "--json"), flags...)
	s.direct[key] = start(s.t, filepath.Join(s.dir, "home"), s.log("run-"+key), append(args, "--", agent, s.journals,
		prompt)...)
	return key
}

// submit submits a task until it is taken, beside all else. What was not
// acknowledged may have been taken all the same, so each attempt is another task.
func (s *site) submit(behaviour string, settings ...string) {
	key, prompt := s.prompt(behaviour, settings...)
	s.waiting.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		late := time.Now().Add(patience)
		for n := 1; ; n++ {
			words := strings.SplitN(prompt, " ", 2)
			task, as := fmt.Sprintf("%s.%d", key, n), s.exec
			switch behaviour {
			case "live":
				as = s.live
			case "asks":
				as = func(key, prompt string) (string, gjson.Result, error) { return s.asks(key, prompt) }
			case "keeps", "naps":
				as = func(key, prompt string) (string, gjson.Result, error) {
					return s.asks(key, prompt, "--no-ask", "--keep")
				}
			}
			id, answer, err := as(task, task+" "+words[1])
			s.mu.Lock()
			if id != "" {
				s.accepted = append(s.accepted, id)
			} else if time.Now().After(late) {
				s.failure = errors.Join(err, fmt.Errorf("nobody takes a task: %.300s", answer.Raw))
			}
			over := id != "" || s.failure != nil
			s.mu.Unlock()
			if over {
				return
			}
			<-tick.C
		}
	})
}

// exec submits a task, and returns its run.
func (s *site) exec(_, prompt string) (run string, answer gjson.Result, err error) {
	answer, err = s.ask("_codex_local_exec", map[string]any{
		"task": prompt, "workingDir": s.dir, "skipGitRepoCheck": true,
	})
	return answer.Get("data.task_id").String(), answer, err
}

// ask calls a tool of the responder.
func (s *site) ask(tool string, args map[string]any) (gjson.Result, error) {
	body, err := json.Marshal(args)
	if err != nil {
		return gjson.Result{}, err
	}
	s.mu.Lock()
	if s.conn == nil || s.conn.IsClosed() {
		s.conn, err = s.dial("")
	}
	conn := s.conn
	s.mu.Unlock()
	if err != nil {
		return gjson.Result{}, err
	}
	m, err := conn.Request(s.names.API()+"."+tool, body, 10*time.Second)
	if err != nil {
		return gjson.Result{}, err
	}
	return gjson.ParseBytes(m.Data), nil
}

// dial connects as the operator; suffix is that of the user in the public account.
func (s *site) dial(suffix string) (*nats.Conn, error) {
	if s.url != "" {
		return nats.Connect(s.url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	}
	credentials, err := embedded.LoadCredentials(s.data[0])
	if err != nil {
		return nil, err
	}
	user := embedded.OperatorUser + suffix
	return nats.Connect("nats://"+s.where(), nats.UserInfo(user, credentials[user]),
		nats.CustomInboxPrefix(bus.InboxPrefix(user)),
		nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.SetCustomDialer(upDialer{s}))
}

// upDialer finds an `up` that came back on another port.
type upDialer struct{ s *site }

func (d upDialer) Dial(network, _ string) (net.Conn, error) {
	return net.DialTimeout(network, d.s.where(), time.Second)
}

// where is HOST:PORT of the server of `up`.
func (s *site) where() string {
	b, err := os.ReadFile(filepath.Join(s.data[0], "linesman.json"))
	if err != nil {
		return "127.0.0.1:1"
	}
	u, err := url.Parse(gjson.GetBytes(b, "nats").String())
	if err != nil {
		return "127.0.0.1:1"
	}
	return u.Host
}

// server is a connection for the checker. It ends with the test.
func (s *site) server() Server {
	s.t.Helper()
	var js [2]jetstream.JetStream
	for i, suffix := range []string{"", "_public"} {
		var conn *nats.Conn
		eventually(s.t, "no connection", func() (bool, string) {
			var err error
			conn, err = s.dial(suffix)
			return err == nil, fmt.Sprint(err)
		})
		s.t.Cleanup(conn.Close)
		var err error
		if js[i], err = jetstream.New(conn); err != nil {
			s.t.Fatal(err)
		}
	}
	return Server{s.names, js[0], js[1]}
}

// may notes how a run may end, beside an exit of its own; who names it is a run
// or the key of an agent.
func (s *site) may(who string, reasons ...runs.Reason) {
	s.ends[who] = append(s.ends[who], append(reasons, runs.ReasonExited)...)
}

// settle waits until all that was asked for is done: every task was taken, every
// run has a final record, and no worker has anything left.
func (s *site) settle() Server {
	s.t.Helper()
	s.waiting.Wait()
	if s.failure != nil {
		s.t.Fatal(s.failure)
	}
	server := s.server()
	final := map[string]bool{}
	eventually(s.t, "not all has ended", func() (bool, string) {
		for key, p := range s.direct {
			if p.alive() {
				return false, "run " + key + " goes on"
			}
		}
		for _, data := range s.data {
			left, err := os.ReadDir(filepath.Join(data, "runs"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				s.t.Fatal(err)
			}
			for _, d := range left {
				if !strings.HasPrefix(d.Name(), ".new-") { // killed while it was made: cleared away after a minute
					return false, "there is the directory of " + d.Name()
				}
			}
		}
		why, err := s.open(server, final)
		if err != nil {
			why = err.Error()
		}
		return why == "", why
	}, s.standing)
	return server
}

// open says what the streams hold that has not ended; final are runs that have.
func (s *site) open(server Server, final map[string]bool) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	tasks, err := server.Waiting(ctx)
	if err != nil || len(tasks) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		taken := slices.DeleteFunc(slices.Clone(tasks), func(subject string) bool {
			return !slices.Contains(s.accepted, subject[strings.LastIndexByte(subject, '.')+1:])
		})
		return fmt.Sprintf("%d tasks wait, of them acknowledged: %q", len(tasks), taken), err
	}
	begun, err := server.Begun(ctx)
	if err != nil {
		return "", err
	}
	for _, run := range begun {
		if final[run] {
			continue
		}
		r, err := server.Record(ctx, run)
		if err != nil || r == nil {
			return "run " + run + " has no record", err
		}
		// Of a submission that failed halfway only this may be left, for a minute
		// or two. Long sieges wait for its end.
		halfway := *rounds == 0 && r.State == runs.StateQueued && !slices.Contains(s.accepted, run)
		if !r.State.Final() && !halfway {
			return "run " + run + " is " + string(r.State), nil
		}
		final[run] = true
	}
	return "", nil
}

// check gathers and checks everything, and returns what it has seen.
func (s *site) check() Evidence {
	s.t.Helper()
	server := s.settle()
	e, err := server.Gather(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	logs, err := os.ReadDir(filepath.Join(s.dir, "logs"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range logs {
		if e.Logs[f.Name()], err = os.ReadFile(s.log(f.Name())); err != nil {
			s.t.Fatal(err)
		}
	}
	e.Secrets = s.secrets()
	agents, problems := s.agents(e)
	for _, problem := range append(problems, Check(e, agents)...) {
		s.t.Error(problem)
	}
	return e
}

// agents says which run of RAW belongs to which journal: the prompt in its
// start entry begins with the key.
func (s *site) agents(e Evidence) (agents []Agent, problems []string) {
	journals := map[string]string{} // run by key
	seen, begun := map[string]bool{}, map[string]bool{}
	for _, m := range e.Raw {
		run := runOf(m)
		seen[run] = true
		if m.Header.Get(bus.HeaderRecord) != string(runs.Started) {
			continue
		}
		argv := gjson.GetBytes(m.Body, "argv").Array()
		if len(argv) == 0 {
			problems = append(problems, "run "+run+": nobody knows what was started")
			continue
		}
		key, _, _ := strings.Cut(argv[len(argv)-1].String(), " ")
		live := key == "live"
		if live {
			key = filepath.Base(gjson.GetBytes(m.Body, "workingDir").String())
		}
		if other, twice := journals[key]; twice && other != run {
			problems = append(problems, "runs "+other+" and "+run+" have one task")
			continue
		}
		journals[key], begun[run] = run, true
		j, err := ReadJournal(filepath.Join(s.journals, key))
		if err != nil {
			s.t.Fatal(err)
		}
		a := j.Agent(run)
		a.Ends = append(slices.Clone(s.ends[run]), s.ends[key]...)
		a.Cut = s.cut[run] || s.cut[key]
		if live {
			a.Ends = append(a.Ends, runs.ReasonEOF)
			if a.Starts == 0 { // its shim was killed while it started it
				a.Ends = append(a.Ends, runs.ReasonLost)
			}
		}
		agents = append(agents, a)
	}
	for run := range seen {
		if !begun[run] { // cancelled before, or of a submission that failed halfway
			failed := !slices.Contains(s.accepted, run)
			a := Agent{Run: run, Ends: s.ends[run], Failed: failed}
			if failed {
				a.Ends = append(a.Ends, runs.ReasonLost)
			}
			agents = append(agents, a)
		}
	}
	started, err := os.ReadDir(s.journals)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, d := range started {
		if journals[d.Name()] == "" {
			problems = append(problems, "agent "+d.Name()+" was started, and belongs to no run")
		}
	}
	for _, run := range s.accepted {
		if !seen[run] {
			problems = append(problems, "run "+run+" was taken, and is not in RAW")
		}
	}
	return agents, problems
}

// close ends what is left of a site, whatever the test came to.
func (s *site) close() {
	s.mu.Lock()
	if s.conn != nil {
		s.conn.Close()
	}
	s.mu.Unlock()
	for _, p := range s.roles {
		p.kill()
	}
	for _, p := range s.direct {
		p.kill()
	}
	for _, shim := range s.shims() {
		shim.kill(s.t)
	}
	for _, a := range strangers(s.t, agent, s.journals) {
		a.kill(s.t)
	}
	if s.t.Failed() {
		for role, p := range s.roles {
			said := p.said()
			s.t.Logf("%s:\n%s", role, said[max(0, len(said)-1200):])
		}
	}
}

// standing is how far each stream is, and who reads it, for somebody who wants
// to know why a test failed.
func (s *site) standing() string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var all []string
	for _, suffix := range []string{"", "_public"} {
		conn, err := s.dial(suffix)
		if err != nil {
			return "there is no connection: " + err.Error()
		}
		defer conn.Close()
		js, err := jetstream.New(conn)
		if err != nil {
			return err.Error()
		}
		for _, name := range []string{s.names.Raw(), stream(s.names.Runs()), s.names.Work(), s.names.Events()} {
			st, err := js.Stream(ctx, name)
			if err != nil {
				continue // it is in the other account, or out of reach
			}
			info := st.CachedInfo()
			line := fmt.Sprintf("%s: %d messages, %d to %d", name, info.State.Msgs, info.State.FirstSeq, info.State.LastSeq)
			if c := info.Cluster; c != nil {
				line += ", leader " + c.Leader
				for _, r := range c.Replicas {
					line += fmt.Sprintf(", %s current %v lag %d", r.Name, r.Current, r.Lag)
				}
			}
			line += fmt.Sprintf(", %d consumers", info.State.Consumers)
			listed := 0
			for c := range st.ListConsumers(ctx).Info() {
				if listed++; listed > 10 {
					break
				}
				line += fmt.Sprintf("\n  consumer of %q delivered %d, %d to come, %d wait", c.Config.FilterSubjects,
					c.Delivered.Stream, c.NumPending, c.NumWaiting)
				if c.Config.FilterSubject != "" {
					line += ", of " + c.Config.FilterSubject
				}
				if c.Cluster != nil {
					line += ", on " + c.Cluster.Leader
				}
			}
			all = append(all, line)
		}
	}
	return strings.Join(all, "\n")
}

// shims are the living shims of the site's runs.
func (s *site) shims() []stranger {
	return slices.DeleteFunc(strangers(s.t, program, "shim"), func(p stranger) bool {
		return !strings.HasPrefix(p.argv[2], s.dir+"/")
	})
}
