package bounds_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/bounds"
)

var benchTexts = []struct{ name, text string }{
	{"id", "item_12345678"},
	{"prose", strings.Repeat("An answer in plain English prose, some seventy characters to a line.\n", 950)},
	{"code", strings.Repeat("\tif err != nil {\n\t\treturn fmt.Errorf(\"read %s: %w\", name, err)\n\t}\n", 1000)},
	{"chinese", strings.Repeat("代理打印的每一行都会被保存。\n", 1500)},
	{"controls", strings.Repeat("\x1b[32mok\x1b[0m\r\n", 5000)},
}

func BenchmarkStringSize(b *testing.B) {
	for _, bb := range benchTexts {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(bb.text)))
			b.ReportAllocs()
			for b.Loop() {
				bounds.StringSize(bb.text)
			}
		})
	}
}

func BenchmarkAppendString(b *testing.B) {
	for _, bb := range benchTexts {
		b.Run(bb.name, func(b *testing.B) {
			dst := make([]byte, 0, 6*len(bb.text)+2)
			b.SetBytes(int64(len(bb.text)))
			b.ReportAllocs()
			for b.Loop() {
				bounds.AppendString(dst, bb.text)
			}
		})
	}
}

// benchValues returns JSON values: each text as a JSON string, and values with
// more structure.
func benchValues() map[string][]byte {
	values := map[string][]byte{
		"small":   []byte(`{"content":[{"type":"text","text":"ok"}],"structured_content":null}`),
		"numbers": []byte("[" + strings.Repeat("1,-25,3.75,1e-7,", 2000) + "0]"),
		"records": []byte("[" + strings.Repeat(`{"name":"main.go","size":1234,"dir":false},`, 1500) + "null]"),
		"spaced": []byte("[\n" + strings.Repeat("  {\n    \"name\": \"main.go\",\n    \"size\": 1234\n  },\n", 1200) +
			"null]"),
		"unicode": []byte(`"` + strings.Repeat(`\u4ee3\u7406 `, 4000) + `"`),
	}
	for _, t := range benchTexts {
		values["text-"+t.name] = bounds.AppendString(nil, t.text)
	}
	return values
}

func BenchmarkValueSize(b *testing.B) {
	for name, raw := range benchValues() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bounds.ValueSize(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendValue(b *testing.B) {
	for name, raw := range benchValues() {
		b.Run(name, func(b *testing.B) {
			dst := make([]byte, 0, 2*len(raw))
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bounds.AppendValue(dst, raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSplit(b *testing.B) {
	text := strings.Repeat("代理 and some ASCII, ", 50_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		for part := range bounds.Split(text, bounds.MaxText) {
			_ = part
		}
	}
}
