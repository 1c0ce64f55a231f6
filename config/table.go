package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/agent/known"
)

// settings returns the table of settings. Environment variables, keys of the TOML
// file, help, validation and the example are derived from it.
func (c *Config) settings() []Setting {
	levels := []string{"debug", "info", "warn", "error"}
	formats := []string{"console", "json"}
	rows := []Setting{
		{Key: "nats", target: &c.NATS, check: serverURLs(&c.NATS),
			Help: "URL of the NATS server, or several, separated by commas. Empty: the server of the `linesman up` of this " +
				"data directory."},
		{Key: "creds", target: &c.Creds,
			Help: "NATS credentials file for the inside account, or a directory with the keys of both accounts: see " +
				"`linesman context`. Empty: the keys in the data directory."},
		{Key: "public_creds", target: &c.PublicCreds,
			Help: "NATS credentials file for the public account, which has the events. Empty: the file beside creds, if " +
				"`linesman context` created both; else the same connection as creds, which is less secure."},
		{Key: "data_dir", target: &c.DataDir,
			Help: "Data directory of this machine. Empty: $XDG_DATA_HOME/linesman, or ~/.local/share/linesman."},
		{Key: "prefix", target: &c.Prefix, check: subjectToken(&c.Prefix),
			Help: "First token of every subject and, in upper case, of every stream name."},
		{Key: "cells", target: &c.Cells, check: subjectTokens(&c.Cells),
			Help: "Prefixes of all cells of a NATS cluster, for `linesman context --server-config`: see docs/scale.md. " +
				"Empty: one cell."},
		{Key: "log_level", target: &c.LogLevel, Choices: levels, check: oneOf(&c.LogLevel, levels),
			Help: "Minimum level of the log, which goes to stderr."},
		{Key: "log_format", target: &c.LogFormat, Choices: formats, check: oneOf(&c.LogFormat, formats),
			Help: "Format of the log: console for people, json for programs."},
		{Key: "nats_listen", target: &c.NATSListen, check: listenAddress(&c.NATSListen),
			Help: "Address of the embedded server. Port 0 selects a free port."},
		{Key: "http", target: &c.HTTP, check: listenAddress(&c.HTTP),
			Help: "Address of the HTTP server, for MCP and health checks. Port 0 selects a free port."},
		{Key: "monitor_http", target: &c.MonitorHTTP, check: must(func() bool {
			return c.MonitorHTTP == "" || isListenAddress(c.MonitorHTTP)
		}, noListenAddress),
			Help: "Address where any role serves /healthz, /readyz and /metrics, and nothing else, without a token: --http of " +
				"worker and normalizer. Port 0 selects a free port. Empty: none."},
		{Key: "lost_after", target: &c.LostAfter, check: positive(&c.LostAfter),
			Help: "Time without a heartbeat after which a worker counts as lost."},
		{Key: "stuck_after", target: &c.StuckAfter, check: positive(&c.StuckAfter),
			Help: "Time without activity after which a run of a lost worker is ended as lost."},
		{Key: "idempotency_ttl", target: &c.IdempotencyTTL,
			check: within(&c.IdempotencyTTL, time.Hour, 7*24*time.Hour, "must be 1h to 168h"),
			Help:  "Time for which the response to a request with an idempotency key is stored: 1h to 168h."},
		{Key: "environments", target: &c.Environments,
			Help: "File that lists the environments of Codex Cloud. Empty: ~/.config/mcp-delegator/environments.json."},
		{Key: "max_line_bytes", target: &c.MaxLineBytes,
			check: within(&c.MaxLineBytes, 64<<10, 64<<20, "must be from 64KiB to 64MiB"),
			Help:  "Maximum length of a parsed line. A longer line becomes one Error event; the raw log has all of it."},
		{Key: "scrub", target: &c.Scrub,
			Help: "Replace secrets in known formats (API keys, tokens, private keys, passwords in URLs) in the text of " +
				"events by [REDACTED:kind]."},
		{Key: "diff", target: &c.Diff,
			Help: "Record what each agent of run and submit changes in its directory, if that is in a git work tree: see " +
				"`linesman diff`."},
		{Key: "replicas", target: &c.Replicas,
			check: must(func() bool { return c.Replicas == 1 || c.Replicas == 3 }, "must be 1 or 3"),
			Help:  "Replicas of each stream in a cluster: 1 or 3."},
		{Key: "memory", target: &c.Memory,
			check: must(func() bool { return c.Memory == 0 || c.Memory >= 64<<20 }, "must be 0, or at least 64MiB"),
			Help: "Soft limit of the memory of up, worker, normalizer and responder. Close to it they become slower. 0: " +
				"nine tenths of the limit of the container, if it has one."},
	}
	rows = append(rows, retention("raw", &c.Raw, "the unchanged output of agents")...)
	rows = append(rows, retention("events", &c.Events, "the events")...)
	rows = append(rows, retention("runs", &c.Runs, "the run records")...)
	rows = append(rows,
		Setting{Key: "spool.max_bytes", target: &c.Spool.MaxBytes,
			check: must(func() bool { return c.Spool.MaxBytes >= c.MaxLineBytes },
				"must be at least max_line_bytes, which is "+c.MaxLineBytes.String()),
			Help: "Maximum output of one run on the disk of this machine, where it stays until the run has ended and NATS " +
				"has all of it. At the limit the run is ended."},
		Setting{Key: "limits.grace", target: &c.Limits.Grace, check: positive(&c.Limits.Grace),
			Help: "Time between SIGTERM and SIGKILL when an agent is ended."},
		Setting{Key: "limits.idle", target: &c.Limits.Idle, check: notNegative(&c.Limits.Idle),
			Help: "Time without output after which a run is ended. 0: no limit."},
		Setting{Key: "limits.hard", target: &c.Limits.Hard, check: notNegative(&c.Limits.Hard),
			Help: "Maximum duration of a run. 0: no limit."},
		Setting{Key: "limits.after_result", target: &c.Limits.AfterResult, check: notNegative(&c.Limits.AfterResult),
			Help: "Time without output after the agent's final result after which it is ended, if it does not exit. The " +
				"run is completed, or failed if its turn failed. 0: no limit."},
		Setting{Key: "limits.keep_left", target: &c.Limits.KeepLeft,
			Help: "Processes that an agent leaves, such as a server in the background, are not ended with it, unless they " +
				"hold its stdout."},
		Setting{Key: "work.queue", target: &c.Work.Queue, check: subjectToken(&c.Work.Queue),
			Help: "Name of the work queue, for submitted tasks and for workers."},
		Setting{Key: "work.max_runs", target: &c.Work.MaxRuns,
			check: within(&c.Work.MaxRuns, 0, 1024, "must be from 0 to 1024"),
			Help:  "Maximum number of concurrent tasks of a worker. 0: it takes no tasks."},
		Setting{Key: "work.idle", target: &c.Work.Idle, check: positive(&c.Work.Idle),
			Help: "Time without output after which a task is ended, unless it requests another limit."},
		Setting{Key: "work.hard", target: &c.Work.Hard, check: positive(&c.Work.Hard),
			Help: "Maximum duration of a task, unless it requests another limit."},
		Setting{Key: "work.max_limit", target: &c.Work.MaxLimit,
			check: must(func() bool { return c.Work.MaxLimit >= max(c.Work.Idle, c.Work.Hard) },
				"must be at least work.idle and work.hard"),
			Help: "Maximum limit that a task may request."},
		Setting{Key: "work.roots", target: &c.Work.Roots,
			Help: "Directories in and below which tasks may work. Empty: the working directory of the worker, and the " +
				"user's home directory."},
		Setting{Key: "work.add_roots", target: &c.Work.AddRoots,
			Help: "Directories in and below which tasks may work, too: in addition to those of work.roots, or to its default."},
		Setting{Key: "work.danger", target: &c.Work.Danger,
			Help: "Allow tasks without a sandbox, mode danger-full-access."},
		Setting{Key: "work.external_sandbox", target: &c.Work.ExternalSandbox,
			Help: "This worker is in a sandbox, such as a container for it alone: allow tasks with externalSandbox, whose " +
				"agents run without their own sandbox and checks."},
		Setting{Key: "work.git_gate", target: &c.Work.GitGate,
			Help: "Reject tasks whose text contains a destructive git command, unless allow_destructive_git is given."},
	)
	rows = append(append(rows, c.agentSettings()...), c.announceSettings()...)
	return append(rows,
		Setting{Key: "live.answer", target: &c.Live.Answer,
			check: within(&c.Live.Answer, 0, 24*time.Hour, "must be from 0 to 24h"),
			Help: "Time that people have to answer a question of a live run: then it is denied. Meanwhile the limits of the " +
				"task stand still. 0: no limit."},
		Setting{Key: "live.end_after", target: &c.Live.EndAfter,
			check: within(&c.Live.EndAfter, 0, 30*24*time.Hour, "must be from 0 to 720h"),
			Help:  "Time after which a live run that is kept, and gets no message, is ended. 0: no limit."},
		Setting{Key: "live.sleep_after", target: &c.Live.SleepAfter,
			check: within(&c.Live.SleepAfter, 0, 30*24*time.Hour, "must be from 0 to 720h"),
			Help: "Time after which the process of a live run that is kept, and gets no message, is ended, with all that it " +
				"left running. The next message starts another one, which continues the session, if the agent can. 0: never."},
		Setting{Key: "live.processes", target: &c.Live.Processes,
			check: within(&c.Live.Processes, 1, 1024, "must be from 1 to 1024"),
			Help: "Maximum of processes of live runs that are kept: before another one starts, the one that waits for " +
				"longest is ended as above. They take no slot of work.max_runs."},
		Setting{Key: "live.always", target: &c.Live.Always,
			Help: "Offer answers for longer than the call, allow_always and reject_always: they change the agent's own " +
				"settings."},
		Setting{Key: "live.policy", target: &c.Live.Policy, check: func() string {
			if err := acp.CheckRules(c.Live.Policy); err != nil {
				return err.Error()
			}
			return ""
		}, Help: "Rules for what the agents of live runs ask, before that of the mode: the first one that matches decides. " +
			"[\"allow execute: go test ...\", \"deny * in ~/.ssh\", \"ask fetch\"]"},
		Setting{Key: "push.allow_private", target: &c.Push.AllowPrivate,
			Help: "Also send notifications to private networks and to this machine, and without TLS: any caller can then " +
				"reach what this machine reaches."},
		Setting{Key: "push.give_up", target: &c.Push.GiveUp,
			check: within(&c.Push.GiveUp, time.Minute, 72*time.Hour, "must be 1m to 72h"),
			Help:  "Time for which the delivery of a notification is retried: 1m to 72h."},
		Setting{Key: "adcp.webhook_key", target: &c.AdCP.WebhookKey, check: must(func() bool {
			return (c.AdCP.WebhookKey == "") == (c.AdCP.BrandJSONURL == "")
		}, "must be set together with adcp.brand_json_url"),
			Help: "File of the key that signs notifications for which the caller chose no authentication, by RFC 9421: " +
				"`linesman setup webhook-key` makes one. Empty: such webhooks are refused. See docs/webhooks.md."},
		Setting{Key: "adcp.brand_json_url", target: &c.AdCP.BrandJSONURL, check: must(func() bool {
			u, err := url.Parse(c.AdCP.BrandJSONURL)
			return c.AdCP.BrandJSONURL == "" || err == nil && u.Scheme == "https" && u.Hostname() != "" && u.User == nil &&
				len(c.AdCP.BrandJSONURL) <= 2048
		}, "must be a URL that begins with https://"),
			Help: "URL of your brand.json, which names /.well-known/jwks.json of linesman as jwks_uri, on the same origin. " +
				"Set it together with adcp.webhook_key."},
		Setting{Key: "background.start", target: &c.Background.Start,
			Help: "Allow commands that need a server and find none to start `linesman up` in the background."},
		Setting{Key: "background.idle", target: &c.Background.Idle, check: notNegative(&c.Background.Idle),
			Help: "A background `linesman up` ends after this time without an open run, a task or a client. 0: never."},
		Setting{Key: "watch.on", target: &c.Watch.On,
			Help: "What `linesman watch` reports: completed, failed, cancelled, lost, stalled, needs-input, may-need-input, turn and budget."},
		Setting{Key: "watch.stalled_after", target: &c.Watch.StalledAfter, check: positive(&c.Watch.StalledAfter),
			Help: "Time without output after which a run counts as stalled, unless a tool runs or a person is asked."},
		Setting{Key: "watch.budget", target: &c.Watch.Budgets,
			Help: "Budgets of tokens and time, such as tokens=2M/run, time=10h/day or tokens=10M/day/label:team: see " +
				"`linesman watch --help`."},
		Setting{Key: "watch.cancel_on", target: &c.Watch.CancelOn,
			Help: "Notices, budget or stalled, whose run is cancelled. A notice about a day cancels nothing."},
		Setting{Key: "watch.exec", target: &c.Watch.Exec,
			Help: "Command that /bin/sh runs for each notice, with the notice as JSON on its stdin."},
		Setting{Key: "watch.webhook", target: &c.Watch.Webhook,
			Help: "URL that each notice is sent to by POST, as JSON."},
		Setting{Key: "watch.secret_file", target: &c.Watch.SecretFile,
			Help: "File with the secret, 32 characters or more, by which notices to the webhook are signed."},
		Setting{Key: "watch.state", target: &c.Watch.State,
			Help: "File in which `linesman watch` remembers what it has reported, and what is not delivered yet."},
	)
}

