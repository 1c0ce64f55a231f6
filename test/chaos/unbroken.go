package chaos

import (
	"fmt"
	"strings"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// Unbroken is what the events of a run must say whose agent wrote out and
// ended so: each with the place of its line, as [Told] has them. It is what to
// compare with where RAW itself has lost something.
func Unbroken(run string, out []byte, exit runs.Exit) []string {
	var all []string
	f := normalizer.NewFold(codex.Backend{}, run, 0)
	take := func(m normalizer.Message) {
		all = append(all, told(m))
	}
	f.Apply(1, runs.Entry{Kind: runs.Out, Body: out}, take)
	f.Apply(2, runs.Entry{Kind: runs.Exited, Body: runs.Encode(exit)}, take)
	return all
}

// Folded is what the events of a run must say by its raw log.
func (e Evidence) Folded(run string) []string {
	var all []string
	f := normalizer.NewFold(codex.Backend{}, run, 0)
	for i, m := range e.Raw {
		if entry, err := decode(m); err == nil && runOf(m) == run {
			f.Apply(uint64(i+1), entry, func(m normalizer.Message) { all = append(all, told(m)) })
		}
	}
	return all
}

func told(m normalizer.Message) string {
	return fmt.Sprintf("%d.%d %s %s", m.Line, m.Part, m.Token, m.Body)
}

// Told is what the events of a run say.
func (e Evidence) Told(run string) []string {
	var all []string
	for _, m := range e.Events {
		if runOf(m) == run {
			pos := strings.Fields(m.Header.Get(bus.HeaderPos))
			token := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
			if len(pos) == 4 {
				all = append(all, fmt.Sprintf("%s.%s %s %s", pos[1], pos[2], token, m.Body))
			}
		}
	}
	return all
}

// log is the raw log of a run, put together.
func (e Evidence) log(run string) *rawLog {
	l := &rawLog{}
	for _, m := range e.Raw {
		if entry, err := decode(m); err == nil && runOf(m) == run {
			l.add(entry)
		}
	}
	return l
}
