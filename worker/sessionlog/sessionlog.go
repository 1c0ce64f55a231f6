// Package sessionlog reads the logs that agents keep of their sessions: what they tell about
// tokens, whose sessions they are, and which messages are in several of them. Only numbers and ids
// leave them.
package sessionlog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// Limits of reading.
const (
	MaxBytes = 64 << 20 // of all logs of a session
	maxTail  = 8 << 20  // of a log that tells what a thread has used
	maxHead  = 4 << 20  // of a log that tells whose session it is
	maxLine  = 16 << 20
)

// Open opens a regular file. Anything else is an error; a FIFO does not block it.
func Open(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// ErrUntold reports that a log does not tell yet whose session it is of: its next lines will.
var ErrUntold = errors.New("the log does not tell its session yet")

// Origin returns what a log tells about its session. The error is ErrUntold if it does not tell
// it yet. A log whose first 4 MiB do not tell it has no session; a line that is longer, such as a
// prompt with pictures, does not count.
func Origin(logs agent.Sessions, log io.ReaderAt) (agent.Origin, error) {
	lines := bufio.NewReader(io.NewSectionReader(log, 0, MaxBytes))
	for looked, read := 0, 0; looked < maxHead; {
		line, size, err := bounded(lines, maxHead)
		read += size
		switch {
		case errors.Is(err, io.EOF) && read < MaxBytes:
			return agent.Origin{}, ErrUntold
		case errors.Is(err, io.EOF):
			return agent.Origin{}, nil
		case err != nil:
			return agent.Origin{}, err
		}
		if line == nil {
			continue
		}
		if o, known := logs.Origin(line); known {
			return o, nil
		}
		looked += len(line)
	}
	return agent.Origin{}, nil
}

// bounded reads a line and returns its size. The line is nil if it is longer than a limit.
func bounded(lines *bufio.Reader, limit int) (line []byte, size int, err error) {
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		var piece []byte
		piece, err = lines.ReadSlice('\n')
		if size += len(piece); size <= limit {
			line = append(line, piece...)
		}
	}
	if size > limit {
		line = nil
	}
	return line, size, err
}

// Before returns where the lines of a log between two offsets begin that were written after a time: with the first one
// that tells so, or at from if no line before that tells a time. Tells is false if none does.
func Before(log io.ReaderAt, from, to int64, at time.Time) (begin int64, tells bool, err error) {
	lines := bufio.NewReader(io.NewSectionReader(log, from, to-from))
	for begin = from; ; {
		line, size, err := bounded(lines, maxLine)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, false, err
		}
		written, untold := time.Parse(time.RFC3339, gjson.GetBytes(line, "timestamp").Str)
		later := untold == nil && written.After(at)
		if size == 0 || later {
			if !tells {
				begin = from
			}
			return begin, tells || later, nil
		}
		begin, tells = begin+int64(size), tells || untold == nil
	}
}

// Messages returns the ids of the model's messages in a log; none if there is no log.
func Messages(logs agent.Sessions, path string) (map[string]bool, error) {
	f, _, err := Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ids := make(map[string]bool)
	for lines := bufio.NewReader(io.LimitReader(f, MaxBytes)); ; {
		line, err := lines.ReadBytes('\n')
		if id, _ := logs.Message(line); id != "" {
			ids[id] = true
		}
		if errors.Is(err, io.EOF) {
			return ids, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// Copied returns where the part of a log begins that follows the messages that are known, or that
// say themselves that they are copies, and how much of the log was read for it.
func Copied(logs agent.Sessions, log io.ReaderAt, known map[string]bool) (end, read int64, err error) {
	for lines := bufio.NewReader(io.NewSectionReader(log, 0, MaxBytes)); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, read, nil
		}
		if err != nil {
			return 0, 0, err
		}
		read += int64(len(line))
		switch id, copied := logs.Message(line); {
		case copied, known[id]:
			end = read
		case id != "": // its first own one
			return end, read, nil
		}
	}
}

// Logs are the logs of an agent's sessions.
type Logs struct {
	Agent agent.Agent
	Root  string // directory of the agent, absolute
}

// Printed returns the session that the agent has printed in the beginning of its output, or "".
func (l Logs) Printed(head []byte) string {
	d := l.Agent.Backend.Dialect()
	for line := range bytes.Lines(head) {
		var told normalizer.Out
		if d.Line(bytes.TrimRight(line, "\r\n"), &told); told.Session != "" {
			return strings.Clone(told.Session)
		}
	}
	return ""
}

// Rests reports whether the end of an agent's output says that no turn is in progress. The first line
// may be the end of one. Unless the agent has ended, so may be the last one.
func Rests(b normalizer.Backend, tail []byte, ended bool) bool {
	fold := foldOf(b, tail)
	return (ended || fold.Pending() == 0) && fold.Record.Rests()
}

// State is the final state of a run whose agent ended like ex, after output that ends with tail.
func State(b normalizer.Backend, tail []byte, ex runs.Exit) runs.State {
	fold := foldOf(b, tail)
	fold.Apply(2, runs.Entry{Kind: runs.Exited, Body: runs.EncodeExit(ex)}, func(normalizer.Message) {})
	return fold.Record.State
}

func foldOf(b normalizer.Backend, tail []byte) *normalizer.Fold {
	fold := normalizer.NewFold(b, "T-tail", maxLine)
	fold.Apply(1, runs.Entry{Kind: runs.Out, Body: tail}, func(normalizer.Message) {})
	return fold
}

// quiet is how long nothing was added to a directory whose logs are of no run of today, unless their
// names say otherwise: an agent can have a hundred thousand.
const quiet = 7 * 24 * time.Hour

// each calls f with each log that changed since a time and can be of a session, until it returns an
// error: one that has the id of the session in its path, or that is in a directory that is in use.
// The zero time: only the former.
func (l Logs) each(ctx context.Context, session string, since time.Time, f func(path string) error) error {
	root, err := filepath.EvalSymlinks(l.Root) // a walk does not follow a link
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	used := make(map[string]bool) // directories
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		if !entry.IsDir() && !used[filepath.Dir(path)] && !strings.Contains(path, session) {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case entry.IsDir() && rel != "." && !l.Agent.Sessions.Below(rel):
			return fs.SkipDir
		case !entry.IsDir() && (!entry.Type().IsRegular() || !l.Agent.Sessions.Has(rel)):
			return nil
		}
		info, err := entry.Info()
		switch {
		case err != nil:
			return nil //nolint:nilerr // it has gone
		case entry.IsDir():
			used[path] = !since.IsZero() && info.ModTime().After(since.Add(-quiet))
			return nil
		case info.ModTime().Before(since):
			return nil
		}
		return f(path)
	})
}

