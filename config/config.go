// Package config holds the settings of linesman: one struct, one table of what
// each setting is called, means and accepts, and one precedence: flags over
// LINESMAN_* environment variables over a TOML file over the defaults.
//
// It knows nothing of the rest of linesman. It reads the TOML file it is told
// to read and nothing else: no environment, no other file, no clock.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Config is every setting, validated, after [Load].
type Config struct {
	// NATS is the server's URL, or several with commas between them. Empty
	// means the server that `linesman up` runs on this data directory.
	NATS string
	// Creds is the path of a NATS credentials file for the inside account, or
	// of a directory with the keys of both accounts; empty for what the data
	// directory holds.
	Creds string
	// PublicCreds is the path of a credentials file for the public account,
	// that of the events. Empty means the same connection as Creds, which is
	// weaker: one account can read the raw lines.
	PublicCreds string
	// DataDir is where this machine keeps its files. Absolute after [Load].
	DataDir string
	// Prefix is the first token of every subject, and in capitals of every
	// stream, so that two installations can share an account.
	Prefix string
	// LogLevel is debug, info, warn or error.
	LogLevel string
	// LogFormat is console or json.
	LogFormat string
	// NATSListen is the host:port of the embedded server; port 0 takes a free
	// one.
	NATSListen string
	// HTTP is the host:port that MCP and the health checks are served on; port
	// 0 takes a free one.
	HTTP string
	// LostAfter is how long a worker may be silent before it counts as gone.
	LostAfter time.Duration
	// StuckAfter is how long a run whose worker is gone may give no sign
	// before it is ended as lost.
	StuckAfter time.Duration
	// IdempotencyTTL is how long the outcome of a request with an idempotency
	// key is remembered: one hour to seven days.
	IdempotencyTTL time.Duration
	// Environments is the path of the file that lists cloud environments.
	// Absolute after [Load].
	Environments string
	// MaxLineBytes is the longest line that is still parsed, 64 KiB to 64 MiB.
	// A longer one becomes one Error event; RAW keeps it whole all the same.
	MaxLineBytes Size
	// Scrub replaces what has the form of a secret in texts and messages of
	// events by [REDACTED:kind].
	Scrub bool
	// Replicas of every stream, 1 or 3.
	Replicas int

	Raw    Retention // what agents wrote, as they wrote it
	Events Retention // the public event stream
	Runs   Retention // the run table
	Spool  Spool
	Limits Limits
	Work   Work
	Agents Agents
	Push   Push

	Background Background
}

// Background is about the `linesman up` that other commands start.
type Background struct {
	// Start lets a command that needs a server and finds none start one.
	Start bool
	// Idle is how long that one stays without a run, a task or a client; 0
	// means for ever.
	Idle time.Duration
}

// Push is about notifications: where callers want to be told of runs.
type Push struct {
	// AllowPrivate lets in receivers on private networks and this machine, and
	// ones without TLS.
	AllowPrivate bool
	// GiveUp is how long a notification is tried: one minute to 72 hours.
	GiveUp time.Duration
}

// Work is about tasks that were submitted, not about `linesman run`.
type Work struct {
	// Queue is the name of the work queue: where a responder submits, and what
	// a worker takes.
	Queue string
	// MaxRuns is how many tasks a worker runs at a time; 0 takes none.
	MaxRuns int
	// Idle and Hard are the limits of a task that asks for none; MaxLimit is
	// the most that it may ask for.
	Idle, Hard, MaxLimit time.Duration
	// Roots are the directories in which tasks may work, absolute after
	// [Load]. None means where the worker was started, and the user's home.
	Roots List
	// Danger allows tasks without a sandbox.
	Danger bool
	// GitGate refuses tasks whose text names a git command that may lose work,
	// unless the caller allows it.
	GitGate bool
}

// Agents says how each kind of agent is started.
type Agents struct {
	Codex Agent
}

// Agent is how one kind of agent is started for a task.
type Agent struct {
	// Command is the program, looked up on the worker's PATH, and what comes
	// before our own arguments.
	Command List
	// Env are names of environment variables that every task gets.
	Env List
}

// List is a list of texts: an array in a file, and elsewhere texts with commas
// between them, or an array in JSON.
type List []string

// String is the list as a flag or the environment would say it.
func (l List) String() string {
	plain := func(s string) bool {
		return s != "" && s == strings.TrimSpace(s) && !strings.Contains(s, ",") && s[0] != '['
	}
	for _, s := range l {
		if !plain(s) {
			b, err := json.Marshal([]string(l))
			if err != nil { // strings cannot fail
				return ""
			}
			return string(b)
		}
	}
	return strings.Join(l, ",")
}

