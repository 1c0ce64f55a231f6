package embedded

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A file system in user space counts its blocks in another unit than the one in which it reads and writes.
func TestFreeSpaceIsCountedInTheUnitOfTheFileSystem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		small         bool // the unit is known
		free, reserve uint64
	}{
		{true, 40 << 10, 2000 * 4 << 10 / 20},
		{false, 10 << 20, maxReserve},
	} {
		st := unix.Statfs_t{Bsize: 1 << 20, Blocks: 2000, Bavail: 10}
		if c.small {
			st.Frsize = 4 << 10
		}
		if free, reserve := spaceOf(&st); free != c.free || reserve != c.reserve {
			t.Errorf("with a small unit %v: %d of %d bytes, want %d of %d", c.small, free, reserve, c.free, c.reserve)
		}
	}
}
