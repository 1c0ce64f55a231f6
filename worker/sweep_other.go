//go:build !linux

package worker

import "golang.org/x/sys/unix"

// becomeReaper does nothing on this system: descendants that leave the process
// group are not found.
func becomeReaper() error { return nil }

func groupAlive(group int) bool { return unix.Kill(-group, 0) == nil }

// signalChildren does nothing on this system: the only child is the agent, which
// is signalled with its group.
func signalChildren(unix.Signal) {}

// Start times are absolute on this system.
func bootID() string { return "" }

// Environments and open files of other processes cannot be read on this
// system.
func hasVariable(int, string) (bool, error)  { return false, nil }
func writesOutput(int, string) (bool, error) { return false, nil }
func isShim(int, string) bool                { return false }
