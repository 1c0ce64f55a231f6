package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/internal/files"
)

// A live run has a directory for each of its processes, p1 for the first one. It
// has the files of an agent and its shim, and those that feed the agent:
//
//	RAW ──▶ in ──shim──▶ stdin, which the agent itself holds open
//	              └───▶ fed

// processDir returns the path of the directory of the process n of a live run.
func (d *Dir) processDir(n int) string { return d.file("p" + strconv.Itoa(n)) }

// makeProcess makes the directory of the process n of a live run, unless it
// exists. It appears complete or not at all. The process before must have ended,
// and its exit must have been read: no key of its shims is valid any more.
func (d *Dir) makeProcess(n int) error {
	path := d.processDir(n)
	if exists(path) {
		return nil
	}
	d.mark.Keys = nil
	err := d.mark.save()
	at := d.file(newPrefix + filepath.Base(path))
	if err == nil {
		err = os.RemoveAll(at)
	}
	if err == nil {
		err = makeProcessFiles(at)
	}
	if err == nil {
		err = os.Rename(at, path)
	}
	if err == nil {
		err = files.SyncDir(d.path) // else after a power failure the process could start again
	}
	if err != nil {
		return fmt.Errorf("make directory of process %d: %w", n, err)
	}
	return nil
}

func makeProcessFiles(at string) error {
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	for _, name := range []string{ctlFile, stdinFile} {
		if err := unix.Mkfifo(filepath.Join(at, name), 0o600); err != nil {
			return fmt.Errorf("make fifo: %w", err)
		}
	}
	return errors.Join(
		writeFile(filepath.Join(at, inFile), nil, false),
		writeFile(filepath.Join(at, fedFile), newFed(), false),
		files.SyncDir(at),
	)
}

// send makes the bytes of body those of the file in at the offset at, unless it has
// them, and tells the shim. All bytes before must be there. After an error, or a
// kill, another call completes it; a line is fed once its newline is there.
func (s *spawned) send(at int64, body []byte) error {
	f, err := openOwn(s.file(inFile), os.O_WRONLY)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		switch have := info.Size() - at; {
		case have < 0:
			err = fmt.Errorf("%s: %d bytes are missing before offset %d", inFile, -have, at)
		case have < int64(len(body)):
			_, err = f.WriteAt(body[have:], at+have)
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	_ = sendCommand(s.path, ctlFeed) // if no shim is listening, the next one finds the lines
	return nil
}

// runOf returns the run directory of the agent that has its files in dir: dir
// itself, or, of a process of a live run, the directory above.
func runOf(dir string) string {
	if run := filepath.Dir(dir); !exists(filepath.Join(dir, specFile)) && exists(filepath.Join(run, specFile)) {
		return run
	}
	return dir
}

// specOf reads the spec of the run of an agent, see [runOf].
func specOf(dir string) (Spec, error) {
	run := runOf(dir)
	spec, err := readSpec(run)
	if err == nil && spec.Live != (run != dir) {
		err = fmt.Errorf("%w of a process", errBad)
	}
	return spec, err
}
