package bridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// A request takes the place of an invalid one right before that is moved aside, by a rename or in the same file.
func TestNewRequestIsNotMovedAsideAsTheInvalidOne(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(l *fixture) error{
		"renamed": func(l *fixture) error {
			l.request(request, "id-1", "say x")
			return nil
		},
		"in place": func(l *fixture) error {
			return os.WriteFile(l.path(request), []byte(`{"request_id":"id-1","prompt":"say x"}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			l.step = func(at string) {
				if at != "invalid" {
					return
				}
				if err := write(l); err != nil {
					t.Error(err)
				}
			}
			l.write(request, "{")
			l.start(l.config())
			l.until("it is answered or moved", func() bool {
				return l.has(response) || slices.ContainsFunc(l.names(l.dir), func(name string) bool {
					return strings.HasSuffix(name, ".txt")
				})
			})
			l.removed()
			if names := l.names(l.dir); !slices.Equal(names, []string{response}) {
				t.Errorf("left: %q", names)
			}
		})
	}
}

// A response of another program takes the place of a stale one right before that is moved aside.
func TestNewResponseIsNotMovedAsideAsTheStaleOne(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	const mine = `{"request_id":"id-1","mine":true}`
	l.step = func(at string) {
		if at == "stale" {
			l.write(response, mine)
		}
	}
	l.write(response, `{"request_id":"old"}`)
	l.request(request, "id-1", "hang")
	l.start(l.config())
	l.removed()
	if b, err := os.ReadFile(l.path(response)); err != nil || string(b) != mine {
		t.Errorf("the response is %q, %v", b, err)
	}
	if names := l.names(l.dir); !slices.Equal(names, []string{response}) {
		t.Errorf("left: %q", names)
	}
}

// awayOnce fails at the first notification of an overtaken run.
type awayOnce struct {
	runner
	tried atomic.Bool
}

func (r *awayOnce) Overtaken(ctx context.Context, run string, o outcome) error {
	if !r.tried.Swap(true) {
		return errors.New("NATS is away")
	}
	return r.runner.Overtaken(ctx, run, o)
}

// The program takes the response of another program as soon as it is there, or later, and may remove its request: the
// run is notified of it all the same, also if that needs a second attempt, or is done by the next bridge.
func TestResponseOfAnotherProgramNotifiesTheRun(t *testing.T) {
	t.Parallel()
	const good = `{"request_id":"id-1","version":"1.0","status":"success","response":"by hand",` +
		`"error_message":null,"error_type":null,` +
		`"created_at":"2025-11-24T14:22:45.123456+00:00","duration_seconds":12.7,"metadata":{}}`
	for _, when := range []string{"", "away", "restart"} {
		for _, gone := range [][]string{nil, {request}, {response}, {request, response}} {
			t.Run(fmt.Sprint(when, gone), func(t *testing.T) {
				t.Parallel()
				l := newFixture(t)
				l.step = func(at string) {
					for _, name := range gone {
						if at == "found" {
							_ = os.Remove(l.path(name))
						}
					}
				}
				c := l.config()
				if when == "away" {
					c.runner = &awayOnce{runner: c.runner}
				}
				stop := l.start(c)
				l.request(request, "id-1", "hang")
				l.until("it is submitted", func() bool { return len(l.names(l.runs)) == 1 })
				if when == "restart" {
					stop()
				}
				l.write(response, good)
				if when == "restart" {
					l.start(c)
				}
				want := []string{response}
				if slices.Contains(gone, response) {
					want = nil
				}
				l.until("the run is ended, and the request gone", func() bool {
					return len(l.names(l.runs)) > 1 && slices.Equal(l.names(l.dir), want)
				})
				names := l.names(l.runs)
				if b, err := os.ReadFile(filepath.Join(l.runs, names[1])); err != nil || string(b) != "success by hand" {
					t.Errorf("%s is %q, %v", names[1], b, err)
				}
			})
		}
	}
}
