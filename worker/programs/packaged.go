package programs

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// Limits of the search for the package of a program.
const (
	maxAbove   = 4       // directories between the file of a program and its package
	maxPackage = 1 << 20 // bytes of package.json
)

// packaged returns the version of the npm package whose program is the file path; "": it is of no such package. It
// starts nothing: an adapter may serve whatever it is asked.
func packaged(path, name string) string {
	path, err := filepath.EvalSymlinks(path)
	for range maxAbove {
		if path = filepath.Dir(path); err != nil {
			return ""
		}
		var p struct{ Name, Version string }
		// Nobody waits for the writer of a FIFO: an agent may put one there.
		if f, err := os.OpenFile(filepath.Join(path, "package.json"), os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
				_ = json.NewDecoder(io.LimitReader(f, maxPackage)).Decode(&p) // one that is not valid is another one's
			}
			_ = f.Close()
		}
		if p.Name == name && runs.CheckVersion(p.Version) == nil {
			return p.Version
		}
	}
	return ""
}
