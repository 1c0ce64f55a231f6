package codexcloud

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/linesman/linesman/bounds"
)

// FileChange is a file that a diff changes.
type FileChange struct {
	Path string `json:"path"`
	Kind string `json:"kind"` // add, update or delete
}

// Limits of the file list of a diff: the line has the list before the diff
// itself, and it must fit into the first chunk.
const (
	maxFiles     = 200
	maxFilePath  = 512      // bytes of JSON
	maxFileBytes = 32 << 10 // bytes of JSON, of all paths
)

// diffStat is a summary of a unified diff.
type diffStat struct {
	files          []FileChange
	unlisted       int // files beyond the limits
	added, removed int

	size int // bytes of JSON of the paths in files
}

// readDiff parses a unified diff as git prints it, tolerantly: other text is
// ignored. The lines of a hunk are counted by its header: a removed line "-- x"
// is not a header.
func readDiff(diff []byte) diffStat {
	s := diffStat{files: []FileChange{}}
	var file FileChange
	var open, named bool  // a file has begun; its "+++" line was read
	var before, after int // remaining lines of the hunk
	begin := func(path string) {
		s.add(file)
		file, open, named = FileChange{Path: path, Kind: "update"}, true, false
	}
	for len(diff) > 0 {
		raw, rest, _ := bytes.Cut(diff, []byte{'\n'})
		diff = rest
		if before > 0 || after > 0 {
			switch {
			case len(raw) > 0 && raw[0] == '+':
				s.added++
				after--
			case len(raw) > 0 && raw[0] == '-':
				s.removed++
				before--
			case len(raw) > 0 && raw[0] == '\\': // no newline at the end of the file
			default:
				before--
				after--
			}
			continue
		}
		const longest = 8 << 10 // longest header that is parsed
		line := strings.TrimSuffix(string(raw[:min(len(raw), longest)]), "\r")
		word, value, _ := strings.Cut(line, " ")
		switch word {
		case "diff":
			if paths, ok := strings.CutPrefix(value, "--git "); ok {
				begin(gitPath(paths))
			}
		case "new":
			file.Kind = "add"
		case "deleted":
			file.Kind = "delete"
		case "rename", "copy":
			if path, ok := strings.CutPrefix(value, "to "); ok {
				file.Path = unquote(path)
			}
		case "---":
			if !open || named {
				begin("")
			}
			if path := side(value, "a/"); path == "" {
				file.Kind = "add"
			} else {
				file.Path = path
			}
		case "+++":
			named = true
			if path := side(value, "b/"); path == "" {
				file.Kind = "delete"
			} else {
				file.Path = path
			}
		case "@@":
			before, after = hunk(value)
		}
	}
	s.add(file)
	return s
}

func (s *diffStat) add(f FileChange) {
	if f.Path == "" {
		return
	}
	f.Path = strings.ToValidUTF8(f.Path, "\uFFFD")
	n := bounds.StringSize(f.Path)
	if len(s.files) >= maxFiles || n > maxFilePath || s.size+n > maxFileBytes {
		s.unlisted++
		return
	}
	s.size += n
	s.files = append(s.files, f)
}

// gitPath returns the path in "a/PATH b/PATH" if the two are the same;
// otherwise the following lines contain it.
func gitPath(paths string) string {
	if i := strings.LastIndex(paths, ` "`); i >= 0 && strings.HasSuffix(paths, `"`) {
		return strings.TrimPrefix(unquote(paths[i+1:]), "b/")
	}
	if half := len(paths) / 2; len(paths)%2 == 1 && strings.HasPrefix(paths, "a/") && paths[half] == ' ' &&
		paths[half+1:] == "b/"+paths[2:half] {
		return paths[2:half]
	}
	if i := strings.LastIndex(paths, " b/"); i >= 0 {
		return paths[i+len(" b/"):]
	}
	return ""
}

// side returns the path of a "---" or "+++" line, "" for /dev/null. A tab
// separates it from a timestamp.
func side(value, prefix string) string {
	if !strings.HasPrefix(value, `"`) {
		value, _, _ = strings.Cut(value, "\t")
	}
	if value == "/dev/null" {
		return ""
	}
	return strings.TrimPrefix(unquote(value), prefix)
}

// unquote parses a path that git has quoted as in C.
func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s
	}
	if t, err := strconv.Unquote(s); err == nil { // Go's escapes are the same, octal ones included
		return t
	}
	return s
}

// hunk parses how many lines of the old and of the new file a hunk has.
func hunk(ranges string) (before, after int) {
	length := func(s, sign string) int {
		s, ok := strings.CutPrefix(s, sign)
		if !ok {
			return 0
		}
		_, n, ok := strings.Cut(s, ",")
		if !ok {
			return 1
		}
		count, err := strconv.Atoi(n)
		if err != nil {
			return 0
		}
		return count
	}
	words := strings.Fields(ranges)
	if len(words) < 2 {
		return 0, 0
	}
	return length(words[0], "-"), length(words[1], "+")
}
