package normalizer_test

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/bench/corpus"
)

// folded is a fold whose entries are in memory that is overwritten after each of them.
type folded struct {
	fold   *normalizer.Fold
	rest   []byte
	seq    uint64
	bodies [][]byte
	copies [][]byte
}

func (f *folded) next(n int) {
	n = min(n, len(f.rest))
	entry := slices.Clone(f.rest[:n])
	f.rest = f.rest[n:]
	f.seq++
	offset := f.fold.Record.Bytes
	f.fold.Apply(f.seq, runs.Entry{Kind: runs.Out, Time: 1, Offset: offset, Body: entry}, func(m normalizer.Message) {
		f.bodies, f.copies = append(f.bodies, m.Body), append(f.copies, slices.Clone(m.Body))
	})
	for i := range entry {
		entry[i] = '#'
	}
}

// Bodies share arrays, and folds share a workspace. Neither later lines nor other folds change
// a body, the record or an unfinished line, and nothing refers to the memory of an entry.
func TestFoldsThatShareAWorkspaceDoNotTouchEachOther(t *testing.T) {
	outputs := [][]byte{corpus.Small(400), corpus.Mix(150), bytes.Repeat([]byte("{\"type\":\"error\"}\n\nx\n"), 50)}
	rapid.Check(t, func(t *rapid.T) {
		var shared normalizer.Workspace
		var folds []*folded
		for _, out := range outputs {
			f := &folded{fold: normalizer.NewFold(codex.Backend{}, "T-local-test", 0), rest: out}
			f.fold.Use(&shared)
			folds = append(folds, f)
		}
		for slices.ContainsFunc(folds, func(f *folded) bool { return len(f.rest) > 0 }) {
			f := rapid.SampledFrom(folds).Draw(t, "fold")
			f.next(rapid.SampledFrom([]int{700, 5_000, 70_000}).Draw(t, "bytes"))
		}
		for i, f := range folds {
			alone := &folded{fold: normalizer.NewFold(codex.Backend{}, "T-local-test", 0), rest: outputs[i]}
			alone.next(len(outputs[i]))
			f.fold.Record.Seq = alone.fold.Record.Seq // depends on the number of entries
			if got, want := f.fold.Record.JSON(), alone.fold.Record.JSON(); !bytes.Equal(got, want) {
				t.Errorf("the record differs:\n%s\n%s", got, want)
			}
			if !slices.EqualFunc(f.copies, alone.copies, bytes.Equal) {
				t.Error("the bodies differ")
			}
			for k, body := range f.bodies {
				if !bytes.Equal(body, f.copies[k]) {
					t.Fatalf("body %d was overwritten: %s", k, body)
				}
				if cap(body) != len(body) {
					t.Fatalf("an append to body %d overwrites the next one", k)
				}
			}
		}
	})
}

// A body that is kept keeps no more than 16 KiB of others in memory.
func TestAKeptBodyKeepsFewOthers(t *testing.T) {
	out := corpus.Small(20_000)
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	fold := normalizer.NewFold(codex.Backend{}, "T-local-test", 0)
	var kept [][]byte
	n, before := 0, inUse()
	fold.Apply(1, runs.Entry{Kind: runs.Out, Time: 1, Body: out}, func(m normalizer.Message) {
		if n++; n%1000 == 0 {
			kept = append(kept, m.Body)
		}
	})
	const others = 1 << 20 // the workspace, the record
	if grown := int(inUse()) - int(before); grown > len(kept)*(16<<10)+others || len(kept) < 10 {
		t.Errorf("%d bodies keep %d bytes", len(kept), grown)
	}
	runtime.KeepAlive(out)
	runtime.KeepAlive(fold)
}

// Errors, ends of turns and outputs of commands are folded together at the end of an entry. The
// result is that of entries of one line.
func TestErrorsTurnsAndOutputsOfAnEntryAreFoldedInOrder(t *testing.T) {
	command := func(output, code, status string) string {
		return `{"type":"item.completed","item":{"id":"c","type":"command_execution","aggregated_output":"` + output +
			`","exit_code":` + code + `,"status":"` + status + `"}}`
	}
	lines := []string{
		`{"type":"turn.started"}`, `{"type":"turn.completed"}`, `{"type":"turn.failed","error":{"message":"limit"}}`,
		`{"type":"error","message":"stream"}`, `{"type":"error","message":" "}`, `{"type":"error","message":"é"}`,
		`{"type":"error","message":"\u0001"}`, `{"type":"item.completed","item":{"type":"error","message":"notice"}}`,
		`{"type":"item.completed","item":{"type":"error","message":"\n"}}`,
		command("", "1", "failed"), command(`panic: a\nmain.go:12:3: x`, "2", "failed"),
		command("TypeError: b", "1", "failed"),
		command(`ok  \tx\t0.1s\n`, "0", "completed"), command(`--- FAIL: TestA (0s)\nFAIL\tx\n`, "1", "failed"),
		command("1 file changed, 2 insertions(+)", "0", "completed"),
	}
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.SampledFrom(lines), 1, 12).Draw(t, "lines")
		together := &folded{fold: normalizer.NewFold(codex.Backend{}, "T-local-test", 0)}
		single := &folded{fold: normalizer.NewFold(codex.Backend{}, "T-local-test", 0)}
		for _, line := range drawn {
			together.rest = append(append(together.rest, line...), '\n')
			single.rest = append([]byte(line), '\n')
			single.next(len(single.rest))
		}
		together.next(len(together.rest))
		together.fold.Record.Seq = single.fold.Record.Seq // depends on the number of entries
		if got, want := together.fold.Record.JSON(), single.fold.Record.JSON(); !bytes.Equal(got, want) {
			t.Errorf("the record is\n%s, want\n%s", got, want)
		}
	})
}

