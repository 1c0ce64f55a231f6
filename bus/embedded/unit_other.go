//go:build !linux

package embedded

import "golang.org/x/sys/unix"

// DiskUnit returns the size of the blocks that a file system counts, in bytes.
func DiskUnit(st *unix.Statfs_t) uint64 { return uint64(st.Bsize) }
