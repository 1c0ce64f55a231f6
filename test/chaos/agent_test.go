package chaos

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

// journal is what an agent kept of itself so far.
func (s *site) journal(key string) Journal {
	s.t.Helper()
	j, err := ReadJournal(filepath.Join(s.journals, key))
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

// mark waits until an agent has come to a mark.
func (s *site) mark(key, mark string) {
	s.t.Helper()
	eventually(s.t, "agent "+key+" does not come to "+mark, func() (bool, string) {
		marks := s.journal(key).Marks
		return slices.ContainsFunc(marks, func(m string) bool { return strings.HasPrefix(m, mark) }),
			strings.Join(marks, ", ")
	})
}

// touch makes a file that an agent waits for.
func (s *site) touch(key, name string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.journals, key, name), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// cancel cancels a run.
func (s *site) cancel(key string) {
	s.t.Helper()
	s.cut[key] = true
	p := start(s.t, s.dir, s.log("cancel"), s.at(s.data[0], "cancel", key)...)
	if code := p.code(); code != 0 {
		s.t.Errorf("cancel: exit %d: %s", code, p.said())
	}
}

// record waits until the record of a run is as it should be.
func (s *site) record(server Server, key, what string, is func(runs.Record) bool) {
	s.t.Helper()
	eventually(s.t, "run "+key+" is not "+what, func() (bool, string) {
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
		defer cancel()
		r, err := server.Record(ctx, key)
		if err != nil || r == nil {
			return false, "it has no record"
		}
		return is(*r), string(r.JSON())
	})
}

func working(r runs.Record) bool { return r.State == runs.StateWorking }

// What an agent does, and what of it must be found in RAW or in its end. That
// everything else is as promised is what the checker says of all of them.
var misbehaviours = []struct {
	behaviour string
	flags     []string
	end       runs.Reason // "": it exits by itself
	drive     func(s *site, server Server, key string)
	fired     func(l *rawLog, j Journal) bool
}{
	{behaviour: "unbroken", fired: func(l *rawLog, _ Journal) bool { return bytes.IndexByte(l.out, '\n') == 100<<20 }},
	{
		behaviour: "orphan",
		drive: func(s *site, server Server, key string) {
			s.mark(key, "end")
			s.record(server, key, "at work", working)
			s.touch(key, "go")
		},
		fired: func(_ *rawLog, j Journal) bool { return strings.HasPrefix(j.Marks[len(j.Marks)-1], "out") },
	},
	{
		behaviour: "escape",
		drive: func(s *site, server Server, key string) {
			s.mark(key, "end")
			s.record(server, key, "at work", working)
			s.touch(key, "go")
		},
		fired: func(_ *rawLog, j Journal) bool { return strings.HasPrefix(j.Marks[len(j.Marks)-1], "out") },
	},
	{
		behaviour: "hold",
		drive: func(s *site, server Server, key string) {
			s.mark(key, "end")
			s.record(server, key, "at work", func(r runs.Record) bool { return working(r) && r.Lines == 1 })
			if _, err := os.Stat(filepath.Join(s.data[0], "runs", key)); err != nil {
				s.t.Errorf("run %s ended while its stdout was held: %v", key, err)
			}
			s.touch(key, "go")
		},
		fired: func(_ *rawLog, j Journal) bool { return j.Marks[len(j.Marks)-1] == "end 0" },
	},
	{
		behaviour: "deaf", flags: []string{"--timeout", "1s"}, end: runs.ReasonHard,
		fired: func(l *rawLog, j Journal) bool { return l.exit.Signal == 9 && j.Code == nil },
	},
	{
		behaviour: "endless", end: runs.ReasonCancelled,
		drive: func(s *site, server Server, key string) {
			s.record(server, key, "at work", func(r runs.Record) bool { return working(r) && r.Lines > 5 })
			s.cancel(key)
		},
		fired: func(l *rawLog, _ Journal) bool { return l.cancelled && len(l.out) > 0 },
	},
	{
		behaviour: "stderr",
		fired: func(l *rawLog, j Journal) bool {
			kept := 0
			for _, e := range l.err {
				kept += len(e.Body)
			}
			return len(j.Err.Bytes) > 2<<20 && kept == errHead+errTail
		},
	},
	{
		behaviour: "close",
		drive: func(s *site, server Server, key string) {
			s.mark(key, "closed")
			s.record(server, key, "at work", func(r runs.Record) bool { return working(r) && r.Lines == 1 })
			s.touch(key, "go")
		},
		fired: func(l *rawLog, j Journal) bool { return *l.exit.Code == 4 && len(j.Err.Bytes) > 0 },
	},
	{behaviour: "forge", fired: func(l *rawLog, _ Journal) bool {
		return bytes.Contains(l.out, []byte("Linesman-Record: exit\r\n")) && *l.exit.Code == 5
	}},
	{
		behaviour: "truncate",
		drive: func(s *site, server Server, key string) {
			s.mark(key, "written")
			stored := int64(s.journal(key).Out.Sure)
			s.record(server, key, "stored", func(r runs.Record) bool { return r.Bytes == stored })
			s.touch(key, "go")
		},
		fired: func(_ *rawLog, j Journal) bool { return slices.Contains(j.Marks, "truncated") },
	},
	{
		behaviour: "hole", end: runs.ReasonSpool,
		fired: func(_ *rawLog, j Journal) bool { return slices.Contains(j.Marks, "longer") },
	},
	{
		behaviour: "halt", flags: []string{"--timeout", "1s"}, end: runs.ReasonHard,
		fired: func(_ *rawLog, j Journal) bool { return slices.Contains(j.Marks, "halted") },
	},
	{
		behaviour: "unlink", end: runs.ReasonCancelled,
		drive: func(s *site, _ Server, key string) {
			s.mark(key, "unlinked")
			s.cancel(key)
		},
		fired: func(l *rawLog, _ Journal) bool { return l.cancelled },
	},
	{
		behaviour: "torn",
		drive: func(s *site, _ Server, key string) {
			s.mark(key, "out")
			s.touch(key, "go")
		},
		fired: func(l *rawLog, _ Journal) bool { return l.exit.Torn && bytes.IndexByte(l.out, 0) > 0 },
	},
	{behaviour: "tiny", fired: func(l *rawLog, j Journal) bool {
		return bytes.Count(l.out, []byte("\n")) == 10_000 && j.Marks[1] == "out 30000"
	}},
	{behaviour: "silent", flags: []string{"--idle-timeout", "1s"}, end: runs.ReasonIdle,
		fired: func(l *rawLog, _ Journal) bool { return l.exit.Signal == 15 }},
}

// Whatever an agent does with its output, its processes and its signals, RAW
// is what it wrote, its events are made from that, and its run ends once.
func TestMisbehavedAgentsAreKeptAsTheyAre(t *testing.T) {
	t.Parallel()
	s := newUp(t, drawn(t, 0), "")
	keys := make([]string, len(misbehaviours))
	for i, m := range misbehaviours {
		keys[i] = s.run(m.behaviour, m.flags)
		if m.end != "" {
			s.ends[keys[i]] = []runs.Reason{m.end}
		}
	}
	server := s.server()
	for i, m := range misbehaviours {
		if m.drive != nil {
			m.drive(s, server, keys[i])
		}
	}
	e := s.check()
	for i, m := range misbehaviours {
		t.Run(m.behaviour, func(t *testing.T) {
			l := e.log(keys[i])
			if l.exit == nil {
				t.Fatal("its run has not ended")
			}
			if !m.fired(l, s.journal(keys[i])) {
				t.Errorf("it did not do what it is here for: %d bytes, exit %s", len(l.out), runs.Encode(l.exit))
			}
		})
	}
}
