package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// live submits a task for a live run that asks nobody, and returns it. The name of its directory tells the agent the
// key.
func (s *site) live(key, prompt string) (run string, answer gjson.Result, err error) {
	return s.asks(key, prompt, "--no-ask")
}

// asks is live for a run that asks people.
func (s *site) asks(key, prompt string, flags ...string) (run string, answer gjson.Result, err error) {
	dir := filepath.Join(s.dir, "work", key)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", answer, err
	}
	args := s.at(s.data[0], "submit", "--agent", "codex", "--live", "--json", "--skip-git-repo-check", "--dir", dir)
	args = append(append(args, flags...), prompt)
	out, err := exec.CommandContext(s.t.Context(), program, args...).Output()
	answer = gjson.ParseBytes(out)
	return answer.Get("run").String(), answer, err
}

// killLive kills the shim of a live run, whose end does not depend on it.
var killLive = fault{"kill the shim of a live run", func(s *site) bool {
	shims := slices.DeleteFunc(s.shims(), func(p stranger) bool {
		run, process := filepath.Split(p.argv[2])
		return !strings.HasPrefix(process, "p") || slices.Contains(s.struck, run)
	})
	if len(shims) == 0 {
		return false
	}
	shim := shims[s.rng.IntN(len(shims))]
	run, _ := filepath.Split(shim.argv[2])
	s.struck = append(s.struck, run)
	s.struck = s.struck[max(0, len(s.struck)-s.spare):]
	return shim.kill(s.t)
}}

// Live runs are under way while the whole linesman and their shims are killed. Each ends with its turn, and its agent
// has taken the lines that RAW has, each once.
func TestLiveRunsSurviveUpAndShims(t *testing.T) {
	sieges(t, 6, func(t *testing.T, rng *rand.Rand, rounds uint64) {
		s := newUp(t, rng, "")
		faults := []fault{killLive, killUp, killLive}
		fired := map[string]int{}
		for n := range rounds {
			for range 3 {
				s.submit("live")
			}
			<-time.After(time.Duration(s.rng.Int64N(int64(400 * time.Millisecond)))) // the moment
			f := faults[n%uint64(len(faults))]
			if fixture.Poll(soonRuns, func() bool { return f.strike(s) }) {
				fired[f.name]++
			}
			if t.Failed() {
				return
			}
		}
		e := s.check()
		t.Logf("%d runs, %d entries, %d events; fired: %v", len(e.Runs), len(e.Raw), len(e.Events), fired)
		if fired[killLive.name] == 0 && rounds > 3 {
			t.Error("no shim was killed")
		}
	})
}

// soonRuns is how long a fault may wait for something of the tasks before it that it can strike, at most.
const soonRuns = 20 * time.Second

// killAsking kills an agent that speaks the protocol.
var killAsking = fault{"kill an agent that asks", func(s *site) bool {
	all := strangers(s.t, agent, s.journals)
	if len(all) == 0 {
		return false
	}
	victim := all[s.rng.IntN(len(all))]
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", victim.pid))
	if err != nil {
		return false
	}
	s.may(filepath.Base(dir), runs.ReasonLost, runs.ReasonSession)
	return victim.kill(s.t)
}}

// clients are people who answer all questions that they see, each as it likes.
type clients struct {
	s   *site
	mu  sync.Mutex
	say map[string]string // what somebody was told that the answer is, by run and question
	bad []string
	ok  int
}

// answer answers until ctx ends.
func (c *clients) answer(ctx context.Context, rng *rand.Rand) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		open, err := c.s.ask("waiting", map[string]any{})
		all := open.Get("requests").Array()
		if err != nil || len(all) == 0 {
			continue
		}
		q := all[rng.IntN(len(all))]
		run, question, option := q.Get("run").String(), q.Get("id").String(), []string{"yes", "no"}[rng.IntN(2)]
		told, err := c.s.ask("answer", map[string]any{"request": run, "question": question, "option": option})
		if err != nil {
			continue // nobody knows: perhaps it is stored
		}
		_, other, decided := strings.Cut(told.Raw, "the answer was ")
		if told.Get("option").String() == option && told.Get("question").String() == question {
			c.told(run+"/"+question, option, true)
		} else if decided {
			c.told(run+"/"+question, strings.TrimRight(strings.Fields(other)[0], ","), false)
		}
	}
}

func (c *clients) told(question, option string, success bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if success {
		c.ok++
	}
	if before, known := c.say[question]; known && before != option {
		c.bad = append(c.bad, fmt.Sprintf("%s: one was told %s, another one %s", question, before, option))
	}
	c.say[question] = option
}

// check compares what the clients were told with what the agents have got, and returns how many answers that were.
func (c *clients) check(agents []Agent) (answers int) {
	for _, problem := range c.bad {
		c.s.t.Error(problem)
	}
	for _, a := range agents {
		got := map[string]string{}
		for line := range strings.Lines(string(a.In)) {
			if outcome := gjson.Get(line, "result.outcome"); outcome.Exists() {
				q := fmt.Sprintf("%s/q%d", a.Run, gjson.Get(line, "id").Int()+1)
				if _, twice := got[q]; twice {
					c.s.t.Errorf("%s was answered twice", q)
				}
				got[q] = outcome.Get("optionId").String()
				answers++
			}
		}
		for q, option := range c.say {
			if have, known := got[q]; strings.HasPrefix(q, a.Run+"/") && have != option &&
				(known || !slices.Contains(a.Ends, runs.ReasonLost)) {
				c.s.t.Errorf("%s: a client was told %q, and the agent got %q", q, option, have)
			}
		}
	}
	return answers
}

