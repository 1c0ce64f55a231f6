package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// plain is one event as one line, stable and made for grep and cut:
//
//	TIME RUN AGENT LINE.PART KIND …
//
// with single blanks between the fields. Free text comes last, and escapes
// keep it on the line; a backslash of its own is doubled.
func plain(v view) string {
	head := []string{
		v.Time.UTC().Format(TimeFormat), Word(v.Run), Word(v.Agent),
		fmt.Sprintf("%d.%d", v.Line, v.Part), v.kind,
	}
	return strings.Join(append(head, plainBody(v)...), " ") + "\n"
}

func plainBody(v view) []string {
	switch v.kind {
	case "text_output":
		return []string{Word(v.channel), plainText(v.text)}
	case "tool_call", "tool_result":
		return plainTool(v)
	case "completion":
		return []string{plainText(v.done.outcome())}
	}
	var body []string
	if v.message != "" {
		body = append(body, plainText(v.message))
	}
	if v.session != "" {
		body = append(body, "session="+Word(v.session))
	}
	if v.usage != (usage{}) {
		body = append(body, fmt.Sprintf("input=%d cached=%d output=%d", v.usage.Input, v.usage.Cached, v.usage.Output))
	}
	return body
}

func plainTool(v view) []string {
	t := v.tool
	if t == nil {
		return []string{"-"} // the facet was too large and was dropped
	}
	body := []string{Word(t.Kind), Word(t.id()), Word(t.Phase), Word(t.Status)}
	if t.Name != "" {
		body = append(body, "name="+Word(t.Name))
	}
	if t.ExitCode != nil {
		body = append(body, "exit="+strconv.Itoa(*t.ExitCode))
	}
	for _, count := range t.counts() {
		body = append(body, fmt.Sprintf("%s=%d", count.of, count.bytes))
	}
	if v.took > 0 {
		body = append(body, fmt.Sprintf("took=%.3fs", v.took.Seconds()))
	}
	return body
}

func plainText(s string) string {
	return Safe(strings.ReplaceAll(s, `\`, `\\`))
}

type byteCount struct {
	of    string
	bytes int64
}

// counts are the byte counts of the tool that are not zero.
func (t *tool) counts() []byteCount {
	var some []byteCount
	for _, c := range []byteCount{
		{"stdout", t.Bytes.Stdout}, {"stderr", t.Bytes.Stderr}, {"diff", t.Bytes.Diff}, {"result", t.Bytes.Result},
	} {
		if c.bytes > 0 {
			some = append(some, c)
		}
	}
	return some
}

// ShortTime is a duration for people: 40ms, 1.2s, 1m02s, 3h05m.
func ShortTime(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
}

// ShortBytes is a number of bytes for people: 6 B, 1.5 KiB, 2.0 MiB.
func ShortBytes(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
}
