package responder

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/test/fixture"
)

var update = flag.Bool("update", false, "rewrite golden files")

// The golden files have what the events of each recording mean: a line for each, with the recording and
// the position. The tests of the page read them, too.
func TestMeaningOfRecordings(t *testing.T) {
	for _, a := range known.Agents {
		files, err := filepath.Glob(fixture.Path(t, "agent", a.Short, "testdata", "golden") + "/*.golden")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d recordings: %v", a.Short, len(files), err)
		}
		var got bytes.Buffer
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".golden")
			if strings.HasSuffix(name, ".detail") {
				continue
			}
			events, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(events) {
				part := bytes.SplitN(bytes.TrimSpace(line), []byte(" "), 3)
				if len(part) < 3 {
					continue
				}
				if m := meaningOf(&a, string(part[1]), part[2]); m != (api.Meaning{}) {
					text, err := json.Marshal(m)
					if err != nil {
						t.Fatal(err)
					}
					fmt.Fprintf(&got, "%s %s %s\n", name, part[0], text)
				}
			}
		}
		golden := fixture.Path(t, "agent", a.Short, "testdata", "meaning.golden")
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: the events of its recordings mean something else than in %s: see -update", a.Short, golden)
		}
	}
}
