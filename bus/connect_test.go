package bus

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/zap"
)

func TestErrorsThatTakeTurnsAreLoggedOnceAMinute(t *testing.T) {
	s := LogLimiter{Max: 32}
	now := time.Now()
	n := 0
	for i := range 100 {
		if s.Allow(fmt.Sprint("error ", i%2), now.Add(time.Duration(i)*time.Millisecond)) {
			n++
		}
	}
	if n != 2 {
		t.Errorf("two errors that take turns are logged %d times", n)
	}
	for i := range 1000 {
		s.Allow(fmt.Sprint("another ", i), now)
	}
	if len(s.texts) > s.Max {
		t.Errorf("%d texts are kept", len(s.texts))
	}
	if !s.Allow("error 0", now.Add(time.Minute)) {
		t.Error("it is not logged again after a minute")
	}
}

func TestOldServerIsRefused(t *testing.T) {
	for version, fits := range map[string]bool{"2.10.29": false, "1.4.1": false, "2.11.0": true, "2.15.2": true,
		"3.0.0": true, "2.12.0-RC.1": true, "": false, "x": false} {
		major, minor := parseVersion(version)
		if got := major > minMajor || major == minMajor && minor >= minMinor; got != fits {
			t.Errorf("version %q: fits %v, want %v", version, got, fits)
		}
	}
}

// A server that ends while a client dials gives its address up: somebody else may listen there by then.
func TestAnAddressThatIsGivenUpMeanwhileGetsNoPassword(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	said := make(chan string, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, `INFO {"server_id":"x","version":"2.15.2","max_payload":8388608,"headers":true}`+"\r\n")
			got, _ := io.ReadAll(c) // until the client closes
			_ = c.Close()
			said <- string(got)
		}
	}()
	for _, next := range []string{"", "127.0.0.1:1"} {
		asked := false
		where := func() string {
			if asked {
				return next
			}
			asked = true
			return l.Addr().String()
		}
		login := Login{URL: "nats://" + l.Addr().String(), User: "operator", Password: "s3cret", Where: where}
		if b, err := Connect(t.Context(), login, Login{}, Names{}, zap.NewNop()); !errors.Is(err, ErrUnreachable) {
			b.Close()
			t.Fatalf("connected: %v", err)
		}
		if got := <-said; got != "" {
			t.Errorf("it gets %s", got)
		}
	}
}
