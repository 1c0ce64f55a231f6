package worker

import (
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// recordTimes keeps the index of out in the run directory dir until the
// returned function is called. It wakes only when out was written, and at most
// every timesEvery; without notifications it polls, less often while out does
// not grow, and least while people are asked. No error of the index matters to the run.
func recordTimes(dir string) (stop func()) {
	f, err := openOwn(dir+"/"+timesFile, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return func() {}
	}
	w := newTimesWriter(f, maxTimes)
	out := dir + "/" + outFile
	var written <-chan fsnotify.Event
	var lost <-chan error
	watcher := watchOutput(dir)
	if watcher != nil {
		written, lost = watcher.Events, watcher.Errors
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		w.follow(written, lost, quit, func() bool { people, _ := asks(dir, time.Now()); return people },
			func() (size int64, at time.Time, err error) {
				info, err := os.Stat(out)
				if err != nil {
					return 0, at, err
				}
				return info.Size(), info.ModTime(), nil
			})
	}()
	return func() {
		close(quit)
		<-done
		if watcher != nil {
			_ = watcher.Close()
		}
		_ = f.Close()
	}
}

// maxNotified is how many runs of a worker have notifications. Systems limit
// them for all programs of a user together, and agents need them, too.
const maxNotified = 32

// watchOutput watches out in dir, see [runOf]. It returns nil if that is not
// possible, or too many other runs do so.
func watchOutput(dir string) *fsnotify.Watcher {
	if names, _, err := runDirs(filepath.Dir(runOf(dir))); err != nil || len(names) > maxNotified {
		return nil
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil
	}
	if err := watcher.Add(dir + "/" + outFile); err != nil {
		_ = watcher.Close()
		return nil
	}
	return watcher
}

// timesFd is the file of an index.
type timesFd interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
}

// timesWriter writes an index. One goroutine uses it.
type timesWriter struct {
	f       timesFd
	max     int64 // bytes of the file
	records int64
	last    growth
	every   time.Duration // between two records; doubled when the file is full
}

// newTimesWriter continues the index in f. A record that was cut off is
// replaced.
func newTimesWriter(f timesFd, limit int64) *timesWriter {
	w := &timesWriter{f: f, max: limit, every: timesEvery}
	if all, records := w.readAll(); records > 0 {
		w.records = records
		if len(all) > 0 {
			w.last = all[len(all)-1]
		}
	}
	return w
}

// follow adds a record after each notification until quit is closed, or polls
// if written is nil. Lost reports that notifications were lost, calm that little is written.
func (w *timesWriter) follow(written <-chan fsnotify.Event, lost <-chan error, quit <-chan struct{}, calm func() bool,
	stat func() (size int64, at time.Time, err error)) {
	for pause, running := w.every, true; running; {
		before := w.last
		if size, at, err := stat(); err == nil {
			w.note(size, at, time.Now())
		}
		longest := time.Second
		switch pause *= 2; {
		case written != nil || w.last != before:
			pause = w.every
		case pause > longest && calm():
			longest = calmly
		}
		pause = min(pause, max(longest, w.every))
		select {
		case <-quit:
			running = false
		case <-time.After(pause):
		}
		if running && written != nil { // the kernel merges the notifications of the pause
			select {
			case <-quit:
				running = false
			case <-written:
			case _, running = <-lost: // some notifications, not what was written
			}
		}
	}
	if size, at, err := stat(); err == nil {
		w.note(size, at, time.Now())
	}
}

// note records that out has size bytes, the last of them written at. If it was
// truncated, the index begins again.
func (w *timesWriter) note(size int64, at, now time.Time) {
	switch {
	case size == w.last.size:
		return
	case size < w.last.size:
		if w.f.Truncate(0) != nil {
			return
		}
		w.records, w.last = 0, growth{at: w.last.at}
		if size == 0 {
			return
		}
	}
	g := growth{size, min(max(at.UnixMilli(), w.last.at), max(now.UnixMilli(), w.last.at))}
	if (w.records+1)*timeSize > w.max {
		if w.halve(); (w.records+1)*timeSize > w.max {
			return
		}
	}
	if _, err := w.f.WriteAt(g.append(nil), w.records*timeSize); err != nil {
		return // such as a full disk: the next record replaces it
	}
	w.records++
	w.last = g
}

// halve drops every second record, and doubles the time between two. A kill in
// the middle leaves records that do not follow those before, which are ignored.
func (w *timesWriter) halve() {
	w.every *= 2
	all, _ := w.readAll()
	var body []byte
	for i, g := range all {
		if i%2 == 1 || i == len(all)-1 { // the output of a dropped record counts as written later
			body = g.append(body)
		}
	}
	if _, err := w.f.WriteAt(body, 0); err != nil {
		return
	}
	if err := w.f.Truncate(int64(len(body))); err != nil {
		return
	}
	w.records = int64(len(body)) / timeSize
}

// readAll returns the valid records, and the number of all.
func (w *timesWriter) readAll() (all []growth, records int64) {
	body, err := io.ReadAll(io.NewSectionReader(w.f, 0, w.max))
	if err != nil {
		return nil, 0
	}
	var last growth
	for ; len(body) >= timeSize; body = body[timeSize:] {
		records++
		if g, valid := parseGrowth(body); valid && g.follows(last) {
			all, last = append(all, g), g
		}
	}
	return all, records
}
