package wire

import (
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// fields is the set of the keys of an object that the dialect knows but does not use.
type fields map[string]struct{}

// FieldsOf returns the set of some keys.
func FieldsOf(keys ...string) fields {
	set := make(fields, len(keys))
	for _, key := range keys {
		set[key] = struct{}{}
	}
	return set
}

// Drift collects what the dialect does not know in a line: at most maxUnknown things.
// The zero value is empty.
type Drift []runs.Unknown

// maxUnknown is the maximum number of unknown things of one line.
const maxUnknown = 32

// Field adds the member with a key if it is not in known. Its name is path and the key.
func (d *Drift) Field(known fields, path string, key []byte) {
	if _, ok := known[string(key)]; !ok && len(*d) < maxUnknown {
		*d = append(*d, runs.Unknown{What: runs.DriftField, Name: path + string(key)})
	}
}

// Add adds a thing, whose name is a prefix and the text of v.
func (d *Drift) Add(what runs.What, prefix string, v scan.Value) {
	if len(*d) < maxUnknown {
		*d = append(*d, runs.Unknown{What: what, Name: prefix + v.Text()})
	}
}

// Status adds the status in v, if it is a text and none of known.
func (d *Drift) Status(v scan.Value, prefix string, known ...string) {
	if !v.IsString() {
		return
	}
	for _, word := range known {
		if v.Equal(word) {
			return
		}
	}
	d.Add(runs.DriftStatus, prefix, v)
}

// Unknown marks the line as one of an unknown type, v.
func (d *Drift) Unknown(v scan.Value, prefix string, out *normalizer.Out) {
	d.Add(runs.DriftType, prefix, v)
	out.Unknown()
}

// UnknownItem marks a part of the line as one of an unknown type, v.
func (d *Drift) UnknownItem(v scan.Value, prefix string, out *normalizer.Out) {
	d.Add(runs.DriftItem, prefix, v)
	out.Unknown()
}
