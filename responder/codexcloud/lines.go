package codexcloud

import (
	"bytes"
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// Limits of the fields of a line.
const (
	maxTitle = 512     // bytes
	maxDiff  = 1 << 20 // bytes of the diff itself; escapes can make it six times as long
)

// The lines that a driver writes. Package normalizer/cloud reads them.
type (
	submittedLine struct {
		Type        string `json:"type"`
		ID          string `json:"id"`
		URL         string `json:"url"`
		Environment string `json:"environment"`
		Attempts    int    `json:"attempts"`
	}
	statusLine struct {
		Type        string `json:"type"`
		Status      string `json:"status"`
		Title       string `json:"title"`
		Environment string `json:"environment"`
		Files       int    `json:"files"`
		Added       int    `json:"added"`
		Removed     int    `json:"removed"`
	}
	diffHead struct {
		Type     string       `json:"type"`
		Files    []fileChange `json:"files"`
		Unlisted int          `json:"unlisted,omitempty"` // files beyond the limits
		Added    int          `json:"added"`
		Removed  int          `json:"removed"`
	}
)

func encodeStatus(a answer) []byte {
	return encode(statusLine{
		Type: "cloud.status", Status: a.status, Title: a.title[:bounds.Cut(a.title, maxTitle)],
		Environment: a.environment[:bounds.Cut(a.environment, maxTitle)],
		Files:       a.files, Added: a.added, Removed: a.removed,
	})
}

// encodeDiff encodes the line of a diff. The diff is the last field, so that an
// unfinished line can always be closed; see [closing]. The same diff always
// gives the same bytes.
func encodeDiff(diff []byte, whole bool) []byte {
	d := readDiff(diff)
	head := encode(diffHead{Type: "cloud.diff", Files: d.files, Unlisted: d.unlisted, Added: d.added, Removed: d.removed})
	text := string(bytes.ToValidUTF8(diff, []byte("\uFFFD")))
	if len(text) > maxDiff {
		text, whole = text[:bounds.Cut(text, maxDiff)], false
	}
	line := append(head[:len(head)-len("}\n")], `,"diff":`...)
	line = bounds.AppendString(line, text)
	if !whole {
		line = append(line, truncated...)
	}
	return append(line, "}\n"...)
}

const truncated = `,"truncated":true`

// closing returns what completes an unfinished line, cut by [chunk]: it marks
// the diff as truncated, or the line as broken.
func closing(begun []byte) []byte {
	end := []byte(`"` + truncated + "}\n")
	if bytes.HasPrefix(begun, []byte(`{"type":"cloud.diff"`)) && json.Valid(append(bytes.Clone(begun), end...)) {
		return end
	}
	return []byte{'\n'}
}

// chunk returns how many bytes of a line the next entry gets: no character and
// no escape is split.
func chunk(line []byte) int {
	if len(line) <= runs.MaxChunk {
		return len(line)
	}
	n := runs.MaxChunk
	for n > 0 && line[n]&0xc0 == 0x80 { // within a character
		n--
	}
	const longest = len(`\uffff`)
	for i := max(n-longest+1, 0); i < n; i++ {
		if line[i] != '\\' {
			continue
		}
		before := 0 // an escaped backslash begins no escape
		for before < i && line[i-before-1] == '\\' {
			before++
		}
		if before%2 == 1 {
			continue
		}
		length := 2
		if line[i+1] == 'u' {
			length = longest
		}
		if i+length > n {
			return i
		}
	}
	return n
}

// view is the state of a task as its log has it.
type view struct {
	id     string
	status string // of the last status line; "": none yet
	differ bool   // there is a diff
	begun  []byte // an unfinished line
}

// take reads bytes of the log's output that follow those already read.
func (v *view) take(b []byte) {
	v.begun = append(v.begun, b...)
	rest := v.begun
	for {
		line, after, ok := bytes.Cut(rest, []byte{'\n'})
		if !ok {
			break
		}
		v.line(line)
		rest = after
	}
	if len(rest) < len(v.begun) {
		v.begun = bytes.Clone(rest) // complete lines need not be kept
	}
}

func (v *view) line(line []byte) {
	if !json.Valid(line) {
		return
	}
	l := gjson.GetManyBytes(line, "type", "id", "status")
	switch typ, id, status := l[0].Str, l[1].Str, l[2].Str; {
	case typ == "cloud.submitted" && v.id == "" && runs.CheckCloudTask(id) == nil:
		v.id = id
	case typ == "cloud.status" && runs.KnownCloudStatus(status):
		v.status = status
	case typ == "cloud.diff":
		v.differ = true
	}
}

func encode(v any) []byte {
	b, err := bounds.Encode(v)
	if err != nil { // encoding these types cannot fail
		panic("cloud: encode a line: " + err.Error())
	}
	return append(b, '\n')
}
