package reader_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// shares are subjects, and how many of a hundred messages have each.
var shares = map[string]int{"s.much": 60, "s.some": 30, "s.few": 9, "s.one": 1}

// mixed returns a stream, and a function that stores n messages of random subjects, with their sequences by subject.
func mixed(t *testing.T) (js jetstream.JetStream, of map[string][]uint64, store func(n int)) {
	t.Helper()
	_, b := bustest.Serve(t, embedded.StartServer)
	js, of = b.JetStream(), map[string][]uint64{}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "MIXED", Subjects: []string{"s.*"}, AllowDirect: true,
		RePublish: &jetstream.RePublish{Source: "s.*", Destination: "live.{{wildcard(1)}}"},
	}); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	return js, of, func(n int) {
		for range n {
			subject, at := "", rng.IntN(100)
			for _, name := range []string{"s.much", "s.some", "s.few", "s.one"} {
				if at -= shares[name]; at < 0 {
					subject = name
					break
				}
			}
			ack, err := js.Publish(t.Context(), subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			of[subject] = append(of[subject], ack.Sequence)
		}
	}
}

// selections are subjects that are read together.
var selections = [][]string{
	{"s.one"}, {"s.few"}, {"s.much"}, {"s.one", "s.few"}, {"s.some", "s.one", "s.none"},
	{"s.much", "s.some", "s.few", "s.one"}, {"s.none"},
}

// A selection is read in the order of the stream, each message once, whether its subjects are rare or nearly all.
func TestSelectReadsItsSubjectsInOrder(t *testing.T) {
	t.Parallel()
	js, of, store := mixed(t)
	store(6000)
	for _, subjects := range selections {
		for _, from := range []uint64{1, 777, 5999} {
			for _, enough := range []int{0, 5} {
				t.Run(fmt.Sprint(subjects, from, enough), func(t *testing.T) {
					t.Parallel()
					want := between(of, subjects, from)
					r := reader.NewSelect(js, "MIXED", "s.*", subjects, nil, from)
					r.Want = enough
					var got []uint64
					others := 0
					err := r.ToEnd(t.Context(), func(m *jetstream.RawStreamMsg) error {
						if !slices.Contains(subjects, m.Subject) {
							others++
							return nil
						}
						if got = append(got, m.Sequence); len(got) == enough {
							return reader.ErrStop
						}
						return nil
					})
					if enough > 0 {
						want = want[:min(enough, len(want))]
					}
					if err != nil || !slices.Equal(got, want) {
						t.Errorf("%d messages, %v; want %d", len(got), err, len(want))
					}
					if others > 0 && !slices.Contains(subjects, "s.much") {
						t.Errorf("it reads %d others", others)
					}
				})
			}
		}
	}
}

// between are the sequences of subjects from one on.
func between(of map[string][]uint64, subjects []string, from uint64) (all []uint64) {
	for _, subject := range subjects {
		all = append(all, of[subject]...)
	}
	slices.Sort(all)
	return slices.DeleteFunc(all, func(seq uint64) bool { return seq < from })
}

// A follower of a selection gets what is stored while it reads, in order, each message once.
func TestSelectFollowsItsSubjects(t *testing.T) {
	t.Parallel()
	js, of, store := mixed(t)
	store(500)
	type follower struct {
		subjects []string
		got      chan uint64
	}
	var all []follower
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	for _, subjects := range selections {
		f := follower{subjects, make(chan uint64, 10_000)}
		all = append(all, f)
		var live []string
		for _, subject := range subjects {
			live = append(live, "live"+subject[1:])
		}
		go func() {
			ended <- reader.NewSelect(js, "MIXED", "s.*", subjects, live, 1).Follow(ctx, func(m *jetstream.RawStreamMsg) error {
				if slices.Contains(subjects, m.Subject) {
					f.got <- m.Sequence
				}
				return nil
			})
		}()
	}
	store(2500)
	for _, f := range all {
		want := between(of, f.subjects, 1)
		for i, seq := range want {
			select {
			case got := <-f.got:
				if got != seq {
					t.Fatalf("%v: message %d is %d, want %d", f.subjects, i, got, seq)
				}
			case <-time.After(fixture.Patience):
				t.Fatalf("%v: %d of %d messages", f.subjects, i, len(want))
			}
		}
		if n := len(f.got); n > 0 {
			t.Errorf("%v: %d more", f.subjects, n)
		}
	}
	stop()
	for range all {
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
