package rest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/test/fixture"
)

func TestAcceptChoosesWhatItLikesBest(t *testing.T) {
	const adcp = "application/adcp+json"
	for _, c := range []struct{ accept, want string }{
		{"", "application/json"},
		{" ", "application/json"},
		{"*/*", "application/json"},
		{"application/*", "application/json"},
		{"application/json", "application/json"},
		{"Application/JSON; charset=utf-8", "application/json"},
		{"text/event-stream", streamType},
		{"text/*", streamType},
		{"text/event-stream, */*;q=0.1", streamType},
		{"application/json;q=0.5, text/event-stream;q=0.4", "application/json"},
		{"application/json;q=0.3, text/event-stream;q=0.4", streamType},
		{"application/adcp+json", adcp},
		{"application/adcp+json, application/json;q=0.9", adcp},
		{"*/*, application/json;q=0", streamType},
		{"*/*;q=0.1, application/adcp+json", adcp},
		{"application/json;q=0", ""},
		{"application/json;q=2", ""},
		{"application/json;q=x", ""},
		{"image/png", ""},
		{"image/*", ""},
		{"application/xml, ;;, text", ""},
	} {
		got, ok := choose(c.accept, []string{"application/json", streamType, adcp})
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%q: %q, %v; want %q", c.accept, got, ok, c.want)
		}
	}
}

// deadlines makes every deadline for writing a near one.
type deadlines struct {
	http.ResponseWriter
	near time.Duration
}

func (d deadlines) Unwrap() http.ResponseWriter { return d.ResponseWriter }

func (d deadlines) SetWriteDeadline(at time.Time) error {
	if !at.IsZero() {
		at = time.Now().Add(d.near)
	}
	return http.NewResponseController(d.ResponseWriter).SetWriteDeadline(at)
}

// A client that takes nothing holds a stream for a while, and not for ever.
func TestStreamEndsForAClientThatReadsNothing(t *testing.T) {
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		near := deadlines{w, 50 * time.Millisecond}
		s := &sse{w: w, control: http.NewResponseController(near), beat: time.Hour, idle: time.NewTicker(time.Hour)}
		event := frame(api.Event{Seq: 1, Kind: "status", Body: []byte(strings.Repeat("x", 64<<10))})
		for {
			if err := s.write(event); err != nil {
				ended <- err
				return
			}
		}
	}))
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it ends without an error")
		}
	case <-time.After(fixture.Patience):
		t.Error("it waits for ever")
	}
	_ = conn.Close()
	server.Close()
}
