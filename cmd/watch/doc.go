// Package watch reports when a run ends, is lost or stalled, waits for a person, or uses up a
// budget: it runs a command, calls a webhook, or prints lines.
//
//	EVENTS ── completions, in order ──▶ rules ─┐
//	list of open runs, polled ──▶ rules, day ──┴─▶ outbox ──▶ command, webhook or stdout
//	                                               (state file)
//
// Ends are read from the stream, so none is missed while the watcher is away. All else is a
// condition of an open run or of a day, which holds or not whenever it is looked at: a run
// whose worker is dead prints nothing more, and is reported nevertheless.
//
// Delivery is at least once. The state file has the place in the stream, what was reported about
// open runs, and the notices that are not delivered yet, and is replaced as a whole. A notice
// that was delivered right before a kill is delivered again, with the same id.
package watch
