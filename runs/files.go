package runs

import (
	"hash/fnv"
	"slices"
	"strings"

	"github.com/linesman/linesman/bounds"
)

// Limits of the lists of files in a record.
const (
	maxPaths   = 50           // paths in each list
	MaxPath    = 512          // bytes of JSON of one path
	MaxEdits   = 3 * maxPaths // edits that a backend reports for one line; more are only counted
	maxAllPath = 7 << 10      // bytes of JSON of all paths
	maxHashes  = 512          // unlisted paths that are counted
)

// Files is the net effect of a run on files: a file that was added and then
// modified counts as added; a file that was added and then deleted is in no
// list. The lists are never nil.
type Files struct {
	Modified []string `json:"modified_files"`
	Added    []string `json:"added_files"`
	Deleted  []string `json:"deleted_files"`

	// Unlisted counts changed files that are not in the lists because of limits: those beyond maxHashes do not count,
	// and of those that a line only counts, each change does.
	Unlisted int `json:"unlisted,omitempty"`
	// Hashes are of the paths in Unlisted. They are stored in the state of the fold.
	Hashes []uint32 `json:"-"`
	// LinesChanged is the sum of the newest diff stat that a command printed;
	// nil if there was none.
	LinesChanged *int64 `json:"lines_changed,omitempty"`
}

// Edit is one change of one file.
type Edit struct {
	Path string
	Kind EditKind
}

// EditKind is the kind of an [Edit].
type EditKind uint8

// The kinds of edits.
const (
	Modified EditKind = iota
	Added
	Deleted
)

func (r *Record) files() *Files {
	if r.Files == nil {
		r.Files = &Files{Modified: []string{}, Added: []string{}, Deleted: []string{}}
	}
	return r.Files
}

// apply folds one edit.
func (f *Files) apply(e Edit) {
	list := f.list(e.Path)
	switch {
	case list == nil:
		f.add(e)
	case list == &f.Added && e.Kind == Deleted: // no net effect
		remove(list, e.Path)
	case list == &f.Modified && e.Kind == Deleted:
		remove(list, e.Path)
		f.Deleted = append(f.Deleted, strings.Clone(e.Path))
	case list == &f.Deleted && e.Kind != Deleted: // the file existed before the run
		remove(list, e.Path)
		f.Modified = append(f.Modified, strings.Clone(e.Path))
	}
	for _, l := range f.lists() { // a move between lists can exceed the limit
		for n := len(*l); n > maxPaths; n-- {
			f.unlisted((*l)[n-1])
			*l = slices.Delete(*l, n-1, n)
		}
	}
}

// unlisted counts a file that is not in the lists, once.
func (f *Files) unlisted(path string) {
	if len(f.Hashes) < maxHashes && !f.counted(path) {
		f.Hashes = append(f.Hashes, hash(path))
		f.Unlisted++
	}
}

// counted reports whether path is in Unlisted.
func (f *Files) counted(path string) bool { return slices.Contains(f.Hashes, hash(path)) }

func hash(path string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(path)) // never fails
	return h.Sum32()
}

// lists returns the lists, indexed by EditKind.
func (f *Files) lists() [3]*[]string {
	return [...]*[]string{Modified: &f.Modified, Added: &f.Added, Deleted: &f.Deleted}
}

func (f *Files) add(e Edit) {
	if f.counted(e.Path) {
		return
	}
	list := f.lists()[e.Kind]
	size := bounds.StringSize(e.Path) + len(",")
	if e.Path == "" || len(*list) >= maxPaths || size > MaxPath || f.size()+size > maxAllPath {
		f.unlisted(e.Path)
		return
	}
	*list = append(*list, strings.Clone(e.Path))
}

// list returns the list that contains path, or nil.
func (f *Files) list(path string) *[]string {
	for _, l := range f.lists() {
		if slices.Contains(*l, path) {
			return l
		}
	}
	return nil
}

// size returns the number of bytes of JSON of all paths.
func (f *Files) size() int {
	n := 0
	for _, l := range f.lists() {
		for _, path := range *l {
			n += bounds.StringSize(path) + len(",")
		}
	}
	return n
}

func remove(list *[]string, path string) {
	if i := slices.Index(*list, path); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
}
