package main

import (
	"errors"
	"runtime"
	_ "unsafe" // for go:linkname

	"github.com/linesman/linesman/worker"
)

// shimCmd is the process that owns one agent. Only a worker starts it.
type shimCmd struct {
	Dir string `arg:"" name:"dir" help:"The run's directory."`
}

func (c *shimCmd) Run() error {
	beQuiet()
	err := worker.Shim(c.Dir)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, worker.ErrNotNeeded):
		return exitWith(worker.NotNeeded, err)
	}
	return exitWith(exitLinesman, err)
}

// procStatFile is the file that a package of the NATS server reads each second, in every process that contains it,
// until that fails.
//
//go:linkname procStatFile github.com/nats-io/nats-server/v2/server/pse.procStatFile
var procStatFile string

// beQuiet prevents what wakes a process that does nothing: there are as many shims as agents. With a fixed number of
// processors the runtime does not ask for theirs each second.
//
//go:norace
func beQuiet() {
	procStatFile = ""
	runtime.GOMAXPROCS(1)
}
