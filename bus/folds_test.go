package bus_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// The slots of a run have its last two saved folds, and about twice as far back one more, and one more.
func TestSavedFoldsOfARunAreFewAndThin(t *testing.T) {
	t.Parallel()
	slots := map[string]uint64{}
	for n := uint64(1); n <= 5000; n++ {
		slots[bus.FoldKey("run", n)] = n
		var stored []uint64
		for _, one := range slots {
			stored = append(stored, one)
		}
		slices.Sort(stored)
		slices.Reverse(stored)
		if got := bus.Kept(n); !slices.Equal(got, stored) {
			t.Fatalf("of %d it looks for %v, and there are %v", n, got, stored)
		}
		for i, one := range stored {
			if back := n - one; i == 1 && back != 1 || back > 1<<i {
				t.Fatalf("of %d there are %v", n, stored)
			}
		}
	}
	if len(slots) != 13 {
		t.Errorf("%d slots", len(slots))
	}
	for _, n := range []uint64{0, 1 << 23, 1 << 40, math.MaxUint64} {
		if key := bus.FoldKey("run", n); len(key) > len("run.23") || len(bus.Kept(n)) > 24 {
			t.Errorf("%d: %s, %v", n, key, bus.Kept(n))
		}
	}
}

// saved returns a saved fold of the entry at a sequence of RAW.
func saved(t *testing.T, b *bus.Bus, run string, number, seq uint64) runs.SavedFold {
	t.Helper()
	raw, err := b.Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	m, err := raw.GetMsg(t.Context(), seq)
	if err != nil {
		t.Fatal(err)
	}
	return runs.SavedFold{By: "test", Number: number, Seq: seq, At: m.Time.UnixNano(),
		Record: runs.NewRecord(run, "codex"), State: json.RawMessage("{}")}
}

func storeSaved(t *testing.T, b *bus.Bus, key string, f any) {
	t.Helper()
	v, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.JetStream().Publish(t.Context(), bucket.Subject(b.Folds(), key), v); err != nil {
		t.Fatal(err)
	}
}

// A saved fold whose entry is not in RAW, or which is not what a normalizer writes, is none.
func TestOnlySavedFoldsOfEntriesInRawAreUsed(t *testing.T) {
	t.Parallel()
	s, op := serve(t)
	b := bustest.Connect(t, s, embedded.ResponderUser)
	log := bustest.CorpusLog(t, "shell-ok", 100)
	bustest.Interleave(t, op, map[string][]runs.Entry{"one": log, "two": log}, "one", "two") // one has the odd sequences
	found := func(before uint64) (all []uint64) {
		t.Helper()
		err := b.SavedFolds(t.Context(), "codex", "one", before, func(f runs.SavedFold) (bool, error) {
			all = append(all, f.Seq)
			return false, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	expect := func(what string, before uint64, want ...uint64) {
		t.Helper()
		if got := found(before); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	expect("none", math.MaxUint64)
	for n := uint64(1); n <= 6; n++ {
		storeSaved(t, op, bus.FoldKey("one", n), saved(t, op, "one", n, 2*n+1))
	}
	expect("all", math.MaxUint64, 13, 11, 9) // the numbers 6, 5, 4
	expect("before", 13, 11, 9)
	expect("long before", 9)
	first := 0
	if err := b.SavedFolds(t.Context(), "codex", "one", math.MaxUint64, func(runs.SavedFold) (bool, error) {
		first++
		return true, nil
	}); err != nil || first != 1 {
		t.Errorf("%d after the first one was enough, %v", first, err)
	}

	change := func(f func(*runs.SavedFold)) runs.SavedFold {
		one := saved(t, op, "one", 5, 11)
		f(&one)
		return one
	}
	for what, forged := range map[string]any{
		"the entry of another time": change(func(f *runs.SavedFold) { f.At++ }),
		"the entry of another run":  saved(t, op, "one", 5, 12),
		"a record of another run":   saved(t, op, "two", 5, 11),
		"another agent":             change(func(f *runs.SavedFold) { f.Record.Agent = "claude_code" }),
		"no record":                 change(func(f *runs.SavedFold) { f.Record = nil }),
		"a sequence in the future":  change(func(f *runs.SavedFold) { f.Seq = 1 << 40 }),
		"no sequence":               change(func(f *runs.SavedFold) { f.Seq = 0 }),
		"too long":                  change(func(f *runs.SavedFold) { f.By = strings.Repeat("x", bus.MaxFold) }),
		"no saved fold":             "text",
	} {
		storeSaved(t, op, bus.FoldKey("one", 5), forged)
		storeSaved(t, op, bus.FoldKey("one", 6), saved(t, op, "one", 6, 13))
		expect(what, math.MaxUint64, 13, 9)
	}
	for _, newest := range []any{"text", change(func(f *runs.SavedFold) { f.Number = math.MaxUint64; f.At++ })} {
		storeSaved(t, op, "one.7", newest)
		if err := b.SavedFolds(t.Context(), "codex", "one", math.MaxUint64, func(f runs.SavedFold) (bool, error) {
			if f.Seq > 13 {
				t.Errorf("got %+v", f)
			}
			return false, nil
		}); err != nil && newest != "text" {
			t.Error(err)
		}
	}

	bustest.Remake(t, op, op.JetStream(), op.Raw())
	bustest.Interleave(t, op, map[string][]runs.Entry{"one": log, "two": log}, "one", "two")
	storeSaved(t, op, bus.FoldKey("one", 7), change(func(f *runs.SavedFold) { f.Number, f.At = 7, time.Now().UnixNano() }))
	expect("RAW was recreated", math.MaxUint64)
	storeSaved(t, op, bus.FoldKey("one", 8), saved(t, op, "one", 8, 15))
	expect("and filled again", math.MaxUint64, 15)
	raw, err := op.Stream(t.Context(), op.Raw())
	if err == nil {
		err = raw.DeleteMsg(t.Context(), 15)
	}
	if err != nil {
		t.Fatal(err)
	}
	expect("the entry is gone", math.MaxUint64)
	bustest.Remake(t, op, op.JetStream(), bucket.Stream(op.Folds()))
	expect("the bucket is another one", math.MaxUint64)
}

// The bucket is as old as RAW at most, and never refuses a message.
func TestBucketOfSavedFoldsIsACache(t *testing.T) {
	t.Parallel()
	for _, age := range []time.Duration{0, time.Hour} {
		t.Run(fmt.Sprint(age), func(t *testing.T) {
			_, b := serve(t)
			limits := bus.DefaultLimits()
			limits.RawAge = age
			if err := b.JetStream().DeleteStream(t.Context(), bucket.Stream(b.Folds())); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Ensure(t.Context(), limits); err != nil {
				t.Fatal(err)
			}
			s, err := b.Stream(t.Context(), bucket.Stream(b.Folds()))
			if err != nil {
				t.Fatal(err)
			}
			c := s.CachedInfo().Config
			if c.MaxAge != age || c.Discard.String() != "DiscardOld" || c.MaxBytes != 64<<20 || c.MaxMsgsPerSubject != 1 ||
				c.AllowRollup || c.AllowDirect {
				t.Errorf("got %+v", c)
			}
		})
	}
}
