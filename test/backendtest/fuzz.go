package backendtest

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
	"github.com/linesman/linesman/runs"
)

// maxSeed is the maximum length of a recorded line that becomes a fuzzing seed.
const maxSeed = 1000

// FuzzLine checks the contract of a backend for any line. Seeds are the lines of
// the recordings in the folder corpus, and other lines.
func FuzzLine(f *testing.F, b normalizer.Backend, corpus string, seeds ...string) {
	files, err := filepath.Glob(filepath.Join(corpus, "*.jsonl"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no recordings, %v", err)
	}
	for _, file := range files {
		out, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(out) {
			if len(line) < maxSeed {
				f.Add(line)
			}
		}
	}
	for _, line := range seeds {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		line = bytes.TrimSuffix(line, []byte{'\n'})
		if bytes.IndexByte(line, '\n') < 0 {
			checkFold(t, b, line)
			checkLine(t, b, line)
		}
	})
}

// checkFold checks that a line results in messages and a record within their
// limits, in at least one message unless it is blank, and in a completion if and
// only if it ends the run.
func checkFold(t *testing.T, b normalizer.Backend, line []byte) {
	messages, fold := Fold(b, Output(slices.Concat(line, []byte{'\n'})))
	Check(t, b.Agent(), messages)
	blank := utf8.Valid(line) && len(bytes.TrimFunc(line, unicode.IsSpace)) == 0
	if blank != (len(messages) == 0) {
		t.Errorf("%d messages; blank: %v", len(messages), blank)
	}
	if size := len(fold.Record.JSON()); size > runs.MaxRecord {
		t.Errorf("a record of %d bytes", size)
	}
	ended := len(messages) > 0 && messages[len(messages)-1].Token == normalizer.CompletionToken
	if ended != fold.Done() || ended != fold.Record.State.Final() {
		t.Errorf("completion: %v, done: %v, state %s", ended, fold.Done(), fold.Record.State)
	}
}

// checkLine checks that the fault of a line agrees with encoding/json, and that the
// state of the dialect survives a round trip.
func checkLine(t *testing.T, b normalizer.Backend, line []byte) {
	d := b.Dialect()
	var out normalizer.Out
	fault := d.Line(line, &out)
	var v any
	invalid := json.Unmarshal(line, &v) != nil
	switch validUTF8 := utf8.Valid(line); {
	case validUTF8 == (fault == normalizer.InvalidUTF8):
		t.Errorf("fault %d, valid UTF-8: %v", fault, validUTF8)
	case validUTF8 && invalid != (fault == normalizer.InvalidJSON):
		t.Errorf("fault %d, rejected by encoding/json: %v", fault, invalid)
	case validUTF8 && !invalid && bytes.Count(line, []byte("type")) == 1:
		object, _ := v.(map[string]any)
		if _, typed := object["type"].(string); typed == (fault == normalizer.MissingType) {
			t.Errorf("fault %d, has a type: %v", fault, typed)
		}
	}

	state, err := d.State()
	if err != nil || len(state) > normalizer.MaxDialect {
		t.Fatalf("a state of %d bytes, %v", len(state), err)
	}
	restored := b.Dialect()
	if err := restored.Restore(state); err != nil {
		t.Fatal(err)
	}
	if again, err := restored.State(); err != nil || !bytes.Equal(again, state) {
		t.Errorf("state %s is restored as %s, %v", state, again, err)
	}
}
