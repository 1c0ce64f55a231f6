package config

import (
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linesman/linesman/agents"
)

// settings returns the table of settings. Environment variables, keys of the TOML
// file, help, validation and the example are derived from it.
func (c *Config) settings() []Setting {
	levels := []string{"debug", "info", "warn", "error"}
	formats := []string{"console", "json"}
	rows := []Setting{
		{Key: "nats", target: &c.NATS, check: serverURLs(&c.NATS),
			Help: "NATS server, or several with commas between them. Empty: the one that `linesman up` runs on this " +
				"data directory."},
		{Key: "creds", target: &c.Creds,
			Help: "NATS credentials file for the inside account, or a directory with the keys of both: see `linesman " +
				"context`. Empty: the data directory's own."},
		{Key: "public_creds", target: &c.PublicCreds,
			Help: "NATS credentials file for the public account, where the events are. Empty: the file beside creds," +
				" where `linesman context` made both; else the same connection as creds, which is weaker."},
		{Key: "data_dir", target: &c.DataDir,
			Help: "Where this machine keeps its files. Empty: $XDG_DATA_HOME/linesman, or ~/.local/share/linesman."},
		{Key: "prefix", target: &c.Prefix, check: subjectToken(&c.Prefix),
			Help: "First token of every subject and, in capitals, of every stream."},
		{Key: "log_level", target: &c.LogLevel, Choices: levels, check: oneOf(&c.LogLevel, levels),
			Help: "Least level that is logged, on stderr."},
		{Key: "log_format", target: &c.LogFormat, Choices: formats, check: oneOf(&c.LogFormat, formats),
			Help: "Form of the log: console for people, json for machines."},
		{Key: "nats_listen", target: &c.NATSListen, check: listenAddress(&c.NATSListen),
			Help: "Address of the embedded server. Port 0 takes a free one."},
		{Key: "http", target: &c.HTTP, check: listenAddress(&c.HTTP),
			Help: "Address of the HTTP server, for MCP and health checks. Port 0 takes a free one."},
		{Key: "lost_after", target: &c.LostAfter, check: positive(&c.LostAfter),
			Help: "How long a worker may be silent before it counts as gone."},
		{Key: "stuck_after", target: &c.StuckAfter, check: positive(&c.StuckAfter),
			Help: "A run whose worker is gone, and that has given no sign for so long, is ended as lost."},
		{Key: "idempotency_ttl", target: &c.IdempotencyTTL, check: func() string {
			if c.IdempotencyTTL < time.Hour || c.IdempotencyTTL > 7*24*time.Hour {
				return "must be 1h to 168h"
			}
			return ""
		}, Help: "How long the outcome of a request with an idempotency key is remembered: 1h to 168h."},
		{Key: "environments", target: &c.Environments,
			Help: "File that lists the environments of Codex Cloud. Empty: ~/.config/mcp-delegator/environments.json."},
		{Key: "max_line_bytes", target: &c.MaxLineBytes, check: between(&c.MaxLineBytes, 64<<10, 64<<20),
			Help: "Longest line that is parsed. A longer one becomes one Error event and is kept raw all the same."},
		{Key: "scrub", target: &c.Scrub,
			Help: "Replace what has the form of a secret (API keys, tokens, private keys, passwords in URLs) in the " +
				"text of events by [REDACTED:kind]."},
		{Key: "replicas", target: &c.Replicas, check: func() string {
			if c.Replicas != 1 && c.Replicas != 3 {
				return "must be 1 or 3"
			}
			return ""
		}, Help: "Copies of each stream in a cluster: 1 or 3."},
	}
	rows = append(rows, retention("raw", &c.Raw, "the bytes that agents wrote")...)
	rows = append(rows, retention("events", &c.Events, "the events")...)
	rows = append(rows, retention("runs", &c.Runs, "the run records")...)
	rows = append(rows,
		Setting{Key: "spool.max_bytes", target: &c.Spool.MaxBytes, check: func() string {
			if c.Spool.MaxBytes < c.MaxLineBytes {
				return "must be at least max_line_bytes, which is " + c.MaxLineBytes.String()
			}
			return ""
		}, Help: "Output of one run that this machine keeps until the run has ended and NATS has all of it. At the " +
			"bound the run is ended."},
		Setting{Key: "limits.grace", target: &c.Limits.Grace, check: positive(&c.Limits.Grace),
			Help: "Time between SIGTERM and SIGKILL for an agent that is to end."},
		Setting{Key: "limits.idle", target: &c.Limits.Idle, check: notNegative(&c.Limits.Idle),
			Help: "End a run that has printed nothing for so long. 0: never."},
		Setting{Key: "limits.hard", target: &c.Limits.Hard, check: notNegative(&c.Limits.Hard),
			Help: "End a run so long after its start. 0: never."},
		Setting{Key: "work.queue", target: &c.Work.Queue, check: subjectToken(&c.Work.Queue),
			Help: "Work queue: where tasks are submitted, and what a worker takes."},
		Setting{Key: "work.max_runs", target: &c.Work.MaxRuns, check: func() string {
			if c.Work.MaxRuns < 0 || c.Work.MaxRuns > 1024 {
				return "must be from 0 to 1024"
			}
			return ""
		}, Help: "Tasks that a worker runs at a time. 0: it takes none."},
		Setting{Key: "work.idle", target: &c.Work.Idle, check: positive(&c.Work.Idle),
			Help: "End a task that has printed nothing for so long, where it asks for no other limit."},
		Setting{Key: "work.hard", target: &c.Work.Hard, check: positive(&c.Work.Hard),
			Help: "End a task so long after its start, where it asks for no other limit."},
		Setting{Key: "work.max_limit", target: &c.Work.MaxLimit, check: func() string {
			if c.Work.MaxLimit < c.Work.Idle || c.Work.MaxLimit < c.Work.Hard {
				return "must be at least work.idle and work.hard"
			}
			return ""
		}, Help: "Longest limit that a task may ask for."},
		Setting{Key: "work.roots", target: &c.Work.Roots,
			Help: "Directories in and below which tasks may work. None: where the worker was started," +
				" and the user's home."},
		Setting{Key: "work.danger", target: &c.Work.Danger,
			Help: "Allow tasks without a sandbox, mode danger-full-access."},
		Setting{Key: "work.git_gate", target: &c.Work.GitGate,
			Help: "Refuse tasks whose text names a git command that may lose work, unless allow_destructive_git is " +
				"given."},
	)
	rows = append(rows, c.agentSettings()...)
	return append(rows,
		Setting{Key: "push.allow_private", target: &c.Push.AllowPrivate,
			Help: "Send notifications to private networks and this machine, and without TLS, too: any caller can " +
				"then reach what this machine reaches."},
		Setting{Key: "push.give_up", target: &c.Push.GiveUp, check: func() string {
			if c.Push.GiveUp < time.Minute || c.Push.GiveUp > 72*time.Hour {
				return "must be 1m to 72h"
			}
			return ""
		}, Help: "How long a notification is tried before it is given up: 1m to 72h."},
		Setting{Key: "background.start", target: &c.Background.Start,
			Help: "Let a command that needs a server and finds none start `linesman up` in the background."},
		Setting{Key: "background.idle", target: &c.Background.Idle, check: notNegative(&c.Background.Idle),
			Help: "A background `linesman up` ends after this time without an open run, a task or a client. 0: never."},
	)
}

