package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Where a Linux system has a file system in memory. As much as [enough] must be free there; tests
// use a tenth of that.
const memory = "/dev/shm"

// inMemory returns a directory in memory for the temporary files of tests, which takes a fifth off
// their time: most of them create and sync many small files. "" if there is none of that size, or
// TMPDIR is set. The directory is the same each time, because go test runs a test again whose
// TMPDIR has changed.
func inMemory() string {
	if os.Getenv("TMPDIR") != "" || isSmall() {
		return ""
	}
	dir := filepath.Join(memory, fmt.Sprintf("linesman-%d", os.Getuid()))
	if !suits(memory) || os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	var of unix.Stat_t // everybody may create names there
	if unix.Lstat(dir, &of) != nil || of.Mode != unix.S_IFDIR|0o700 || int(of.Uid) != os.Getuid() {
		return ""
	}
	removeOld(dir)
	return dir
}

func suits(dir string) bool {
	var of unix.Statfs_t
	return unix.Statfs(dir, &of) == nil && of.Type == unix.TMPFS_MAGIC && of.Flags&unix.ST_NOEXEC == 0 &&
		of.Bavail*uint64(of.Bsize) >= enough
}

// removeOld removes what runs have left that were killed.
func removeOld(dir string) {
	left, _ := os.ReadDir(dir)
	for _, entry := range left {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(filepath.Join(dir, entry.Name())) // else it stays
		}
	}
}
