package webhook_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/webhook"
)

// As a separate process, the test binary is a responder that delivers until it
// is killed.
func TestMain(m *testing.M) {
	if url := os.Getenv("PUSH_TEST_SERVER"); url != "" {
		fmt.Fprintln(os.Stderr, process(context.Background(), url, os.Getenv("PUSH_TEST_DIR")))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func process(ctx context.Context, url, dir string) error {
	credentials, err := embedded.LoadCredentials(dir)
	if err != nil {
		return err
	}
	inside, public := credentials.Logins(url, embedded.ResponderUser)
	b, err := bus.Connect(bus.WithPatience(ctx, fixture.Patience/2), inside, public, names, zap.NewNop())
	if err != nil {
		return err
	}
	r := responder.New(configured(b, nil))
	key, _ := webhook.ReadKey(filepath.Join(dir, keyFile)) // some tests have one
	p := webhook.New(webhook.Config{
		Registrations: b.PushStore(), Outbox: b.PushStore(), Runs: r.Standing(), Private: true, Key: key,
		Encoders: map[string]webhook.Encoder{webhook.AdCP: adcp.NewNotices(r)},
	})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.Run(ctx) })
	group.Go(func() error { return p.Run(ctx) })
	return group.Wait()
}

// keyFile is the file of a key in the directory of a stage.
const keyFile = "webhook-key.pem"

// hasten shortens the server's wait for a killed process from half a minute to
// a moment. The next process must have its consumer by then: it sets the time
// again.
func (s *stage) hasten() {
	s.t.Helper()
	credentials, err := embedded.LoadCredentials(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	login, _ := credentials.Logins(s.server.URL(), embedded.OperatorUser)
	conn, err := nats.Connect(login.URL, nats.UserInfo(login.User, login.Password),
		nats.CustomInboxPrefix(bus.InboxPrefix(login.User)), nats.Timeout(fixture.Patience))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(fixture.Patience))
	if err != nil {
		s.t.Fatal(err)
	}
	var config jetstream.ConsumerConfig
	s.until("the next one asks for notifications", func() bool {
		c, err := js.Consumer(s.t.Context(), names.Outbox(), "push")
		if err != nil {
			s.t.Fatal(err)
		}
		info := c.CachedInfo()
		config = info.Config
		return info.NumWaiting > 0
	})
	if config.AckWait != 30*time.Second {
		s.t.Errorf("the server waits for %v", config.AckWait)
	}
	config.AckWait = 2 * time.Second
	if _, err := js.UpdateConsumer(s.t.Context(), names.Outbox(), config); err != nil {
		s.t.Fatal(err)
	}
}

// kill starts a process that delivers, and kills it once a receiver has its request.
func (s *stage) kill(held <-chan struct{}) {
	s.t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PUSH_TEST_SERVER="+s.server.URL(), "PUSH_TEST_DIR="+s.dir)
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-held:
	case err := <-ended:
		s.t.Fatalf("it ended: %v\n%s", err, stderr.String())
	}
	if err := cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	if err := <-ended; err == nil || cmd.ProcessState.Exited() {
		s.t.Fatalf("it was not killed: %v", err)
	}
}

// A process that is killed while a receiver has its request leaves the
// notification to the next one.
func TestAProcessKilledInMidDeliveryLosesNothing(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{webhook.HMAC, ""} {
		t.Run("scheme "+scheme, func(t *testing.T) {
			t.Parallel()
			killedInMidDelivery(t, scheme)
		})
	}
}

func killedInMidDelivery(t *testing.T, scheme string) {
	s := newStage(t)
	if scheme == "" {
		var err error
		if s.key, err = webhook.CreateKey(filepath.Join(s.dir, keyFile)); err != nil {
			t.Fatal(err)
		}
	}
	var open atomic.Bool
	held := make(chan struct{}, 100)
	r := receive(t, func(_ int, _ http.ResponseWriter, _ []byte, gone <-chan struct{}) int {
		if open.Load() {
			return 200
		}
		held <- struct{}{}
		<-gone
		return -1
	})
	caller := s.node(nil)
	caller.stop() // it takes tasks, and tells nobody
	run := caller.submit("key-0123456789-1", r.URL, scheme)
	raw := s.start(run)

	s.kill(held)
	if n := s.waiting(); n != 1 {
		t.Fatalf("%d notifications wait", n)
	}
	open.Store(true)
	s.node(nil)
	s.hasten()
	s.end(raw, 0)
	// A machine that is late by what hasten has left may deliver one again, as it was.
	s.until("all are delivered", func() bool {
		return len(r.taken()[run+" working"]) > 0 && len(r.taken()[run+" completed"]) > 0 && s.waiting() == 0
	})
	for _, q := range r.requests() {
		if q.status != 200 && !bytes.Equal(q.body, []byte(r.taken()[run+" working"][0])) {
			t.Errorf("what was cut off was another body: %s", q.body)
		}
	}
	for what, bodies := range r.taken() {
		if slices.Sort(bodies); len(slices.Compact(bodies)) != 1 {
			t.Errorf("%s: different bodies %q", what, bodies)
		}
	}
	s.quiet()
}
