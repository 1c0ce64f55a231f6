package bus

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// A server is replaced by another one that refuses the credentials: readers and
// requests get that error, workers retry at growing intervals until they are
// accepted again.
func TestRefusedCredentialsEndWhoAsksAndNotWhoWorks(t *testing.T) {
	t.Parallel()
	names := Names{Prefix: DefaultPrefix}
	home := t.TempDir()
	first, err := StartServer(home, "127.0.0.1:0", names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	at := strings.TrimPrefix(first.URL(), "nats://")
	worker, err := first.Connect(t.Context(), OperatorUser, names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	if _, err := worker.Ensure(t.Context(), Limits{RawBytes: 1 << 24, EventsBytes: 1 << 24, RunsBytes: 1 << 24}); err != nil {
		t.Fatal(err)
	}
	asking := func(user string) *Bus {
		inside, public := first.Credentials.Logins(first.URL(), user)
		inside.EndRefused, public.EndRefused = true, true
		b, err := Connect(t.Context(), inside, public, names, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	reader, asker := asking(SubscriberUser), asking(OperatorUser)
	reads := make(chan error, 1)
	go func() { reads <- reader.Read(t.Context(), Filter{Follow: true}, func(Stored) error { return nil }) }()

	first.Stop()
	other, err := StartServer(t.TempDir(), at, names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if err := <-reads; !errors.Is(err, ErrRefused) || !errors.Is(err, ErrUnreachable) {
		t.Errorf("follow ends with %v, want ErrRefused", err)
	}
	within(t, asker.inside.IsClosed)
	if _, err := asker.Ask(t.Context(), "status", []byte("{}")); !errors.Is(err, ErrRefused) {
		t.Errorf("ask ends with %v, want ErrRefused", err)
	}

	within(t, func() bool { return unauthorized(worker.inside) })
	var conn atomic.Pointer[nats.Conn]
	conn.Store(worker.inside)
	pause := reconnectPauses(&conn)
	if short := pause(1); short > time.Second {
		t.Errorf("the first pause is %v", short)
	}
	long := time.Duration(0)
	for range 20 {
		long = pause(1)
	}
	if long < 2*time.Second || long > 8*time.Second {
		t.Errorf("the pauses grow to %v", long)
	}
	other.Stop()
	again, err := StartServer(home, at, names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Stop()
	within(t, worker.Connected)
}

func within(t *testing.T, is func() bool) {
	t.Helper()
	end := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it does not come to that")
		}
	}
}

func TestErrorsThatTakeTurnsAreLoggedOnceAMinute(t *testing.T) {
	var s seldom
	now := time.Now()
	n := 0
	for i := range 100 {
		if s.may(fmt.Sprint("error ", i%2), now.Add(time.Duration(i)*time.Millisecond)) {
			n++
		}
	}
	if n != 2 {
		t.Errorf("two errors that take turns are logged %d times", n)
	}
	for i := range 1000 {
		s.may(fmt.Sprint("another ", i), now)
	}
	if len(s.texts) > mostTexts {
		t.Errorf("%d texts are kept", len(s.texts))
	}
	if !s.may("error 0", now.Add(time.Minute)) {
		t.Error("it is not logged again after a minute")
	}
}
