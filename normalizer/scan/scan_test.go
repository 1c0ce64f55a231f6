package scan

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// whole reads line as one value.
func whole(line []byte) (Value, Fault) {
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
		{deep(MaxDepth), OK}, {deep(MaxDepth + 1), InvalidJSON},
		{`[[[]` + strings.Repeat(`,[[]]`, 3) + `]]`, OK},
		{strings.Repeat(`{"a":`, MaxDepth-1) + `{}` + strings.Repeat(`}`, MaxDepth-1), OK},
		{strings.Repeat(`{"a":`, MaxDepth) + `{}` + strings.Repeat(`}`, MaxDepth), InvalidJSON},
		{``, InvalidJSON}, {`{`, InvalidJSON}, {`{}{}`, InvalidJSON}, {`{}x`, InvalidJSON}, {`[1,]`, InvalidJSON},
		{`{"a":1,}`, InvalidJSON}, {`{,}`, InvalidJSON}, {`{"a"}`, InvalidJSON}, {`{"a":}`, InvalidJSON}, {`[}`, InvalidJSON},
		{`{"a":1]`, InvalidJSON}, {`01`, InvalidJSON}, {`+1`, InvalidJSON}, {`1.`, InvalidJSON}, {`.5`, InvalidJSON}, {`1e`, InvalidJSON},
		{`1e400`, InvalidJSON}, {strings.Repeat("9", 400), InvalidJSON}, {strings.Repeat("9", 308), OK},
		{`"` + "\n" + `"`, InvalidJSON}, {`"\q"`, InvalidJSON}, {`"\u12"`, InvalidJSON}, {`"\u12g4"`, InvalidJSON}, {`"\`, InvalidJSON},
		{`tru`, InvalidJSON}, {`truex`, InvalidJSON}, {`nulL`, InvalidJSON}, {`{"a":1 "b":2}`, InvalidJSON},
		{"\ufeff{}", InvalidJSON}, {"{\"é\":\u00a0 1}", InvalidJSON},
		{"\"\xff\"", InvalidUTF8}, {"{oops \xff", InvalidUTF8}, {"\"\xed\xa0\x80\"", InvalidUTF8}, {"\"\xc0\xaf\"", InvalidUTF8},
		{"\"\xf4\x90\x80\x80\"", InvalidUTF8}, {"\"\xf0\x9f\x92", InvalidUTF8}, {"\"\U0010ffff\u2028\x7f\"", OK},
	} {
		if _, got := whole([]byte(c.line)); got != c.want {
			t.Errorf("%.60q: fault %d, want %d", c.line, got, c.want)
		}
	}
}

func TestDecodedTextAndLength(t *testing.T) {
	for _, line := range []string{
		`"plain"`, `""`, `"a\"b\\c\/d\b\f\n\r\t"`, `"\u0000\u001f\u007f\u0080\u07ff\u0800\uffff"`,
		`"\ud83d\ude80"`, `"\ud83d"`, `"\ude80"`, `"\ud83d\ud83d\ude80x"`, `"\ud83dx"`, `"\ud83d\n"`, `"é👩‍💻\u2028 "`, `"\uD83D\uDE80"`,
	} {
		v, fault := whole([]byte(line))
		var want string
		if err := json.Unmarshal([]byte(line), &want); err != nil || fault != OK {
			t.Fatalf("%s: %v, fault %d", line, err, fault)
		}
		if v.Text() != want || v.Len != len(want) || !v.Equal(want) || v.Equal(want+"x") {
			t.Errorf("%s: text %q, length %d; want %q, %d", line, v.Text(), v.Len, want, len(want))
		}
	}
}

func TestInt(t *testing.T) {
	for raw, want := range map[string]int64{"0": 0, "-0": 0, "7": 7, "-7": -7, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63} {
		v, _ := whole([]byte(raw))
		if n, ok := v.Int(); !ok || n != want {
			t.Errorf("%s: %d, %v", raw, n, ok)
		}
	}
	for _, raw := range []string{"1.0", "1e2", "9223372036854775808", "-9223372036854775809", "99999999999999999999", `"1"`, "null", "true"} {
		v, _ := whole([]byte(raw))
		if n, ok := v.Int(); ok {
			t.Errorf("%s: read as %d", raw, n)
		}
	}
}

func TestWalkAllocatesNothing(t *testing.T) {
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

// FuzzLine: the scanner never panics, agrees with encoding/json on what can
// be decoded, and finds the same members with the same text.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		`{"type":"item.completed","item":{"id":"item_0","type":"web_search","id":"ws_1"}}`, `{"a":"\ud83d\ude80"}`, `[1e400]`, "{\"a\":\"\xff\"}",
		`{"\u0061":[{},[],"x",-1.5e+7,true,false,null]}`, ` {"a" : 1 } `, `{"a":1}{"b":2}`, `[[[[`, `"\uD800"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var want any
		err := json.Unmarshal(line, &want)
		valid := err == nil && utf8.Valid(line)
		if _, fault := whole(line); (fault == OK) != valid {
			t.Fatalf("fault %d, encoding/json says %v", fault, err)
		} else if fault == InvalidUTF8 && utf8.Valid(line) {
			t.Fatal("called invalid UTF-8")
		}
		members, isObject := want.(map[string]any)
		var s Scanner
		s.Reset(line)
		seen := map[string]Value{}
		for ok := s.Object(); ok && s.Next(); {
			key := string(s.Key())
			seen[key] = s.Value() // last wins, as in encoding/json
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
