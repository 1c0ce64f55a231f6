package normalizer_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// A restored fold has the end of stderr from a few entries, whatever was written between them, and
// however little or much of it is in an entry.
func TestEndOfStderrIsInFewSpans(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	rapid.Check(t, func(t *rapid.T) {
		whole := normalizer.NewDetailFold(codex.Backend{}, "T-1", 0, nil)
		var log []runs.Entry
		var at []uint64
		var offset int64
		seq := uint64(0)
		longest := rapid.SampledFrom([]int{3, 100, 3000, 60_000}).Draw(t, "longest")
		apart := rapid.SampledFrom([]uint64{1, 20, 5000}).Draw(t, "apart")
		for range rapid.IntRange(1, 200).Draw(t, "entries") {
			seq += rapid.Uint64Range(1, apart).Draw(t, "apart")
			n := rapid.IntRange(1, longest).Draw(t, "length")
			back := rapid.SampledFrom([]int64{0, 0, 0, -5, 1, offset}).Draw(t, "back") // a gap, or bytes again
			log = append(log, runs.Entry{Kind: runs.ErrOut, Offset: max(offset-back, 0), Body: text[:n]})
			at = append(at, seq)
			offset = max(offset, log[len(log)-1].Offset+int64(n))
			whole.Apply(seq, log[len(log)-1], func(normalizer.Message) {})
		}
		state, err := whole.State()
		if err != nil {
			t.Fatal(err)
		}
		record := new(runs.Record)
		if err := json.Unmarshal(whole.Record.JSON(), record); err != nil {
			t.Fatal(err)
		}
		f, err := normalizer.RestoreDetailFold(codex.Backend{}, record, state, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		spans := f.Again()
		if len(spans) > 12 {
			t.Fatalf("%d spans", len(spans))
		}
		again := 0
		for _, s := range spans {
			for i, e := range log {
				if s.From <= at[i] && at[i] <= s.To {
					f.Apply(at[i], e, func(normalizer.Message) {})
					again += len(e.Body)
				}
			}
		}
		if most := 2*runs.DetailWindow + 12*60_000; again > most {
			t.Errorf("%d bytes of %d are read again", again, offset)
		}
		end := func(f *normalizer.Fold) (d *runs.Detail) {
			f.Apply(seq+1, runs.Entry{Kind: runs.Exited, Body: []byte(`{"reason":"exited","code":1}`)}, func(m normalizer.Message) {
				d = m.Detail
			})
			return d
		}
		if got, want := end(f), end(whole); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// Where a program writes to stderr all the time, only its end is read again.
func TestStderrThatIsWrittenAllTheTimeIsNotReadAgainFromItsBeginning(t *testing.T) {
	f := normalizer.NewFold(codex.Backend{}, "T-1", 0)
	line := []byte("a line of a hundred bytes that is written to stderr again and again, and to stdout as often 01234\n")
	for i := range 20_000 {
		e := runs.Entry{Kind: runs.ErrOut, Offset: int64(i/2) * int64(len(line)), Body: line}
		if i%2 == 1 {
			e = runs.Entry{Kind: runs.Out, Offset: int64(i/2) * 5, Body: []byte("null\n")}
		}
		f.Apply(uint64(i+1), e, func(normalizer.Message) {})
	}
	spans := f.Again()
	if first := spans[0].From; first < 19_000 || len(spans) > 12 {
		t.Errorf("it begins at entry %d, in %d spans", first, len(spans))
	}
}
