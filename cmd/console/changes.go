package console

import (
	"fmt"
	"strings"

	"github.com/linesman/linesman/runs"
)

// changes counts the lines that the tools of a run have changed, as far as their lines tell it.
type changes struct{ added, removed int64 }

// Limits of what is printed of changes unless all is requested.
const (
	filesShown = 10
	diffShown  = 40 // lines of a diff
	stepsShown = 12
)

func (c *changes) add(f runs.FileDetail) {
	c.added += int64(number(f.Added))
	c.removed += int64(number(f.Removed))
}

// changedText says how many files a run has changed, and what counts as changed; "": that is unknown.
func changedText(c *runs.Changed) string {
	if c == nil {
		return ""
	}
	files := " files"
	if c.Files == 1 {
		files = " file"
	}
	text := fmt.Sprint(c.Files) + files + " changed" + changedIn[c.In]
	if c.Added+c.Removed > 0 {
		text += fmt.Sprintf(" +%d -%d", c.Added, c.Removed)
	}
	return text
}

// changedIn says what a number of changed files counts.
var changedIn = map[runs.ChangedIn]string{
	runs.InDirectory: " in the directory", runs.ByTools: " by its tools", runs.InCloud: " in the cloud",
}

// files writes changed files, and their diffs if requested. Facts are those of the change, which
// may have failed.
func (t *Timeline) files(b *strings.Builder, files []runs.FileDetail, more int, failed bool, facts string) {
	mark, color := "✓ ", Green
	if failed {
		mark, color = "✗ ", Red
	}
	shown := files
	if len(files) > filesShown && !t.options.Full {
		shown = files[:filesShown]
	}
	for i, f := range files {
		if !failed {
			t.changes.add(f)
		}
		if i >= len(shown) {
			continue
		}
		var words []string
		if added, removed := number(f.Added), number(f.Removed); added+removed > 0 && !failed {
			words = append(words, fmt.Sprintf("+%d -%d", added, removed))
		}
		if i == 0 && facts != "" {
			words = append(words, facts)
		}
		fact := strings.Join(words, ", ")
		path := fileMark(f.Kind) + " " + safeLine(t.relative(f.Path))
		if room := t.room(mark) - cells(fact) - 2; t.r.terminal {
			path = cutPath(path, room)
		}
		t.one(b, color, mark, path, fact)
		if t.options.Diffs && !failed {
			t.diff(b, f.Diff)
		}
	}
	if more += len(files) - len(shown); more > 0 {
		t.one(b, color, mark, fmt.Sprintf("… %d more files", more), "")
	}
}

// relative is a path below the directory of the run, any other as it is.
func (t *Timeline) relative(path string) string {
	if t.run == nil || t.run.Dir == "" {
		return path
	}
	return strings.TrimPrefix(path, strings.TrimSuffix(t.run.Dir, "/")+"/")
}

// cutPath replaces directories at the beginning of a path, which follows a letter, by … until it
// fits into a number of cells.
func cutPath(path string, room int) string {
	letter, rest, _ := strings.Cut(path, " ")
	if n := len(rest) - maxBytes(room); n > 0 {
		rest = strings.ToValidUTF8(rest[n:], "")
		path = letter + " …" + rest
	}
	for cells(path) > room {
		_, after, more := strings.Cut(rest, "/")
		if !more {
			break
		}
		rest = after
		path = letter + " …/" + rest
	}
	return path
}

// fileMark is the letter of git for a kind of change.
func fileMark(kind string) string {
	if letter := map[string]string{"added": "A", "modified": "M", "deleted": "D"}[kind]; letter != "" {
		return letter
	}
	return "?"
}

func number(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// diff writes a diff, its lines in the colours of git.
func (t *Timeline) diff(b *strings.Builder, diff *runs.Excerpted) {
	lines := linesOf(diff)
	if more := len(lines) - diffShown; more > 0 && !t.options.Full {
		lines = append(lines[:diffShown], fmt.Sprintf("… %d more lines", more))
	}
	for _, line := range lines {
		t.row(b, patchColor(line), behindBar, line)
	}
}

// steps writes the plan if it has changed.
func (t *Timeline) steps(b *strings.Builder, d *runs.Detail) {
	if len(d.Plan) == 0 {
		return
	}
	var rows []string
	done := 0
	for _, s := range d.Plan {
		mark := "·"
		switch s.State {
		case "done":
			mark = "✓"
			done++
		case "active":
			mark = "▸"
		}
		rows = append(rows, mark+" "+flat(s.Text))
	}
	plan := strings.Join(rows, "\n")
	if plan == t.plan {
		return
	}
	t.plan = plan
	from := 0
	if len(rows) > stepsShown && !t.options.Full { // those before the first open step are known
		from = min(max(done-1, 0), len(rows)-stepsShown)
		rows = rows[from : from+stepsShown]
	}
	total := len(d.Plan) + d.MoreSteps
	t.row(b, cyan, "▸ ", fmt.Sprintf("plan: %d of %d steps done", done, total))
	for _, row := range rows {
		color := ""
		switch {
		case strings.HasPrefix(row, "✓"):
			color = Green
		case strings.HasPrefix(row, "·"):
			color = Dim
		}
		t.one(b, color, "  ", row, "")
	}
	if left := total - len(rows); left > 0 {
		t.one(b, Dim, "  ", fmt.Sprintf("… %d more steps", left), "")
	}
}