func retention(table string, r *Retention, content string) []Setting {
	return []Setting{
		{Key: table + ".max_age", target: &r.MaxAge, check: positive(&r.MaxAge),
			Help: "How long the stream keeps " + content + "."},
		{Key: table + ".max_bytes", target: &r.MaxBytes, check: func() string {
			if r.MaxBytes != 0 && r.MaxBytes < minStream {
				return "must be 0 or at least " + minStream.String()
			}
			return ""
		}, Help: "How much the stream keeps of them. 0: a share of the free disk."},
	}
}

// minStream is the minimum size limit of a stream. It has room for several events
// of the maximum size.
const minStream Size = 1 << 20

func serverURLs(v *string) func() string {
	schemes := []string{"nats", "tls", "ws", "wss"}
	return func() string {
		if *v == "" {
			return ""
		}
		for text := range strings.SplitSeq(*v, ",") {
			u, err := url.Parse(strings.TrimSpace(text))
			if err != nil || !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" ||
				u.Port() != "" && !isPort(u.Port()) {
				return "must be URLs such as nats://host:4222 (or tls, ws, wss) with commas between them"
			}
		}
		return ""
	}
}

func listenAddress(v *string) func() string {
	return func() string {
		if _, port, err := net.SplitHostPort(*v); err != nil || !isPort(port) {
			return "must be host:port with a port from 0 to 65535"
		}
		return ""
	}
}

func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

var tokenPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}\z`)

func subjectToken(v *string) func() string {
	return func() string {
		if !tokenPattern.MatchString(*v) {
			return "must be a lower-case letter, then at most 31 of a-z 0-9 _ -"
		}
		return ""
	}
}

func oneOf(v *string, choices []string) func() string {
	return func() string {
		if !slices.Contains(choices, *v) {
			return "must be one of " + strings.Join(choices, ", ")
		}
		return ""
	}
}

func between(v *Size, lower, upper Size) func() string {
	return func() string {
		if *v < lower || *v > upper {
			return "must be from " + lower.String() + " to " + upper.String()
		}
		return ""
	}
}

func positive(v *time.Duration) func() string {
	return func() string {
		if *v <= 0 {
			return "must be positive"
		}
		return ""
	}
}

func notNegative(v *time.Duration) func() string {
	return func() string {
		if *v < 0 {
			return "must not be negative"
		}
		return ""
	}
}

// agentSettings returns the settings of each kind of agent.
func (c *Config) agentSettings() (rows []Setting) {
	for _, short := range slices.Sorted(maps.Keys(c.Agents)) {
		name, set := short, c.Agents[short]
		if a, known := agents.Known.Find(short); known {
			name = a.Name
		}
		rows = append(rows,
			Setting{Key: "agents." + short + ".command", target: &set.Command, check: func() string {
				if len(set.Command) == 0 || set.Command[0] == "" {
					return "must name a program"
				}
				return ""
			}, Help: "What starts " + name + " for a task: a program on the worker's PATH, and its first arguments."},
			Setting{Key: "agents." + short + ".env", target: &set.Env,
				Help: "Environment variables that every task of " + name + " gets, beside what a program needs to run: its " +
					"API key, for example."},
		)
	}
	return rows
}
