// Package config owns the settings of linesman: one struct, one table with the
// name, meaning and limits of each setting, and one precedence:
//
//	flags ▶ LINESMAN_* environment variables ▶ TOML files ▶ defaults
//
// It takes the kinds of agents from the packages below agent, and imports nothing else of
// linesman. It reads the TOML file that its caller names, else those of [Files]. It
// does not read the environment, other files or a clock.
package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/agent/known"
)

// Config has all settings. [Load] returns a validated Config.
type Config struct {
	// NATS is the URL of the server, or several URLs separated by commas. Empty
	// means the server of `linesman up` with this data directory.
	NATS string
	// Creds is the path of a NATS credentials file for the inside account, or of
	// a directory with the keys of both accounts. Empty means the keys in the
	// data directory.
	Creds string
	// PublicCreds is the path of a credentials file for the public account, which
	// has the events. Empty means the same connection as Creds, which is less
	// secure: readers of the events can then read the raw lines, too.
	PublicCreds string
	// DataDir is the data directory of this machine. Absolute after [Load].
	DataDir string
	// Prefix is the first token of every subject and, in upper case, of every
	// stream name, so that two installations can share an account.
	Prefix string
	// Cells are the prefixes of several installations that share one NATS server or
	// cluster, each with accounts of its own. Only the configuration that linesman
	// prints for that server depends on them.
	Cells List
	// LogLevel is debug, info, warn or error.
	LogLevel string
	// LogFormat is console or json.
	LogFormat string
	// NATSListen is the host:port of the embedded server; port 0 selects a free
	// port.
	NATSListen string
	// HTTP is the host:port of the HTTP server, for MCP and health checks; port 0
	// selects a free port.
	HTTP string
	// MonitorHTTP is the host:port where a worker or a normalizer serves health checks and
	// metrics, without a token. Empty: it does not.
	MonitorHTTP string
	// LostAfter is the maximum time without a heartbeat before a worker counts as
	// lost.
	LostAfter time.Duration
	// StuckAfter is the maximum time without activity before a run of a lost
	// worker is ended as lost.
	StuckAfter time.Duration
	// IdempotencyTTL is how long the response to a request with an idempotency
	// key is stored: one hour to seven days.
	IdempotencyTTL time.Duration
	// Environments is the path of the file that lists cloud environments.
	// Absolute after [Load].
	Environments string
	// MaxLineBytes is the maximum length of a parsed line, 64 KiB to 64 MiB. A
	// longer line results in one Error event; RAW contains the entire line. Of live
	// runs it is 8 MiB, whatever this says.
	MaxLineBytes size
	// Scrub replaces secrets in known formats by [REDACTED:kind] in the texts and
	// messages of events.
	Scrub bool
	// Diff records what each agent changes in its directory, if that is in a git
	// work tree.
	Diff bool
	// Replicas is the number of replicas of every stream, 1 or 3.
	Replicas int
	// Memory is the soft limit of the memory of a process: see package daemon/memory. 0 means
	// that of its container.
	Memory size

	Raw    streamRetention // output of agents, unchanged
	Events streamRetention // public event stream
	Runs   streamRetention // run records
	Spool  spool
	Limits limits
	Work   work
	Live   live
	Agents map[string]*agentConfig // by short name; see [Config.Table]
	Push   push
	AdCP   AdCP

	Announce   Announce
	Background background
	Watch      Watch
}

// Watch has the settings of `linesman watch`.
type Watch struct {
	// On are the kinds of notices.
	On List
	// StalledAfter is the time without output after which a run counts as stalled.
	StalledAfter time.Duration
	// Budgets are limits of tokens and of time.
	Budgets List
	// CancelOn are the kinds of notices, budget or stalled, whose run is cancelled.
	CancelOn List
	// Exec is a command for /bin/sh, Webhook a URL. Without both, notices are printed.
	Exec, Webhook string
	// SecretFile is a file with the secret by which notices to the webhook are signed;
	// empty: they are not. Absolute after [Load].
	SecretFile string
	// State is the path of the state file; empty: none. Absolute after [Load].
	State string
}

// background has the settings of a `linesman up` that other commands start in the
// background.
type background struct {
	// Start allows commands to start a server if they need one and find none.
	Start bool
	// Idle is the idle timeout of the server: the time without a run, a task or a
	// client after which it stops; 0 means no timeout.
	Idle time.Duration
}

// push has the settings of notifications to webhooks.
type push struct {
	// AllowPrivate allows webhooks on private networks and on this machine, and
	// webhooks without TLS.
	AllowPrivate bool
	// GiveUp is how long delivery of a notification is retried: one minute to 72
	// hours.
	GiveUp time.Duration
}

