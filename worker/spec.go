package worker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// specVersion is the version of run.json that this package writes and reads.
const specVersion = 2

// Spec describes a run. It is the content of run.json, which is written with
// the run directory and never changed.
type Spec struct {
	Version int    `json:"version"` // [SpecVersion]; set by Create
	Run     string `json:"run"`     // run id, see [runs.CheckID]
	Source  string `json:"source"`  // one of the Source constants of package runs
	runs.Attributes
	Created int64 `json:"created"` // Unix milliseconds; set by Create when 0

	// The process to start, for runs.SourceRun and runs.SourceQueue. Argv[0] is looked up on
	// the PATH of Env. Dir must be absolute. A nil Env means the environment of the
	// worker that starts the agent; any other is stored in run.json, which only its
	// owner can read, until the run has ended.
	Argv []string `json:"argv,omitempty"`
	Env  []string `json:"env"`
	// Keys are names of variables with credentials that Create takes out of Env: their values are in
	// no file. The agent gets those of Env if the process that created the run starts it, else those
	// of the environment of the worker that does.
	Keys        []string `json:"keys,omitempty"`
	credentials []string // as NAME=value
	// Withheld are credentials that the agent does not get, although they are set; nil: none.
	Withheld *runs.Withheld `json:"withheld,omitempty"`

	// The queue of a runs.SourceQueue, and the position of the task in it.
	Queue string `json:"queue,omitempty"`
	Work  uint64 `json:"work,omitempty"`

	// Input is what the agent reads on stdin, at most MaxInput bytes: Create copies it into a file of the
	// directory, which is then Stdin. Nil or empty: nothing.
	Input io.Reader `json:"-"`
	Stdin bool      `json:"stdin,omitempty"`
	// Prompt is the beginning of a prompt in Input: see [runs.Start].
	Prompt      string `json:"prompt,omitempty"`
	PromptBytes int    `json:"prompt_bytes,omitempty"`

	// Live says that the run is a conversation: its agent reads lines on stdin until it is ended, and
	// may be started again. Each process has a directory of its own, see [Dir.makeProcess].
	Live bool `json:"live,omitempty"`
	Ask  bool `json:"ask,omitempty"` // see [runs.Task]
	// Keep says that the run goes on after a turn, until somebody ends it. Limits.Hard is then of a turn.
	Keep bool `json:"keep,omitempty"`
	// Policy are the rules for what it asks, see [acp.ParseRule].
	Policy []string `json:"policy,omitempty"`
	Always bool     `json:"always,omitempty"` // see [runs.Start]
	// Narrows are those of its task.
	Narrows []string `json:"narrows,omitempty"`

	// AddDirs are the further directories of a live run: the others have them in their command line.
	AddDirs []string `json:"add_dirs,omitempty"`

	Unboxed bool     `json:"unboxed,omitempty"` // see [runs.Start]
	Flags   []string `json:"flags,omitempty"`   // see [runs.Start]

	// Schema is stored in a file of the directory, for the agent: see [schemaPath].
	Schema json.RawMessage `json:"schema,omitempty"`

	// Attended marks a run of a command in the foreground. If that command is
	// killed before the agent was started, the agent is never started: the run ends
	// as lost.
	Attended bool `json:"attended,omitempty"`

	// File is the file of a runs.SourceTail, and Part the part of it that the run holds:
	// nil for a file that is followed until it is gone.
	File *file `json:"file,omitempty"`
	Part *part `json:"part,omitempty"`
	// Session says that File is the log of a session, which is followed until it is
	// silent.
	Session *session `json:"session,omitempty"`

	Limits Limits `json:"limits"`
}

// file identifies a file that may be renamed, removed and replaced. Device and
// inode tell whether Path still names the same file. The first bytes, stored
// in the mark of the run, detect a reused inode.
type file struct {
	Path string `json:"path"` // absolute
	inode
}

// inode identifies a file on this machine.
type inode struct {
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
}

// part is a byte range of a file, without the byte at To.
type part struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// session is the part of the log of a session that a run holds.
type session struct {
	From   int64         `json:"from"`             // offset in the file where the run begins
	Idle   time.Duration `json:"idle_ns"`          // the run ends when the file has not changed for this time
	Log    string        `json:"log,omitempty"`    // which log it is, wherever the file is
	Person bool          `json:"person,omitempty"` // a person sits at the agent
}

// shownSource is the [runs.Start.Source] of the run.
func (s *Spec) shownSource() string {
	if s.Session != nil {
		return runs.SourceSession
	}
	return s.Source
}

// fileOf returns the identity of the file at path, from its info.
func fileOf(path string, info fs.FileInfo) file {
	f := file{Path: path}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		f.inode = inode{uint64(st.Dev), uint64(st.Ino)}
	}
	return f
}

// is reports whether info describes the file.
func (f *file) is(info fs.FileInfo) bool { return fileOf(f.Path, info) == *f }

