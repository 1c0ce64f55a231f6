//go:build !linux

package worker

import "golang.org/x/sys/unix"

// becomeReaper has no counterpart here: a descendant that leaves the process
// group is not found again.
func becomeReaper() error { return nil }

func groupAlive(group int) bool { return unix.Kill(-group, 0) == nil }

// killChildren kills nothing here: the only child is the agent, which got its
// signals with its group.
func killChildren() {}

// Start times are absolute here, so they need no boot ID.
func bootID() string { return "" }

// Neither the environment nor the open files of others can be asked for here.
func hasVariable(int, string) (has, read bool) { return false, true }
func writes(int, string) (does, listed bool)   { return false, true }
