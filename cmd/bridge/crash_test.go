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

// steps are the steps that a kill can follow.
var steps = []string{"claimed", "submitted", "ended", "written", "answered", "published", "taken", "removed"}

// After a kill at any step, the request is run once and its reader gets one
// answer, even a reader that takes the response as soon as it exists.
func TestKilledAnywhereItAnswersOnce(t *testing.T) {
	t.Parallel()
	for _, step := range steps {
		for _, eager := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/eager=%v", step, eager), func(t *testing.T) {
				l := newFixture(t)
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

// The bridge is killed at every step, one after the other.
func TestKilledEverywhereItAnswersOnce(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
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

// Another program writes a response, the bridge is killed at any step: the
// response is read once, and the run is notified.
func TestKilledWhileAnotherProgramAnswers(t *testing.T) {
	t.Parallel()
	const mine = `{"request_id":"id-1","mine":true}`
	for _, step := range []string{"submitted", "overtaken", "answered", "taken"} {
		for _, removed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/removed=%v", step, removed), func(t *testing.T) {
				l := newFixture(t)
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
				l.until("the run is notified, and the request gone",
					func() bool { return len(l.names(l.runs)) == 2 && slices.Equal(l.names(l.dir), []string{response}) })
				if b, err := os.ReadFile(l.path(response)); err != nil || string(b) != mine {
					t.Errorf("the response is %q, %v", b, err)
				}
			})
		}
	}
}

// A newer request that was written while the old one was being removed is
// restored.
func TestKilledWhileRemovingANewerRequestIsKept(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.request(request, "id-1", "say x")
	l.crash("taken")
	l.request(request+".taken", "id-2", "say y") // this would have been removed in its place
	l.start(l.config())
	l.until("the newer one is answered",
		func() bool { return len(l.names(l.runs)) == 2 && !l.has(request) && !l.has(request+takenSuffix) })
	if r := l.response(response); r["request_id"] != "id-2" {
		t.Errorf("got %v", r)
	}
}

// Files that no bridge will publish are removed at the next start. Files of
// other programs stay.
func TestLeftoversAreRemoved(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
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