func retention(table string, r *streamRetention, content string) []Setting {
	return []Setting{
		{Key: table + ".max_age", target: &r.MaxAge, check: positive(&r.MaxAge),
			Help: "Maximum age of messages of the stream, which has " + content + "."},
		{Key: table + ".max_bytes", target: &r.MaxBytes, check: must(
			func() bool { return r.MaxBytes == 0 || r.MaxBytes >= minStream }, "must be 0 or at least "+minStream.String()),
			Help: "Maximum size of the stream. 0: a fraction of the free disk space."},
	}
}

// minStream is the minimum size limit of a stream. It has room for several events
// of the maximum size.
const minStream size = 1 << 20

// must returns a check whose error is problem unless ok returns true.
func must(ok func() bool, problem string) func() string {
	return func() string {
		if ok() {
			return ""
		}
		return problem
	}
}

func within[T cmp.Ordered](v *T, lower, upper T, problem string) func() string {
	return must(func() bool { return *v >= lower && *v <= upper }, problem)
}

func positive(v *time.Duration) func() string {
	return must(func() bool { return *v > 0 }, "must be positive")
}

func notNegative(v *time.Duration) func() string {
	return must(func() bool { return *v >= 0 }, "must not be negative")
}

func oneOf(v *string, choices []string) func() string {
	return must(func() bool { return slices.Contains(choices, *v) }, "must be one of "+strings.Join(choices, ", "))
}

