// Package pipeline makes EVENTS and RUNS from RAW: it is the shell around the pure
// fold of package normalizer.
//
//	RAW ─▶ session: fold each entry ─┬▶ publisher ─▶ EVENTS   every event names the one before it
//	          ▲                      └▶ cut ───────▶ RUNS     about once a second, behind EVENTS
//	          └── locate ◀── checkpoint, last event
//
// Any number of [Normalizer]s may run; one of them has the lease. A term of office
// begins with what the streams say ([Normalizer.Run] locates the checkpoint and the
// last event), and ends with the first thing that goes wrong: the next term repairs
// it. So nothing that is in memory is needed after a crash, and the fences of the
// streams, not the lease, keep two from writing.
//
// The package reads nothing of what a line means, starts nothing, and keeps no file.
// It stops, with [ErrForeign], where somebody else wrote to EVENTS. [Rebuild] makes
// all of it again beside what is stored, and compares.
package pipeline
