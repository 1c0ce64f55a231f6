//go:build !linux

package worker

// Open files of other processes are not known here.
func openForWriting(string) map[string]bool { return nil }
func pidNamespace() string                  { return "" }