// Limits are the limits of a run.
type Limits struct {
	Idle time.Duration `json:"idle_ns,omitempty"` // terminate an agent that writes nothing for this time; 0: no limit
	Hard time.Duration `json:"hard_ns,omitempty"` // terminate an agent that runs for this time; 0: no limit

	// Grace is the time between SIGTERM and SIGKILL. Default 5 s.
	Grace time.Duration `json:"grace_ns"`
	// Linger is how long processes that the agent left may hold its stdout without
	// writing to it. Default 60 s.
	Linger time.Duration `json:"linger_ns"`
	// Finish is how long an agent may print nothing after its final result before it is ended; 0:
	// no limit. Where the dialect is not known, there is none.
	Finish time.Duration `json:"finish_ns,omitempty"`
	// Answer is how long people may take to answer a question; 0: no limit. Meanwhile Idle and Hard stand still.
	Answer time.Duration `json:"answer_ns,omitempty"`
	// Rest is how long a run that is kept may have no turn before it is ended; 0: no limit.
	Rest time.Duration `json:"rest_ns,omitempty"`
	// Sleep is after how long without a turn its process is ended; 0: never. The next message starts another one.
	Sleep time.Duration `json:"sleep_ns,omitempty"`
	// Keep lets processes run that the agent left and that do not hold its stdout.
	Keep bool `json:"keep,omitempty"`
	// Spool is how many bytes a run may write. Default 1 GiB. Of what it writes beyond
	// that until it is ended, overshoot bytes of stdout are published.
	Spool int64 `json:"spool"`
}

// overshoot is more than most agents write before the shim has noticed.
const overshoot = 16 << 20

// hideCredentials moves variables with credentials from Env to Keys.
func (s *Spec) hideCredentials() {
	if s.Env == nil {
		return
	}
	s.credentials, s.Env = launch.Credentials(s.Env)
	for _, v := range s.credentials {
		name, _, _ := strings.Cut(v, "=")
		s.Keys = append(s.Keys, name)
	}
}

// ofProcess are the limits of a process of the agent.
func (s *Spec) ofProcess() Limits {
	l := s.Limits
	if s.Keep {
		l.Hard = 0 // is of a turn
	}
	return l
}

// process reports whether the run has an agent process.
func (s *Spec) process() bool { return s.Source == runs.SourceRun || s.Source == runs.SourceQueue }

// derived reports whether the id of the run says what it holds: a raw log with it, whose
// directory is gone, is that of the same run.
func (s *Spec) derived() bool { return s.Part != nil || s.Session != nil }

// durable reports whether the run directory must survive a power failure. That
// of an import need not: the file still exists, and the raw log knows the run.
func (s *Spec) durable() bool { return s.Part == nil }

func (s *Spec) setDefaults(now time.Time) {
	s.Version = specVersion
	s.Created = cmp.Or(s.Created, now.UnixMilli())
	s.Limits.Grace = cmp.Or(s.Limits.Grace, 5*time.Second)
	s.Limits.Linger = cmp.Or(s.Limits.Linger, time.Minute)
	s.Limits.Spool = cmp.Or(s.Limits.Spool, 1<<30)
}

// check reports all invalid fields of s.
func (s *Spec) check() error {
	errs := []error{runs.CheckID(s.Run), runs.CheckAgent(s.Agent), s.Labels.Check()}
	fail := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if s.Version != specVersion {
		fail("version: must be %d, got %d", specVersion, s.Version)
	}
	switch s.Source {
	case runs.SourceRun, runs.SourceQueue:
		if len(s.Argv) == 0 || s.Argv[0] == "" {
			fail("argv: must not be empty")
		}
		if !filepath.IsAbs(s.Dir) {
			fail("workingDir: must be an absolute path")
		}
	case runs.SourcePipe:
	case runs.SourceTail:
		if s.File == nil || !filepath.IsAbs(s.File.Path) {
			fail("file: must be an absolute path")
		}
		if p := s.Part; p != nil && (p.From < 0 || p.To < p.From) {
			fail("part: must not end before it begins, got %d to %d", p.From, p.To)
		}
		if p := s.Session; p != nil && (p.From < 0 || p.Idle <= 0 || s.Part != nil) {
			fail("session: must begin in the file and have an idle time, got %+v", *p)
		}
	default:
		fail("source: must be run, queue, pipe or tail, got %q", s.Source)
	}
	if s.Keep && !s.Live {
		fail("keep: only with live")
	}
	if s.Live && !s.process() {
		fail("live: must have a process")
	}
	for name, d := range map[string]time.Duration{
		"idle": s.Limits.Idle, "hard": s.Limits.Hard, "grace": s.Limits.Grace, "linger": s.Limits.Linger,
	} {
		if d < 0 {
			fail("%s: must not be negative, got %v", name, d)
		}
	}
	if s.Limits.Spool < 0 {
		fail("spool: must not be negative, got %d", s.Limits.Spool)
	}
	return errors.Join(errs...)
}
