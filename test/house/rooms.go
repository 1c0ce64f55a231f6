package main

import (
	"fmt"
	"slices"
	"strings"
)

// Room is a package, or several: what it holds, and who may import it.
type Room struct {
	Path  string // below the root of the module; "agent/*" is each package below agent that has no row of its own
	Holds string
	By    []string // packages, or "cmd/..." for all packages in and below cmd; [everyone] for all
}

const everyone = "all"

// Rooms are all packages but tests and examples, which may import what they like. A package
// imports only packages of rows below its own. A path without a slash is a room of the house;
// paths that begin with it are its inner rooms.
var Rooms = []Room{
	{"cmd/linesman", "the program: its grammar, and one file for each command", nil},
	{"cmd/top", "the live view in a terminal: the list of runs, and one run's timeline", []string{"cmd/linesman"}},
	{"cmd/chat", "`linesman chat`: a conversation with a live run in a terminal", []string{"cmd/linesman"}},
	{"cmd/watch", "`linesman watch`: rules, budgets, delivery of notices", []string{"cmd/linesman"}},
	{"cmd/bridge", "`linesman bridge`: requests and answers as files", []string{"cmd/linesman"}},
	{"cmd/doctor", "checks of all that linesman needs on a machine", []string{"cmd/linesman"}},
	{"cmd/setup", "`linesman setup`: files of a NATS cluster; hooks of agents; a key for webhooks", []string{"cmd/linesman"}},
	{"cmd/startup", "the first garbage collection, which is late", []string{"cmd/linesman"}},
	{"cmd/console", "printing for people: events, tables, progress, safe text", []string{"cmd/..."}},

	{"daemon/daemontest", "an `up` in a test", nil},
	{"daemon", "builds and runs the roles: server, worker, normalizer, responder", []string{"cmd/linesman", "daemon/..."}},
	{"daemon/detail", "commands and outputs of single runs: the normalizer's folds, for the responder", []string{"daemon"}},
	{"daemon/datadir", "the `up` of a data directory: lock, instance file, start, stop, logins",
		[]string{"cmd/doctor", "cmd/linesman", "daemon"}},
	{"daemon/memory", "the heap of long-running roles: its growth, its limit, its return", []string{"daemon"}},
	{"web", "the page: its files, embedded, and their handlers", []string{"daemon"}},

	{"responder/natsapi", "the surface NATS: a request and an answer for each operation", []string{"daemon"}},
	{"responder/natsagents", "the surface of the Agent Protocol for NATS: prompts, streams, heartbeats", []string{"daemon"}},
	{"responder/mcp", "the surface MCP: it carries the tools, of this process or of a responder",
		[]string{"cmd/linesman", "daemon"}}, // `linesman mcp` is a client of a responder, with MCP on stdio
	{"responder/rest", "the surface REST", []string{"daemon"}},
	{"responder/a2a", "the surface A2A", []string{"daemon"}},
	{"responder/tools", "the tools of agents", []string{"daemon", "responder/a2a"}},
	{"responder/httpserver", "HTTP: tokens, sessions, hosts, health", []string{"cmd/linesman", "daemon"}},
	{"responder/adcp", "the encoder of AdCP's envelope",
		[]string{"daemon", "responder/a2a", "responder/mcp", "responder/natsapi", "responder/rest", "responder/tools"}},
	{"responder/v36", "the encoder of the envelope of version 3.6", []string{"daemon", "responder/a2a", "responder/adcp",
		"responder/mcp", "responder/natsapi", "responder/rest", "responder/tools"}},
	{"responder/request", "the arguments of calls, which several surfaces read in the same form",
		[]string{"responder/a2a", "responder/adcp", "responder/rest", "responder/tools"}},
	{"responder", "the typed service, all that can be asked; no NATS", []string{"daemon/...", "responder/..."}},
	{"responder/runtable", "a row for every run in memory, and the changes of single runs",
		[]string{"daemon", "responder", "responder/request", "responder/tools", "responder/v36"}},
	{"responder/webhook", "webhooks: registrations, notifications, delivery", []string{"cmd/setup", "cmd/watch", "daemon", "responder",
		"responder/a2a", "responder/adcp", "responder/request"}},
	{"responder/codexcloud", "drives `codex cloud`",
		[]string{"daemon", "responder", "responder/request", "responder/tools"}},
	{"responder/idempotency", "requests with a key are carried out once",
		[]string{"daemon", "responder", "responder/request", "responder/webhook"}},

	{"worker", "runs of agents: processes and files; no NATS", []string{"cmd/doctor", "cmd/linesman", "daemon/..."}},
	{"worker/programs", "the programs of the agents on this machine, and their versions",
		[]string{"cmd/console", "cmd/doctor", "cmd/linesman", "daemon"}},
	{"worker/sessionlog", "what an agent keeps in the log of a session, and does not print", []string{"worker"}},
	{"worker/snapshot", "what changed in a git work tree; runs nothing that its repository configures",
		[]string{"worker"}},
	{"worker/launch", "the environment of an agent, and the rules of a worker for tasks",
		[]string{"daemon/...", "worker", "worker/programs"}},

	{"config", "settings", []string{"cmd/...", "daemon/..."}},
	{"client", "the client in Go: requests and their outcomes, waits, events", []string{"cmd/...", "daemon/..."}},

	{"bus/pipeline", "the normalizer's shell: RAW to EVENTS and RUNS", []string{"daemon"}},
	{"bus/embedded", "the server inside the process; accounts, users, permissions",
		[]string{"cmd/doctor", "cmd/setup", "daemon/..."}},
	{"bus", "NATS: the only packages that know subjects, streams, headers",
		[]string{"bus/...", "client", "cmd/doctor", "cmd/setup", "daemon/...",
			"responder/natsagents", "responder/natsapi"}}, // which is the other end of [bus.Bus.Hold]
	{"bus/bucket", "values under keys, with revisions", []string{"bus/..."}},
	{"bus/reader", "reading streams through elections, stalls and losses", []string{"bus/..."}},

	{"telemetry", "exports traces and metrics; no NATS", []string{"daemon"}},
	{"telemetry/spans", "the events of a run to spans", []string{"telemetry"}},
	{"telemetry/metrics", "the Prometheus metrics of each role", []string{"bus/pipeline", "daemon", "worker"}},
	{"api", "requests, outcomes and errors of the typed service",
		[]string{"client", "cmd/...", "daemon/...", "responder/...", "telemetry"}},

	{"agent/known", "the table of the known agents: a line each",
		[]string{"cmd/...", "config", "daemon/...", "responder", "responder/request"}},
	{"live", "the conversation with an agent: raw log entries to the lines that are due", []string{"worker"}},

	{"agent/*", "one agent each: its dialect, its command line, its program", []string{"agent/known", "daemon"}},
	{"agent", "an entry of the table of agents",
		[]string{"agent/...", "cmd/...", "config", "daemon", "responder", "telemetry/...", "worker/..."}},

	{"agent/acp", "the Agent Client Protocol: how its lines are read; its dialect",
		[]string{"agent/...", "config", "live", "responder", "worker"}},

	{"normalizer/cloud", "the dialect of Codex Cloud's status", []string{"daemon"}},
	{"normalizer/external", "the dialect of linesman itself", []string{"daemon"}},
	{"normalizer/wire", "what dialects read in the same form", []string{"agent/...", "normalizer/cloud"}},
	{"normalizer", "lines to events, and the fold", []string{"agent/...", "bus/...", "cmd/linesman", "daemon/...",
		"normalizer/...", "telemetry/metrics", "worker/sessionlog"}},
	{"normalizer/scan", "the JSON scanner of the hot path", []string{"agent/...", "normalizer/..."}},
	{"runs", "raw log entries and the run record", []string{everyone}},
	{"bounds", "the size rules", []string{everyone}},
	{"internal/delivery", "deliveries at least once: how many at a time, pauses, giving up",
		[]string{"bus", "cmd/watch", "responder/webhook"}},
	{"internal/lazy", "expressions that are compiled at their first use", []string{everyone}},
	{"internal/files", "file locks; files written completely or not at all", []string{everyone}},
}

