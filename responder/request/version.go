package request

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/internal/lazy"
)

// Releases are the releases of AdCP that are served, the newest last. They differ in their name alone.
var Releases = []string{"3.0", "3.1"}

// Major is the major version of all [Releases].
const Major = 3

// Names of the version fields of AdCP.
const (
	versionField = "adcp_version"
	majorField   = "adcp_major_version"
)

// releaseForm is the form of the name of a release.
var releaseForm = lazy.Regexp(`^\d{1,4}\.\d{1,4}(-[a-zA-Z0-9.-]{1,40})?$`)

// NamesRelease reports whether arguments have a version field of AdCP.
func NamesRelease(raw json.RawMessage) bool {
	names := []string{versionField, alias(versionField), majorField, alias(majorField)}
	return slices.ContainsFunc(names, func(name string) bool { return gjson.GetBytes(raw, name).Exists() })
}

// envelope decides whether the answer is the envelope of AdCP, and which release of it. It is also for arguments that
// cannot be read.
func (a *Args) envelope() {
	a.release = Releases[len(Releases)-1]
	version, major := a.found(versionField), a.found(majorField)
	switch {
	case !a.declares(Format) && a.declares(versionField): // every answer is one
		a.json, a.adcp = true, true
	case !a.Has(Format) && (version != nil || major != nil):
		a.asks(false, true)
	}
	if !a.adcp {
		return
	}
	if version != nil {
		name, ok := readString(version.raw)
		number, _, _ := strings.Cut(name, ".")
		if n, err := strconv.Atoi(number); !ok || !releaseForm().MatchString(name) || err != nil || n != Major {
			a.unserved = version.name
			return
		}
		if slices.Contains(Releases, name) {
			a.release = name
		}
	}
	if major != nil {
		if n, err := strconv.ParseFloat(major.raw, 64); err != nil || n != Major {
			a.unserved = major.name
		}
	}
}

// Release returns the release of AdCP that is served.
func (a *Args) Release() string { return a.release }

// Pinned returns the version fields of the request, each nil if it is absent or of no form that may be repeated.
func (a *Args) Pinned() (version, major json.RawMessage) {
	if g := a.found(versionField); g != nil {
		if name, ok := readString(g.raw); ok && releaseForm().MatchString(name) {
			version = encode(name)
		}
	}
	if g := a.found(majorField); g != nil {
		if n, err := strconv.ParseUint(g.raw, 10, 16); err == nil {
			major = encode(n)
		}
	}
	return version, major
}

// CheckRelease returns the error of a request in a release of AdCP that is not served.
func (a *Args) CheckRelease() error {
	if a.unserved == "" {
		return nil
	}
	return &api.Error{
		Code: api.Unsupported, Field: a.unserved, Reason: api.ReasonVersion,
		Message: "must be a release of AdCP " + strconv.Itoa(Major) + ", and both version fields of one major version: " +
			strings.Join(Releases, " and ") + " are served",
	}
}
