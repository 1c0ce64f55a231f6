package runs_test

import (
	"testing"

	"github.com/linesman/linesman/runs"
)

// One number of changed files, and what it counts, in the record and in its row.
func TestChangedIsOneNumberThatSaysWhatItCounts(t *testing.T) {
	t.Parallel()
	tools := &runs.Files{Modified: []string{"a"}, Added: []string{"b"}, Deleted: []string{}, Unlisted: 2}
	for name, c := range map[string]struct {
		record runs.Record
		want   *runs.Changed
	}{
		"nothing is known":      {runs.Record{}, nil},
		"no edit has an effect": {runs.Record{Files: &runs.Files{}}, nil},
		"the tools":             {runs.Record{Files: tools}, &runs.Changed{Files: 4, In: runs.ByTools}},
		"the directory": {
			runs.Record{Files: tools, Changes: &runs.Changes{Files: 7, Added: 5, Removed: 3}},
			&runs.Changed{Files: 7, In: runs.InDirectory, Added: 5, Removed: 3},
		},
		"nothing differs": {runs.Record{Files: tools, Changes: &runs.Changes{}}, &runs.Changed{In: runs.InDirectory}},
		"no diff": {
			runs.Record{Files: tools, Changes: &runs.Changes{Reason: runs.TooSlow}},
			&runs.Changed{Files: 4, In: runs.ByTools},
		},
		"a cloud task": {
			runs.Record{Cloud: &runs.Cloud{FilesChanged: 2, Added: 1}},
			&runs.Changed{Files: 2, In: runs.InCloud, Added: 1},
		},
		"a cloud task without": {runs.Record{Cloud: &runs.Cloud{}}, nil},
	} {
		c.record.ID, c.record.Agent = "T-1", "codex"
		row, err := runs.ParseHeader(c.record.Header().Text(), nil)
		for what, got := range map[string]*runs.Changed{"record": c.record.Changed(), "row": row.Changed} {
			if err != nil || (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
				t.Errorf("%s, %s: %+v, %v, want %+v", name, what, got, err, c.want)
			}
		}
	}
}
