package snapshot

import (
	"bufio"
	"context"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// Limits of a diff.
const (
	maxListed    = 200       // files in the list
	maxPath      = 512       // bytes of JSON of a path
	maxPatch     = 256 << 10 // bytes of JSON of the patch
	maxFilePatch = 64 << 10  // bytes of JSON of the patch of a file
	minRoom      = 4 << 10   // bytes of JSON that are left when reading continues
)

// compare returns the difference of two trees, without the files outside the directory.
func (r *repository) compare(ctx context.Context, before, after string) (d runs.Diff, err error) {
	if before == after {
		return d, nil
	}
	// Without a work tree and an index git reads no .gitattributes, which could hide the content of files.
	bare := *r
	bare.root = r.dir
	bare.env = append(r.env[:len(r.env):len(r.env)], "GIT_WORK_TREE="+r.dir, "GIT_INDEX_FILE="+r.dir+"/none")
	command := []string{"diff-tree", "-r", "-M", "-l1000", "--no-ext-diff", "--no-textconv", "--no-color",
		"--src-prefix=a/", "--dst-prefix=b/", "--submodule=short"}
	if r.below != "." {
		command = append(command, "--relative="+r.below+"/")
	}
	list := func(form ...string) []string {
		return append(append(command[:len(command):len(command)], form...), before, after)
	}
	s := stat{d: &d}
	if err := bare.each(ctx, nil, s.field, list("--raw", "--numstat", "-z")...); err != nil {
		return d, err
	}
	p := patch{d: &d}
	err = bare.read(ctx, nil, p.read, list("-p")...)
	if errors.Is(err, errFull) {
		err = nil
	}
	d.Patch = strings.ToValidUTF8(p.text.String(), "\uFFFD")
	return d, err
}

// stat reads the output of git diff-tree --raw --numstat -z: all files with their kind, then all
// with their numbers of lines, in the same order.
type stat struct {
	d       *runs.Diff
	file    runs.DiffFile // in progress
	missing int           // names of it that follow
	at      int           // of the file whose numbers are next
}

var kinds = map[byte]string{'A': "added", 'D': "deleted", 'R': "renamed", 'T': "type"}

func (s *stat) field(field string) error {
	switch {
	case s.missing == 2:
		s.file.From, s.missing = name(field), 1
	case s.missing == 1:
		s.missing = 0
		if s.file.Path = name(field); s.file.Kind != "" {
			if s.d.Files++; s.d.Files <= maxListed {
				s.d.Listed = append(s.d.Listed, s.file)
			}
		}
	case strings.HasPrefix(field, ":"):
		words := strings.Fields(field)
		letter := words[len(words)-1][0]
		s.file, s.missing = runs.DiffFile{Kind: kinds[letter]}, 1
		if s.file.Kind == "" {
			s.file.Kind = "modified"
		}
		if letter == 'R' || letter == 'C' {
			s.missing = 2
		}
	default:
		s.numbers(field)
	}
	return nil
}

// numbers reads the numbers of lines of the next file: "-" of a binary one.
func (s *stat) numbers(field string) {
	part := strings.SplitN(field, "\t", 3)
	if len(part) != 3 {
		return
	}
	added, err := strconv.ParseInt(part[0], 10, 64)
	removed, err2 := strconv.ParseInt(part[1], 10, 64)
	s.d.Added += added
	s.d.Removed += removed
	if s.at < len(s.d.Listed) {
		f := &s.d.Listed[s.at]
		f.Added, f.Removed, f.Binary = added, removed, err != nil || err2 != nil
	}
	s.at++
	if part[2] == "" { // both names follow
		s.file, s.missing = runs.DiffFile{}, 2
	}
}

// name returns a path as valid, short text without secrets.
func name(path string) string {
	path = runs.Redact(strings.ToValidUTF8(path, "\uFFFD"))
	for bounds.StringSize(path) > maxPath {
		path = path[:bounds.Cut(path, len(path)*7/8)]
	}
	return path
}

// errFull ends the reading of a patch that is full.
var errFull = errors.New("the patch is full")

// patch collects the patch of a diff, hunk by hunk: one that does not fit is left out.
type patch struct {
	d     *runs.Diff
	text  strings.Builder
	used  int             // bytes of JSON of the text
	file  int             // number of the file, from 1
	first string          // line of its header
	head  string          // header of the file, until it is written
	size  int             // bytes of JSON of the file so far
	block strings.Builder // the header or the hunk that is being read
	over  bool            // the block is too large
	hunk  bool            // the block is a hunk
	pem   [2]bool         // the file before, and the one after, are in a PEM block
	early [2]bool         // that block began in an earlier hunk
	loose int             // bytes of the hunk that a PEM block of before it may have
}

func (p *patch) read(out io.Reader) error {
	r := bufio.NewReaderSize(out, maxFilePatch)
	for inLine := false; ; {
		line, err := r.ReadSlice('\n') // ReadLine would cut a carriage return, too
		more := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case inLine || more: // longer than a file may be
			p.over = true
		case len(line) > 0:
			if err := p.line(strings.TrimSuffix(string(line), "\n")); err != nil {
				return err
			}
		}
		if err != nil && !more {
			p.end()
			p.finish()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		inLine = more
	}
}

func (p *patch) line(line string) error {
	switch {
	case strings.HasPrefix(line, "diff --git "):
		p.end()
		p.finish()
		if p.used > maxPatch-minRoom {
			p.d.Truncated = true
			return errFull
		}
		if line != p.first { // else it is a file that has become a link, or was one: first it goes, then it comes
			p.file++
			p.first, p.size = line, 0
		}
		p.hunk, p.pem = false, [2]bool{}
	case strings.HasPrefix(line, "@@ "):
		p.end()
		p.hunk, p.early = true, p.pem
		if i := strings.Index(line[len("@@ "):], " @@"); i >= 0 { // an earlier line follows, which may be of a PEM block
			line = line[:len("@@ ")+i+len(" @@")]
		}
	}
	secret := p.hunk && p.inPEM(line)
	if p.over {
		return nil
	}
	switch {
	case secret:
		line = hidden(line)
	case p.hunk && line != "": // the patch keeps its form
		line = line[:1] + runs.Redact(line[1:])
	default:
		line = runs.Redact(line)
	}
	p.block.WriteString(line)
	p.block.WriteByte('\n')
	p.over = p.block.Len() > maxFilePatch
	return nil
}

// hidden is a line of a hunk without its text, if it has one of a file.
func hidden(line string) string {
	if line == "" || !strings.Contains(" +-", line[:1]) {
		return line
	}
	return line[:1] + "[redacted]"
}

// inBlock matches what may be a line in a PEM block: one of its body, also where it is quoted, or a header.
var inBlock = regexp.MustCompile(`^[[:punct:]\s]*([A-Za-z0-9+/=]*(\\[nr])*[[:punct:]\s]*$|` +
	`(Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MessageID): )`)

// inPEM reports whether a line of a hunk is of a PEM block whose beginning or end is in the patch. A block that has no
// end in the hunk continues in the next one, up to a line that no block has; one without a beginning has all lines of
// the hunk so far. Lines of a block that the patch has neither mark of are not recognized.
func (p *patch) inPEM(line string) bool {
	begin, end := strings.Index(line, "-----BEGIN "), strings.Index(line, "-----END ")
	opens := begin >= 0 && strings.LastIndex(line, "-----BEGIN ") > strings.LastIndex(line, "-----END ")
	is := begin >= 0 || end >= 0
	may := is || !strings.Contains(" +-", line[:min(len(line), 1)]) || inBlock.MatchString(line[1:])
	for side, open := range p.pem {
		is = is || open && (may || !p.early[side])
	}
	for side, other := range []string{"+", "-"} {
		if strings.HasPrefix(line, other) {
			continue
		}
		open := &p.pem[side]
		if end >= 0 && !*open && (begin < 0 || end < begin) {
			p.loose = p.block.Len()
		}
		*open = opens || *open && end < 0 && (may || !p.early[side])
		p.early[side] = p.early[side] && !opens
	}
	return is
}

// end ends the header or the hunk that is being read.
func (p *patch) end() {
	block := p.block.String()
	if p.loose > 0 {
		var lines strings.Builder
		for line := range strings.Lines(block[:p.loose]) {
			lines.WriteString(hidden(strings.TrimSuffix(line, "\n")) + "\n")
		}
		block, p.loose = lines.String()+block[p.loose:], 0
	}
	p.block.Reset()
	size := bounds.StringSize(block)
	over := p.over || p.size+size > maxFilePatch || p.used+bounds.StringSize(p.head)+size > maxPatch
	p.over = false
	switch {
	case p.file == 0:
		return
	case over:
		p.cut()
		return
	case p.hunk:
		p.write(p.head + block)
		p.head = ""
	default:
		p.head = block
	}
	p.size += size
}

func (p *patch) write(text string) {
	p.text.WriteString(text)
	p.used += bounds.StringSize(text)
}

// cut notes that the patch lacks a part of the file.
func (p *patch) cut() {
	p.d.Truncated = true
	if p.file <= len(p.d.Listed) {
		p.d.Listed[p.file-1].Truncated = true
	}
}

// finish ends a file. The header of one that has no hunks, such as a binary one, is kept.
func (p *patch) finish() {
	if !p.hunk {
		p.write(p.head)
	}
	p.head = ""
}
