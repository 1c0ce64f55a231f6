package local

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CheckOwner rejects a data directory that other users own or can write, and one
// whose runs or jetstream is a symbolic link to such a directory. A user who can
// write there selects the server that receives the passwords, and the programs
// that run as the owner. A missing directory is valid: it will be created
// without these permissions. A group whose ID is that of the user is the user's
// private group.
func CheckOwner(data string) error {
	for _, dir := range []string{data, RunsDir(data), filepath.Join(data, "jetstream")} {
		if err := checkWriters(dir); err != nil {
			return err
		}
	}
	return nil
}

// checkWriters rejects a directory, symbolic links resolved, that other users
// can write because of its mode, or own, which lets them change the mode. Root
// can write anywhere.
func checkWriters(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return nil // it is missing, or the code that needs it reports the error
	}
	others := fs.FileMode(0o022)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		if owner := int(stat.Uid); owner != 0 && owner != os.Getuid() {
			return fmt.Errorf("data_dir: user %d owns %s, and could have programs run as you; "+
				"run this as that user, or `chown` it and look at what is in it", owner, dir)
		}
		if int(stat.Gid) == os.Getuid() {
			others = 0o002
		}
	}
	if info.Mode().Perm()&others != 0 {
		return fmt.Errorf("data_dir: others can write to %s, and could have programs run as you; "+
			"`chmod go-w` it, and look at what is in it", dir)
	}
	return nil
}
