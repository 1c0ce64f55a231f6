package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/linesman/linesman/agents"
	"github.com/linesman/linesman/daemon"
)

func knownNames() string { return strings.Join(agents.Known.Names(), ", ") }

// auto is the agent whose dialect the input itself tells.
const auto agentKind = "auto"

// detect sets kind, if it is auto, to the agent that printed in, or the files at paths, and
// says so. It returns a reader of all of in.
func (a *app) detect(in io.Reader, kind *agentKind, paths ...string) (io.Reader, error) {
	if *kind != auto {
		return in, nil
	}
	found, in, err := daemon.Detect(in, agents.Known, paths...)
	if err == nil {
		*kind = agentKind(found.Kind())
		fmt.Fprintf(a.stderr, "linesman: this is the output of %s\n", found.Name)
	}
	return in, err
}
