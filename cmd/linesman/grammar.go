package main

import (
	"cmp"
	"embed"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/config"
)

// grammar is the command line. A flag with the tag `setting` is a setting of
// package config under another name: its help comes from there, and its value
// goes there unchanged, so that flags, environment and file are read by
// the same code. Commands with the tag `settings:"none"` load none. Those with the
// tag `logs` log at the level of the settings, others only warnings and errors,
// unless a level was set; and no closed stdout or stderr ends them.
type grammar struct {
	NATS      string `name:"nats" setting:"nats" placeholder:"URL" help:"${nats}" group:"settings"`
	Creds     string `name:"creds" setting:"creds" placeholder:"FILE" help:"${creds}" group:"settings"`
	DataDir   string `name:"data-dir" setting:"data_dir" placeholder:"DIR" help:"${data_dir}" group:"settings"`
	Config    string `name:"config" placeholder:"FILE" help:"TOML file with settings ($$LINESMAN_CONFIG). By default those of the user and of the data directory: see \"linesman config\"." group:"settings"`
	LogLevel  string `name:"log-level" setting:"log_level" placeholder:"LEVEL" help:"${log_level}" group:"settings"`
	NoDaemon  bool   `name:"no-daemon" setting:"background.start" help:"Do not start \"linesman up\" in the background: fail if none is running ($$LINESMAN_BACKGROUND_START)." group:"settings"`
	LogFormat string `name:"log-format" setting:"log_format" placeholder:"FORMAT" help:"${log_format}" group:"settings"`

	VersionFlag versionFlag `name:"version" help:"Print the version."`

	Up         upCmd         `cmd:"" logs:"" help:"Run everything in one process, with its own NATS server."`
	Run        runCmd        `cmd:"" help:"Run one agent now and publish its output."`
	Tail       tailCmd       `cmd:"" logs:"" help:"Follow JSONL files of other programs, each file one run."`
	Watch      sessionsCmd   `cmd:"" name:"watch-sessions" logs:"" help:"Follow the session logs of agents, each session one run."`
	Pipe       pipeCmd       `cmd:"" help:"Publish JSONL from stdin as one run."`
	Normalize  normalizeCmd  `cmd:"" help:"Convert JSONL on stdin to events on stdout, without NATS."`
	Submit     submitCmd     `cmd:"" help:"Queue a task for a worker, and print the id of its run."`
	Chat       chatCmd       `cmd:"" help:"Converse with a live run in the terminal."`
	Status     statusCmd     `cmd:"" help:"List running, queued and ended runs."`
	Ls         statusCmd     `cmd:"" help:"The same as status."`
	Top        topCmd        `cmd:"" help:"Show runs live in the terminal."`
	Logs       logsCmd       `cmd:"" help:"Print what a run did, with the output of its commands."`
	Attach     attachCmd     `cmd:"" help:"Follow a run to its end, and exit with its exit code."`
	Diff       diffCmd       `cmd:"" help:"Print what changed in the directory of a run."`
	Results    resultsCmd    `cmd:"" help:"Print the result of a run."`
	Wait       waitCmd       `cmd:"" help:"Wait for the end of a run."`
	Questions  questionsCmd  `cmd:"" help:"List the questions of runs that wait for an answer."`
	Answer     answerCmd     `cmd:"" help:"Answer a question of a run."`
	Sessions   threadsCmd    `cmd:"" help:"List the threads that a task can continue."`
	Send       sendCmd       `cmd:"" help:"Send a message to a live run that is kept."`
	Set        setCmd        `cmd:"" help:"Change mode or model of a live run that is kept."`
	End        endCmd        `cmd:"" help:"End a live run that is kept, after its turn."`
	Cancel     cancelCmd     `cmd:"" help:"Cancel a run, or its turn."`
	Unfollow   unfollowCmd   `cmd:"" help:"Stop following a session; its agent keeps running."`
	Events     eventsCmd     `cmd:"" help:"Print the events of runs."`
	Notify     watchCmd      `cmd:"" name:"watch" logs:"" help:"Report runs that end, stall, wait or exceed a budget."`
	Worker     workerCmd     `cmd:"" logs:"" help:"Run a worker for a NATS cluster: take tasks and run them."`
	Normalizer normalizerCmd `cmd:"" logs:"" help:"Run the normalizer of a NATS cluster, or its standby."`
	Responder  responderCmd  `cmd:"" logs:"" help:"Answer requests about runs, for a NATS cluster."`
	MCP        mcpCmd        `cmd:"" name:"mcp" help:"Answer an MCP client over stdin and stdout."`
	Page       pageCmd       `cmd:"" help:"Print a link that signs a browser in to the page."`
	Bridge     bridgeCmd     `cmd:"" help:"Answer requests that programs leave as files."`
	Forget     forgetCmd     `cmd:"" help:"Erase a run that has ended."`
	Rebuild    rebuildCmd    `cmd:"" help:"Derive events and runs again from the raw log, and compare."`
	Down       downCmd       `cmd:"" help:"Stop the \"linesman up\" of the data directory."`
	Health     healthCmd     `cmd:"" help:"Check that linesman accepts and stores data."`
	Doctor     doctorCmd     `cmd:"" help:"Check what linesman needs on this machine, and give advice."`
	Agents     agentsCmd     `cmd:"" help:"List the agents of this machine, with their versions."`
	Settings   configCmd     `cmd:"" name:"config" help:"Print, edit and check the settings."`
	Token      tokenCmd      `cmd:"" help:"Create, list and revoke tokens for callers over HTTP."`
	Setup      setupCmd      `cmd:"" help:"Set up agents, or NATS servers, for linesman."`
	Context    contextCmd    `cmd:"" help:"Print a context for the nats CLI."`
	Version    versionCmd    `cmd:"" settings:"none" help:"Print the version."`
	Help       helpCmd       `cmd:"" settings:"none" help:"Explain a command."`
	Completion completionCmd `cmd:"" settings:"none" help:"Print a completion script for a shell."`

	Complete completeCmd `cmd:"" settings:"none" hidden:"" help:"Print completions of a command line."`
	Hook     hookCmd     `cmd:"" hidden:"" help:"Note what an event of an agent says about its session."`
	Shim     shimCmd     `cmd:"" settings:"none" hidden:"" help:"Own one agent process."`
	Play     playCmd     `cmd:"" settings:"none" hidden:"" help:"Print a recorded run, for up --demo."`
}

