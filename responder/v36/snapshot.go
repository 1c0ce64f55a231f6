package v36

import (
	"strconv"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
)

// A snapshot encodes itself, with the same JSON as package json: most snapshots
// are of one run, and encoding is most of their cost.

func (m snapshotMeta) appendJSON(b []byte) []byte {
	b = appendWord(b, `{"snapshot_ts":`, m.TS)
	return append(appendNumber(b, `,"total":`, int64(m.Total)), '}')
}

func (d *snapshotData) appendJSON(b []byte) []byte {
	b = appendNumber(b, `{"summary":{"running":`, int64(d.Summary.Running))
	b = appendNumber(b, `,"queued":`, int64(d.Summary.Queued))
	b = append(appendNumber(b, `,"recently_completed":`, int64(d.Summary.Recent)), '}')
	b = appendList(b, `,"tasks":`, d.Tasks)
	b = appendList(b, `,"queue":`, d.Queue)
	b = appendList(b, `,"recently_completed":`, d.Recent)
	switch x := d.Ext; x {
	case snapshotExt{}:
	case snapshotExt{Stream: x.Stream}:
		b = appendNumber(b, `,"ext":{"stream":{"seq":`, int64(x.Stream.Seq))
		b = append(appendTime(append(b, `,"ts":"`...), x.Stream.At), `"}}`...)
	default:
		b = appendJSON(append(b, `,"ext":`...), x)
	}
	return append(b, '}')
}

func (e taskEntry) appendJSON(b []byte) []byte {
	b = appendWord(b, `{"task_id":`, e.TaskID)
	b = appendWord(b, `,"state":`, e.State)
	b = appendWord(b, `,"started_ts":`, e.Started)
	b = appendNumber(b, `,"elapsed_seconds":`, e.Elapsed)
	if b = append(b, `,"progress":`...); e.Progress == nil {
		b = append(b, "null"...)
	} else {
		b = e.Progress.appendJSON(b)
	}
	if len(e.Lines) > 0 {
		b = appendJSON(append(b, `,"last_lines":`...), e.Lines)
	}
	return append(e.Ext.appendJSON(b), '}')
}

func (p *progressData) appendJSON(b []byte) []byte {
	b = appendNumber(b, `{"percent":`, int64(p.Percent))
	b = appendNumber(b, `,"completed_steps":`, int64(p.Done))
	b = appendNumber(b, `,"total_steps":`, int64(p.Total))
	if b = append(b, `,"current_activity":`...); p.Activity == nil {
		return append(b, "null}"...)
	}
	return append(appendWord(b, "", *p.Activity), '}')
}

func (e queueEntry) appendJSON(b []byte) []byte {
	b = appendWord(b, `{"task_id":`, e.TaskID)
	return append(appendNumber(b, `,"position":`, int64(e.Position)), '}')
}

func (e recentEntry) appendJSON(b []byte) []byte {
	b = appendWord(b, `{"task_id":`, e.TaskID)
	b = appendWord(b, `,"state":`, e.State)
	b = appendNumber(b, `,"duration_seconds":`, e.Duration)
	b = appendWord(b, `,"completed_ts":`, e.Completed)
	return append(e.Ext.appendJSON(b), '}')
}

// appendJSON is the member ext, where there is something in it.
func (x entryExt) appendJSON(b []byte) []byte {
	switch x {
	case entryExt{}:
		return b
	case entryExt{Reason: x.Reason}:
		return append(appendWord(b, `,"ext":{"reason":`, x.Reason), '}')
	}
	type plain entryExt
	return appendJSON(append(b, `,"ext":`...), plain(x))
}

func appendWord(b []byte, name, s string) []byte {
	return bounds.AppendString(append(b, name...), s)
}

// appendTime appends what [api.Time.String] returns.
func appendTime(b []byte, t api.Time) []byte {
	if t == 0 {
		return b
	}
	return appendStamp(b, time.UnixMilli(int64(t)))
}

func appendNumber(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}

// appendList appends a list with its name, unless it is empty.
func appendList[T appender](b []byte, name string, all []T) []byte {
	if len(all) == 0 {
		return b
	}
	b = append(b, name...)
	for i, e := range all {
		separator := byte(',')
		if i == 0 {
			separator = '['
		}
		b = e.appendJSON(append(b, separator))
	}
	return append(b, ']')
}
