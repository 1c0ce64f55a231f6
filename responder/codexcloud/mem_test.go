package codexcloud

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/linesman/linesman/runs"
	standin "github.com/linesman/linesman/test/lab/cloud"
)

var errDied = errors.New("killed")

// memLogs are raw logs with a fence, in memory.
type memLogs struct {
	mu      sync.Mutex
	entries map[string][]runs.Entry
	appends int
	killAt  int    // number of an append, from 1, at which kill is called
	stored  bool   // that append is stored before
	kill    func() // ends the driver: everything fails from then on
}

func newMemLogs() *memLogs { return &memLogs{entries: map[string][]runs.Entry{}} }

func (l *memLogs) Open(ctx context.Context, _, run string, m runs.Mark) (Log, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := &memLog{l: l, run: run, mark: m}
	log.catchUp()
	return log, ctx.Err()
}

func (l *memLogs) Output(ctx context.Context, _, run string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return output0(l.entries[run]), ctx.Err()
}

func output0(entries []runs.Entry) (out []byte) {
	for _, e := range entries {
		if e.Kind == runs.Out {
			out = append(out, e.Body...)
		}
	}
	return out
}

type memLog struct {
	l    *memLogs
	run  string
	mark runs.Mark
}

func (l *memLog) Mark() runs.Mark { return l.mark }

func (l *memLog) catchUp() {
	for all := l.l.entries[l.run]; l.mark.Seq < uint64(len(all)); {
		l.mark = l.mark.After(all[l.mark.Seq], l.mark.Seq+1)
	}
}

func (l *memLog) Append(ctx context.Context, e runs.Entry) error {
	l.l.mu.Lock()
	defer l.l.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l.l.appends++
	dies := l.l.appends == l.l.killAt
	if dies && !l.l.stored {
		l.l.kill()
		return errDied
	}
	if len(l.l.entries[l.run]) != int(l.mark.Seq) {
		l.catchUp()
		return runs.ErrMoved
	}
	e.Body = append([]byte(nil), e.Body...)
	l.l.entries[l.run] = append(l.l.entries[l.run], e)
	l.catchUp()
	if dies {
		l.l.kill()
		return errDied
	}
	return nil
}

// open lists the runs that have not ended, as a table would.
func (l *memLogs) open(context.Context) ([]Open, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Open
	for run, entries := range l.entries {
		if entries[len(entries)-1].Kind != runs.Exited {
			all = append(all, Open{Run: run})
		}
	}
	return all, nil
}

// memService answers calls of the program like the stand-in, without a process.
type memService struct {
	mu    sync.Mutex
	state standin.State
	calls map[string]int   // by command
	fail  map[string]error // by command, or by "status ID"
	looks func()           // before each answer
}

func newMemService(plan ...string) *memService {
	return &memService{
		state: standin.State{Next: standin.Task{Title: "A \"title\"\nof two lines", Label: "owner/repo", Plan: plan}},
		calls: map[string]int{}, fail: map[string]error{},
	}
}

func (s *memService) call(ctx context.Context, c call) (output, error) {
	if s.looks != nil {
		s.looks()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[c.name()]++
	if ctx.Err() != nil {
		return output{}, ctx.Err()
	}
	for _, what := range []string{c.name(), strings.Join(c.args[:min(2, len(c.args))], " ")} {
		if err := s.fail[what]; err != nil {
			return output{}, err
		}
	}
	switch c.name() {
	case "exec":
		t := s.state.Submit(*c.stdin, "main", 1)
		return output{stdout: []byte(standin.URL(t.ID) + "\n")}, nil
	case "status":
		t, ok := s.state.Look(c.args[1])
		if !ok {
			return output{exit: 1, stderr: []byte("failed: 404 Not Found")}, nil
		}
		return output{stdout: []byte(t.Status()), exit: 1}, nil
	case "list":
		from := 0
		for _, a := range c.args {
			if cursor, ok := strings.CutPrefix(a, "--cursor="); ok {
				from, _ = strconv.Atoi(cursor)
			}
		}
		b, err := s.state.List(20, from)
		return output{stdout: b}, err
	case "diff":
		for _, t := range s.state.Tasks {
			if t.ID == c.args[1] && t.Diff != "" {
				return output{stdout: []byte(t.Diff)}, nil
			}
		}
		return output{exit: 1, stderr: []byte("Error: No diff available for task")}, nil
	}
	return output{}, fmt.Errorf("no command %s", c.name())
}

func (s *memService) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[name]
}