// AdCP has the settings for signatures of notifications by RFC 9421: both or none.
type AdCP struct {
	// WebhookKey is the path of the file of the key; absolute after [Load].
	WebhookKey string
	// BrandJSONURL is the https URL of the operator's brand.json.
	BrandJSONURL string
}

// work has the settings of submitted tasks. They do not apply to `linesman run`.
type work struct {
	// Queue is the name of the work queue, both for the tasks that a responder
	// submits and for those that a worker runs.
	Queue string
	// MaxRuns is the maximum number of concurrent tasks of a worker; 0: it accepts
	// no tasks.
	MaxRuns int
	// Idle and Hard are the default limits of a task. MaxLimit is the maximum
	// limit that a task may request.
	Idle, Hard, MaxLimit time.Duration
	// Roots are the directories in which tasks may work, absolute after [Load].
	// An empty list means the working directory of the worker and the home
	// directory of the user.
	Roots List
	// AddRoots are further ones, absolute after [Load].
	AddRoots List
	// Danger allows tasks without a sandbox.
	Danger bool
	// ExternalSandbox says that there is a sandbox around the worker: it allows tasks that rely on that.
	ExternalSandbox bool
	// GitGate rejects tasks whose text contains a destructive git command, unless
	// the caller allows it.
	GitGate bool
}

// live has the limits of live runs.
type live struct {
	// Answer is how long people may take to answer a question, at most 24 hours; 0: no limit. Then it is denied.
	Answer time.Duration
	// EndAfter is how long a run that is kept may have no turn before it is ended; 0: no limit.
	EndAfter time.Duration
	// SleepAfter is after how long without a turn its process is ended, until the next message; 0: never. So is that
	// of another one as soon as more than Processes would be there.
	SleepAfter time.Duration
	Processes  int
	// Always lets people choose options that hold for longer than the call: they change settings of the agent itself.
	Always bool
	// Policy are rules for what agents ask, see [acp.ParseRule]. The first one that matches decides.
	Policy List
}

// agentConfig describes how a worker starts one kind of agent for a task.
type agentConfig struct {
	// Command is the program, looked up in the PATH of the worker, and its first
	// arguments. linesman appends more arguments. Nil: the agent only speaks the Agent Client Protocol.
	Command List
	// ACP is the program that serves the Agent Client Protocol for live runs, and its arguments.
	ACP List
	// Env has the names of environment variables that are passed to every task.
	Env List
	// Keys passes the credentials of the agent's own vendor to every task, if they are set.
	Keys bool
}

// List is a list of strings: an array in a TOML file; in flags and in the
// environment strings separated by commas, or a JSON array.
type List []string

// String returns the list in the format of flags and the environment.
func (l List) String() string {
	if slices.ContainsFunc(l, func(s string) bool {
		return s == "" || s != strings.TrimSpace(s) || strings.Contains(s, ",") || s[0] == '['
	}) {
		b, _ := json.Marshal([]string(l)) // no error: l has only strings
		return string(b)
	}
	return strings.Join(l, ",")
}

// parse parses the result of String. It returns a description of the error, or "".
func (l *List) parse(text string) string {
	*l = nil
	if strings.HasPrefix(text, "[") {
		var items []string
		if json.Unmarshal([]byte(text), &items) != nil {
			return "not an array of strings"
		}
		*l = append(*l, items...)
		return ""
	}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			*l = append(*l, item)
		}
	}
	return ""
}

// streamRetention has the limits of a stream.
type streamRetention struct {
	// MaxAge is the maximum age of a message. Positive.
	MaxAge time.Duration
	// MaxBytes is the maximum size of the stream; 0 means a fraction of the free
	// disk space.
	MaxBytes size
}

// spool has the limits of the output that a worker stores on its disk.
type spool struct {
	// MaxBytes is the maximum size of output of one run that is not yet stored in
	// NATS. At the limit the run is ended.
	MaxBytes size
}

// limits has the limits of a run.
type limits struct {
	// Grace is the time between SIGTERM and SIGKILL. Positive.
	Grace time.Duration
	// Idle is the maximum time without output before a run is ended; 0: no limit.
	Idle time.Duration
	// Hard is the maximum duration of a run; 0: no limit.
	Hard time.Duration
	// AfterResult is the maximum time without output after an agent's result before it is ended;
	// 0: no limit.
	AfterResult time.Duration
	// KeepLeft lets processes run that an agent has left.
	KeepLeft bool
}