func serverURLs(v *string) func() string {
	isURL := func(text string) bool {
		u, err := url.Parse(strings.TrimSpace(text))
		return err == nil && slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) && u.Hostname() != "" &&
			(u.Port() == "" || isPort(u.Port()))
	}
	return must(func() bool {
		return *v == "" || !slices.ContainsFunc(strings.Split(*v, ","), func(text string) bool { return !isURL(text) })
	}, "must be URLs such as nats://host:4222 (or tls, ws, wss), separated by commas")
}

func listenAddress(v *string) func() string {
	return must(func() bool { return isListenAddress(*v) }, noListenAddress)
}

const noListenAddress = "must be host:port with a port from 0 to 65535"

func isListenAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	return err == nil && isPort(port)
}

// CheckListen reports text that is no address to listen on: HOST:PORT.
func CheckListen(text string) error {
	if !isListenAddress(text) {
		return fmt.Errorf("%s, got %q", noListenAddress, text)
	}
	return nil
}

func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

func isToken(s string) bool { return len(s) <= 32 && tokenForm.MatchString(s) }

var tokenForm = regexp.MustCompile(`^[a-z][a-z0-9_-]*\z`)

func subjectToken(v *string) func() string {
	return must(func() bool { return isToken(*v) },
		"must be a lower-case letter, then at most 31 of a-z 0-9 _ -")
}

