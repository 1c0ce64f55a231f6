package codexcloud

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/runs"
)

// answer is the service's answer about a task.
type answer struct {
	status      string // one of the runs.Cloud constants
	title       string // any text
	environment string // a label
	files       int
	added       int
	removed     int
}

// readStatus parses the output of `status`: the status and the title, of any
// number of lines; the environment and the age; the changes. The first line
// decides, whatever the exit status.
func readStatus(out []byte) (answer, bool) {
	first, isStatus := strings.CutPrefix(firstLine(out), "[")
	word, title, closed := strings.Cut(first, "]")
	status := strings.ToLower(word)
	if !isStatus || !closed || word != strings.ToUpper(word) || !runs.KnownCloudStatus(status) {
		return answer{}, false
	}
	a := answer{status: status, title: strings.TrimSpace(title)}
	lines := strings.Split(strings.TrimRight(plain(out), "\n"), "\n")
	if len(lines) < 3 {
		return a, true
	}
	a.added, a.removed, a.files = readSummary(lines[len(lines)-1])
	const bullet = "  •  "
	if i := strings.LastIndex(lines[len(lines)-2], bullet); i >= 0 {
		a.environment = lines[len(lines)-2][:i]
	}
	return a, true
}

// summary matches the last line of a status; "no diff" may replace it.
var summary = lazy.Regexp(`^\+(\d{1,9})/-(\d{1,9}) +• +(\d{1,9}) files?$`)

func readSummary(line string) (added, removed, files int) {
	m := summary().FindStringSubmatch(strings.TrimSpace(line))
	if m == nil {
		return 0, 0, 0
	}
	added, _ = strconv.Atoi(m[1]) // nine digits always fit
	removed, _ = strconv.Atoi(m[2])
	files, _ = strconv.Atoi(m[3])
	return added, removed, files
}

// page is a parsed output of `list --json`: some of the newest tasks.
type page struct {
	tasks  map[string]answer // by id
	cursor string            // of the next page; "": none
}

func readPage(o output) (page, bool) {
	var v struct {
		Tasks []struct {
			ID          string `json:"id"`
			Title       string `json:"title"`
			Status      string `json:"status"`
			Environment string `json:"environment_label"` // null is ""
			Summary     struct {
				Files   int `json:"files_changed"`
				Added   int `json:"lines_added"`
				Removed int `json:"lines_removed"`
			} `json:"summary"`
		} `json:"tasks"`
		Cursor string `json:"cursor"` // null is ""
	}
	if o.exit != 0 || o.cut || json.Unmarshal(bytes.TrimSpace(o.stdout), &v) != nil || v.Tasks == nil {
		return page{}, false
	}
	p := page{tasks: make(map[string]answer, len(v.Tasks))}
	for _, t := range v.Tasks {
		if runs.CheckCloudTask(t.ID) == nil && runs.KnownCloudStatus(t.Status) {
			n := t.Summary
			p.tasks[t.ID] = answer{t.Status, t.Title, t.Environment, n.Files, n.Added, n.Removed}
		}
	}
	if len(v.Cursor) <= 4096 {
		p.cursor = v.Cursor
	}
	return p, true
}
