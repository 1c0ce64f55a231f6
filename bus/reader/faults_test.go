package reader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/test/fixture/bustest"
)

const (
	faultStream  = "FAULTS"
	faultSubject = "faults.one"
)

// readers are all ways to read a stream up to its end at the start. Each of them
// delivers every message, in order, once.
var readers = map[string]func(ctx context.Context, js jetstream.JetStream, each func(seq uint64)) error{
	"consumer": func(ctx context.Context, js jetstream.JetStream, each func(uint64)) error {
		return toEnd(ctx, reader.NewConsumer(js, faultStream, faultSubject, 4, 1), each)
	},
	"direct": func(ctx context.Context, js jetstream.JetStream, each func(uint64)) error {
		return toEnd(ctx, reader.NewDirect(js, faultStream, faultSubject, "live.one", false, 1), each)
	},
	"long": func(ctx context.Context, js jetstream.JetStream, each func(uint64)) error {
		return reader.NewLong(js, faultStream, "faults.*").ToEnd(ctx, func(m *jetstream.RawStreamMsg) error {
			if m.Subject == faultSubject {
				each(m.Sequence)
			}
			return nil
		})
	},
	"select": func(ctx context.Context, js jetstream.JetStream, each func(uint64)) error {
		subjects := []string{faultSubject, "faults.none"}
		return toEnd(ctx, reader.NewSelect(js, faultStream, "faults.*", subjects, nil, 1), each)
	},
	"background": func(ctx context.Context, js jetstream.JetStream, each func(uint64)) error {
		s, err := js.Stream(ctx, faultStream)
		if err != nil {
			return err
		}
		for seen, last := uint64(0), s.CachedInfo().State.LastSeq; seen < last; {
			if seen, err = background(ctx, js, seen, last, each); err != nil && !errors.Is(err, reader.ErrStalled) {
				return err
			}
		}
		return nil
	},
}

func toEnd(ctx context.Context, r *reader.Reader, each func(seq uint64)) error {
	return r.ToEnd(ctx, func(m *jetstream.RawStreamMsg) error {
		each(m.Sequence)
		return nil
	})
}