// Account returns what a thread has used so far, as the end of its log tells it; nil: it does not.
func (l Logs) Account(ctx context.Context, thread string) (*runs.Account, error) {
	var account *runs.Account
	var newest time.Time
	err := l.each(ctx, thread, time.Time{}, func(path string) error {
		if !strings.Contains(filepath.Base(path), thread) {
			return nil
		}
		f, info, err := Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if info.ModTime().Before(newest) {
			return nil
		}
		size := info.Size()
		from := max(size-maxTail, 0)
		// The first line may be the end of one: then it is an error in a record that nobody sees.
		record, err := l.fold(ctx, io.NewSectionReader(f, from, size-from), time.Time{}, nil)
		if a := record.Account(); err == nil && a.Usage != (runs.Usage{}) {
			account, newest = &a, info.ModTime()
		}
		return err
	})
	return account, err
}

// Used returns the sum of what the logs of a session tell that was used since a time, and
// whether there is one. The sum is what was read before an error.
func (l Logs) Used(ctx context.Context, session string, since time.Time) (sum runs.Logged, found bool, err error) {
	var own, subs []string
	err = l.each(ctx, session, since.Add(-time.Second), func(path string) error {
		f, _, err := Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		switch o, err := Origin(l.Agent.Sessions, f); {
		case err != nil && !errors.Is(err, ErrUntold):
			return err
		case o.Session != session:
		case o.Sub:
			subs = append(subs, path)
		default:
			own = append(own, path)
		}
		return nil
	})
	left, counted := int64(MaxBytes), make(map[string]bool)
	add := func(part **runs.Usage, path string) error {
		f, info, err := Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if left -= info.Size(); left < 0 {
			return errLong
		}
		record, err := l.fold(ctx, f, since, counted)
		if used := record.Spent().Total; used != nil {
			*part = new(used.Plus(*part))
		}
		return err
	}
	for _, path := range own {
		if sum.Own == nil {
			sum.Own = new(runs.Usage)
		}
		err = errors.Join(err, add(&sum.Own, path))
	}
	for _, path := range subs { // they may repeat messages of the others
		err = errors.Join(err, add(&sum.Subagents, path))
	}
	found = len(own)+len(subs) > 0
	sum.All = l.Agent.Sessions.Complete && sum.Own != nil && err == nil
	return sum, found, err
}

var errLong = errors.New("the logs of the session are too long")

// fold returns the record of the lines of a log that were written since a time, without messages
// that were counted in another log.
func (l Logs) fold(ctx context.Context, log io.Reader, since time.Time, counted map[string]bool) (
	*runs.Record, error) {
	here := make(map[string]bool)
	defer func() { maps.Copy(counted, here) }()
	fold := normalizer.NewFold(l.Agent.Backend, "T-log", maxLine)
	lines := bufio.NewScanner(log)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	offset := int64(0)
	for seq := uint64(1); lines.Scan() && ctx.Err() == nil; seq++ {
		line := lines.Bytes()
		at, err := time.Parse(time.RFC3339, gjson.GetBytes(line, "timestamp").Str)
		if err == nil && at.Before(since) {
			continue
		}
		if message := l.Agent.Sessions.Message; message != nil && counted != nil {
			id, _ := message(line)
			if counted[id] {
				continue
			}
			here[id] = id != ""
		}
		line = append(line, '\n')
		fold.Apply(seq, runs.Entry{Kind: runs.Out, Offset: offset, Body: line}, func(normalizer.Message) {})
		offset += int64(len(line))
	}
	return fold.Record, errors.Join(lines.Err(), ctx.Err())
}
