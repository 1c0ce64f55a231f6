package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/worker"
)

// Free bytes of the data directory's disk below which a check warns or fails.
const (
	littleDisk    = 4 << 30
	tooLittleDisk = 512 << 20
)

// tooFewFiles is how many more files it can have below which the check fails: `up` stores nothing soon.
const tooFewFiles = 2048

func (x *examination) dataDirectory(context.Context) (level, string, string) {
	dir := x.Settings.DataDir
	if err := brokenLink(dir, datadir.RunsDir(dir), filepath.Join(dir, "jetstream")); err != nil {
		return Fail, err.Error(), "mount its disk, or remove the link"
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return warn, dir + " does not exist yet", "`linesman up` makes it"
	case err != nil:
		return Fail, err.Error(), "choose another with --data-dir"
	case !info.IsDir():
		return Fail, dir + " is not a directory", "choose another with --data-dir"
	case unix.Access(dir, unix.W_OK|unix.X_OK) != nil:
		return Fail, dir + " is not writable", "run this as its owner, or choose another with --data-dir"
	}
	for _, secret := range []string{"credentials.json", "token", "linesman.json"} {
		path := filepath.Join(dir, secret)
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			return Fail, path + " can be read by others",
				"chmod 600 it, and make new secrets: remove credentials.json and token, and start again"
		}
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return Fail, fmt.Sprintf("%s: %v", dir, err), "choose another with --data-dir"
	}
	free := int64(disk.Bavail) * int64(embedded.DiskUnit(&disk))
	space := fmt.Sprintf("%s, %s free", dir, gibibytes(free))
	switch {
	case disk.Files > 0 && int64(disk.Ffree) < tooFewFiles:
		return Fail, fmt.Sprintf("%s: its disk has room for %d more files", dir, disk.Ffree), "remove files: see df -i"
	case free < tooLittleDisk:
		return Fail, space, "make room: what agents print can soon not be stored"
	case free < littleDisk:
		return warn, space, "make room, or bound the streams with raw.max_bytes and events.max_bytes"
	case info.Mode().Perm()&0o077 != 0:
		return warn, dir + " is open to others", "chmod 700 it"
	default:
		return fine, space, ""
	}
}

func gibibytes(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// shims looks for agents whose shim is gone, so that nothing enforces their limits.
func (x *examination) shims(context.Context) (level, string, string) {
	const most = 5
	backlog, err := worker.ReadBacklog(datadir.RunsDir(x.Settings.DataDir))
	list := backlog.Unsupervised
	switch {
	case err != nil:
		return warn, fmt.Sprintf("the run directories cannot be read: %v", err), ""
	case len(list) == 0:
		return fine, "no agent here runs without one", ""
	default:
		text := strings.Join(list[:min(len(list), most)], ", ")
		if more := len(list) - most; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		return warn, "killed, and the agent runs without limits: " + text,
			"start `linesman up` or `linesman worker` here, which takes over; " +
				"if one is running, its log says why it does not"
	}
}

// brokenLink returns an error for the first directory that is a symbolic link
// without a target, for example because a disk is not mounted.
func brokenLink(dirs ...string) error {
	for _, dir := range dirs {
		if _, err := os.Readlink(dir); err != nil {
			continue // no link
		}
		if err := worker.CheckDir(dir); err != nil {
			return err
		}
	}
	return nil
}
