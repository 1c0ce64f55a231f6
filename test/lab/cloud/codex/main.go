// Command codex stands in for the Codex CLI in tests, as far as `codex cloud`
// goes: it prints what version 0.169.0 prints, from the service that
// CODEX_CLOUD_STANDIN names. See package test/cloud.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/linesman/linesman/test/lab/cloud"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	service := &cloud.Service{Dir: os.Getenv(cloud.StateVar)}
	if len(args) == 1 && args[0] == "hang" {
		return hang(service, false)
	}
	if len(args) == 1 && args[0] == "--version" {
		fmt.Println("codex-cli 0.169.0")
		return 0
	}
	if len(args) < 2 || args[0] != "cloud" {
		return usage("unrecognized subcommand")
	}
	name, flags, rest, err := parse(args[1:])
	if err != nil {
		return usage(err.Error())
	}
	// Every command does this to its working directory.
	log, err := os.OpenFile("error.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		fmt.Fprintln(log, "[2026-11-21T14:13:59.585043440+00:00] startup: base_url=https://chatgpt.com/backend-api "+
			"path_style=wham")
		log.Close()
	}
	behave := ""
	cwd, _ := os.Getwd()
	err = service.Change(func(st *cloud.State) {
		behave = st.Behave[name]
		c := cloud.Call{Args: args[1:], Cwd: cwd}
		if len(rest) > 0 && rest[0] != "-" {
			c.Task = rest[0]
		}
		st.Calls = append(st.Calls, c)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 70
	}
	switch behave {
	case cloud.SignedOut:
		fmt.Fprintln(os.Stderr, "WARNING: proceeding, even though we could not create PATH aliases")
		fmt.Fprintln(os.Stderr, "Not signed in. Please run 'codex login' to sign in with ChatGPT, then re-run 'codex cloud'.")
		return 1
	case cloud.Hang:
		return hang(service, true)
	case cloud.Leave:
		return leave(service)
	case cloud.Garbage:
		for range 96 {
			os.Stdout.Write(bytes.Repeat([]byte("\x00\xff\x1b[31mgarbage\r"), 6000))
		}
		return 0
	case cloud.Silent:
		return 0
	case cloud.Crash:
		fmt.Fprint(os.Stderr, "\x1b[33mwarning:\x1b[0m something is deprecated\n",
			"Error: http error: POST https://user:hunter2@chatgpt.com/x: Bearer abcdef0123456789 \xff"+strings.Repeat("x", 3000)+
				" the end\n",
			"\nStack backtrace:\n   0: std::backtrace::Backtrace::create\n             at "+
				"/rustc/library/std/src/backtrace.rs:331:13\n   1: main\n")
		return 1
	case cloud.NotFound:
		fmt.Fprintln(os.Stderr, `Error: http error: GET https://chatgpt.com/backend-api/wham/tasks/x failed: 404 Not Found; content-type=application/json; body={"detail":"no such task"}`)
		return 1
	case cloud.Offline:
		fmt.Fprintln(os.Stderr,
			"Error: error sending request for url (https://chatgpt.com/backend-api/wham/tasks): dns error")
		return 1
	}
	switch name {
	case "exec":
		status := submit(service, flags, rest)
		if behave == cloud.LateHang {
			return hang(service, true)
		}
		return status
	case "status":
		return status(service, last(rest[0]))
	case "list":
		return list(service, flags)
	default:
		return diff(service, last(rest[0]))
	}
}

func submit(service *cloud.Service, flags map[string]string, rest []string) int {
	prompt := []byte(strings.Join(rest, ""))
	if len(rest) == 0 || rest[0] == "-" {
		var err error
		if prompt, err = io.ReadAll(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, "Error: failed to read query from stdin")
			return 1
		}
		if strings.TrimSpace(string(prompt)) == "" {
			fmt.Fprintln(os.Stderr, "Error: no query provided via stdin (received empty input).")
			return 1
		}
	}
	attempts, _ := strconv.Atoi(flags["attempts"])
	found := false
	var t cloud.Task
	err := service.Change(func(st *cloud.State) {
		for _, env := range st.Environments {
			found = found || env == flags["env"]
		}
		if found {
			t = st.Submit(string(prompt), flags["branch"], attempts)
		}
	})
	if err != nil || !found {
		fmt.Fprintf(os.Stderr, "Error: environment '%s' not found; run `codex cloud` to list available environments\n",
			flags["env"])
		return 1
	}
	fmt.Println(cloud.URL(t.ID))
	return 0
}

