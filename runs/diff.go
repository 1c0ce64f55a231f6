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
// those at the beginning and the end that are the same. Texts with a PEM block are shown whole:
// without its first line the block would not be redacted.
func (f *FileDetail) SetChange(old, replacement string) {
	before, after := lines(old), lines(replacement)
	shown := [2][]string{before, after}
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	const pem = "-----BEGIN "
	if !strings.Contains(old, pem) && !strings.Contains(replacement, pem) {
		shown = [2][]string{before, after}
	}
	var b strings.Builder
	for i, side := range []struct {
		sign  byte
		lines int
		count **int
	}{{'-', len(before), &f.Removed}, {'+', len(after), &f.Added}} {
		for _, line := range shown[i] {
			b.WriteByte(side.sign)
			b.WriteString(strings.TrimSuffix(line, "\n"))
			b.WriteByte('\n')
		}
		n := side.lines
		if *side.count != nil {
			n += **side.count
		}
		*side.count = &n
	}
	switch {
	case f.Diff == nil:
		f.Diff = Whole(b.String())
	case len(f.Diff.Head) < DetailWindow:
		f.Diff.Head += b.String()
	default: // [Detail.Limit] needs no more
		f.Diff.Omitted += b.Len()
	}
}

// lines returns the lines of a text with their ends.
func lines(text string) []string {
	all := strings.SplitAfter(text, "\n")
	if all[len(all)-1] == "" {
		return all[:len(all)-1]
	}
	return all
}
