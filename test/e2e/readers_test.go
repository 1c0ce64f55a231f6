package e2e

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
)

// subscribe connects as a program that reads events does.
func subscribe(t *testing.T, data string) (*nats.Conn, error) {
	t.Helper()
	password, err := embedded.LoadCredentials(data)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(fixture.ReadAddress(t, data).NATS, nats.UserInfo(embedded.SubscriberUser,
		password[embedded.SubscriberUser]), nats.CustomInboxPrefix(bus.InboxPrefix(embedded.SubscriberUser)))
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

// subscriber is that, for what asks JetStream.
func subscriber(t *testing.T, data string) jetstream.JetStream {
	t.Helper()
	nc, err := subscribe(t, data)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// A program that reads events makes as many durable consumers as it may, and
// leaves them: who uses linesman notices nothing, but for the doctor's warning.
func TestFloodOfConsumersHarmsNobody(t *testing.T) {
	fixture.Long(t, "floods a server")
	t.Parallel()
	data, agent, canary := t.TempDir(), newScript(t, "say one"), fixture.StartCanary(t)
	first := up(t, data)
	run := func(id string) {
		t.Helper()
		if out, code := execute(t, "run", "--data-dir", data, "--run", id, "--json", "--", agent.path); code != 0 ||
			len(parse(t, out)) != 2 {
			t.Errorf("run: exit %d\n%s", code, out)
		}
	}
	run("before")
	js := subscriber(t, data)
	for i := range bus.MaxReaders + 1 {
		name := fmt.Sprintf("left-%d", i)
		_, err := js.CreateConsumer(t.Context(), "LINESMAN_EVENTS", jetstream.ConsumerConfig{Name: name, Durable: name,
			FilterSubject: "linesman.events.>"})
		if refused := err != nil; refused != (i == bus.MaxReaders) {
			t.Fatalf("consumer %d: %v", i, err)
		}
	}
	c, err := js.Consumer(t.Context(), "LINESMAN_EVENTS", "left-0")
	if err != nil {
		t.Fatal(err)
	}
	if age := c.CachedInfo().Config.InactiveThreshold; age != bus.ReaderAge {
		t.Errorf("a durable consumer that nobody uses lasts %v, want %v", age, bus.ReaderAge)
	}
	_, err = js.CreateConsumer(t.Context(), "LINESMAN_EVENTS", jetstream.ConsumerConfig{FilterSubject: "linesman.events.>",
		InactiveThreshold: 2 * bus.ReaderAge})
	if err == nil {
		t.Error("a consumer may last for longer than the bound")
	}
	js.Conn().Close()

	unharmed := func(id string) {
		t.Helper()
		follower := begin(t, nil, "events", "--data-dir", data, "--follow", "--json")
		follower.Await(follower.Stdout, `"run":"before"`)
		run(id)
		follower.Await(follower.Stdout, `"run":"`+id+`"`)
		follower.Signal(syscall.SIGTERM)
		follower.Code()
		for _, args := range [][]string{{"events", "--run", id}, {"results", id}, {"status"}, {"status", id}, {"health"}} {
			if out, code := execute(t, append(args, "--data-dir", data)...); code != 0 {
				t.Errorf("%q: exit %d\n%s", args, code, out)
			}
		}
		if out, _ := execute(t, "doctor", "--data-dir", data); !strings.Contains(out,
			fmt.Sprintf("warn  readers    %d consumers on LINESMAN_EVENTS, of %[1]d at most;", bus.MaxReaders)) {
			t.Errorf("the doctor says nothing:\n%s", out)
		}
	}
	unharmed("after")

	first.Kill()
	began := time.Now()
	up(t, data)
	took := time.Since(began)
	unharmed("again")
	canary.Within("the next start was complete", took, 10*time.Second)
}

// A program that reads events takes all connections that readers may have.
func TestFloodOfConnectionsHarmsNobody(t *testing.T) {
	fixture.Long(t, "floods a server")
	t.Parallel()
	data, agent := t.TempDir(), newScript(t, "say one")
	up(t, data)
	open := 0
	for range embedded.MaxConnections + 1 {
		if _, err := subscribe(t, data); err == nil {
			open++
		} else if !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
			t.Fatal(err)
		}
	}
	if open > embedded.MaxConnections || open < embedded.MaxConnections/2 {
		t.Errorf("%d connections", open)
	}
	if out, code := execute(t, "run", "--data-dir", data, "--run", "x", "--json", "--", agent.path); code != 0 ||
		len(parse(t, out)) != 2 {
		t.Errorf("run: exit %d\n%s", code, out)
	}
	for _, args := range [][]string{{"events", "--run", "x"}, {"results", "x"}, {"status"}, {"health"}} {
		if out, code := execute(t, append(args, "--data-dir", data)...); code != 0 {
			t.Errorf("%q: exit %d\n%s", args, code, out)
		}
	}
	fixture.Eventually(t, fixture.Patience, "the doctor tells it", func() bool {
		out, _ := execute(t, "doctor", "--data-dir", data)
		return strings.Contains(out, fmt.Sprintf("user %s had %d connections, the most there may be, and more were refused",
			embedded.SubscriberUser, embedded.MaxConnections)) &&
			strings.Contains(out, "warn  users      subscriber: it has all connections that it may have")
	})
}
