package normalizer_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

const week = 7 * 24 * time.Hour

// A session that is imported a week later has the times in its log.
func TestSessionsHaveTheirOwnTimes(t *testing.T) {
	for _, c := range []struct {
		backend     normalizer.Backend
		log         string
		began, took string
	}{
		{codex.Backend{}, "codex-sessions/shell-slow/*.jsonl", "2026-11-23T07:43:11.689Z", "4.37s"},
		{claude.Backend{}, "claude-sessions/tools/*.jsonl", "2026-11-21T09:42:00.332Z", "307ms"},
	} {
		files, err := filepath.Glob("../test/corpus/" + c.log)
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: %q, %v", c.log, files, err)
		}
		out, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		began, err := time.Parse(time.RFC3339, c.began)
		if err != nil {
			t.Fatal(err)
		}
		captured := began.Add(week).UnixMilli()
		f := normalizer.NewFold(c.backend, "T-local-test", 0)
		seq, last := uint64(0), int64(0)
		apply := func(e runs.Entry) {
			seq++
			e.Time = captured
			f.Apply(seq, e, func(m normalizer.Message) {
				if m.Time < max(last, began.UnixMilli()) || m.Time >= began.Add(time.Minute).UnixMilli() {
					t.Errorf("%s: the %s of line %d has the time %s", c.log, m.Token, m.Line, time.UnixMilli(m.Time).UTC())
				}
				last = m.Time
			})
		}
		apply(runs.Entry{Kind: runs.Started, Body: runs.Encode(runs.Start{Source: runs.SourceSession})})
		offset := 0
		for line := range bytes.Lines(out) {
			apply(runs.Entry{Kind: runs.Out, Offset: int64(offset), Body: line})
			offset += len(line)
			f = restored(t, c.backend, f)
		}
		apply(runs.Entry{Kind: runs.Exited, Body: runs.Encode(runs.Exit{Reason: runs.ReasonEOF})})
		r := f.Record
		took := time.Duration(r.EndedAt-r.StartedAt) * time.Millisecond
		if r.StartedAt != began.UnixMilli() || r.ActiveAt != r.EndedAt || took.String() != c.took || last != r.EndedAt {
			t.Errorf("%s: began %s, took %s, last output %s, completion %s", c.log, time.UnixMilli(r.StartedAt).UTC(), took,
				time.UnixMilli(r.ActiveAt).UTC(), time.UnixMilli(last).UTC())
		}
		if row := r.Header(); row.Times != "written" {
			t.Errorf("%s: the row does not say that its times are those of the log", c.log)
		}
	}
}

// restored returns the fold as after a restart.
func restored(t *testing.T, b normalizer.Backend, f *normalizer.Fold) *normalizer.Fold {
	t.Helper()
	state, err := f.State()
	if err != nil {
		t.Fatal(err)
	}
	record := new(runs.Record)
	if err := json.Unmarshal(f.Record.JSON(), record); err != nil {
		t.Fatal(err)
	}
	if f, err = normalizer.Restore(b, record, state, 0); err != nil {
		t.Fatal(err)
	}
	return f
}

// Lines of other outputs, and logs that name a later time than the capture, have the capture time.
func TestOtherLinesHaveTheCaptureTime(t *testing.T) {
	for _, line := range []string{
		`{"type":"turn.started","timestamp":"2026-11-21T09:42:15Z"}`,
		`{"timestamp":"9999-11-21T09:42:15Z","type":"event_msg","payload":{"type":"task_started"}}`,
		`{"timestamp":"2026-02-30T09:42:15Z","type":"event_msg","payload":{"type":"task_started"}}`,
	} {
		const captured = 2_000_000_000_000
		f := normalizer.NewFold(codex.Backend{}, "T-local-test", 0)
		n := 0
		f.Apply(1, runs.Entry{Kind: runs.Out, Time: captured, Body: []byte(line + "\n")}, func(m normalizer.Message) {
			if n++; m.Time != captured {
				t.Errorf("%s: time %d", line, m.Time)
			}
		})
		if n == 0 || f.Record.StartedAt != captured || f.Record.ActiveAt != captured {
			t.Errorf("%s: %d events, started at %d, active at %d", line, n, f.Record.StartedAt, f.Record.ActiveAt)
		}
	}
}
