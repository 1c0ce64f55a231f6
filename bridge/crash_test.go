package bridge

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func values(m map[string]any) (all []string) {
	for _, v := range m {
		all = append(all, fmt.Sprint(v))
	}
	return all
}

// steps are all that a kill can follow.
var steps = []string{"claimed", "submitted", "ended", "written", "answered", "published", "taken", "removed"}

// Whatever the moment of a kill -9, the request is run once, and its reader
// gets one answer: one that takes it as soon as it is there, too.
func TestKilledAnywhereItAnswersOnce(t *testing.T) {
	t.Parallel()
	for _, step := range steps {
		for _, eager := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/eager=%v", step, eager), func(t *testing.T) {
				l := newLab(t)
				l.request(request, "id-1", "say x")
				l.crash(step)
				answers := 0
				if eager && l.has(response) {
					answers++
					if err := os.Remove(l.path(response)); err != nil {
						t.Fatal(err)
					}
				}
				c := l.config()
				l.start(c)
				l.until("the request is removed", func() bool {
					return !l.has(request) && !l.has(request+takenSuffix) && len(l.names(l.dir)) == 1-answers
				})
				if l.has(response) {
					answers++
					if r := l.response(response); r["request_id"] != "id-1" || r["response"] != "x" {
						t.Errorf("got %v", r)
					}
				}
				if answers != 1 || len(l.names(l.runs)) != 1 {
					t.Errorf("%d answers, runs %q, files %q", answers, l.names(l.runs), l.names(l.dir))
				}
			})
		}
	}
}

// The same, killed once at every step, one after another.
func TestKilledEverywhereItAnswersOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.request(request, "id-1", "say x")
	for _, step := range []string{"claimed", "submitted", "ended", "written", "answered"} {
		l.crash(step)
	}
	l.start(l.config())
	l.removed()
	if r := l.response(response); r["request_id"] != "id-1" || len(l.names(l.runs)) != 1 {
		t.Errorf("got %v, runs %q", r, l.names(l.runs))
	}
}

// The same with a response that somebody else writes: it is read once, and the
// run is told of it.
func TestKilledWhileSomebodyElseAnswers(t *testing.T) {
	t.Parallel()
	const mine = `{"request_id":"id-1","mine":true}`
	for _, step := range []string{"submitted", "overtaken", "answered", "taken"} {
		for _, removed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/removed=%v", step, removed), func(t *testing.T) {
				l := newLab(t)
				l.request(request, "id-1", "hang")
				l.crash("submitted")
				l.write(response, mine)
				if step != "submitted" {
					l.crash(step)
				}
				if removed {
					if err := os.Remove(l.path(request)); err != nil && !errors.Is(err, os.ErrNotExist) {
						t.Fatal(err)
					}
				}
				l.start(l.config())
				l.until("the run is notified, and the request gone", func() bool { return len(l.names(l.runs)) == 2 && slices.Equal(l.names(l.dir), []string{response}) })
				if b, err := os.ReadFile(l.path(response)); err != nil || string(b) != mine {
					t.Errorf("the response is %q, %v", b, err)
				}
			})
		}
	}
}

// A newer request that came while the old one was being removed is put back.
func TestKilledWhileRemovingANewerRequestIsKept(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.request(request, "id-1", "say x")
	l.crash("taken")
	l.request(request+".taken", "id-2", "say y") // what would have been taken in its stead
	l.start(l.config())
	l.until("the newer one is answered", func() bool { return len(l.names(l.runs)) == 2 && !l.has(request) && !l.has(request+takenSuffix) })
	if r := l.response(response); r["request_id"] != "id-2" {
		t.Errorf("got %v", r)
	}
}

// What no bridge will ever publish is removed at the next start, and nothing
// of others.
func TestLeftoversAreRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	others := []string{".agent-response." + strings.Repeat("a", 31) + ".json", ".agent-response.tmp", ".mine.json.taken"}
	for _, name := range append(others, unpublishedName(entry{ID: "id-1"})) {
		l.write(name, "{}")
	}
	l.start(l.config())
	slices.Sort(others)
	if names := l.names(l.dir); !slices.Equal(names, others) {
		t.Errorf("left: %q", names)
	}
}
