package pipeline

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// otherStreams are those that no normalizer writes, with the subject of a message.
var otherStreams = map[string]func(key string) string{
	bustest.Names.Work():                    func(key string) string { return bustest.Names.WorkSubject("default", key) },
	bustest.Names.Outbox():                  func(key string) string { return bustest.Names.PushSubject("a", key) },
	bucket.Stream(bustest.Names.Requests()): inBucket(bustest.Names.Requests()),
	bucket.Stream(bustest.Names.Access()):   inBucket(bustest.Names.Access()),
	bucket.Stream(bustest.Names.Seen()):     inBucket(bustest.Names.Seen()),
	bucket.Stream(bustest.Names.Folds()):    inBucket(bustest.Names.Folds()),
	bucket.Stream(bustest.Names.Push()):     inBucket(bustest.Names.Push()),
}

func inBucket(name string) func(key string) string {
	return func(key string) string { return bucket.Subject(name, key) }
}

const (
	otherMessages = 60
	otherBytes    = 500
	ackWait       = 300 * time.Millisecond
)

// storeOthers makes a data directory with messages in the other streams, and a worker that has taken a task.
func storeOthers(t *testing.T) (dir string, bodies map[string][]string) {
	t.Helper()
	dir, bodies = t.TempDir(), map[string][]string{}
	server, err := embedded.StartServer(dir, "127.0.0.1:0", bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	b, err := server.Connect(bustest.Patient(t), embedded.OperatorUser, bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	for stream, subject := range otherStreams {
		for i := range otherMessages {
			body := strings.Repeat(fmt.Sprintf("%s %d. ", stream, i), 50)[:otherBytes]
			if _, err := b.JetStream().Publish(t.Context(), subject(fmt.Sprint("k", i)), []byte(body)); err != nil {
				t.Fatalf("%s: %v", stream, err)
			}
			bodies[stream] = append(bodies[stream], body)
		}
	}
	if _, err := queue(b).Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir, bodies
}

func queue(b *bus.Bus) *bus.Queue {
	q := b.Queue("default")
	q.AckWait = ackWait
	return q
}

// A stream that nothing else can tell keeps each message that can be read, and takes more.
func TestDamagedStreamsKeepWhatCanBeRead(t *testing.T) {
	t.Parallel()
	dir, bodies := storeOthers(t)
	least := map[string]int{ // of the messages, with damage at 0.45 of them
		"flipped": otherMessages - 2,
		"zeros":   otherMessages - 2 - 4096/otherBytes,
		"cut":     otherMessages*45/100 - 2,
	}
	n := 0
	for _, stream := range slices.Sorted(maps.Keys(otherStreams)) {
		for _, kind := range slices.Sorted(maps.Keys(damages)) {
			for _, index := range []bool{true, false} {
				if n++; n%fixture.Every(5) != 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s %s, index %v", stream, kind, index), func(t *testing.T) {
					t.Parallel()
					d := damage(t, dir, embedded.InsideAccount, stream, kind, index, 0.45)
					b := d.open(t)
					if !d.said() {
						t.Errorf("nothing is said of it: %v", d.logs.All())
					}
					kept := readable(t, b, stream, bodies[stream])
					if kept < least[kind] || kept == otherMessages {
						t.Errorf("%d messages are kept, want %d at least, and not all", kept, least[kind])
					}
					if _, err := b.JetStream().Publish(t.Context(), otherStreams[stream]("new"), []byte("x")); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// readable returns how many messages of a stream can be read. Each must be as it was.
func readable(t *testing.T, b *bus.Bus, stream string, bodies []string) (n int) {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	for seq, body := range bodies {
		m, err := s.GetMsg(t.Context(), uint64(seq+1))
		if err != nil {
			if !strings.Contains(err.Error(), jetstream.ErrMsgNotFound.Error()) {
				t.Fatal(err)
			}
			continue
		}
		if string(m.Data) != body {
			t.Errorf("message %d is %.60q", seq+1, m.Data)
		}
		n++
	}
	return n
}

// Each task is delivered, whatever the files of the workers' consumer say.
func TestTasksAreDeliveredWhereTheirConsumerIsDamaged(t *testing.T) {
	t.Parallel()
	dir, _ := storeOthers(t)
	n := 0
	for _, file := range []string{"o.dat", "meta.inf", "meta.sum"} {
		for _, kind := range append(slices.Sorted(maps.Keys(damages)), "passes over") {
			if n++; n%fixture.Every(4) != 0 {
				continue
			}
			t.Run(file+" "+kind, func(t *testing.T) {
				t.Parallel()
				d := &damaged{dir: t.TempDir(), stream: bustest.Names.Work()}
				if err := os.CopyFS(d.dir, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				d.file = filepath.Join(d.dir, "jetstream", "jetstream", embedded.InsideAccount, "streams", d.stream, "obs",
					"worker_default", file)
				b, err := os.ReadFile(d.file)
				if err != nil {
					t.Fatal(err)
				}
				if kind == "passes over" { // acknowledged nothing, delivered 50
					b = []byte{22, 2, 0, 0, 50, 50, 0, 0}
				} else {
					b = damages[kind](b, len(b)/2)
				}
				if err := os.WriteFile(d.file, b, 0o600); err != nil {
					t.Fatal(err)
				}
				q, delivered := queue(d.open(t)), map[uint64]bool{}
				for len(delivered) < otherMessages {
					task, err := q.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if err := task.Done(); err != nil {
						t.Fatal(err)
					}
					delivered[task.Work()] = true
				}
			})
		}
	}
}

// The consumer of a subscriber continues at its position, or begins again if that is damaged.
func TestConsumerWithADamagedPositionBeginsAgain(t *testing.T) {
	t.Parallel()
	s := store(t, false)
	total := len(s.events["a"]) + len(s.events["b"])
	const delivered, acknowledged = 20, 12
	on := func(t *testing.T, d *damaged) jetstream.Consumer {
		js := d.open(t).PublicJetStream()
		c, err := js.CreateOrUpdateConsumer(t.Context(), bustest.Names.Events(), jetstream.ConsumerConfig{
			Durable: "subscriber", AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	fetch := func(t *testing.T, c jetstream.Consumer, n int, acknowledge func(seq uint64) bool) {
		all := map[uint64]bool{}
		for len(all) < n {
			m, err := c.Next(jetstream.FetchMaxWait(fixture.Patience))
			if err != nil {
				t.Fatalf("after %d: %v", len(all), err)
			}
			meta, err := m.Metadata()
			if err != nil {
				t.Fatal(err)
			}
			all[meta.Sequence.Stream] = true
			if acknowledge(meta.Sequence.Stream) {
				if err := m.DoubleAck(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	whole := &damaged{dir: t.TempDir()}
	if err := os.CopyFS(whole.dir, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	if !t.Run("first", func(t *testing.T) { // the server of a subtest ends with it
		fetch(t, on(t, whole), delivered, func(seq uint64) bool { return seq > delivered-acknowledged })
	}) {
		return
	}
	for kind, left := range map[string]int{"not": total - acknowledged, "zeros": total, "cut": total} {
		t.Run(kind+" damaged", func(t *testing.T) {
			t.Parallel()
			d := &damaged{dir: t.TempDir()}
			if err := os.CopyFS(d.dir, os.DirFS(whole.dir)); err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(d.dir, "jetstream", "jetstream", embedded.PublicAccount, "streams", bustest.Names.Events(),
				"obs", "subscriber", "o.dat")
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if change := damages[kind]; change != nil {
				b = change(b, len(b)/2)
			}
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			fetch(t, on(t, d), left, func(uint64) bool { return true })
			if said := strings.Contains(d.text(), "the position of a consumer is damaged"); said != (kind != "not") {
				t.Errorf("said %t: %s", said, d.text())
			}
		})
	}
}
