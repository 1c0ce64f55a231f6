package normalizer

import (
	"bytes"
	"slices"

	"github.com/linesman/linesman/normalizer/scan"
)

// Trim returns a line without what is no part of its record: the NUL bytes that a file system
// leaves at its ends after a crash, and, before the first line of an output, a byte order mark.
func Trim(line []byte, first bool) []byte {
	if first {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if n := len(line); n > 0 && (line[0] == 0 || line[n-1] == 0) {
		return bytes.Trim(line, "\x00")
	}
	return line
}

// maxPlaces is at how many places of a damaged line a record is looked for: each look reads the
// rest of the line.
const maxPlaces = 16

// Salvage returns the records in a line that is not valid JSON, at most maxPlaces and one, and how
// many bytes before them are none. There are none if it is not certain where they are.
//
//   - A terminal writes escape sequences and control characters before a line.
//   - A crash, and writers that share a file, lose a newline: a record directly follows another
//     one, or a part of one.
func Salvage(line []byte) (records [][]byte, torn int) {
	visible := pastControls(line)
	if isRecord(visible) {
		return [][]byte{visible}, 0
	}
	if records = glued(visible); records != nil {
		return records, 0
	}
	if at := lastRecord(visible); at > 0 {
		return [][]byte{visible[at:]}, len(line) - len(visible) + at
	}
	return nil, 0
}

// isRecord reports whether b is an object with a type, which is all that the dialects have in common.
func isRecord(b []byte) bool {
	if len(b) == 0 || b[0] != '{' {
		return false
	}
	var typ scan.Value
	return scan.Fields(b, map[string]*scan.Value{"type": &typ}) == scan.OK && typ.IsString()
}

// glued returns the two or more records that a line consists of; nil: it does not. There may be NUL
// bytes between them.
func glued(line []byte) (records [][]byte) {
	start, at := 0, 0
	for range maxPlaces {
		n := bytes.IndexByte(line[at:], '}')
		for ; n >= 0; n = bytes.IndexByte(line[at:], '}') {
			at += n + 1
			if next := bytes.TrimLeft(line[at:], "\x00"); len(next) > 0 && next[0] == '{' {
				break
			}
		}
		if n < 0 {
			break
		}
		if isRecord(line[start:at]) {
			records = append(records, line[start:at])
			start = len(line) - len(bytes.TrimLeft(line[at:], "\x00"))
			at = start
		}
	}
	if records == nil || !isRecord(line[start:]) {
		return nil
	}
	return append(records, line[start:])
}

// recordStarts are the beginnings of records: of most agents, of results of Claude Code, and of the
// logs of sessions of Codex and Claude Code.
var recordStarts = [][]byte{
	[]byte(`{"type":`), []byte(`{"duration_api_ms":`), []byte(`{"is_error":`), []byte(`{"timestamp":`),
	[]byte(`{"parentUuid":`),
}

// lastRecord returns where the last record of a line begins that also has a part of another one
// before it; 0: it has none.
func lastRecord(line []byte) int {
	if len(line) == 0 || line[0] != '{' {
		return 0
	}
	last := make([]int, len(recordStarts)) // of each start, so that the line is searched once
	for i, start := range recordStarts {
		last[i] = bytes.LastIndex(line, start)
	}
	for range maxPlaces {
		at := slices.Max(last)
		if at <= 0 || isRecord(line[at:]) {
			return max(at, 0)
		}
		i := slices.Index(last, at)
		last[i] = bytes.LastIndex(line[:at], recordStarts[i])
	}
	return 0
}

// pastControls returns what follows the escape sequences and control characters of terminals at the
// beginning of a line.
func pastControls(line []byte) []byte {
	for len(line) > 0 && line[0] < ' ' {
		line = line[control(line):]
	}
	return line
}

// control returns the length of the control character or escape sequence (ECMA-48) at the beginning
// of b.
func control(b []byte) int {
	if b[0] != 0x1b || len(b) == 1 {
		return 1
	}
	switch b[1] {
	case '[': // parameters, intermediate bytes, a final byte
		i := 2
		for i < len(b) && b[i] >= 0x20 && b[i] < 0x40 {
			i++
		}
		return min(i+1, len(b))
	case ']', 'P', 'X', '^', '_': // a string that BEL or ST ends
		for i := 2; i < len(b); i++ {
			switch {
			case b[i] == 0x07:
				return i + 1
			case b[i] == 0x1b && i+1 < len(b) && b[i+1] == '\\':
				return i + 2
			}
		}
		return len(b)
	}
	i := 1 // intermediate bytes, a final byte
	for i < len(b) && b[i] >= 0x20 && b[i] < 0x30 {
		i++
	}
	return min(i+1, len(b))
}
