package reader_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// followed is a follower of all messages of a stream. It passes on what comes once it may.
type followed struct {
	t     *testing.T
	js    jetstream.JetStream
	got   chan *jetstream.RawStreamMsg
	may   chan struct{}
	calls func() uint64 // messages that its connection has received
}

// followAll follows a stream that republishes the subjects of source.
func followAll(t *testing.T, source string) *followed {
	t.Helper()
	url := bustest.ServePlain(t, server.Options{})
	f := &followed{t: t, js: bustest.ConnectPlain(t, url).JetStream(), may: make(chan struct{})}
	f.got = make(chan *jetstream.RawStreamMsg, 100_000)
	destination := "live." + strings.Replace(source[2:], "*", "{{wildcard(1)}}", 1)
	if _, err := f.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "ALL", Subjects: []string{"s.*"}, AllowDirect: true,
		RePublish: &jetstream.RePublish{Source: source, Destination: destination},
	}); err != nil {
		t.Fatal(err)
	}
	own := bustest.ConnectPlain(t, url).JetStream()
	f.calls = func() uint64 { return own.Conn().Stats().InMsgs }
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- reader.NewDirect(own, "ALL", "s.*", "live.*", true, 1).Follow(ctx, func(m *jetstream.RawStreamMsg) error {
			f.got <- m
			<-f.may
			return nil
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return f
}

// store stores n messages, of two subjects in turn.
func (f *followed) store(from, n int) {
	f.t.Helper()
	for i := range n {
		subject := []string{"s.a", "s.b"}[(from+i)%2]
		if _, err := f.js.PublishAsync(subject, fmt.Append(nil, from+i)); err != nil {
			f.t.Fatal(err)
		}
		if i%1000 == 999 || i == n-1 {
			<-f.js.PublishAsyncComplete()
		}
	}
}

// expect checks the next n messages.
func (f *followed) expect(from, n int) {
	f.t.Helper()
	for i := from; i < from+n; i++ {
		select {
		case m := <-f.got:
			subject := []string{"s.a", "s.b"}[i%2]
			if m.Sequence != uint64(i) || m.Subject != subject || string(m.Data) != fmt.Sprint(i) {
				f.t.Fatalf("message %d is %d of %s: %s", i, m.Sequence, m.Subject, m.Data)
			}
		case <-time.After(fixture.Patience):
			f.t.Fatalf("message %d does not come", i)
		}
	}
}

// forge publishes what looks like a republished message.
func (f *followed) forge(stream string, seq int) {
	f.t.Helper()
	m := &nats.Msg{Subject: "live.a", Data: []byte("forged"), Header: nats.Header{}}
	if stream != "" {
		m.Header.Set(jetstream.StreamHeader, stream)
	}
	m.Header.Set(jetstream.SequenceHeader, fmt.Sprint(seq))
	m.Header.Set(jetstream.SubjectHeader, "s.a")
	if err := f.js.Conn().PublishMsg(m); err != nil {
		f.t.Fatal(err)
	}
}

// Once it has caught up, it takes what is republished: one message of the server for each of the stream.
func TestFollowerOfAllTakesWhatIsRepublished(t *testing.T) {
	t.Parallel()
	f := followAll(t, "s.*")
	close(f.may)
	f.current()
}

// What was not delivered is read from the stream, and nothing comes twice.
func TestFollowerOfAllReadsWhatIsNotRepublished(t *testing.T) {
	t.Parallel()
	f := followAll(t, "s.b") // every second one, as if the others were lost
	close(f.may)
	f.store(1, 500)
	f.expect(1, 500)
	f.store(501, 500)
	f.expect(501, 500)
}

// A follower that is slower than what comes loses nothing.
func TestFollowerOfAllMayBeSlow(t *testing.T) {
	t.Parallel()
	f := followAll(t, "s.*")
	f.store(1, 1)
	f.expect(1, 1) // and it waits
	f.store(2, 40_000)
	close(f.may)
	f.expect(2, 40_000)
	f.store(40_002, 10)
	f.expect(40_002, 10)
}

// Others may publish on the live subjects: what is not the next message of the stream is none.
func TestFollowerOfAllTakesNoOtherMessages(t *testing.T) {
	t.Parallel()
	f := followAll(t, "s.*")
	close(f.may)
	f.store(1, 10)
	f.expect(1, 10)
	for _, seq := range []int{0, 1, 10, 11, 12, 99} {
		f.forge("", seq)
		f.forge("OTHER", seq)
		if seq != 11 && seq != 12 { // of the stream itself, only the server sends what comes soon
			f.forge("ALL", seq)
		}
	}
	f.store(11, 10)
	f.expect(11, 10)
	if len(f.got) > 0 {
		t.Errorf("%d more", len(f.got))
	}
}

// current stores messages until what is stored comes as it is republished, and returns the sequence of the next one.
func (f *followed) current() (next int) {
	f.t.Helper()
	next = 1
	fixture.Eventually(f.t, fixture.Patience, "it reads from the stream, too", func() bool {
		before := f.calls()
		f.store(next, 100)
		f.expect(next, 100)
		next += 100
		return f.calls()-before <= 110
	})
	return next
}

// recreate makes the stream again, empty.
func (f *followed) recreate() {
	f.t.Helper()
	s, err := f.js.Stream(f.t.Context(), "ALL")
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.js.DeleteStream(f.t.Context(), "ALL"); err != nil {
		f.t.Fatal(err)
	}
	fixture.Eventually(f.t, fixture.Patience, "the stream does not come back", func() bool {
		_, err := f.js.CreateStream(f.t.Context(), s.CachedInfo().Config) // its directory may still be on the way out
		return err == nil
	})
}

// The stream is recreated, and soon as long as before: a message of the new one is not the next one of the old one.
func TestFollowerOfAllTakesNoMessageOfAnotherStreamForTheNext(t *testing.T) {
	t.Parallel()
	f := followAll(t, "s.*")
	close(f.may)
	next := f.current()
	calls := f.calls()
	fixture.Eventually(t, fixture.Patience, "the intervals do not grow", func() bool { return f.calls() >= calls+6 })
	f.recreate()
	f.store(1, next+10)
	f.expect(1, next+10)
}

// The same, while a slow follower has more to take than it keeps.
func TestSlowFollowerOfAllTakesNoMessageOfAnotherStreamForTheNext(t *testing.T) {
	t.Parallel()
	f := followAll(t, "s.*")
	var passed atomic.Int32
	hold := make(chan struct{})
	go func() {
		for {
			select {
			case f.may <- struct{}{}:
				passed.Add(1)
			case <-hold:
				return
			}
		}
	}()
	next := f.current()
	fixture.Eventually(t, fixture.Patience, "it does not go on", func() bool { return int(passed.Load()) == next-1 })
	hold <- struct{}{}
	f.store(next, 1)
	f.expect(next, 1) // and it waits
	f.recreate()
	f.store(1, 20_000)
	close(f.may)
	f.expect(1, 20_000)
}
