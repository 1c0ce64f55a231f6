// Package startup keeps the garbage collector away from the start of a program. It is of use only if few packages
// are initialized before it: it imports nothing but the standard library.
package startup

import (
	"runtime"
	"runtime/debug"
)

// Go collects the first time at a heap of 4 MiB. Of the packages of this program, most are initialized after this one,
// and allocate nearly as much: a short command would collect twice, for a third of its CPU time, and then end.
const firstCollection = 300 // in per cent of 4 MiB

// standard is GOGC without this package.
var standard = defaultGOGC

const defaultGOGC = 100

func init() {
	if standard = debug.SetGCPercent(firstCollection); standard != defaultGOGC { // the user has set it
		debug.SetGCPercent(standard)
		return
	}
	runtime.AddCleanup(new([64]byte), func(percent int) { debug.SetGCPercent(percent) }, standard)
}

// End makes the garbage collector work as it does without this package. Without it, that begins after the first
// collection.
func End() { debug.SetGCPercent(standard) }
