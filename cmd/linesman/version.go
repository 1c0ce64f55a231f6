package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/linesman/linesman/console"
)

// version is set by the linker for a release: -X main.version=v1.2.3.
var version string

type versionCmd struct {
	JSON bool `name:"json" help:"Print a JSON object."`
}

// buildInfo is what is known of this binary. Its JSON form is a contract.
type buildInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the source; empty when the build did not know
	Time     string `json:"time"`     // of that revision, RFC 3339
	Modified bool   `json:"modified"` // the source had changes on top of it
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (c *versionCmd) Run(a *app) error {
	info := build()
	if c.JSON {
		return console.PrintJSON(a.stdout, info)
	}
	line := "linesman " + info.Version
	if info.Revision != "" {
		line += " " + info.Revision[:min(12, len(info.Revision))]
		if info.Modified {
			line += "+changes"
		}
	}
	_, err := fmt.Fprintln(a.stdout, line, info.Go, info.Platform)
	return err
}

func build() buildInfo {
	info := buildInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
