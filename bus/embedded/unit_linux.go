package embedded

import "golang.org/x/sys/unix"

// DiskUnit returns the size of the blocks that a file system counts, in bytes. On Linux the one of file
// systems in user space may be much smaller than the preferred size of reads and writes.
func DiskUnit(st *unix.Statfs_t) uint64 {
	if st.Frsize > 0 {
		return uint64(st.Frsize)
	}
	return uint64(st.Bsize)
}
