package scan

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// read reads line as one value.
func read(line []byte) (Value, Fault) {
	var s Scanner
	s.Reset(line)
	v := s.Value()
	return v, s.End()
}

func TestFaults(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct {
		line string
		want Fault
	}{
		{`{}`, OK}, {`[]`, OK}, {` { "a" : [ 1 , 2 ] } `, OK}, {`"x"`, OK}, {`null`, OK}, {`-0.0e-1`, OK},
		{`{"a":1,"a":2}`, OK}, {`{"\u0061":1}`, OK}, {`[1e-400]`, OK},
		{deep(maxDepth), OK}, {deep(maxDepth + 1), InvalidJSON},
		{`[[[]` + strings.Repeat(`,[[]]`, 3) + `]]`, OK},
		{strings.Repeat(`{"a":`, maxDepth-1) + `{}` + strings.Repeat(`}`, maxDepth-1), OK},
		{strings.Repeat(`{"a":`, maxDepth) + `{}` + strings.Repeat(`}`, maxDepth), InvalidJSON},
		{``, InvalidJSON}, {`{`, InvalidJSON}, {`{}{}`, InvalidJSON}, {`{}x`, InvalidJSON}, {`[1,]`, InvalidJSON},
		{`{"a":1,}`, InvalidJSON}, {`{,}`, InvalidJSON}, {`{"a"}`, InvalidJSON},
		{`{"a":}`, InvalidJSON}, {`[}`, InvalidJSON},
		{`{"a":1]`, InvalidJSON}, {`01`, InvalidJSON}, {`+1`, InvalidJSON}, {`1.`, InvalidJSON},
		{`.5`, InvalidJSON}, {`1e`, InvalidJSON},
		{`1e400`, InvalidJSON}, {strings.Repeat("9", 400), InvalidJSON}, {strings.Repeat("9", 308), OK},
		{`"` + "\n" + `"`, InvalidJSON}, {`"\q"`, InvalidJSON}, {`"\u12"`, InvalidJSON},
		{`"\u12g4"`, InvalidJSON}, {`"\`, InvalidJSON},
		{`tru`, InvalidJSON}, {`truex`, InvalidJSON}, {`nulL`, InvalidJSON}, {`{"a":1 "b":2}`, InvalidJSON},
		{"\ufeff{}", InvalidJSON}, {"{\"é\":\u00a0 1}", InvalidJSON},
		{"\"\xff\"", InvalidUTF8}, {"{oops \xff", InvalidUTF8}, {"\"\xed\xa0\x80\"", InvalidUTF8},
		{"\"\xc0\xaf\"", InvalidUTF8},
		{"\"\xf4\x90\x80\x80\"", InvalidUTF8}, {"\"\xf0\x9f\x92", InvalidUTF8}, {"\"\U0010ffff\u2028\x7f\"", OK},
	} {
		if _, got := read([]byte(c.line)); got != c.want {
			t.Errorf("%.60q: fault %d, want %d", c.line, got, c.want)
		}
	}
}

func TestDecodedTextAndLength(t *testing.T) {
	for _, line := range []string{
		`"plain"`, `""`, `"a\"b\\c\/d\b\f\n\r\t"`, `"\u0000\u001f\u007f\u0080\u07ff\u0800\uffff"`,
		`"\ud83d\ude80"`, `"\ud83d"`, `"\ude80"`, `"\ud83d\ud83d\ude80x"`, `"\ud83dx"`, `"\ud83d\n"`,
		`"é👩‍💻\u2028 "`, `"\uD83D\uDE80"`,
	} {
		v, fault := read([]byte(line))
		var want string
		if err := json.Unmarshal([]byte(line), &want); err != nil || fault != OK {
			t.Fatalf("%s: %v, fault %d", line, err, fault)
		}
		if v.Text() != want || v.Len != len(want) || !v.Equal(want) || v.Equal(want+"x") {
			t.Errorf("%s: text %q, length %d; want %q, %d", line, v.Text(), v.Len, want, len(want))
		}
	}
}

// Special characters at every offset of a word of eight bytes, in keys and values.
func TestStringsAtEveryOffset(t *testing.T) {
	for _, special := range []string{
		``, `\n`, `\"`, `\\`, `\/`, `\u001b`, `\u001b[0m`, `\u001B`, `\u001`, `\u00e9`, `\ud83d\ude80`, `\ud83d`, `\ude80x`, `\q`, `\u12`, `\`, `"`, "\n", "\x00",
		"\x1f", "\x7f", " ", "!#[]",
		"é", "\u0080", "\u07ff", "\u0800", "\u0fff", "\u1000", "\ud7ff", "\ue000", "\ufeff", "\uffff",
		"\U00010000", "\U0010ffff",
		"\x80", "\xbf", "\xc0\xaf", "\xc1\xbf", "\xc3", "\xc3x", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xe4\xb8",
		"\xe4x\xad", "\xe4\xb8x", "\xed\xa0\x80", "\xed\xbf\xbf",
		"\xf0\x8f\xbf\xbf", "\xf0\x9f\x92", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
	} {
		for before := range 20 {
			for after := range 20 {
				text := strings.Repeat("a", before) + special + strings.Repeat("b", after)
				line := []byte(`{"` + text + `":"` + text + `"}`)
				var want map[string]string
				valid := json.Unmarshal(line, &want) == nil && utf8.Valid(line)
				var s Scanner
				s.Reset(line)
				got := map[string]string{}
				for ok := s.Object(); ok && s.Next(); {
					key := string(s.Key())
					got[key] = s.Value().Text()
				}
				if fault := s.End(); (fault == OK) != valid || (fault == InvalidUTF8) != !utf8.Valid(line) {
					t.Fatalf("%q: fault %d, want valid %v", line, fault, valid)
				}
				if valid && !maps.Equal(got, want) {
					t.Fatalf("%q: got %q, want %q", line, got, want)
				}
			}
		}
	}
}

// A line can be truncated at any offset.
func TestTruncatedStringsAreInvalid(t *testing.T) {
	for _, text := range []string{`a\nb`, `\u00e9`, `\ud83d\ude80`, "é", "中", "\ud7ff", "\U0010ffff",
		"\xe4\xb8x", `\\\\\\\"`} {
		for before := range 20 {
			line := []byte(`{"a":"` + strings.Repeat("a", before) + text + `"}`)
			for n := range line {
				line := slices.Clip(line[:n:n])
				want := InvalidJSON
				if !utf8.Valid(line) {
					want = InvalidUTF8
				}
				if _, fault := read(line); fault != want {
					t.Fatalf("%q: fault %d, want %d", line, fault, want)
				}
			}
		}
	}
}

func TestLongEscapedKeyIsNotDecoded(t *testing.T) {
	for _, c := range []struct{ written, want string }{
		{strings.Repeat(`\u0061`, 64), strings.Repeat("a", 64)},
		{strings.Repeat(`\u0061`, 65), strings.Repeat(`\u0061`, 65)},
		{strings.Repeat(`\n`, 64), strings.Repeat("\n", 64)},
		{strings.Repeat("a", 1000), strings.Repeat("a", 1000)},
	} {
		var s Scanner
		s.Reset([]byte(`{"` + c.written + `":1}`))
		if !s.Object() || !s.Next() || string(s.Key()) != c.want {
			t.Errorf("key %.20q of %d bytes: %.20q", c.written, len(c.written), s.Key())
		}
	}
}

func TestFirstOfDuplicateKeysCounts(t *testing.T) {
	var s Scanner
	s.Reset([]byte(`{"a":null,"a":"x","b":[1,{"c":2}],"b":{"d":[3]},"e":4}`))
	got := map[string]*Value{"a": {}, "b": {}, "e": {}}
	for ok := s.Object(); ok && s.Next(); {
		s.First(got[string(s.Key())])
	}
	if s.End() != OK || got["a"].Kind != Null || string(got["b"].Raw) != `[1,{"c":2}]` || string(got["e"].Raw) != "4" {
		t.Errorf("read %v", got)
	}
}

// After a syntax error all methods read nothing.
func TestNothingIsReadAfterASyntaxError(t *testing.T) {
	for _, line := range []string{`{"a" "b":1}`, `{"a":,"b":1}`, `{"a":tru,"b":1}`, `{"a":01,"b":1}`,
		`{"a":"\q","b":1}`, `{"a":[1,],"b":1}`, `{"a":{"x"},"b":1}`} {
		var s Scanner
		s.Reset([]byte(line))
		for ok := s.Object(); ok && s.Next(); {
			if string(s.Key()) == "b" {
				t.Errorf("%s: b was read", line)
			}
			s.Value()
		}
		if v := s.Value(); v.Kind != Absent || s.Object() || s.Next() || s.End() != InvalidJSON {
			t.Errorf("%s: a value was read after the error", line)
		}
	}
}

func TestInt(t *testing.T) {
	for raw, want := range map[string]int64{"0": 0, "-0": 0, "7": 7, "-7": -7, "9223372036854775807": 1<<63 - 1,
		"-9223372036854775808": -1 << 63} {
		v, _ := read([]byte(raw))
		if n, ok := v.Int(); !ok || n != want {
			t.Errorf("%s: %d, %v", raw, n, ok)
		}
	}
	for _, raw := range []string{"1.0", "1e2", "9223372036854775808", "-9223372036854775809", "99999999999999999999",
		`"1"`, "null", "true"} {
		v, _ := read([]byte(raw))
		if n, ok := v.Int(); ok {
			t.Errorf("%s: got %d", raw, n)
		}
	}
}

func TestScannerDoesNotAllocate(t *testing.T) {
	line := []byte(`{"type":"x","skip":{"a":[1,2,{"b":"\u00e9"}]},"n":12,"text":"héllo\n"}`)
	var s Scanner
	if n := testing.AllocsPerRun(100, func() {
		s.Reset(line)
		for ok := s.Object(); ok && s.Next(); {
			switch string(s.Key()) {
			case "type", "text":
				s.Value()
			default:
				s.Skip()
			}
		}
		if s.End() != OK {
			t.Fatal("fault")
		}
	}); n != 0 {
		t.Errorf("%v allocations a line", n)
	}
}

// The scanner never panics. It accepts the same lines as encoding/json, and returns
// the same members with the same text.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		`{"type":"item.completed","item":{"id":"item_0","type":"web_search","id":"ws_1"}}`, `{"a":"\ud83d\ude80"}`,
		`[1e400]`, "{\"a\":\"\xff\"}",
		`{"\u0061":[{},[],"x",-1.5e+7,true,false,null]}`, ` {"a" : 1 } `, `{"a":1}{"b":2}`, `[[[[`, `"\uD800"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var want any
		err := json.Unmarshal(line, &want)
		valid := err == nil && utf8.Valid(line)
		if _, fault := read(line); (fault == OK) != valid {
			t.Fatalf("fault %d, encoding/json says %v", fault, err)
		} else if fault == InvalidUTF8 && utf8.Valid(line) {
			t.Fatal("InvalidUTF8 for valid UTF-8")
		}
		members, isObject := want.(map[string]any)
		var s Scanner
		s.Reset(line)
		seen := map[string]Value{}
		for ok := s.Object(); ok && s.Next(); {
			key := string(s.Key())
			seen[key] = s.Value() // the last one counts, as in encoding/json
		}
		if fault := s.End(); (fault == OK) != (valid && isObject) {
			t.Fatalf("as an object: fault %d", fault)
		}
		if !valid || !isObject {
			return
		}
		for key, got := range seen {
			if len(key) > 64 {
				continue
			}
			switch want := members[key].(type) {
			case string:
				if got.Text() != want || got.Len != len(want) {
					t.Errorf("member %q: %q, want %q", key, got.Text(), want)
				}
			case nil:
				if got.Kind != Null {
					t.Errorf("member %q: kind %d, want null", key, got.Kind)
				}
			}
		}
	})
}

// Cut returns the longest beginning within every limit, in texts with any mix of words, escapes and
// characters of several bytes.
func TestCutAtEveryLimit(t *testing.T) {
	pieces := []string{`a`, `word word`, `\n`, `\"\\`, `é`, `中文`, `🚀`, `\u00e9`, `\ud83d\ude80`, `\u001b[0m`, `\ud83d`}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		raw := ""
		for range 1 + rnd.IntN(20) {
			raw += pieces[rnd.IntN(len(pieces))]
		}
		v, fault := read([]byte(`"` + raw + `"`))
		if fault != OK {
			t.Fatalf("%s is not valid", raw)
		}
		text := v.Text()
		for limit := utf8.UTFMax; limit <= len(text)+1; limit++ {
			want := min(limit, len(text))
			for want < len(text) && !utf8.RuneStart(text[want]) {
				want--
			}
			head, tail := v.Cut(limit)
			if head.Text() != text[:want] || head.Len != want || tail.Text() != text[want:] || tail.Len != len(text)-want {
				t.Fatalf("%s cut at %d: %q and %q, want %q", raw, limit, head.Text(), tail.Text(), text[:want])
			}
		}
	}
}