// Default returns the default settings.
func Default() Config {
	return Config{
		Prefix:       "linesman",
		LogLevel:     "info",
		LogFormat:    "console",
		NATSListen:   "127.0.0.1:4222",
		MaxLineBytes: 8 << 20,
		Diff:         true,
		Replicas:     1,
		Raw:          streamRetention{MaxAge: 72 * time.Hour},
		Events:       streamRetention{MaxAge: 720 * time.Hour},
		Runs:         streamRetention{MaxAge: 720 * time.Hour},
		Spool:        spool{MaxBytes: 1 << 30},
		Limits:       limits{Grace: 5 * time.Second, AfterResult: time.Minute},
		HTTP:         "127.0.0.1:8422",
		LostAfter:    2 * time.Minute,
		StuckAfter:   time.Hour,

		IdempotencyTTL: 24 * time.Hour,

		Work: work{
			Queue: "default", MaxRuns: 2, Idle: 5 * time.Minute, Hard: 20 * time.Minute, MaxLimit: 24 * time.Hour,
		},
		Live:   live{Answer: time.Hour, EndAfter: 24 * time.Hour, SleepAfter: 10 * time.Minute, Processes: 8},
		Agents: agentDefaults(),
		Push:   push{GiveUp: 24 * time.Hour},

		Background: background{Start: true, Idle: 10 * time.Minute},
		Watch: Watch{
			On:           List{"completed", "failed", "lost", "stalled", "needs-input", "budget"},
			StalledAfter: 10 * time.Minute,
		},
	}
}

func agentDefaults() map[string]*agentConfig {
	all := map[string]*agentConfig{}
	for _, a := range known.All() {
		all[a.Short] = &agentConfig{ACP: a.Live.Command(), Keys: true}
		if a.Args != nil {
			all[a.Short].Command = List{a.Program}
		}
	}
	return all
}

// Table returns the agents: those that linesman knows, and then those that only the settings name, by name.
func (c Config) Table() agent.Table {
	all := known.All()
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if _, ok := all.Find(name); !ok && len(c.Agents[name].ACP) > 0 {
			command := c.Agents[name].ACP
			all = append(all, agent.Speaker(name, acp.Agent{Program: command[0], Args: command[1:]}))
		}
	}
	return all
}

// Launches returns how the agents of a table are started with these settings, by
// kind. An agent without settings is started by the name of its program.
func (c Config) Launches(t agent.Table) map[string]agent.Launch {
	all := map[string]agent.Launch{}
	for _, a := range t {
		how := a.Launch
		how.Command, how.ACP, how.Setting = []string{a.Program}, a.Live.Command(), "agents."+a.Short+".env"
		if set := c.Agents[a.Short]; set != nil {
			how.Command, how.ACP, how.Env = set.Command, set.ACP, slices.Concat(how.Env, set.Env)
			if set.Keys {
				for _, key := range how.Keys {
					if !slices.Contains(how.Env, key) {
						how.Env = append(how.Env, key)
					}
				}
			}
		}
		if a.Args == nil && len(how.ACP) > 0 {
			how.Command = how.ACP[:1]
		}
		if len(how.Command) == 1 && filepath.Base(how.Command[0]) == a.Program {
			how.Logs = a.Sessions
		}
		all[a.Kind()] = how
	}
	return all
}

// Setting is one row of the table of settings.
type Setting struct {
	// Key is the TOML key, with its table: "raw.max_age".
	Key string
	// Help is the description, one or two sentences without the default.
	Help string
	// Choices are the allowed values, or nil.
	Choices []string
	// Origin is where the value comes from; only of [Effective].
	Origin origin

	target any           // *string, *int, *bool, *List, *Profiles, *Size or *time.Duration, into a Config
	check  func() string // returns a description of the error, or ""
}

// Settings returns all settings with their default values.
func Settings() []Setting {
	c := Default()
	return c.settings()
}

// Env returns the name of the environment variable of the setting.
func (s Setting) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

// Value returns the current value in the format of flags and the TOML file.
func (s Setting) Value() string {
	if d, is := s.target.(*time.Duration); is {
		return shortDuration(*d)
	}
	return fmt.Sprint(reflect.ValueOf(s.target).Elem().Interface())
}

// Shown returns the value for people who may show it to others: without a user and a password
// in a URL, and without the path of a webhook, which is often a secret.
func (s Setting) Shown() string {
	text := s.Value()
	if at := strings.LastIndexByte(text, '@'); at >= 0 && strings.Contains(text[:at], "://") {
		text = "…" + text[at:]
	}
	if u, err := url.Parse(text); s.Key == "watch.webhook" && err == nil && u.Host != "" {
		text = u.Scheme + "://" + u.Host + "/…"
	}
	return text
}

// verify checks the current value. origin is the source of the value, or "".
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
		got = "…" + got[at:] // no user and password in the error
	}
	if _, isText := s.target.(*string); isText {
		got = strconv.Quote(got)
	}
	return s.invalid(problem, got, origin)
}

// invalid returns the error of an invalid value.
func (s Setting) invalid(problem, got, origin string) error {
	if origin == "" {
		return fmt.Errorf("%s: %s, got %s", s.Key, problem, got)
	}
	return fmt.Errorf("%s: %s, got %s (%s)", s.Key, problem, got, origin)
}
