package worker

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// listen returns the commands from the FIFO at path, and a function that stops
// listening. The FIFO is also open for writing, so reads never return EOF.
func listen(path string) (<-chan byte, func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	commands, quit, done := make(chan byte), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var buf [64]byte
		for {
			n, err := f.Read(buf[:])
			if err != nil {
				return
			}
			for _, c := range buf[:n] {
				select {
				case commands <- c:
				case <-quit:
					return
				}
			}
		}
	}()
	return commands, func() {
		close(quit)
		if f.SetReadDeadline(time.Now()) != nil { // FIFOs have no deadlines on this system
			_, _ = f.Write([]byte{ctlQuit})
		}
		<-done
		f.Close()
	}, nil
}

// closeInherited closes descriptors that the parent process leaked. Our own
// files are all marked close-on-exec.
func closeInherited() error {
	dir, err := os.Open("/dev/fd")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
	return nil
}
