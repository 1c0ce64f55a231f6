// Package pipeline derives EVENTS and RUNS from RAW: it is the shell around the pure
// fold of package normalizer.
//
//	RAW ─▶ session: fold each entry ─┬▶ publisher ─▶ EVENTS   every event names the previous one
//	▲                      └▶ cut ───────▶ RUNS     about once a second, behind EVENTS
//	└── locate ◀── checkpoint, last event
//
// Any number of [Normalizer]s may run; one of them holds the lease. A term starts by
// locating the checkpoint and the last event in the streams, and ends with the first
// error; the next term repairs it. So recovery needs nothing from memory, and the
// fences of the streams, not the lease, exclude concurrent writers.
//
// The package does not interpret lines, starts no processes, and writes no files. It
// stops with [ErrForeign] if another program wrote to EVENTS. [Rebuild] derives
// everything again with a session that writes no events, and compares them with EVENTS, which
// is in the same order.
package pipeline
