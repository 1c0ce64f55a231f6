package httpserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/linesman/linesman/internal/files"
)

// While a server listens it holds the lock of a file in [Config.Served], which is named by its port
// and has its address. So commands send a token to no other user, who may listen there before or
// after it, or at another address of that port.
func servedFile(dir, port string) string { return filepath.Join(dir, "http-"+port) }

// serve makes the file, and returns what removes it: to be called before the server closes its
// listener, because the next one may have the address from then on.
func serve(dir string, at net.Addr) (unserve func(), err error) {
	_, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, ".http-*")
	if err != nil {
		return nil, err
	}
	if err = files.TryLock(f); err == nil {
		if _, err = f.WriteString(at.String()); err == nil {
			err = os.Rename(f.Name(), servedFile(dir, port))
		}
	}
	own, unread := f.Stat()
	if err = errors.Join(err, unread); err != nil {
		_ = os.Remove(f.Name())
		_ = f.Close()
		return nil, err
	}
	return func() {
		if now, err := os.Stat(servedFile(dir, port)); err == nil && os.SameFile(now, own) {
			_ = os.Remove(servedFile(dir, port))
		}
		_ = files.Close(f)
	}, nil
}

// ServedAt returns the address of the server with [Config.Served] that listens on a port.
func ServedAt(dir, port string) (string, error) {
	held, err := files.Held(servedFile(dir, port))
	if err == nil && !held {
		return "", fmt.Errorf("no responder of this version has the data directory %s and the port %s", dir, port)
	}
	var address []byte
	if err == nil {
		address, err = os.ReadFile(servedFile(dir, port))
	}
	if err != nil {
		return "", fmt.Errorf("the responder at the port %s: %w", port, err)
	}
	return string(address), nil
}
