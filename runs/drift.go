package runs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/linesman/linesman/internal/lazy"
)

// Drift lists what linesman does not know in the output of a run: the agent is
// of a version that prints something new, or something old.
type Drift struct {
	Things []Thing `json:"things"`         // the first 12 things, in the order of the output
	Count  int64   `json:"count"`          // occurrences of all things, listed or not
	Others bool    `json:"more,omitempty"` // there are others than the listed things
}

// Thing is one unknown thing. Its name is for the owner of the run; everybody else gets
// the hash.
type Thing struct {
	What  What   `json:"what"`
	Name  string `json:"name"` // redacted, at most 64 bytes; empty if it is too long, or no identifier
	Hash  string `json:"hash"` // the first 12 hexadecimal digits of the SHA-256 of the whole name
	Line  int64  `json:"line"` // number of the first line with it, from 1
	Count int64  `json:"count"`
}

// What is the kind of an unknown thing.
type What string

// The kinds of unknown things.
const (
	DriftType     What = "type"     // the type of a line
	DriftItem     What = "item"     // the type of a part of a line: an item, a block, a role
	DriftField    What = "field"    // the key of a member; its name is a path: item.new_key
	DriftStatus   What = "status"   // the status of an item or of a call
	DriftProtocol What = "protocol" // the form of all lines
	DriftMethod   What = "method"   // the method of a request of the agent
)

// DriftSetting begins the names of fields in the line with which an agent tells its settings. A new
// one says nothing about the work of a run.
const DriftSetting = "init."

// maxThings is the number of unknown things that a run lists.
const maxThings = 12

// maxThing is the maximum length of the name of an unknown thing, in bytes.
const maxThing = 64

// Unknown is a thing in a line that its dialect does not know.
type Unknown struct {
	What What
	Name string // as it is in the line, of any length
}

// add counts an unknown thing, and lists it if it is the first of its name.
func (d *Drift) add(u Unknown, line int64) {
	d.Count++
	sum := sha256.Sum256([]byte(u.Name))
	hash := hex.EncodeToString(sum[:6])
	i := slices.IndexFunc(d.Things, func(t Thing) bool { return t.What == u.What && t.Hash == hash })
	switch {
	case i >= 0:
		d.Things[i].Count++
	case len(d.Things) == maxThings:
		d.Others = true
	default:
		d.Things = append(d.Things, Thing{What: u.What, Name: thingName(u.Name), Hash: hash, Line: line, Count: 1})
	}
}

// version is a version that may be published: nothing in it can be a secret or a text.
var version = lazy.Regexp(`^[0-9]{1,8}(\.[0-9]{1,8}){1,3}(-[a-z]{1,12}(\.[0-9]{1,10}){0,2})?$`)

// CheckVersion returns an error unless v has the form of a version: 0.169.0, 1.2.3-alpha.4.
func CheckVersion(v string) error {
	if len(v) > maxVersion || !version().MatchString(v) {
		return errors.New("must be a version such as 1.2.3 or 1.2.3-beta.1")
	}
	return nil
}

// maxVersion is the maximum length of a version, in bytes.
const maxVersion = 48

// identifier matches the names that programs use: lower-case words, joined by capitals,
// marks or numbers. Ids, keys and texts do not match, or hardly ever.
var identifier = lazy.Regexp(`^` + element + `(?:[./]` + element + `)*$`)

const element = `[a-z][a-z0-9]*(?:[_-][a-z0-9]+|[A-Z][a-z0-9]+)*[A-Z]{0,3}`

// thingName returns the name that the owner sees: none if it is no identifier, because then
// it can be data.
func thingName(name string) string {
	if len(name) > maxThing || !identifier().MatchString(name) {
		return ""
	}
	return strings.Clone(name) // do not keep the memory of the line
}