// background reads after one sequence up to another with one consumer, as the
// normalizer does. It returns the last sequence read.
func background(ctx context.Context, js jetstream.JetStream, seen, last uint64, each func(uint64)) (uint64, error) {
	came := make(chan uint64)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	from := reader.Background{
		JS: js, Stream: faultStream, Subject: faultSubject, Policy: jetstream.DeliverByStartSequencePolicy,
		From: seen + 1, Limit: jetstream.PullMaxMessages(4), Stall: time.Second,
	}
	consumer, err := from.Consume(ctx, func(m jetstream.Msg) {
		if meta, err := m.Metadata(); err == nil {
			select {
			case came <- meta.Sequence.Stream:
			case <-reading.Done():
			}
		}
	})
	if err != nil {
		return seen, err
	}
	defer func() {
		stop()
		consumer.Stop()
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for seen < last {
		select {
		case seen = <-came:
			each(seen)
		case err := <-consumer.Broken:
			return seen, err
		case <-tick.C:
			asked := time.Now()
			s, err := js.Stream(ctx, faultStream)
			if err != nil {
				return seen, err
			}
			if seen, err = consumer.Check(ctx, s.CachedInfo(), asked, seen); err != nil {
				return seen, err
			}
		case <-ctx.Done():
			return seen, ctx.Err()
		}
	}
	return seen, nil
}

// A fault affects a stream of 100 messages, every second of which has another subject,
// before it is read, or after the first message.
var faults = map[string]struct {
	before, during func(ctx context.Context, js jetstream.JetStream, s jetstream.Stream) error
	slow           bool                  // a reader with a consumer has to wait
	want           func(seq uint64) bool // the messages that are expected; nil: all
}{
	"none": {},
	"holes": {
		before: func(ctx context.Context, _ jetstream.JetStream, s jetstream.Stream) error {
			var errs []error
			for seq := uint64(3); seq <= 99; seq += 6 {
				errs = append(errs, s.DeleteMsg(ctx, seq))
			}
			return errors.Join(errs...)
		},
		want: func(seq uint64) bool { return seq%6 != 3 },
	},
	"the beginning aged out": {
		before: func(ctx context.Context, _ jetstream.JetStream, s jetstream.Stream) error {
			return s.Purge(ctx, jetstream.WithPurgeSequence(51))
		},
		want: func(seq uint64) bool { return seq >= 51 },
	},
	"more comes meanwhile": {
		during: func(ctx context.Context, js jetstream.JetStream, _ jetstream.Stream) error {
			_, err := js.Publish(ctx, faultSubject, nil)
			return err
		},
	},
	"the consumer stalls": {
		slow: true,
		during: func(ctx context.Context, _ jetstream.JetStream, s jetstream.Stream) error {
			names := s.ConsumerNames(ctx)
			for name := range names.Name() {
				if _, err := s.PauseConsumer(ctx, name, time.Now().Add(time.Hour)); err != nil {
					return err
				}
			}
			return names.Err()
		},
	},
	"the consumer is gone": {
		during: func(ctx context.Context, _ jetstream.JetStream, s jetstream.Stream) error {
			names := s.ConsumerNames(ctx)
			for name := range names.Name() {
				if err := s.DeleteConsumer(ctx, name); err != nil {
					return err
				}
			}
			return names.Err()
		},
	},
}

func TestEveryReaderPassesOnEachMessageOnce(t *testing.T) {
	t.Parallel()
	for fault, f := range faults {
		for name, read := range readers {
			t.Run(name+": "+fault, func(t *testing.T) {
				t.Parallel()
				js, s := hundred(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var want []uint64
				for seq := uint64(1); seq <= 99; seq += 2 {
					if f.want == nil || f.want(seq) {
						want = append(want, seq)
					}
				}
				if f.before != nil {
					if err := f.before(ctx, js, s); err != nil {
						t.Fatal(err)
					}
				}
				var got []uint64
				began := time.Now()
				err := read(ctx, js, func(seq uint64) {
					if got = append(got, seq); len(got) == 1 && f.during != nil {
						if err := f.during(ctx, js, s); err != nil {
							t.Error(err)
						}
					}
				})
				got = slices.DeleteFunc(got, func(seq uint64) bool { return seq > 100 }) // stored during the test
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("got %v, %v; want %v", got, err, want)
				}
				took := time.Since(began)
				if f.slow && (name == "consumer" || name == "background") && took < time.Second {
					t.Errorf("the fault did not happen: it took %v", took)
				}
			})
		}
	}
}

// Messages removed before they were read are not waited for, and those delivered before
// are in order.
func TestNoReaderWaitsForWhatWasRemoved(t *testing.T) {
	t.Parallel()
	for name, read := range readers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js, s := hundred(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var got []uint64
			err := read(ctx, js, func(seq uint64) {
				if got = append(got, seq); len(got) == 1 {
					if err := s.Purge(ctx); err != nil {
						t.Error(err)
					}
				}
			})
			if err != nil || len(got) == 0 || !slices.IsSorted(got) ||
				len(slices.Compact(slices.Clone(got))) != len(got) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// A missing stream is an error, not an empty stream.
func TestNoReaderTakesAMissingStreamForAnEmptyOne(t *testing.T) {
	t.Parallel()
	for name, read := range readers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, b := bustest.Serve(t, embedded.StartServer)
			err := read(t.Context(), b.JetStream(), func(seq uint64) { t.Errorf("got %d", seq) })
			if !errors.Is(err, jetstream.ErrStreamNotFound) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// hundred returns a stream with 100 messages; those with odd sequences have the subject
// that is read.
func hundred(t *testing.T) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	_, b := bustest.Serve(t, embedded.StartServer)
	js := b.JetStream()
	s, err := js.CreateStream(
		t.Context(),
		jetstream.StreamConfig{Name: faultStream, Subjects: []string{"faults.*"}, AllowDirect: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := js.Publish(
			t.Context(),
			[]string{faultSubject, "faults.other"}[i%2],
			fmt.Append(nil, i),
		); err != nil {
			t.Fatal(err)
		}
	}
	return js, s
}
