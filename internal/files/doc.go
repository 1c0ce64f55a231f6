// Package files locks files, and writes small ones so that readers and crashes see
// them complete or not at all.
//
// # Locks
//
// Locks are advisory, with flock(2), which the kernel releases when the last process
// that has the open file closes it or ends. The package makes, opens and removes no
// lock files, except that [Held] opens one for the moment of the check.
//
// A lock belongs to the open file description, and a child process that is being
// started has a copy of every descriptor until its exec. Closing a locked file would
// leave the lock with that copy: release a lock with [Close].
//
// # Writing
//
// The content goes to a temporary file in the same directory, which is synced, moved
// to its final name, and made durable by a sync of the directory:
//
//	temporary file ─▶ fsync ─▶ rename or link ─▶ fsync of the directory
//
// All files have the mode 0600. A process that is killed can leave the temporary
// file; callers that write often choose a pattern by which they can remove it.
package files