// Questions of many sessions are answered by several clients while workers, shims, responders, normalizers and agents
// are killed. The agent gets what the log says, once, and what a client was told is what the agent got.
func TestQuestionsLoseAndDoubleNothing(t *testing.T) {
	sieges(t, 6, func(t *testing.T, rng *rand.Rand, rounds uint64) {
		s := newRoles(t, rng, startNATS(t).url)
		c := &clients{s: s, say: map[string]string{}}
		ctx, stop := context.WithCancel(t.Context())
		var people sync.WaitGroup
		for n := range uint64(4) {
			people.Go(func() { c.answer(ctx, drawn(t, n+1)) })
		}
		defer people.Wait()
		defer stop()
		fired := map[string]int{}
		faults := []fault{killWorker, killLive, killResponder, killAsking, killWorker, killNormalizer}
		for n := range rounds {
			for range 3 {
				s.submit("asks")
			}
			<-time.After(time.Duration(s.rng.Int64N(int64(400 * time.Millisecond)))) // the moment
			f := faults[n%uint64(len(faults))]
			if fixture.Poll(soonRuns, func() bool { return f.strike(s) }) {
				fired[f.name]++
			}
			if t.Failed() {
				return
			}
		}
		e := s.check()
		agents, _ := s.agents(e)
		answers := c.check(agents)
		t.Logf("%d runs, %d entries, %d events, %d answers, %d clients were told success; fired: %v", len(e.Runs),
			len(e.Raw), len(e.Events), answers, c.ok, fired)
		if rounds > 5 && (c.ok == 0 || fired[killLive.name] == 0 || fired[killAsking.name] == 0) {
			t.Error("nothing was tried")
		}
	})
}

// RAW is lost, alone or with all else, while people are asked, and a worker is killed. The questions stay open, the
// agents get each answer once, and each event is there once.
func TestQuestionsSurviveTheLossOfRaw(t *testing.T) {
	t.Parallel()
	for _, c := range lossesOfRaw {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := startNATS(t)
			s := newRoles(t, drawn(t, 0), n.url)
			people := &clients{s: s, say: map[string]string{}}
			for range 4 {
				s.submit("asks")
			}
			s.waiting.Wait()
			waiting := func() (all []string) { // with what they ask
				open, _ := s.ask("waiting", map[string]any{})
				for _, q := range open.Get("requests").Array() {
					all = append(all, q.Get("run").String()+"/"+q.Get("id").String()+" "+q.Get("digest").String())
				}
				slices.Sort(all)
				return all
			}
			var open []string
			eventually(t, "nobody is asked", func() (bool, string) {
				open = waiting()
				return len(open) > 2, fmt.Sprint(open)
			})
			for _, kill := range []bool{false, true} {
				if n.lose(c.lost...); kill {
					killWorker.strike(s)
				}
				eventually(t, "not all are asked again", func() (bool, string) {
					now := waiting() // perhaps more
					missing := slices.DeleteFunc(slices.Clone(open), func(q string) bool { return slices.Contains(now, q) })
					return len(missing) == 0, fmt.Sprint(missing)
				})
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var answering sync.WaitGroup
			answering.Go(func() { people.answer(ctx, drawn(t, 1)) })
			e, err := s.settle().Gather(t.Context())
			stop()
			answering.Wait()
			if err != nil {
				t.Fatal(err)
			}
			asked := map[string]bool{} // the others had no questions, and have ended before
			for _, q := range open {
				run, _, _ := strings.Cut(q, "/")
				asked[run] = true
			}
			agents, _ := s.agents(e)
			agents = slices.DeleteFunc(agents, func(a Agent) bool { return !asked[a.Run] })
			for _, a := range agents {
				got, want := e.Told(a.Run), e.Folded(a.Run)
				if !slices.Equal(got, want) {
					t.Errorf("run %s has %d events, want %d:\n%s\n%s", a.Run, len(got), len(want), strings.Join(got, "\n"),
						strings.Join(want, "\n"))
				}
				l := e.log(a.Run)
				if string(l.in) != string(a.In) || string(l.out) != string(a.Out.Bytes) || l.started != 1 ||
					l.exit == nil || l.exit.Reason != runs.ReasonEOF || a.Starts != 1 {
					t.Errorf("run %s: RAW has %d bytes for the agent, %d from it, exit %+v; the agent %+v", a.Run, len(l.in),
						len(l.out), l.exit, a)
				}
			}
			if answers := people.check(agents); len(agents) != len(asked) || answers < len(open) {
				t.Errorf("%d answers, %d agents, want %d and %d", answers, len(agents), len(open), len(asked))
			}
		})
	}
}
