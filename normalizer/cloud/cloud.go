// Package cloud reads what our own driver writes about a task in Codex Cloud:
// a line for each change that it saw.
//
//	{"type":"cloud.submitted","id":…,"url":…,"environment":…,"attempts":…}
//	{"type":"cloud.status","status":"pending|ready|applied|error","title":…,"environment":…,"files":…,"added":…,"removed":…}
//	{"type":"cloud.diff","files":[{"path":…,"kind":…}],"added":…,"removed":…,"diff":…}
//
// Events show the status word and nothing else. What a task is called, where
// its page is and what it changed come from outside, so they stay in the raw
// log; the run record keeps the few facts that an answer needs.
package cloud

import (
	"encoding/json"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// Agent is the agent kind of a run in Codex Cloud.
const Agent = "codex_cloud"

// Backend is Codex Cloud.
type Backend struct{}

// Agent is "codex_cloud".
func (Backend) Agent() string { return Agent }

// Dialect reads one run in Codex Cloud.
func (Backend) Dialect() normalizer.Dialect { return new(dialect) }

// dialect knows nothing of earlier lines: each one says all that it means.
type dialect struct{ s scan.Scanner }

// line is what is kept of one line. Where a key occurs twice the first one counts.
type line struct {
	typ, id, url, environment, attempts scan.Value
	status, files, added, removed, diff scan.Value
	unlisted                            scan.Value
}

// Line implements [normalizer.Dialect].
func (d *dialect) Line(raw []byte, out *normalizer.Out) normalizer.Fault {
	defer d.s.Reset(nil) // lets go of the line
	var l line
	switch l.scan(&d.s, raw) {
	case scan.InvalidUTF8:
		return normalizer.InvalidUTF8
	case scan.InvalidJSON:
		return normalizer.InvalidJSON
	}
	switch {
	case !l.typ.IsString():
		return normalizer.MissingType
	case l.typ.Equal("cloud.submitted"):
		return l.submitted(out)
	case l.typ.Equal("cloud.status"):
		return l.changed(out)
	case l.typ.Equal("cloud.diff"):
		return l.differs(out)
	}
	unknown(out)
	return normalizer.NoFault
}

func (l *line) scan(s *scan.Scanner, raw []byte) scan.Fault {
	s.Reset(raw)
	ok := s.Object()
	if !ok {
		s.Skip()
	}
	for ok && s.Next() {
		switch string(s.Key()) {
		case "type":
			s.First(&l.typ)
		case "id":
			s.First(&l.id)
		case "url":
			s.First(&l.url)
		case "environment":
			s.First(&l.environment)
		case "attempts":
			s.First(&l.attempts)
		case "status":
			s.First(&l.status)
		case "files":
			s.First(&l.files)
		case "added":
			s.First(&l.added)
		case "removed":
			s.First(&l.removed)
		case "diff":
			s.First(&l.diff)
		case "unlisted":
			s.First(&l.unlisted)
		default:
			s.Skip()
		}
	}
	return s.End()
}

func (l *line) submitted(out *normalizer.Out) normalizer.Fault {
	if runs.CheckCloudTask(l.id.Text()) != nil {
		return normalizer.InvalidPayload
	}
	out.Facts.Turn, out.Facts.Activity = runs.TurnStarted, "Working in the cloud"
	out.Facts.Cloud = &runs.Cloud{
		ID: l.id.Text(), URL: l.url.Text(), Environment: l.environment.Text(), Status: runs.CloudPending, Attempts: count(l.attempts),
	}
	out.Event(normalizer.StatusMessage("cloud task submitted", nil))
	return normalizer.NoFault
}

// changed maps a status. The end of the task is the end of its only turn.
func (l *line) changed(out *normalizer.Out) normalizer.Fault {
	if !l.status.IsString() {
		return normalizer.InvalidPayload
	}
	status := l.status.Text()
	switch status {
	case runs.CloudPending:
	case runs.CloudReady, runs.CloudApplied:
		out.Facts.Turn = runs.TurnCompleted
	case runs.CloudError:
		out.Facts.Turn = runs.TurnFailed
		out.Facts.Error, out.Facts.ErrorSource = "the cloud task ended in error", runs.ErrorTurn
	default:
		unknown(out)
		return normalizer.NoFault
	}
	out.Facts.Cloud = &runs.Cloud{
		Environment: l.environment.Text(), Status: status,
		FilesChanged: count(l.files), Added: count(l.added), Removed: count(l.removed),
	}
	out.Event(normalizer.StatusMessage("cloud task "+status, nil))
	return normalizer.NoFault
}

func (l *line) differs(out *normalizer.Out) normalizer.Fault {
	if !l.diff.IsString() {
		return normalizer.InvalidPayload
	}
	added, removed := count(l.added), count(l.removed)
	out.Facts.Cloud = &runs.Cloud{Added: added, Removed: removed}
	changed := int64(added) + int64(removed)
	out.Facts.Command = &runs.Findings{LinesChanged: &changed}
	out.Facts.Edits, out.Facts.MoreEdits = l.edits()
	out.Facts.MoreEdits += count(l.unlisted)
	out.Event(normalizer.StatusMessage("cloud task diff", nil))
	return normalizer.NoFault
}

// maxEdits is how many files of a diff are told; more are only counted.
const maxEdits = 3 * runs.MaxPaths

// edits are the files of a diff, as far as they can be read.
func (l *line) edits() (edits []runs.Edit, more int) {
	if l.files.Kind != scan.Array {
		return nil, 0
	}
	var files []struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
	}
	if json.Unmarshal(l.files.Raw, &files) != nil {
		return nil, 0
	}
	for _, f := range files {
		e := runs.Edit{Path: f.Path}
		switch f.Kind {
		case "update":
			e.Kind = runs.Modified
		case "add":
			e.Kind = runs.Added
		case "delete":
			e.Kind = runs.Deleted
		default:
			continue
		}
		switch {
		case f.Path == "":
		case len(edits) == maxEdits:
			more++
		default:
			edits = append(edits, e)
		}
	}
	return edits, more
}

func unknown(out *normalizer.Out) {
	out.Facts.Unknown = true
	out.Event(normalizer.Event{Kind: normalizer.Unknown})
}

// count is a number of things, 0 where it is none or beyond any sense.
func count(v scan.Value) int {
	const most = 1_000_000_000
	n, ok := v.Int()
	if !ok || n < 0 || n > most {
		return 0
	}
	return int(n)
}

// State implements [normalizer.Dialect]: there is none.
func (d *dialect) State() ([]byte, error) { return nil, nil }

// Restore implements [normalizer.Dialect].
func (d *dialect) Restore([]byte) error { return nil }
