package runs

import (
	"slices"
	"strings"

	"github.com/linesman/linesman/bounds"
)

// Limits of what a record lists of files.
const (
	MaxPaths   = 50      // paths of each list
	MaxPath    = 512     // bytes of JSON of one path
	maxAllPath = 7 << 10 // bytes of JSON of all paths together
)

// Files is what became of files, over the whole run: a file that was added and
// then changed is an added one, one that was added and then deleted is in no
// list. The lists are never nil.
type Files struct {
	Modified []string `json:"modified_files"`
	Added    []string `json:"added_files"`
	Deleted  []string `json:"deleted_files"`

	// Unlisted counts changes of files that found no place in the lists.
	Unlisted int `json:"unlisted,omitempty"`
	// LinesChanged is the sum of a diff stat that a command printed, the newest
	// one; nil where none was.
	LinesChanged *int64 `json:"lines_changed,omitempty"`
}

// Edit is one change of one file.
type Edit struct {
	Path string
	Kind EditKind
}

// EditKind says what was done to a file.
type EditKind uint8

// The kinds of changes.
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

// edit folds one change.
func (f *Files) edit(e Edit) {
	list := f.list(e.Path)
	switch {
	case list == nil:
		f.add(e)
	case list == &f.Added && e.Kind == Deleted: // as if it had never been
		remove(list, e.Path)
	case list == &f.Modified && e.Kind == Deleted:
		remove(list, e.Path)
		f.Deleted = append(f.Deleted, e.Path)
	case list == &f.Deleted && e.Kind != Deleted: // it was there before, and is again
		remove(list, e.Path)
		f.Modified = append(f.Modified, e.Path)
	}
	for _, l := range f.lists() { // a move between lists can make one too long
		if n := len(*l); n > MaxPaths {
			*l = slices.Delete(*l, MaxPaths, n)
			f.Unlisted += n - MaxPaths
		}
	}
}

// lists has the lists by the kinds of changes.
func (f *Files) lists() [3]*[]string {
	return [...]*[]string{Modified: &f.Modified, Added: &f.Added, Deleted: &f.Deleted}
}

func (f *Files) add(e Edit) {
	list := f.lists()[e.Kind]
	size := bounds.StringSize(e.Path) + len(",")
	if e.Path == "" || len(*list) >= MaxPaths || size > MaxPath || f.size()+size > maxAllPath {
		f.Unlisted++
		return
	}
	*list = append(*list, strings.Clone(e.Path))
}

// list is the list that has path, or nil.
func (f *Files) list(path string) *[]string {
	for _, l := range f.lists() {
		if slices.Contains(*l, path) {
			return l
		}
	}
	return nil
}

// size is how many bytes of JSON the paths take.
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
