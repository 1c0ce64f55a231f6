package console

import (
	"fmt"
	"io"
	"sync"
)

// Files prints what becomes of files that are read: a line each. Paths are printed as [Safe]
// returns them. Its methods may be called
// from several goroutines.
type Files struct {
	Out, Err io.Writer // of runs; of what else a person wants to know
	JSON     bool      // print the runs as JSON, each on one line

	mu      sync.Mutex
	skipped int
	began   int
}

// Began prints that the content of a file is in a run, which has started or resumed.
func (f *Files) Began(run, path string) {
	f.run(run, path, false)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.began++
}

// Open prints that runs stay open until the same command is started again.
func (f *Files) Open() {
	if f.began > 0 {
		f.say(f.Err, "linesman: the runs of open sessions stay open until this command is started again\n")
	}
}

// Skipped prints that a file was imported before, into a run.
func (f *Files) Skipped(run, path string) {
	f.run(run, path, true)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.skipped++
}

// Waiting prints that another process imports a file.
func (f *Files) Waiting(path string) {
	f.say(f.Err, "linesman: waiting: another process imports %s\n", Safe(path))
}

// End prints how many files were skipped.
func (f *Files) End() {
	if f.skipped > 0 {
		f.say(f.Err, "linesman: files skipped: %d, imported before and unchanged; --again imports them again\n", f.skipped)
	}
}

// run prints the run of a file.
func (f *Files) run(run, path string, skipped bool) {
	switch {
	case f.JSON:
		f.mu.Lock()
		defer f.mu.Unlock()
		_ = PrintJSON(f.Out, struct { // a closed stdout ends no run
			Run     string `json:"run"`
			Path    string `json:"path"`
			Skipped bool   `json:"skipped,omitempty"`
		}{run, path, skipped})
	case skipped:
		f.say(f.Out, "skipped %s %s\n", run, Safe(path))
	default:
		f.say(f.Out, "%s %s\n", run, Safe(path))
	}
}

func (f *Files) say(w io.Writer, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(w, format, args...)
}
