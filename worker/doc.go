// Package worker starts coding agents, follows their output or the files of
// other programs, and appends the bytes to the raw log of each run.
//
// All output goes through files that grow. An agent writes its stdout and
// stderr to files in its run directory. A small shim process, one per run,
// starts the agent at most once, enforces its limits and records its exit. The
// worker follows the files:
//
//	agent ──▶ out, err ──▶ Run.Drive ──▶ Log
//	  ▲         (files)
//	Shim ──▶ exit.json
//
// A worker can be killed at any point. The agent continues, and the next
// worker that opens the run directory resumes at the end of the raw log: the
// log decides, not the memory of a process. File locks, not process IDs, tell
// whether a worker, a shim or an agent is alive. Only the processes of a run
// whose shim was killed are found by process ID, together with more evidence:
// see members. An agent can write exit.json too, so the shim signs its record:
// see sealedExit.
//
// The package does not parse lines and does not use NATS: it writes through
// the small interfaces [logs] and [Log].
package worker
