package codex_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/backendtest"
	"github.com/linesman/linesman/normalizer/codex"
	"github.com/linesman/linesman/runs"
)

// Any line results in events within their limits, and in at least one event unless
// it is blank. It is invalid if and only if encoding/json rejects it. The state of
// the dialect survives a round trip.
func FuzzLine(f *testing.F) {
	files, err := filepath.Glob("../../test/corpus/codex/*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatalf("no recordings, %v", err)
	}
	for _, file := range files {
		out, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(out) {
			if len(line) < 1000 {
				f.Add(line)
			}
		}
	}
	for _, line := range []string{
		`{"type":"item.completed","item_id":"i","item_type":"command_execution","content":{"stdout":"x"},"delta":"y"}`,
		`{"type":"item.failed","item":{"type":"reasoning","error":{"message":"\ud83d"}}}`, `{"\u0074ype":1e400}`,
		"{\"type\":\"x\xff\"}", "\u2028 ", "[[[[",
		`{"type":"turn.completed","conversation_id":"t","usage":{"input_tokens":1,"input_tokens":"2"}}`, "",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		line = bytes.TrimSuffix(line, []byte{'\n'})
		if bytes.IndexByte(line, '\n') >= 0 {
			return // several lines
		}
		messages, fold := backendtest.Fold(codex.Backend{}, backendtest.Output(slices.Concat(line, []byte{'\n'})))
		backendtest.Check(t, "codex", messages)
		blank := utf8.Valid(line) && len(bytes.TrimFunc(line, unicode.IsSpace)) == 0
		if blank != (len(messages) == 0) {
			t.Errorf("%d messages; blank: %v", len(messages), blank)
		}
		if size := len(fold.Record.JSON()); size > runs.MaxRecord {
			t.Errorf("a record of %d bytes", size)
		}

		d := codex.Backend{}.Dialect()
		var out normalizer.Out
		fault := d.Line(line, &out)
		var v any
		invalid := json.Unmarshal(line, &v) != nil
		if utf8.Valid(line) {
			if invalid != (fault == normalizer.InvalidJSON) || fault == normalizer.InvalidUTF8 {
				t.Errorf("fault %d, rejected by encoding/json: %v", fault, invalid)
			}
		} else if fault != normalizer.InvalidUTF8 {
			t.Errorf("fault %d of a line that is not UTF-8", fault)
		}
		object, _ := v.(map[string]any)
		if _, typed := object["type"].(string); !invalid && utf8.Valid(line) &&
			bytes.Count(line, []byte("type")) == 1 && typed == (fault == normalizer.MissingType) {
			t.Errorf("fault %d, has a type: %v", fault, typed)
		}

		state, err := d.State()
		if err != nil || len(state) > normalizer.MaxDialect {
			t.Fatalf("a state of %d bytes, %v", len(state), err)
		}
		restored := codex.Backend{}.Dialect()
		if err := restored.Restore(state); err != nil {
			t.Fatal(err)
		}
		if again, err := restored.State(); err != nil || !bytes.Equal(again, state) {
			t.Errorf("state %s is restored as %s, %v", state, again, err)
		}
	})
}