func subjectTokens(v *List) func() string {
	return must(func() bool {
		return !slices.ContainsFunc(*v, func(one string) bool { return !isToken(one) })
	}, "must be prefixes: each a lower-case letter, then at most 31 of a-z 0-9 _ -")
}

// size is a number of bytes. Its text is a whole number with an optional unit: 512,
// 64KiB, 8MiB, 1GiB. Decimal units (kB, MB, GB, TB) can be parsed, too. Fractions
// are not allowed, so that every size is exact.
type size int64

var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3},
	{"B", 1},
}

// parseSize parses a size. Units are not case-sensitive.
func parseSize(number string) (size, error) {
	factor := int64(1)
	for _, u := range units {
		cut := len(number) - len(u.name)
		if cut > 0 && strings.EqualFold(number[cut:], u.name) {
			number, factor = strings.TrimSpace(number[:cut]), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err == nil && n > math.MaxInt64/uint64(factor) {
		err = strconv.ErrRange
	}
	return size(n) * size(factor), err
}

// String returns the size with the largest binary unit that divides it: 8MiB.
func (s size) String() string {
	for _, u := range units[:4] {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// shortDuration returns the text of d without trailing zero units: 72h instead of
// 72h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// agentSettings returns the settings of each kind of agent.
func (c *Config) agentSettings() (rows []Setting) {
	table := known.All()
	for _, short := range slices.Sorted(maps.Keys(c.Agents)) {
		set, key := c.Agents[short], "agents."+short
		a, known := table.Find(short)
		name := cmp.Or(a.Name, short)
		if a.Args != nil {
			rows = append(rows, Setting{Key: key + ".command", target: &set.Command,
				check: must(func() bool { return len(set.Command) > 0 && set.Command[0] != "" }, "must name a program"),
				Help:  "Command of " + name + " for tasks: a program on the worker's PATH, and its first arguments."})
		}
		rows = append(rows,
			Setting{Key: key + ".acp", target: &set.ACP,
				check: must(func() bool {
					return len(set.ACP) == 0 && a.Args != nil || len(set.ACP) > 0 && set.ACP[0] != ""
				}, "must name a program"),
				Help: "Command that serves the Agent Client Protocol of " + name + ", for live runs: a program on the worker's " +
					"PATH, and its arguments."},
			Setting{Key: key + ".env", target: &set.Env,
				Help: "Environment variables that every task of " + name + " gets, in addition to those that every program " +
					"needs and to its keys."})
		if known && len(a.Keys) > 0 {
			rows = append(rows, Setting{Key: key + ".keys", target: &set.Keys,
				Help: "Every task of " + name + " gets the keys of its vendor, if they are set for the worker: " +
					strings.Join(a.Keys, ", ") + "."})
		}
	}
	return rows
}
