package codexcloud

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/internal/lazy"
)

// fileChange is a file that a diff changes.
type fileChange struct {
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
	files          []fileChange
	unlisted       int // files beyond the limits
	added, removed int

	size int // bytes of JSON of the paths in files
}

// readDiff parses a unified diff as git prints it, tolerantly: other text is
// ignored. The lines of a hunk are counted by its header: a removed line "-- x"
// is not a header.
func readDiff(diff []byte) diffStat {
	s := diffStat{files: []fileChange{}}
	var file fileChange
	var open, named bool  // a file has begun; its "+++" line was read
	var before, after int // remaining lines of the hunk
	begin := func(path string) {
		s.add(file)
		file, open, named = fileChange{Path: path, Kind: "update"}, true, false
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
		case "new", "deleted":
			if strings.HasPrefix(value, "file mode ") { // else the mode of the file has changed
				file.Kind = map[string]string{"new": "add", "deleted": "delete"}[word]
			}
		case "rename", "copy":
			if path, ok := strings.CutPrefix(value, "to "); ok {
				file.Path = unquote(path)
			}
		case "---":
			if !open || named {
				begin("")
			}
			file.side(value, "a/", "add")
		case "+++":
			named = true
			file.side(value, "b/", "delete")
		case "@@":
			before, after = hunk(value)
		}
	}
	s.add(file)
	return s
}

func (s *diffStat) add(f fileChange) {
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

// side reads the path of a "---" or "+++" line; /dev/null means that the file has
// the given kind. A tab separates the path from a timestamp.
func (f *fileChange) side(value, prefix, kind string) {
	if !strings.HasPrefix(value, `"`) {
		value, _, _ = strings.Cut(value, "\t")
	}
	if path := strings.TrimPrefix(unquote(value), prefix); path == "" || value == "/dev/null" {
		f.Kind = kind
	} else {
		f.Path = path
	}
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

var hunkRanges = lazy.Regexp(`^-\d+(?:,(\d{1,9}))? \+\d+(?:,(\d{1,9}))?`)

// hunk parses how many lines of the old and of the new file a hunk has.
func hunk(ranges string) (before, after int) {
	m := hunkRanges().FindStringSubmatch(ranges)
	if m == nil {
		return 0, 0
	}
	length := func(s string) int {
		n, _ := strconv.Atoi(cmp.Or(s, "1")) // nine digits always fit
		return n
	}
	return length(m[1]), length(m[2])
}
