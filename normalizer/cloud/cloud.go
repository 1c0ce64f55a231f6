// Package cloud is the backend of tasks in Codex Cloud. It reads the lines that
// package responder/codexcloud writes, one for each change of a task.
//
//	{"type":"cloud.submitted","id":…,"url":…,"environment":…,"attempts":…}
//	{"type":"cloud.status","status":"pending|ready|applied|error",
//	 "title":…,"environment":…,"files":…,"added":…,"removed":…}
//	{"type":"cloud.diff","files":[{"path":…,"kind":…}],"added":…,"removed":…,"diff":…}
//
// Events contain only the status. Title, URL and diff are external data and stay
// in the raw log. The run record has the facts that answers need.
package cloud

import (
	"encoding/json"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// kind is the agent kind of a run in Codex Cloud.
const kind = "codex_cloud"

// Backend is the backend of Codex Cloud.
type Backend struct{}

// kind returns "codex_cloud".
func (Backend) Agent() string { return kind }

// Dialect returns the dialect of a new run in Codex Cloud.
func (Backend) Dialect() normalizer.Dialect { return dialect{} }

// dialect has no state: every line is independent of earlier lines.
type dialect struct{ normalizer.Stateless }

// line has the values of one line.
type line struct {
	typ, id, url, environment, attempts, status, files, added, removed, diff, unlisted scan.Value
}

// Line implements [normalizer.Dialect].
func (dialect) Line(raw []byte, out *normalizer.Out) normalizer.Fault {
	var l line
	fault := scan.Fields(raw, map[string]*scan.Value{
		"type": &l.typ, "id": &l.id, "url": &l.url, "environment": &l.environment, "attempts": &l.attempts,
		"status": &l.status, "files": &l.files, "added": &l.added, "removed": &l.removed, "diff": &l.diff,
		"unlisted": &l.unlisted,
	})
	switch {
	case fault != scan.OK:
		return normalizer.Fault(fault)
	case !l.typ.IsString():
		return normalizer.MissingType
	case l.typ.Equal("cloud.submitted"):
		return l.submitted(out)
	case l.typ.Equal("cloud.status"):
		return l.statusChanged(out)
	case l.typ.Equal("cloud.diff"):
		return l.diffChanged(out)
	}
	out.Unknown()
	return normalizer.NoFault
}

func (l *line) submitted(out *normalizer.Out) normalizer.Fault {
	if runs.CheckCloudTask(l.id.Text()) != nil {
		return normalizer.InvalidPayload
	}
	out.Facts.Turn, out.Facts.Activity = runs.TurnStarted, "Working in the cloud"
	out.Facts.Cloud = &runs.Cloud{
		ID: l.id.Text(), URL: l.url.Text(), Environment: l.environment.Text(),
		Status: runs.CloudPending, Attempts: count(l.attempts),
	}
	out.Event(normalizer.StatusMessage("cloud task submitted", nil))
	return normalizer.NoFault
}

// statusChanged maps a status. The end of the task is the end of its only turn.
func (l *line) statusChanged(out *normalizer.Out) normalizer.Fault {
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
		out.Unknown()
		return normalizer.NoFault
	}
	out.Facts.Cloud = &runs.Cloud{
		Environment: l.environment.Text(), Status: status,
		FilesChanged: count(l.files), Added: count(l.added), Removed: count(l.removed),
	}
	out.Event(normalizer.StatusMessage("cloud task "+status, nil))
	return normalizer.NoFault
}

func (l *line) diffChanged(out *normalizer.Out) normalizer.Fault {
	if !l.diff.IsString() {
		return normalizer.InvalidPayload
	}
	added, removed := count(l.added), count(l.removed)
	out.Facts.Cloud = &runs.Cloud{Added: added, Removed: removed}
	changed := int64(added) + int64(removed)
	out.Facts.Command = &runs.Findings{LinesChanged: &changed}
	l.edits(out)
	out.Facts.MoreEdits += count(l.unlisted)
	out.Event(normalizer.StatusMessage("cloud task diff", nil))
	return normalizer.NoFault
}

// edits sets the facts of the files of a diff. Invalid ones are ignored.
func (l *line) edits(out *normalizer.Out) {
	var files []struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
	}
	if l.files.Kind != scan.Array || json.Unmarshal(l.files.Raw, &files) != nil {
		return
	}
	kinds := map[string]runs.EditKind{"update": runs.Modified, "add": runs.Added, "delete": runs.Deleted}
	for _, f := range files {
		if kind, known := kinds[f.Kind]; known && f.Path != "" {
			wire.AddEdit(out, f.Path, kind)
		}
	}
}

// count returns the value of v, or 0 if v is not an integer from 0 to one billion.
func count(v scan.Value) int {
	const limit = 1_000_000_000
	n, ok := v.Int()
	if !ok || n < 0 || n > limit {
		return 0
	}
	return int(n)
}
