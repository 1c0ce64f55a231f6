package bus_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

func TestServerWithSmallPayloadIsRefused(t *testing.T) {
	url := bustest.ServePlain(t, server.Options{MaxPayload: 512 << 10})
	_, err := bus.Connect(bustest.Patient(t), bus.Login{URL: url}, bus.Login{}, bustest.Names, zap.NewNop())
	if !errors.Is(err, bus.ErrUnfit) ||
		!strings.Contains(err.Error(), "max_payload is 524288 bytes; set it to 589824 or more") {
		t.Errorf("got %v", err)
	}
}

func TestOneAccountServesAsBoth(t *testing.T) {
	b := bustest.ConnectPlain(t, bustest.ServePlain(t, server.Options{}))
	bustest.EnsureSmall(t, b)
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": bustest.CorpusLog(t, "hello", 700)}, "a")
	normalize(t, b)
	if n := len(bustest.Dump(t, b.PublicJetStream(), b.Names.Events())); n != 5 {
		t.Errorf("%d events", n)
	}
}

func TestUnreachableServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	_, err = bus.Connect(
		t.Context(),
		bus.Login{URL: "nats://someone:s3cret@" + address},
		bus.Login{},
		bustest.Names,
		zap.NewNop(),
	)
	if !errors.Is(err, bus.ErrUnreachable) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}

func TestBusyAddressIsAnError(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := embedded.StartServer(
		t.TempDir(),
		l.Addr().String(),
		bustest.Names,
		zap.NewNop(),
	); !errors.Is(
		err,
		embedded.ErrListen,
	) {
		t.Errorf("got %v", err)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	for _, l := range []bus.Login{{URL: s.URL()}, {URL: s.URL(), User: embedded.OperatorUser, Password: "guess"}} {
		if b, err := bus.Connect(bustest.Patient(t), l, bus.Login{}, bustest.Names, zap.NewNop()); err == nil {
			b.Close()
			t.Errorf("%q came in", l.User)
		}
	}
}

func TestCredentialsAreMadeOnceAndPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := embedded.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := embedded.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	for user, password := range first {
		if len(password) < 32 || again[user] != password {
			t.Errorf("user %s: %d characters, the same again: %v", user, len(password), again[user] == password)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "credentials.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("credentials.json: %v, %v", info.Mode(), err)
	}
}

func TestFullRawLosesTheOldestThatIsRecorded(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	raw, err := b.JetStream().Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	config := raw.CachedInfo().Config
	config.MaxBytes = 1 << 20
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	n := newNormalizer(bustest.Connect(t, s, embedded.NormalizerUser))
	done := make(chan error, 1)
	go func() { done <- n.Run(t.Context()) }()
	l, err := b.OpenLog(t.Context(), "codex", "x", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(`{"type":"turn.started","timestamp":"` + strings.Repeat("x", 8<<10) + `"}` + "\n")
	const lines = 400 // three times what RAW can hold
	for i := range lines {
		if err := l.Append(
			t.Context(),
			runs.Entry{Kind: runs.Out, Time: 1, Offset: int64(i * len(line)), Body: line},
		); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Append(t.Context(), runs.Entry{Kind: runs.Exited, Time: 2, Body: []byte(`{"reason":"eof"}`)}); err != nil {
		t.Fatal(err)
	}
	bustest.Ended(t, b, "x")
	if events := bustest.Dump(t, b.PublicJetStream(), b.Names.Events()); len(events) != lines+1 {
		t.Errorf("%d events of %d lines", len(events), lines)
	}
}
