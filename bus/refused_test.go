package bus_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A server is replaced by another one that refuses the credentials: readers and
// requests get that error, workers retry at growing intervals until they are
// accepted again.
func TestRefusedCredentialsEndRequestsButNotWorkers(t *testing.T) {
	t.Parallel()
	names := bus.Names{Prefix: bus.DefaultPrefix}
	home := t.TempDir()
	first, err := embedded.StartServer(home, fixture.FreeAddresses(t, 1)[0], names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	at := strings.TrimPrefix(first.URL(), "nats://")
	worker, err := first.Connect(bustest.Patient(t), embedded.OperatorUser, names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	if _, err := worker.Ensure(
		t.Context(),
		bus.Limits{RawBytes: 1 << 24, EventsBytes: 1 << 24, RunsBytes: 1 << 24},
	); err != nil {
		t.Fatal(err)
	}
	asking := func(user string) *bus.Bus {
		inside, public := first.Credentials.Logins(first.URL(), user)
		inside.EndRefused, public.EndRefused = true, true
		b, err := bus.Connect(bustest.Patient(t), inside, public, names, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	reader, asker := asking(embedded.SubscriberUser), asking(embedded.OperatorUser)
	reads := make(chan error, 1)
	go func() {
		reads <- reader.Read(t.Context(), runs.Selection{Follow: true}, func(bus.Stored) error { return nil })
	}()

	first.Stop()
	other, err := embedded.StartServer(t.TempDir(), at, names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if err := <-reads; !errors.Is(err, bus.ErrRefused) || !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("follow ends with %v, want ErrRefused", err)
	}
	bustest.Until(t, "it does not come to that", asker.Inside().IsClosed)
	if _, err := asker.Ask(t.Context(), "status", []byte("{}")); !errors.Is(err, bus.ErrRefused) {
		t.Errorf("ask ends with %v, want ErrRefused", err)
	}

	bustest.Until(t, "it does not come to that", func() bool { return bus.Unauthorized(worker.Inside()) })
	var conn atomic.Pointer[nats.Conn]
	conn.Store(worker.Inside())
	pause := bus.ReconnectPauses(&conn)
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
	again, err := embedded.StartServer(home, at, names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Stop()
	bustest.Until(t, "it does not come to that", worker.Connected)
}
