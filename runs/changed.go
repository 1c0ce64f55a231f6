package runs

// Changed counts the files that a run changed. It is the same in the record, its row, the end of its details, and on
// all surfaces.
type Changed struct {
	Files int64 `json:"files"` // changed files
	// What is counted. `directory`: files of the git work tree of the directory that differ from before the run,
	// whoever changed them. `tools`: files that the agent's tools report, while the run works or where there is no
	// work tree; commands may have changed more. `cloud`: files in the diff of a cloud task.
	In ChangedIn `json:"in"`

	Added   int64 `json:"added,omitempty"`   // lines, of a directory
	Removed int64 `json:"removed,omitempty"` // lines, of a directory
}

// ChangedIn is what a [Changed] counts.
type ChangedIn string

// The values of ChangedIn.
const (
	InDirectory ChangedIn = "directory"
	ByTools     ChangedIn = "tools"
	InCloud     ChangedIn = "cloud"
)

// Changed returns how many files the run has changed; nil: unknown, or none is reported. What the work
// tree tells comes first: it includes what commands changed. While the run works only its tools tell it.
func (r *Record) Changed() *Changed {
	switch {
	case r.Changes != nil && r.Changes.Reason == "":
		return &Changed{r.Changes.Files, InDirectory, r.Changes.Added, r.Changes.Removed}
	case r.Cloud != nil:
		if r.Cloud.FilesChanged == 0 {
			return nil
		}
		return &Changed{int64(r.Cloud.FilesChanged), InCloud, int64(r.Cloud.Added), int64(r.Cloud.Removed)}
	case r.Files == nil:
		return nil
	}
	f := r.Files
	n := int64(len(f.Modified) + len(f.Added) + len(f.Deleted) + f.Unlisted)
	if n == 0 {
		return nil
	}
	return &Changed{Files: n, In: ByTools}
}
