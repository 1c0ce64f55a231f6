package bridge

import (
	"os"
	"slices"
	"strings"
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
