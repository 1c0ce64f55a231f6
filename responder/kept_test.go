package responder

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// pending is a fold with an unfinished line of a length.
type pending int

func (pending) Apply(uint64, runs.Entry, func(api.DetailItem)) {}
func (pending) Done() bool                                     { return false }
func (p pending) Pending() int                                 { return int(p) }
func (pending) Again() []runs.Span                             { return nil }

// What is kept between two pages is given out once, and bounded in number, size and time.
func TestKeptDetailsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keptDetails
		has := func(run, after string) bool {
			_, found := k.take(run, after)
			return found
		}
		k.keep("a", "1.1", detailCursor{fold: pending(0), held: 7})
		if has("a", "1.2") || has("b", "1.1") {
			t.Error("the cursor of another position, or of another run")
		}
		if c, found := k.take("a", "1.1"); !found || c.held != 0 {
			t.Errorf("found %t, with %d bytes counted", found, c.held)
		}
		if has("a", "1.1") {
			t.Error("it is given out twice")
		}
		k.keep("long", "1.1", detailCursor{fold: pending(maxKeptSize + 1)})
		k.keep("many", "1.1", detailCursor{fold: pending(0), queue: []api.DetailItem{{Event: make([]byte, maxKeptSize)}}})
		if len(k.all) != 0 {
			t.Errorf("%d with much in memory are kept", len(k.all))
		}
		for i := range 2 * maxKept {
			k.keep(fmt.Sprint(i), "", detailCursor{fold: pending(0)})
		}
		if len(k.all) != maxKept || has("0", "") || !has(fmt.Sprint(2*maxKept-1), "") {
			t.Errorf("%d are kept, or not the newest ones", len(k.all))
		}
		time.Sleep(keptFor + time.Second) // of the fake clock
		if has(fmt.Sprint(2*maxKept-2), "") || len(k.all) != 0 {
			t.Errorf("%d are kept for longer than %v", len(k.all), keptFor)
		}
	})
}

// Of all readings together only so many bytes are in memory: one with a long line that exceeds
// them ends, one with a short line does not, and what is closed counts no more.
func TestUnfinishedLinesOfDetailsAreBounded(t *testing.T) {
	s := New(Config{})
	var open []*details
	add := func(held int) error {
		d := &details{service: s, free: func() {}}
		open = append(open, d)
		return d.count(held)
	}
	for range maxHeld / (8 << 20) {
		if err := add(8 << 20); err != nil {
			t.Fatal(err)
		}
	}
	if err := add(2 << 20); !api.Is(err, api.TooMany) {
		t.Errorf("beyond the maximum: %v", err)
	}
	if err := add(1000); err != nil {
		t.Errorf("a short line: %v", err)
	}
	for _, d := range open {
		d.Close()
	}
	if s.held.Load() != 0 {
		t.Errorf("%d bytes are held by none", s.held.Load())
	}
	if err := add(8 << 20); err != nil {
		t.Errorf("after all were closed: %v", err)
	}
}

// long are entries, each of which has one item of a MiB.
type long struct {
	Streams
	pending
	entries uint64
}

func (l long) Entries(_ context.Context, _, _ string, from uint64, _ bool, each func(uint64, runs.Entry) error) error {
	for ; from <= l.entries; from++ {
		if err := each(from, runs.Entry{Kind: runs.Out}); err != nil {
			return err
		}
	}
	return nil
}

func (long) Record(context.Context, string) (*runs.Record, bool, error) { return nil, false, nil }

func (long) Apply(_ uint64, _ runs.Entry, each func(api.DetailItem)) {
	each(api.DetailItem{Event: make([]byte, 1<<20)})
}

// The newest items count until a client has read them.
func TestNewestItemsAreCounted(t *testing.T) {
	l := long{entries: 10}
	s := New(Config{Streams: l})
	d := &details{service: s, free: func() {}, last: 8, detailCursor: detailCursor{fold: l, from: 1}}
	passed, stop := 0, errors.New("slow")
	err := d.Each(t.Context(), false, func(api.DetailItem) error {
		if passed++; passed == 2 {
			return stop
		}
		return nil
	})
	if held := s.held.Load(); !errors.Is(err, stop) || held < 2<<20 || held > maxRing {
		t.Errorf("%v, with %d bytes counted", err, held)
	}
	err = d.Each(t.Context(), false, func(api.DetailItem) error { return nil })
	if err != nil || s.held.Load() > minHeld {
		t.Errorf("%v, with %d bytes counted after all were passed on", err, s.held.Load())
	}
	if d.Close(); s.held.Load() != 0 {
		t.Errorf("%d bytes are held by none", s.held.Load())
	}
}