// commandAlone returns the [grammar] with one command alone, nil if there is no such command. To build that of all
// takes a third of the CPU time of a short command.
func commandAlone(command string) any {
	var fields []reflect.StructField
	found := false
	all := reflect.TypeFor[grammar]()
	for i := range all.NumField() {
		f := all.Field(i)
		if _, is := f.Tag.Lookup("cmd"); is {
			if cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name)) != command {
				continue
			}
			found = true
		}
		fields = append(fields, f)
	}
	if !found {
		return nil
	}
	return reflect.New(reflect.StructOf(fields)).Interface()
}

// helpTexts are the details of the commands: help/bridge-list.txt is that of
// `linesman bridge list`.
//
//go:embed help
var helpTexts embed.FS

func helpText(node *kong.Node) string {
	name := strings.ReplaceAll(cmp.Or(node.Path(), "linesman"), " ", "-")
	text, err := helpTexts.ReadFile("help/" + name + ".txt")
	if err != nil { // a command without one
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

// addHelp gives the commands their texts, and a flag with the help "${NAME}" the
// help of the setting of that name. As variables of kong these would be expanded
// for each value of the grammar, which takes longer than the rest of a short
// command.
func addHelp(k *kong.Kong) error {
	settings := map[string]string{
		"${run}": "The run: its id, a unique beginning or end of it, \"last\", or a label such as ticket=42.",
	}
	for _, s := range config.Settings() {
		text := strings.TrimSuffix(s.Help, ".") + " ($" + s.Env()
		if v := s.Value(); v != "" {
			text += ", default " + v
		}
		settings["${"+strings.ReplaceAll(s.Key, ".", "_")+"}"] = text + ")."
	}
	agents := strings.NewReplacer(
		"${agents}", strings.Join(known.Agents.Names(), ", "),
		"${one_agent}", oneOf(known.All()),
		"${session_agents}", oneOf(slices.DeleteFunc(slices.Clone(known.Agents), func(a agent.Agent) bool {
			return len(a.Sessions.Files) == 0
		})))
	help := func(text string) string { return agents.Replace(cmp.Or(settings[text], text)) }
	k.Model.Help = helpText(k.Model.Node)
	_ = kong.Visit(k.Model, func(v kong.Visitable, next kong.Next) error {
		if n, ok := v.(*kong.Node); ok {
			n.Detail = helpText(n)
		}
		return next(nil)
	})
	return setHelp(k, help)
}

// setHelp replaces the help of flags and arguments, before kong looks for its own variables in it.
func setHelp(k *kong.Kong, help func(string) string) error {
	return kong.Visit(k.Model, func(v kong.Visitable, next kong.Next) error {
		switch v := v.(type) {
		case *kong.Flag:
			v.Help = help(v.Help)
		case *kong.Value:
			v.Help = help(v.Help)
		}
		return next(nil)
	})
}

// oneOf lists the names of agents, for people.
func oneOf(all agent.Table) string {
	text := strings.Join(all.Names(), ", ")
	if at := strings.LastIndex(text, ", "); at >= 0 {
		text = text[:at] + " or" + text[at+1:]
	}
	return text
}
