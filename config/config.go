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

// Config has all settings. [Load] returns a validated Config. What each means is the Help of its [Setting]; comments
// say only what that does not.
type Config struct {
	NATS        string
	Creds       string
	PublicCreds string // with those of Creds, readers of the events can read the raw lines, too
	DataDir     string // absolute after [Load]
	Prefix      string // two installations can so share an account
	Cells       List   // only the configuration that linesman prints for their server depends on them
	LogLevel    string
	LogFormat   string
	NATSListen  string // host:port, as the next two
	HTTP        string
	MonitorHTTP string

	LostAfter      time.Duration
	StuckAfter     time.Duration
	IdempotencyTTL time.Duration
	Environments   string // absolute after [Load]
	MaxLineBytes   size   // of live runs it is 8 MiB, whatever this says
	Scrub          bool
	Diff           bool
	Replicas       int
	Memory         size // see package daemon/memory

	Raw    streamRetention // output of agents, unchanged
	Events streamRetention // public event stream
	Runs   streamRetention // run records
	Spool  spool
	Limits limits
	Work   work
	Live   live
	Agents map[string]*agentConfig // by short name; see [Config.Table]
	Push   push
	AdCP   adcp

	Announce   announce
	Background background
	Watch      Watch
}

// Watch has the settings of `linesman watch`.
type Watch struct {
	On            List
	StalledAfter  time.Duration
	Budgets       List
	CancelOn      List
	Exec, Webhook string // without both, notices are printed
	SecretFile    string // absolute after [Load]; empty: notices are not signed
	State         string // absolute after [Load]; empty: none
}

// background has the settings of a `linesman up` that other commands start in the
// background.
type background struct {
	Start bool
	Idle  time.Duration
}

// push has the settings of notifications to webhooks.
type push struct {
	AllowPrivate bool
	GiveUp       time.Duration
}

// adcp has the settings for signatures of notifications by RFC 9421: both or none.
type adcp struct {
	WebhookKey   string // path, absolute after [Load]
	BrandJSONURL string
}

// work has the settings of submitted tasks. They do not apply to `linesman run`.
type work struct {
	Queue                string
	MaxRuns              int
	Idle, Hard, MaxLimit time.Duration
	Roots                List // absolute after [Load], as the next
	AddRoots             List
	Danger               bool
	ExternalSandbox      bool
	GitGate              bool
}

// live has the limits of live runs.
type live struct {
	Answer     time.Duration
	EndAfter   time.Duration
	SleepAfter time.Duration
	Processes  int
	Always     bool
	Policy     List // see [acp.ParseRule]
}

// agentConfig describes how a worker starts one kind of agent for a task.
type agentConfig struct {
	Command List // linesman appends more arguments. Nil: the agent only speaks the Agent Client Protocol
	ACP     List
	Env     List
	Keys    bool
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
	MaxAge   time.Duration
	MaxBytes size
}

// spool has the limits of the output that a worker stores on its disk.
type spool struct {
	MaxBytes size
}

// limits has the limits of a run.
type limits struct {
	Grace       time.Duration
	Idle        time.Duration
	Hard        time.Duration
	AfterResult time.Duration
	KeepLeft    bool
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

	target any           // *string, *int, *bool, *List, *profiles, *size or *time.Duration, into a Config
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
