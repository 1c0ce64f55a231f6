package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture/bustest"
)

func TestAnEntryHasItsRevisionThroughItsLife(t *testing.T) {
	t.Parallel()
	_, b := bustest.Serve(t, embedded.StartServer)
	state, ctx := bucket.New(b.JetStream(), b.State()), t.Context()
	if e, err := state.Get(ctx, "x"); err != nil || e.Exists() || e.Revision != 0 {
		t.Errorf("nothing was stored: %+v, %v", e, err)
	}
	first, err := state.Put(ctx, "x", []byte("one"), nil, bucket.If(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.Put(ctx, "x", []byte("two"), nil, bucket.If(0)); !bucket.Moved(err) {
		t.Errorf("a second write without a revision: %v", err)
	}
	if e, err := state.Get(ctx, "x"); err != nil || !e.Exists() || e.Revision != first || string(e.Value) != "one" {
		t.Errorf("got %+v, %v; want revision %d", e, err, first)
	}
	deletion, err := state.Delete(ctx, "x", bucket.If(first))
	if err != nil {
		t.Fatal(err)
	}
	if e, err := state.Get(ctx, "x"); err != nil || e.Exists() || !e.Deleted || e.Revision != deletion {
		t.Errorf("deleted: %+v, %v", e, err)
	}
}

func TestAValueExpires(t *testing.T) {
	t.Parallel()
	_, b := bustest.Serve(t, embedded.StartServer)
	state := bucket.New(b.JetStream(), b.State())
	if _, err := state.Put(t.Context(), "x", []byte("one"), nil, bucket.For(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := state.Put(t.Context(), "y", []byte("two"), nil, bucket.For(time.Hour)); err != nil {
		t.Fatal(err)
	}
	bustest.Until(t, "the value did not expire", func() bool {
		e, err := state.Get(t.Context(), "x")
		return err == nil && e.Revision == 0
	})
	if e, err := state.Get(t.Context(), "y"); err != nil || !e.Exists() {
		t.Errorf("the one of an hour: %+v, %v", e, err)
	}
}

func TestAWatchBeginsWithWhatThereIs(t *testing.T) {
	t.Parallel()
	_, b := bustest.Serve(t, embedded.StartServer)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	state := bucket.New(b.JetStream(), b.State())
	put := func(key, value string) {
		if _, err := state.Put(ctx, key, []byte(value), nil); err != nil {
			t.Error(err)
		}
	}
	put("a.1", "old")
	put("a.1", "new")
	put("b.1", "another")
	var got []string
	err := state.Watch(ctx, "a.*", false, zap.NewNop(), func(e bucket.Entry, last bool) {
		got = append(got, fmt.Sprintf("%s %s %t %t", e.Key, e.Value, last, e.Deleted))
		switch len(got) {
		case 1:
			if _, err := state.Delete(ctx, "a.1"); err != nil {
				t.Error(err)
			}
		case 2:
			cancel()
		}
	}, nil)
	if want := "[a.1 new true false a.1  true true]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v, %v; want %s", got, err, want)
	}
}

// Replicated streams refuse a write with another error code than unreplicated ones.
func TestEveryRefusalOfARevisionIsOne(t *testing.T) {
	for code, want := range map[jetstream.ErrorCode]bool{10071: true, 10164: true, 10077: false} {
		err := fmt.Errorf("put: %w", &jetstream.APIError{Code: 400, ErrorCode: code})
		if got := bucket.Moved(err); got != want {
			t.Errorf("code %d: %t, want %t", code, got, want)
		}
	}
	if bucket.Moved(nil) || bucket.Moved(errors.New("wrong last sequence")) {
		t.Error("an error without a code counts as a refusal")
	}
}
