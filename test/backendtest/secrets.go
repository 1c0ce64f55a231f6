package backendtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/runs"
)

// secrets adds random sentinels to all texts that are not in Shown, adds unknown
// members, and damages lines. No event may contain a sentinel. The record may
// contain only the sentinel of texts in Recorded.
func (s Suite) secrets(t *testing.T, out []byte) {
	var values []any
	for line := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{'\n'}), []byte{'\n'}) {
		var v any
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if len(line) <= 16<<10 && d.Decode(&v) == nil {
			values = append(values, v)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		sentinel := "S3NT" + rapid.StringMatching(`[a-zA-Z0-9]{12}`).Draw(t, "sentinel")
		recorded := "R3C0" + rapid.StringMatching(`[a-zA-Z0-9]{12}`).Draw(t, "recorded")
		var log bytes.Buffer
		for _, v := range values {
			b, err := json.Marshal(s.taint(t, v, "", sentinel, recorded))
			if err != nil {
				t.Fatal(err)
			}
			switch rapid.IntRange(0, 9).Draw(t, "damage") {
			case 0: // truncated
				b = b[:rapid.IntRange(0, len(b)).Draw(t, "length")]
			case 1: // not JSON
				b = []byte(sentinel + string(b))
			case 2: // not UTF-8
				b = append(b, 0xff)
			case 3: // an unknown type
				b = []byte(fmt.Sprintf(`{"type":%q,"item":{"type":%q}}`, sentinel, sentinel))
			case 4: // instead of a number
				b = bytes.ReplaceAll(b, []byte(`"exit_code":0`), []byte(fmt.Sprintf(`"exit_code":%q`, sentinel)))
			case 5: // instead of a type
				b = bytes.ReplaceAll(b, []byte(`"item.completed"`), []byte(fmt.Sprintf(`{"x":%q}`, sentinel)))
			}
			log.Write(b)
			log.WriteByte('\n')
		}
		entries := append(Output(log.Bytes()),
			runs.Entry{Kind: runs.ErrOut, Body: []byte(sentinel)},
			runs.Entry{Kind: runs.Note, Body: runs.Encode(runs.Remark{Reason: sentinel})},
			runs.Entry{Kind: runs.Kind(sentinel), Body: []byte(sentinel)},
			runs.Entry{Kind: runs.Exited, Body: []byte(`{"reason":"` + sentinel + `","spawn":"` + sentinel + `"}`)})
		messages, fold := Fold(s.Backend, entries)
		Check(t, s.Backend.Agent(), messages)
		for _, m := range messages {
			if strings.Contains(string(m.Body), sentinel) || strings.Contains(string(m.Body), recorded) {
				t.Errorf("line %d leaks: %s", m.Line, clip(m.Body))
			}
		}
		_, open := Fold(s.Backend, entries[:len(entries)-1])
		for _, r := range []*runs.Record{open.Record, fold.Record} {
			if record := string(r.JSON()) + r.Summary(); strings.Contains(record, sentinel) {
				t.Errorf("the record leaks: %s", record)
			}
		}
	})
}

// taint copies v, adds sentinels to all texts that are not in Shown, and adds
// secret members to objects.
func (s Suite) taint(t *rapid.T, v any, path, sentinel, recorded string) any {
	switch v := v.(type) {
	case string:
		if slices.Contains(s.Shown, path) {
			return v
		}
		if slices.Contains(s.Recorded, path) {
			return recorded + v + recorded
		}
		return v + sentinel
	case []any:
		out := make([]any, len(v), len(v)+1)
		for i, e := range v {
			out[i] = s.taint(t, e, path+"[]", sentinel, recorded)
		}
		return append(out, sentinel)
	case map[string]any:
		out := make(map[string]any, len(v)+1)
		for k, e := range v {
			out[k] = s.taint(t, e, strings.TrimPrefix(path+"."+k, "."), sentinel, recorded)
		}
		if rapid.Bool().Draw(t, "secret member") {
			out["x_"+sentinel] = map[string]any{"text": sentinel, "message": sentinel}
		}
		return out
	}
	return v
}
