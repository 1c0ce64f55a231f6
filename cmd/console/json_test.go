package console

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestJSONOnATerminalMovesNoCursor(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const text = "a\u009b2J\u0085\x7f\u202e\u2066\u200e\ufeff\U000e0041 é日👩\u200d🚀\\\"\n<&>"
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	raw := Record{Run: text, Event: append(append([]byte(`{"text":`), quoted...), '}')}
	var piped bytes.Buffer
	if err := WriteJSON(&piped, raw); err != nil {
		t.Fatal(err)
	}
	if line := bytes.ReplaceAll(quoted, []byte("\u0085"), []byte(`\u0085`)); !bytes.Contains(piped.Bytes(), line) {
		t.Errorf("a pipe gets %s, want the event's own bytes, without what may be a line break", piped.Bytes())
	}
	if err := WriteJSON(&pane{new(Screen), f}, raw); err != nil {
		t.Fatal(err)
	}
	shown, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	harmless(t, string(bytes.TrimSuffix(shown, []byte("\n"))))
	if !bytes.Contains(shown, []byte(`\u009b2J\u0085\u007f\u202e\u2066\u200e\ufeff\udb40\udc41 é日👩`+"\u200d🚀")) {
		t.Errorf("a terminal gets %s", shown)
	}
	var a, b any
	if json.Unmarshal(piped.Bytes(), &a) != nil || json.Unmarshal(shown, &b) != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("not the same value:\n%s\n%s", piped.Bytes(), shown)
	}
}

// Escaped JSON is harmless, and as much JSON, of the same value, as before.
func FuzzEscapedJSONIsEqual(f *testing.F) {
	f.Add([]byte("{\"a\\\\\":\"\u202e\\u202e\\\u009b\"}"))
	f.Add([]byte("[\"\xff\x9b\",1]\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		escaped := EscapeJSON(body)
		for _, r := range string(escaped) {
			if r >= ' ' && !showsItself(r) {
				t.Fatalf("%q has %U", escaped, r)
			}
		}
		var a, b any
		err := json.Unmarshal(body, &a)
		if got := json.Unmarshal(escaped, &b); err == nil && (got != nil || !reflect.DeepEqual(a, b)) {
			t.Fatalf("%q is %v, %q is %v, error %v", body, a, escaped, b, got)
		}
	})
}
