package main

import (
	"fmt"
	"io"
	"sync"

	"github.com/linesman/linesman/cmd/console"
)

// filePrinter prints what becomes of files that are read: a line each. Paths are printed as [console.Safe]
// returns them. Its methods may be called
// from several goroutines.
type filePrinter struct {
	out, err io.Writer // of runs; of what else a person wants to know
	json     bool      // print the runs as JSON, each on one line

	mu    sync.Mutex
	skips int
	begun int
}

// began prints that the content of a file is in a run, which has started or resumed.
func (f *filePrinter) began(run, path string) {
	f.run(run, path, false)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun++
}

// open prints that runs stay open until the same command is started again.
func (f *filePrinter) open() {
	if f.begun > 0 {
		f.say(f.err, "linesman: the runs of open sessions stay open until this command is started again\n")
	}
}

// skipped prints that a file was imported before, into a run.
func (f *filePrinter) skipped(run, path string) {
	f.run(run, path, true)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.skips++
}

// waiting prints that another process imports a file.
func (f *filePrinter) waiting(path string) {
	f.say(f.err, "linesman: waiting: another process imports %s\n", console.Safe(path))
}

// end prints how many files were skipped.
func (f *filePrinter) end() {
	if f.skips > 0 {
		f.say(f.err, "linesman: files skipped: %d, imported before and unchanged; --again imports them again\n", f.skips)
	}
}

// run prints the run of a file.
func (f *filePrinter) run(run, path string, skipped bool) {
	switch {
	case f.json:
		f.mu.Lock()
		defer f.mu.Unlock()
		_ = console.PrintJSON(f.out, struct { // a closed stdout ends no run
			Run     string `json:"run"`
			Path    string `json:"path"`
			Skipped bool   `json:"skipped,omitempty"`
		}{run, path, skipped})
	case skipped:
		f.say(f.out, "skipped %s %s\n", run, console.Safe(path))
	default:
		f.say(f.out, "%s %s\n", run, console.Safe(path))
	}
}

func (f *filePrinter) say(w io.Writer, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(w, format, args...)
}
