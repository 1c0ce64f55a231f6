// Package worker runs coding agents, or reads what others wrote, and puts the
// bytes into the raw log of each run.
//
// Everything is a file that grows. An agent writes its stdout and stderr to
// files in its run directory; a small shim process, one a run, starts the
// agent at most once, holds it to its limits and records how it ended; the
// worker follows the files:
//
//	agent ──▶ out, err ──▶ Run.Drive ──▶ Log
//	  ▲         (files)
//	Shim ──▶ exit.json
//
// So a worker may die at any point. The agent goes on, and the next worker
// that finds the directory goes on where the raw log ends: it asks the log,
// never its own memory. Who lives is asked of locks, never of process ids.
// Only the processes of a run whose shim was killed are known by theirs, with
// more evidence: see members. An agent can write exit.json as well, so what a
// shim records there is signed: see sealedExit.
//
// The package does not know what a line means and it does not know NATS: it
// writes through the small interfaces [Logs] and [Log].
package worker
