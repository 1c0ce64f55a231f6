package programs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
)

// Limits of what is remembered.
const (
	maxKnown = 64             // programs
	maxFile  = 64 << 10       // bytes of the file
	maxAge   = 24 * time.Hour // then a program is asked again: its file may start another one
)

// Versions remembers the versions of programs by their files, so that a program is asked
// again only when its file has changed, or after a day. It asks nothing but the agents'
// own programs. Its methods may be called from several goroutines.
type Versions struct {
	// File keeps what is remembered for the next process. Processes that write it at the
	// same time may each lose what the other one learned. "": nothing is kept.
	File string

	mu    sync.Mutex
	read  bool // the file was read
	known map[string]answer
}

// answer is what a program said.
type answer struct {
	File    string `json:"file"` // the path with links resolved
	Size    int64  `json:"size"`
	Changed int64  `json:"changed_ns"`
	Version string `json:"version,omitempty"` // "": it did not say
	Late    bool   `json:"late,omitempty"`    // it did not end in time
	Asked   int64  `json:"asked"`             // Unix milliseconds
}

// asked returns the answer of a program that says v now.
func asked(path, v string) (answer, error) {
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return answer{}, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return answer{}, err
	}
	return answer{
		File: file, Size: info.Size(), Changed: info.ModTime().UnixNano(), Version: v, Asked: time.Now().UnixMilli(),
	}, nil
}

// holds reports whether the file is unchanged since a was recorded, and a is not too old.
// b describes the file now.
func (a answer) holds(b answer) bool {
	age := time.Duration(b.Asked-a.Asked) * time.Millisecond
	limit := maxAge
	if a.Late {
		limit = time.Minute
	}
	return a.File == b.File && a.Size == b.Size && a.Changed == b.Changed && 0 <= age && age < limit
}

// Of returns the version of a program, "" if it is not known. Learn is false if it would learn
// nothing.
func (v *Versions) Of(p Program) (version string, learn bool) {
	if !p.Own {
		return "", false
	}
	now, err := asked(p.Path, "")
	if err != nil {
		return "", false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.readOnce()
	if a, ok := v.known[p.Path]; ok && a.holds(now) {
		return a.Version, false
	}
	return "", true
}

// Learn asks a program for its version, unless it is known, and waits at most for limit. It
// also remembers that a program did not say it, unless ctx has ended; of one that was too slow
// for a minute only.
func (v *Versions) Learn(ctx context.Context, p Program, limit time.Duration) {
	if _, learn := v.Of(p); !learn {
		return
	}
	a, err := asked(p.Path, "") // before it is started: if it changes meanwhile it is asked again
	if err != nil {
		return
	}
	a.Version, err = p.Version(ctx, limit)
	if ctx.Err() != nil {
		return
	}
	a.Late = errors.Is(err, errLate)
	v.mu.Lock()
	defer v.mu.Unlock()
	for path, other := range v.load() { // what other processes have learned
		if other.Asked > v.known[path].Asked {
			v.known[path] = other
		}
	}
	v.known[p.Path] = a
	for len(v.known) > maxKnown {
		delete(v.known, slices.MinFunc(slices.Collect(maps.Keys(v.known)), func(a, b string) int {
			return cmp.Compare(v.known[a].Asked, v.known[b].Asked)
		}))
	}
	_ = v.save() // else the next process asks again
}

func (v *Versions) save() error {
	if v.File == "" {
		return nil
	}
	b, err := json.Marshal(v.known)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(v.File), 0o700); err != nil {
		return err
	}
	return files.Replace(v.File, ".tmp-versions-*", b)
}

// readOnce reads the file, unless that was done.
func (v *Versions) readOnce() {
	if !v.read {
		v.read, v.known = true, v.load()
	}
}

// load reads the file. What is not valid in it counts as not known.
func (v *Versions) load() map[string]answer {
	known := map[string]answer{}
	f, err := os.Open(v.File)
	if err != nil {
		return known
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil || len(b) > maxFile || json.Unmarshal(b, &known) != nil || known == nil {
		return map[string]answer{}
	}
	maps.DeleteFunc(known, func(_ string, a answer) bool { return a.Version != "" && runs.CheckVersion(a.Version) != nil })
	return known
}
