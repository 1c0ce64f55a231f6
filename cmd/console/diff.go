package console

import (
	"fmt"
	"io"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Diff prints what a run changed: the files with their numbers of lines, and then the patch. Where
// there is no diff it prints why. On a terminal the rows of the patch stand behind a bar; anywhere
// else lines keep their form.
func (r *Renderer) Diff(d *api.Diff) error {
	var b strings.Builder
	switch {
	case d.Reason != "":
		fmt.Fprintf(&b, "no diff: %s\n", Safe(d.Why))
	case d.Changes == nil || d.Changes.Files == 0:
		b.WriteString("no changes\n")
	default:
		for _, f := range d.Files {
			r.file(&b, f)
		}
		if d.Unlisted > 0 {
			fmt.Fprintf(&b, "and %d more\n", d.Unlisted)
		}
		c := d.Changes
		text := changedText(&runs.Changed{Files: c.Files, Added: c.Added, Removed: c.Removed, In: runs.InDirectory})
		if r.terminal {
			r.row(&b, "", "", text)
		} else {
			b.WriteString(text + "\n")
		}
		r.patch(&b, d.Patch)
		if d.Truncated {
			b.WriteString("\n(the patch lacks some of the changes: it has at most 256 KiB, and 64 KiB of each file)\n")
		}
	}
	_, err := io.WriteString(r.out, b.String())
	return err
}

// marks are the letters of the kinds of changes.
var marks = map[string]string{"added": "A", "modified": "M", "deleted": "D", "renamed": "R", "type": "T"}

// file writes a changed file. On a terminal a long path loses its beginning.
func (r *Renderer) file(b *strings.Builder, f runs.DiffFile) {
	mark := marks[f.Kind]
	if mark == "" {
		mark = "?"
	}
	name := Safe(f.Path)
	if f.From != "" {
		name = Safe(f.From) + " → " + name
	}
	numbers := "binary"
	if !f.Binary {
		numbers = strings.TrimSpace(r.Paint(Green, fmt.Sprintf("+%d", f.Added)) + " " +
			r.Paint(Red, fmt.Sprintf("-%d", f.Removed)))
	}
	if !r.terminal {
		fmt.Fprintf(b, "%s %s  %s\n", mark, name, numbers)
		return
	}
	const beside = 24 // columns of the mark and the numbers
	width := max(r.width()-beside, 8)
	cells := 0
	runes := []rune(name)
	at := len(runes)
	for ; at > 0 && cells+cellsOf(runes[at-1]) <= width-1; at-- {
		cells += cellsOf(runes[at-1])
	}
	if name = string(runes[at:]); at > 0 {
		name, cells = "…"+name, cells+1
	}
	fmt.Fprintf(b, "%s %s%s  %s\n", mark, name, strings.Repeat(" ", max(min(width, 48)-cells, 0)), numbers)
}

// patch writes a patch.
func (r *Renderer) patch(b *strings.Builder, patch string) {
	if patch == "" {
		return
	}
	b.WriteByte('\n')
	for line := range strings.SplitSeq(strings.TrimSuffix(patch, "\n"), "\n") {
		line, cr := strings.CutSuffix(line, "\r")
		if !r.terminal {
			parts := strings.Split(line, "\t")
			for i := range parts {
				parts[i] = Safe(parts[i])
			}
			b.WriteString(strings.Join(parts, "\t"))
			if cr { // the patch can be applied
				b.WriteByte('\r')
			}
			b.WriteByte('\n')
			continue
		}
		r.row(b, patchColor(line), "│ ", Safe(strings.ReplaceAll(line, "\t", "    ")))
	}
}

// patchColor is the colour of a line of a patch, as git has it.
func patchColor(line string) string {
	switch {
	case strings.HasPrefix(line, "diff --git "):
		return bold
	case strings.HasPrefix(line, "@@"):
		return cyan
	case strings.HasPrefix(line, "+"):
		return Green
	case strings.HasPrefix(line, "-"):
		return Red
	}
	return ""
}

// changesText is one line about changes, "" if there is nothing to say.
func changesText(c *api.Changes) string {
	switch {
	case c == nil:
		return ""
	case c.Reason != "":
		return "unknown: " + Safe(api.Whys[api.DiffReason(c.Reason)])
	case c.Files == 0:
		return "none"
	case c.Files == 1:
		return fmt.Sprintf("1 file +%d -%d", c.Added, c.Removed)
	}
	return fmt.Sprintf("%d files +%d -%d", c.Files, c.Added, c.Removed)
}