// parse reads what String writes.
func (l *List) parse(text string) string {
	*l = nil
	if strings.HasPrefix(text, "[") {
		if json.Unmarshal([]byte(text), (*[]string)(l)) != nil {
			return "not an array of strings in JSON"
		}
		return ""
	}
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			*l = append(*l, one)
		}
	}
	return ""
}

// Retention says how long a stream keeps what it holds.
type Retention struct {
	// MaxAge is how old a message gets. Positive.
	MaxAge time.Duration
	// MaxBytes is how large the stream gets; 0 means a share of the free disk.
	MaxBytes Size
}

// Spool bounds what a run keeps on the worker's disk.
type Spool struct {
	// MaxBytes of output that NATS has not yet taken, per run. At the bound
	// the run is ended.
	MaxBytes Size
}

// Limits of one agent run.
type Limits struct {
	// Grace is the time between SIGTERM and SIGKILL. Positive.
	Grace time.Duration
	// Idle ends a run that has printed nothing for so long; 0 means never.
	Idle time.Duration
	// Hard ends a run so long after its start; 0 means never.
	Hard time.Duration
}

// Default returns the settings as they are when nobody says anything.
func Default() Config {
	return Config{
		Prefix:       "linesman",
		LogLevel:     "info",
		LogFormat:    "console",
		NATSListen:   "127.0.0.1:4222",
		MaxLineBytes: 8 << 20,
		Replicas:     1,
		Raw:          Retention{MaxAge: 72 * time.Hour},
		Events:       Retention{MaxAge: 720 * time.Hour},
		Runs:         Retention{MaxAge: 720 * time.Hour},
		Spool:        Spool{MaxBytes: 1 << 30},
		Limits:       Limits{Grace: 5 * time.Second},
		HTTP:         "127.0.0.1:8422",
		LostAfter:    2 * time.Minute,
		StuckAfter:   time.Hour,

		IdempotencyTTL: 24 * time.Hour,

		Work: Work{
			Queue: "default", MaxRuns: 2, Idle: 5 * time.Minute, Hard: 20 * time.Minute, MaxLimit: 24 * time.Hour,
		},
		Agents: Agents{Codex: Agent{Command: List{"codex"}}},
		Push:   Push{GiveUp: 24 * time.Hour},

		Background: Background{Start: true, Idle: 10 * time.Minute},
	}
}

// Validate reports all mistakes at once, each with the setting's key and the
// value it has.
func (c Config) Validate() error {
	var errs []error
	for _, s := range c.settings() {
		errs = append(errs, s.verify(""))
	}
	return errors.Join(errs...)
}

// Setting is one row of the table: what there is to say about one value.
type Setting struct {
	// Key is the TOML key, with its table: "raw.max_age".
	Key string
	// Help is one sentence or two, without the default.
	Help string
	// Choices are the values there are, if they can be listed.
	Choices []string

	target any           // *string, *int, *bool, *List, *Size or *time.Duration, into a Config
	check  func() string // what is wrong with the value, or ""
}

// Settings lists every setting with its default as the value.
func Settings() []Setting {
	c := Default()
	return c.settings()
}

// Env is the environment variable of the setting.
func (s Setting) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

// Value is the current value, as a file or a flag would say it.
func (s Setting) Value() string {
	switch v := s.target.(type) {
	case *string:
		return *v
	case *time.Duration:
		return shortDuration(*v)
	case *Size:
		return v.String()
	case *int:
		return strconv.Itoa(*v)
	case *bool:
		return strconv.FormatBool(*v)
	case *List:
		return v.String()
	default:
		panic("config: setting " + s.Key + " has a type that nobody reads")
	}
}

// verify checks the current value, which origin set.
func (s Setting) verify(origin string) error {
	if s.check == nil {
		return nil
	}
	problem := s.check()
	if problem == "" {
		return nil
	}
	got := s.Value()
	if at := strings.LastIndexByte(got, '@'); at >= 0 {
		got = "…" + got[at:] // a user and a password stay out of the error
	}
	if _, isText := s.target.(*string); isText {
		got = strconv.Quote(got)
	}
	return s.mistake(problem, got, origin)
}

// mistake is the one form of an error about a value.
func (s Setting) mistake(problem, got, origin string) error {
	if origin == "" {
		return fmt.Errorf("%s: %s, got %s", s.Key, problem, got)
	}
	return fmt.Errorf("%s: %s, got %s (%s)", s.Key, problem, got, origin)
}
