//go:build !linux && !darwin

package worker

import (
	"iter"
	"time"
)

// No process can be told from one with the same number here, so none is found
// without its shim.
func processes() iter.Seq[process]       { return func(func(process) bool) {} }
func lookup(int) (process, bool)         { return process{}, false }
func (p process) age() (_ time.Duration) { return 0 }