func status(service *cloud.Service, id string) int {
	var t cloud.Task
	found := false
	if err := service.Change(func(st *cloud.State) { t, found = st.Look(id) }); err != nil || !found {
		fmt.Fprintln(os.Stderr, "Error: http error: GET task failed: 404 Not Found")
		return 1
	}
	fmt.Print(t.Status())
	if t.Plan[0] != "READY" {
		return 1
	}
	return 0
}

func list(service *cloud.Service, flags map[string]string) int {
	limit, from := 20, 0
	if n, err := strconv.Atoi(flags["limit"]); err == nil {
		limit = n
	}
	if n, err := strconv.Atoi(flags["cursor"]); err == nil {
		from = n
	}
	var out []byte
	err := service.Change(func(st *cloud.State) { out, _ = st.List(limit, from) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	os.Stdout.Write(out)
	return 0
}

func diff(service *cloud.Service, id string) int {
	st, err := service.State()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	for _, t := range st.Tasks {
		if t.ID == id && t.Diff != "" {
			fmt.Print(t.Diff)
			return 0
		}
	}
	fmt.Fprintf(os.Stderr, "Error: No diff available for task %s; it may still be running.\n", id)
	return 1
}

// parse reads the arguments of a command as the real program would.
func parse(args []string) (name string, flags map[string]string, rest []string, err error) {
	name, args = args[0], args[1:]
	takes := map[string][]string{"exec": {"env", "attempts", "branch"}, "status": {}, "list": {"env", "limit", "cursor",
		"json"}, "diff": {"attempt"}}[name]
	if takes == nil {
		return "", nil, nil, fmt.Errorf("unrecognized subcommand '%s'", name)
	}
	flags = map[string]string{}
	for len(args) > 0 {
		flag, ok := strings.CutPrefix(args[0], "--")
		if !ok {
			if strings.HasPrefix(args[0], "-") && args[0] != "-" {
				return "", nil, nil, fmt.Errorf("unexpected argument '%s' found", args[0])
			}
			rest, args = append(rest, args[0]), args[1:]
			continue
		}
		flag, value, given := strings.Cut(flag, "=")
		known := false
		for _, f := range takes {
			known = known || f == flag
		}
		args = args[1:]
		switch {
		case !known:
			return "", nil, nil, fmt.Errorf("unexpected argument '--%s' found", flag)
		case flag == "json":
		case !given && len(args) == 0:
			return "", nil, nil, fmt.Errorf("a value is required for '--%s'", flag)
		case !given:
			value, args = args[0], args[1:]
		}
		flags[flag] = value
	}
	number := func(flag string, most int) bool {
		n, err := strconv.Atoi(flags[flag])
		return flags[flag] == "" || err == nil && n >= 1 && n <= most
	}
	switch {
	case name == "exec" && flags["env"] == "":
		err = fmt.Errorf("the following required arguments were not provided:\n  --env <ENV_ID>")
	case (name == "status" || name == "diff") && len(rest) != 1:
		err = fmt.Errorf("the following required arguments were not provided:\n  <TASK_ID>")
	case !number("attempts", 4):
		err = fmt.Errorf("invalid value for '--attempts <ATTEMPTS>': attempts must be between 1 and 4")
	case !number("limit", 20):
		err = fmt.Errorf("invalid value for '--limit <N>': limit must be between 1 and 20")
	}
	return name, flags, rest, err
}

func usage(what string) int {
	fmt.Fprintf(os.Stderr, "error: %s\n\nFor more information, try '--help'.\n", what)
	return 2
}

// hang never ends by itself, and does not heed a polite signal. The first of
// the two processes starts the second, as npm's launcher does.
func hang(service *cloud.Service, launcher bool) int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if launcher && start() != nil {
		return 70
	}
	if _, err := service.Hold(); err != nil {
		return 70
	}
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR2)
	<-never
	return 0
}

// leave fails, and leaves a process that hangs from its start on.
func leave(service *cloud.Service) int {
	held, err := service.Hold()
	if err != nil || start(held) != nil {
		return 70
	}
	return 1
}

// start starts a process that hangs and holds the output, and files.
func start(files ...*os.File) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self, "hang")
	child.Stdout, child.Stderr, child.ExtraFiles = os.Stdout, os.Stderr, files
	return child.Start()
}

func last(id string) string { return filepath.Base(id) }
