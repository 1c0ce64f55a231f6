package console

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// about is what a run is for: its title, on wide terminals its directory and labels.
func about(run *api.Run, wide bool) string {
	words := []string{cut(flat(run.Title), runs.MaxTitle)}
	if run.Source == runs.SourceSession {
		words[0] = "session: " + words[0]
	}
	if wide {
		words[0] = cut(words[0], 60)
		if run.Dir != "" {
			words = append(words, shortDir(run.Dir))
		}
		words = append(words, labels(run.Labels.Map()))
	}
	return strings.TrimSpace(strings.Join(words, "  "))
}

// shortDir is the end of the path of a directory.
func shortDir(dir string) string {
	dir = filepath.Clean(dir)
	parent, base := filepath.Base(filepath.Dir(dir)), filepath.Base(dir)
	if parent == "/" || parent == "." || len(dir) <= 24 {
		return cut(safeLine(dir), 40)
	}
	return cut("…/"+safeLine(parent+"/"+base), 40)
}

// labels are labels as KEY=VALUE, sorted, without the trace context, which is for machines.
func labels(all map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if key == runs.LabelTraceparent {
			continue
		}
		words = append(words, flat(key)+"="+flat(all[key]))
	}
	return strings.Join(words, " ")
}

// source is the agent of a run, and where it is from unless it is a task.
func source(run *api.Run) string {
	if run.Source == runs.SourceSession {
		return Word(run.Agent) + " session"
	}
	return Word(run.Agent)
}

// tokenCounts are the tokens of a run in short, – if they are not known.
func tokenCounts(n *runs.Spend) string {
	if n == nil {
		return "–"
	}
	return ShortNumber(n.Input) + "/" + ShortNumber(n.Output)
}
