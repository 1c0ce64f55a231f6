package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// talk makes a run that has lines of text, and waits for its end.
func (s *stage) talk(id, team string, lines int) {
	s.T.Helper()
	line := `{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"hello"}}` + "\n"
	s.Begin("codex", id, runs.Start{Source: "run",
		Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{"team": team})}}).
		Out([]byte(strings.Repeat(line, lines))).Exit(0)
}

// stored returns the sequences of all events, and those of the runs with a label.
func (s *stage) stored(team string) (all, labelled []uint64) {
	s.T.Helper()
	err := s.Operator.Read(s.T.Context(), runs.Selection{}, func(e bus.Stored) error {
		all = append(all, e.Seq)
		if v, ok := s.Service.Get(e.Run); ok && v.Labels.Has("team", team) {
			labelled = append(labelled, e.Seq)
		}
		return nil
	})
	if err != nil {
		s.T.Fatal(err)
	}
	return all, labelled
}

// followAll reads the stream of all events in pieces of random length, until it has n of
// them. During calls do when it has half of them.
func (s *stage) followAll(query string, n int, during func()) (seqs []uint64) {
	s.T.Helper()
	after := "0"
	for len(seqs) < n {
		ctx, cancel := context.WithTimeout(s.T.Context(), time.Minute)
		answer := s.open(ctx, "GET", "/v1/events?"+query, "", "Accept", "text/event-stream", "Last-Event-ID", after)
		if answer.StatusCode != 200 {
			s.T.Fatalf("status %d", answer.StatusCode)
		}
		left := 1 + rand.IntN(n/5)
		frames(s.T.(*testing.T), answer.Body, func(f frame) bool {
			if f.id == "" {
				return true
			}
			var e api.Event
			if err := json.Unmarshal([]byte(f.data), &e); err != nil || strconv.FormatUint(e.Seq, 10) != f.id ||
				e.Kind != f.event || e.Run == "" || e.Agent != "codex" || e.At == 0 || len(e.Body) == 0 {
				s.T.Fatalf("event %s of kind %s: %.300s: %v", f.id, f.event, f.data, err)
			}
			seqs, after = append(seqs, e.Seq), f.id
			if during != nil && len(seqs) > n/2 {
				during()
				during = nil
			}
			left--
			return left > 0 && len(seqs) < n
		})
		cancel()
		_ = answer.Body.Close()
	}
	return seqs
}

func TestEventsOfAllRunsAreCompleteWhereverTheStreamIsCut(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	lines := 500 / fixture.Every(5)
	for i := range 20 {
		s.talk(fmt.Sprintf("T-%d", i), "ab"[i%2:i%2+1], lines)
	}
	all, ofB := s.stored("b")
	if len(all) < 20*lines {
		t.Fatalf("%d events", len(all))
	}
	if got := s.followAll("", len(all), nil); !slices.Equal(got, all) {
		t.Errorf("%d events, want %d in order", len(got), len(all))
	}
	// A label selects runs that start while the stream is open, too.
	later := func() {
		s.talk("T-later-a", "a", 5)
		s.talk("T-later-b", "b", 5)
	}
	labelled := s.followAll("label="+url.QueryEscape("team=b"), len(ofB)+6, later)
	if _, want := s.stored("b"); !slices.Equal(labelled, want) {
		t.Errorf("with a label: %d events, want %d", len(labelled), len(want))
	}
	if got := s.pagesOfAll("label=team%3Db&kind=completion"); len(got) != 11 || got[10].Run != "T-later-b" {
		t.Errorf("%d completions, the last of %s", len(got), got[len(got)-1].Run)
	}
	got := s.pagesOfAll("run=T-1&kind=text_output&agent=codex")
	if len(got) != lines || got[lines-1].Line != uint64(lines) {
		t.Errorf("%d texts of a run", len(got))
	}
	if got := s.pagesOfAll("agent=claude_code"); len(got) != 0 {
		t.Errorf("%d events of an agent without runs", len(got))
	}
	for _, wrong := range []string{"kind=no", "label=x", "after=-1", "limit=0", "run=none&label=%3D", "agent=*"} {
		s.want(400, "GET", "/v1/events?"+wrong, "")
	}
}

// pagesOfAll reads all pages of events.
func (s *stage) pagesOfAll(query string) (all []api.Event) {
	s.T.Helper()
	for after := uint64(0); ; {
		var page api.EventPage
		s.want(200, "GET", fmt.Sprintf("/v1/events?%s&limit=300&after=%d", query, after), "").read(s.T, &page)
		all = append(all, page.Events...)
		if page.Done || page.Next == after {
			return all
		}
		after = page.Next
	}
}
