package daemon

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// build describes this binary. Its JSON form is a contract.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the source; empty when the build did not know
	Time     string `json:"time"`     // of that revision, RFC 3339
	Modified bool   `json:"modified"` // the source had changes on top of it
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// BuildOf describes this binary, whose version is that of the module if version is "".
func BuildOf(version string) build {
	info := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if b, ok := debug.ReadBuildInfo(); ok {
		// `go install module@version` has no linker flag, but knows this.
		if b.Main.Version != "(devel)" {
			info.Version = cmp.Or(info.Version, b.Main.Version)
		}
		for _, s := range b.Settings {
			switch s.Key {
			case "vcs.revision":
				info.Revision = s.Value
			case "vcs.time":
				info.Time = s.Value
			case "vcs.modified":
				info.Modified = s.Value == "true"
			}
		}
	}
	info.Version = cmp.Or(info.Version, "dev")
	return info
}

// String is the build on one line, with the beginning of the revision.
func (b build) String() string {
	revision := b.Revision[:min(12, len(b.Revision))]
	if b.Modified && revision != "" {
		revision += "+changes"
	}
	return strings.Join(slices.DeleteFunc([]string{"linesman", b.Version, revision, b.Go, b.Platform},
		func(word string) bool { return word == "" }), " ")
}
