package runs

import (
	"encoding/json"
	"slices"

	"github.com/linesman/linesman/bounds"
)

// Changes counts what a run changed in its directory, if that is in a git work tree.
type Changes struct {
	Files     int64     `json:"files"`
	Added     int64     `json:"added"`   // lines
	Removed   int64     `json:"removed"` // lines
	Truncated bool      `json:"truncated,omitempty"`
	Reason    NoChanges `json:"reason,omitempty"`  // why the changes are unknown; "": they are known
	Seq       uint64    `json:"raw_seq,omitempty"` // in a record: sequence number in RAW of the first note with them
}

// NoChanges is the reason why the changes of a run are unknown.
type NoChanges string

// The reasons.
const (
	DiffOff        NoChanges = "off"       // a setting of the worker turns it off
	NoGit          NoChanges = "no_git"    // the worker has no program git
	TooLarge       NoChanges = "too_large" // too many files had to be read, or too many bytes
	TooSlow        NoChanges = "timeout"   // reading took too long
	SnapshotFailed NoChanges = "failed"    // git failed, or the repository is damaged
)

var noChanges = []NoChanges{DiffOff, NoGit, TooLarge, TooSlow, SnapshotFailed}

// Diff is what a run changed in its directory.
type Diff struct {
	Changes
	Listed []DiffFile // the first files
	Patch  string     // unified diff as of git, redacted; without the hunks that do not fit
}

// DiffFile is a file that a run changed.
type DiffFile struct {
	Path      string `json:"path"`                // relative to the directory of the run, redacted; at most 512 bytes
	From      string `json:"from,omitempty"`      // former path of a renamed file
	Kind      string `json:"kind"`                // `type`: a file that became a link, for example
	Added     int64  `json:"added"`               // lines
	Removed   int64  `json:"removed"`             // lines
	Binary    bool   `json:"binary,omitempty"`    // the file has no lines
	Truncated bool   `json:"truncated,omitempty"` // the patch lacks some of the file's changes
}

// noteDiff is the reason of a note with a part of a diff.
const noteDiff = "diff"

// diffPart is a part of a diff, in a note. The parts of a set follow each other in the raw log. The
// last set that is complete counts: a worker that is killed leaves an incomplete one.
type diffPart struct {
	Set   string `json:"set"`
	Part  int    `json:"part"` // from 1
	Parts int    `json:"parts"`
	Changes
	Listed []DiffFile `json:"list,omitempty"`
	Patch  string     `json:"patch,omitempty"`
}

// Limits of the parts of a diff.
const (
	maxDiffPart  = 48 << 10 // bytes of JSON
	maxDiffParts = 64       // that are read; a worker writes fewer
)

// Notes returns the bodies of the notes with the diff, as one set.
func (d Diff) Notes(set string) [][]byte {
	const room = maxDiffPart - 1024 // for the other fields
	parts := []diffPart{{}}
	used := 0
	next := func(size int) *diffPart {
		if used += size; used > room && size < used {
			parts, used = append(parts, diffPart{}), size
		}
		return &parts[len(parts)-1]
	}
	for _, f := range d.Listed {
		part := next(len(encode(f)) + len(","))
		part.Listed = append(part.Listed, f)
	}
	for rest := d.Patch; rest != ""; {
		text := rest[:bounds.Cut(rest, room/2)]
		for bounds.StringSize(text) > room/2 {
			text = text[:bounds.Cut(text, len(text)*7/8)]
		}
		part := next(bounds.StringSize(text))
		part.Patch += text
		rest = rest[len(text):]
	}
	bodies := make([][]byte, len(parts))
	for i, p := range parts {
		p.Set, p.Part, p.Parts, p.Changes = set, i+1, len(parts), d.Changes
		bodies[i] = encode(Remark{Reason: noteDiff, Diff: &p})
	}
	return bodies
}

// DiffReader reads the notes of a raw log, in order. Its zero value is ready to use.
type DiffReader struct {
	set  string
	next int
	part Diff
	last *Diff
}

// Add reads an entry. Entries of other kinds have no effect.
func (r *DiffReader) Add(e Entry) {
	if e.Kind != Note {
		return
	}
	var n Remark
	if json.Unmarshal(e.Body, &n) != nil || n.Reason != noteDiff || n.Diff == nil {
		return
	}
	p := n.Diff
	switch {
	case p.Part == 1:
		r.set, r.part = p.Set, Diff{Changes: p.Changes.checked()}
	case p.Set != r.set || p.Part != r.next || p.Part > maxDiffParts:
		r.set = ""
		return
	}
	r.next = p.Part + 1
	r.part.Listed = append(r.part.Listed, p.Listed...)
	r.part.Patch += p.Patch
	if p.Part == p.Parts {
		r.last = new(r.part)
	}
}

// Last returns the diff of the last complete set, nil if there is none.
func (r *DiffReader) Last() *Diff { return r.last }

// checked returns the changes without values that a worker does not write.
func (c Changes) checked() Changes {
	c.Files, c.Added, c.Removed, c.Seq = max(c.Files, 0), max(c.Added, 0), max(c.Removed, 0), 0
	if c.Reason != "" && !slices.Contains(noChanges, c.Reason) {
		c.Reason = SnapshotFailed
	}
	return c
}

// foldNote folds a note: what an agent does, what the logs of its session tell, or a diff, whose
// first part has its numbers.
func (r *Record) foldNote(e Entry) {
	var n struct {
		Reason string
		Diff   *struct {
			Part int
			Changes
		}
		Presence *Presence
		Logged   *Logged
	}
	switch {
	case json.Unmarshal(e.Body, &n) != nil:
		return
	case n.Reason == NotePresence && n.Presence != nil:
		r.foldPresence(*n.Presence, e.Time)
		return
	case n.Reason == NoteUsage && n.Logged != nil:
		r.foldLogged(*n.Logged)
		return
	case n.Reason != noteDiff || n.Diff == nil || n.Diff.Part != 1:
		return
	}
	c := n.Diff.checked()
	c.Seq = r.Seq
	r.Changes = &c
}