// Alone are the packages that import nothing of this module but internal/files.
var Alone = []string{"bounds", "bus/reader", "daemon/memory", "internal/files", "internal/lazy", "normalizer/scan",
	"responder/httpserver", "web"}

// Pure packages are functions of their input: no clock, no file, no network, nothing from outside
// this module, and nothing that runs concurrently.
var Pure = []string{"bounds", "runs", "normalizer/...", "agent/...", "live", "telemetry/spans"}

// SpeakNATS are the packages that may import a client or server of NATS.
var SpeakNATS = []string{"bus/...", "daemon/datadir", "responder/natsagents", "responder/natsapi"}

// matches reports whether a package is one of the patterns: a package, or "cmd/...".
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		below, tree := strings.CutSuffix(p, "/...")
		return p == everyone || p == name || tree && (name == below || strings.HasPrefix(name, below+"/"))
	})
}

// roomOf returns the row of a package.
func roomOf(name string) (Room, bool) {
	find := func(path string) (Room, bool) {
		at := slices.IndexFunc(Rooms, func(r Room) bool { return r.Path == path })
		if at < 0 {
			return Room{}, false
		}
		return Rooms[at], true
	}
	if r, ok := find(name); ok {
		return r, true
	}
	if at := strings.LastIndexByte(name, '/'); at >= 0 {
		return find(name[:at] + "/*")
	}
	return Room{}, false
}

// Tree is the table for people: a line for each row, the inner rooms below their room.
func Tree() string {
	var b strings.Builder
	line := func(name string, r Room) {
		pure := ""
		if matches(Pure, strings.TrimSuffix(r.Path, "/*")) {
			pure = "; pure"
		}
		fmt.Fprintf(&b, "%-16s %s%s\n", name+"/", r.Holds, pure)
	}
	for at, r := range Rooms {
		room := topOf(r.Path)
		if slices.ContainsFunc(Rooms[:at], func(r Room) bool { return topOf(r.Path) == room }) {
			continue // it is there already
		}
		if own, ok := roomOf(room); ok {
			line(room, own)
		} else {
			fmt.Fprintf(&b, "%s/\n", room)
		}
		for _, r := range Rooms {
			if inner, ok := strings.CutPrefix(r.Path, room+"/"); ok {
				line("  "+inner, r)
			}
		}
	}
	return b.String()
}

// topOf is the room of a package.
func topOf(name string) string {
	room, _, _ := strings.Cut(name, "/")
	return room
}
