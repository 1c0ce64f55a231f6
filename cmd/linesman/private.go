package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// private refuses a data directory that others can write or own, and one in which runs
// or the streams are links to such a directory. Who can put files
// there says which server gets the passwords, and which programs are run as
// its owner. One that is not there yet is made so that they cannot. A group
// that has the number of the user is the user's own, as many systems make one.
func private(data string) error {
	if err := closed(data); err != nil {
		return err
	}
	for _, name := range []string{"runs", "jetstream"} {
		if err := closed(filepath.Join(data, name)); err != nil {
			return err
		}
	}
	return nil
}

// closed refuses a directory, links resolved, that others can write: by its
// mode, or as its owner, who can change that. Root can write anywhere.
func closed(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return nil // it is not there yet, or whoever needs it says what is wrong
	}
	others := fs.FileMode(0o022)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		if owner := int(stat.Uid); owner != 0 && owner != os.Getuid() {
			return fmt.Errorf("data_dir: user %d owns %s, and could have programs run as you; run this as that user, or `chown` it and look at what is in it", owner, dir)
		}
		if int(stat.Gid) == os.Getuid() {
			others = 0o002
		}
	}
	if info.Mode().Perm()&others != 0 {
		return fmt.Errorf("data_dir: others can write to %s, and could have programs run as you; `chmod go-w` it, and look at what is in it", dir)
	}
	return nil
}
