package runs

import "strings"

// SetDiff sets the diff of a file, and the numbers of lines that it adds and removes. An
// empty diff changes nothing.
func (f *FileDetail) SetDiff(diff string) {
	if diff == "" {
		return
	}
	added, removed := 0, 0
	counts := !strings.HasPrefix(diff, "@@") && !strings.Contains(diff, "\n@@")
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "@@"):
			counts = true
		case !counts: // the header has the names after --- and +++
		case line[0] == '+':
			added++
		case line[0] == '-':
			removed++
		}
	}
	f.Diff, f.Added, f.Removed = Whole(diff), &added, &removed
}

// SetChange adds the replacement of a text by another one to the diff: their lines, but for
// those at the beginning and the end that are the same.
func (f *FileDetail) SetChange(old, replacement string) {
	before, after := lines(old), lines(replacement)
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	var b strings.Builder
	if f.Diff != nil {
		b.WriteString(f.Diff.Head)
	}
	for _, side := range []struct {
		sign  byte
		lines []string
		count **int
	}{{'-', before, &f.Removed}, {'+', after, &f.Added}} {
		for _, line := range side.lines {
			b.WriteByte(side.sign)
			b.WriteString(strings.TrimSuffix(line, "\n"))
			b.WriteByte('\n')
		}
		n := len(side.lines)
		if *side.count != nil {
			n += **side.count
		}
		*side.count = &n
	}
	f.Diff = Whole(b.String())
}

// lines returns the lines of a text with their ends.
func lines(text string) []string {
	all := strings.SplitAfter(text, "\n")
	if all[len(all)-1] == "" {
		return all[:len(all)-1]
	}
	return all
}
