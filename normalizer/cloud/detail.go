package cloud

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// Detail implements [normalizer.Detailer]: the title of the task, and its diff.
func (dialect) Detail(raw []byte, out *normalizer.Details) {
	var typ, title, files, diff scan.Value
	_ = scan.Fields(raw, map[string]*scan.Value{
		"type": &typ, "title": &title, "files": &files, "diff": &diff,
	}) // was scanned before
	switch {
	case len(out.Events()) == 0:
	case typ.Equal("cloud.status"):
		out.At(0).Text = runs.Whole(title.Text())
	case typ.Equal("cloud.diff"):
		diffDetail(out.At(0), files, diff.Text())
	}
}

// diffDetail adds the files of a diff.
func diffDetail(d *runs.Detail, list scan.Value, diff string) {
	var files []struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
	}
	if list.Kind != scan.Array || json.Unmarshal(list.Raw, &files) != nil {
		return
	}
	const begin = "diff --git "
	parts := strings.SplitAfter("\n"+diff, "\n"+begin)[1:]
	for _, f := range files {
		kinds := map[string]string{"add": "added", "delete": "deleted"}
		file := runs.FileDetail{Path: f.Path, Kind: cmp.Or(kinds[f.Kind], "modified")}
		if d.MoreFiles > 0 {
			parts = nil // only counted from here on
		}
		for i, part := range parts {
			header, _, _ := strings.Cut(part, "\n")
			if strings.HasSuffix(header, " b/"+f.Path) || strings.HasPrefix(header, "a/"+f.Path+" ") {
				file.SetDiff(begin + strings.TrimSuffix(part, begin))
				parts = append(parts[:i:i], parts[i+1:]...)
				break
			}
		}
		d.AddFile(file)
	}
}