// With Reuse, all bodies are written to the same memory.
func TestReusedMemoryOfBodies(t *testing.T) {
	bodies := func(reuse bool) (all [][]byte, arrays map[*byte]bool) {
		arrays = map[*byte]bool{}
		fold := normalizer.NewFold(codex.Backend{}, "T-local-test", 0)
		fold.Use(&normalizer.Workspace{Reuse: reuse})
		fold.Apply(1, runs.Entry{Kind: runs.Out, Time: 1, Body: corpus.Mix(500)}, func(m normalizer.Message) {
			all, arrays[&m.Body[0]] = append(all, slices.Clone(m.Body)), true
		})
		return all, arrays
	}
	want, _ := bodies(false)
	got, arrays := bodies(true)
	if !slices.EqualFunc(got, want, bytes.Equal) || len(want) < 500 {
		t.Errorf("%d bodies are not the %d of a fold without Reuse", len(got), len(want))
	}
	if len(arrays) > 20 { // it grows
		t.Errorf("%d bodies begin at %d places", len(got), len(arrays))
	}
}

// A value that is not odd has the length that [bounds.ValueSize] computes.
func TestOnlyOddValuesAreWrittenInAnotherForm(t *testing.T) {
	elements := []string{`0`, `-0`, `-1`, `1.0`, `1e2`, `7`, `123456789012345678`, `1234567890123456789`,
		`18446744073709551616`, ` 1`, `"a"`, `"\n"`, `"\/"`, `"\u0041"`, `"\u001f"`, `"\ud83d"`, `"é🚀"`, `null`, `true`,
		`{"k":1}`, `{"k" :1}`, `[]`, `[ ]`}
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.SampledFrom(elements), 0, 4).Draw(t, "elements")
		var s scan.Scanner
		s.Reset([]byte("[" + strings.Join(drawn, ",") + "]"))
		v := s.Value()
		if size, err := bounds.ValueSize(v.Raw); err != nil || !v.Odd && size != len(v.Raw) {
			t.Errorf("%s has %d bytes, not odd, %v", v.Raw, size, err)
		}
		plain := []string{"0", "7", "123456789012345678", `"a"`, `"\n"`, `"\u001f"`, `"é🚀"`, "null", "true",
			`{"k":1}`, "[]"}
		if v.Odd && !slices.ContainsFunc(drawn, func(e string) bool { return !slices.Contains(plain, e) }) {
			t.Errorf("%s is odd", v.Raw)
		}
	})
}

// An unfinished line does not take the memory of a line that was much longer, so that many
// runs with one take a limited amount.
func TestUnfinishedLinesTakeMemoryByTheirLength(t *testing.T) {
	const lines, length = 200, 40 << 10
	inUse := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	var shared normalizer.Workspace
	var folds []*normalizer.Fold
	first, rest := bytes.Repeat([]byte{'x'}, 500<<10), append([]byte{'\n'}, bytes.Repeat([]byte{'y'}, length)...)
	before := inUse()
	for range lines {
		f := normalizer.NewFold(codex.Backend{}, "T-local-test", 0)
		f.Use(&shared)
		f.Apply(1, runs.Entry{Kind: runs.Out, Time: 1, Body: first}, func(normalizer.Message) {})
		f.Apply(2, runs.Entry{Kind: runs.Out, Time: 1, Offset: int64(len(first)), Body: rest}, func(normalizer.Message) {})
		if f.Pending() != length {
			t.Fatalf("%d bytes are pending", f.Pending())
		}
		folds = append(folds, f)
	}
	if grown := inUse() - before; grown > 10*lines*length {
		t.Errorf("%d unfinished lines of %d bytes take %d", lines, length, grown)
	}
	runtime.KeepAlive(folds)
}

// Strings of a line are published as they are written there, where that is what
// [bounds.AppendString] writes. They are cut like texts.
func TestStringsAreWrittenAndCutLikeTexts(t *testing.T) {
	pieces := []string{`\n`, `\"`, `\\`, `\/`, `\b`, `\f`, `\u0000`, `\u0007`, `\u0008`, `\u000B`, `\u000b`, `\u001b`,
		`\u001F`, `\u007f`, `\u0022`, `\u00e9`, `\ud83d\ude80`, `\ud83d`, `\ude80`, `\u2028`, "é", "\u2028", "🚀", "a", "plain text ",
		"\x7f"}
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte{'"'}
		for _, piece := range rapid.SliceOf(rapid.SampledFrom(pieces)).Draw(t, "pieces") {
			raw = append(raw, piece...)
		}
		raw = append(raw, '"')
		var s scan.Scanner
		s.Reset(raw)
		v := s.Value()
		if s.End() != scan.OK {
			t.Fatal("not valid")
		}
		text := v.Text()
		if v.View() != text {
			t.Errorf("viewed as %q", v.View())
		}
		if written := bounds.AppendString(nil, text); bytes.Equal(raw, written) == v.Odd {
			t.Errorf("%s is written as %s, odd: %v", raw, written, v.Odd)
		}
		limit := rapid.IntRange(4, len(text)+8).Draw(t, "limit")
		var got []string
		for rest := v; rest.Len > 0; {
			var head scan.Value
			head, rest = rest.Cut(limit)
			if got = append(got, head.Text()); len(head.Text()) != head.Len {
				t.Fatalf("%q has the length %d", head.Text(), head.Len)
			}
		}
		if want := slices.Collect(bounds.Split(text, limit)); text != "" && !slices.Equal(got, want) {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	})
}
