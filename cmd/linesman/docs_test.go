package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
)

const root = "../.." // of the checkout

// quoted is the program at the start of a command: of a line, behind a pipe,
// run from the source, or in a unit of systemd.
var quoted = regexp.MustCompile(`(?:^ *|\| |ExecStart=\S*/|go run \./cmd/)linesman ([^|<>&]+)`)

// commands are the linesman commands in the blocks of a page, as arguments.
func commands(page string) [][]string {
	var all [][]string
	fenced := false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if !fenced && !strings.HasPrefix(line, "    ") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			command, _, _ := strings.Cut(m[1], " #")
			all = append(all, shellWords(command))
		}
	}
	return all
}

// shellWords splits a command as a shell does; double quotes are all it knows.
func shellWords(command string) []string {
	var all []string
	for i, part := range strings.Split(command, `"`) {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// A setting that does not exist keeps a command from running, and all mistakes
// are reported at once: what is left is what is wrong with the command itself.
func TestQuotedCommandsParse(t *testing.T) {
	const nonsense = "LINESMAN_NO_SUCH_SETTING"
	environ := []string{nonsense + "=1", "HOME=" + t.TempDir()}
	mistakes := func(args []string) (all []string) {
		call, err := parse(args, io.Discard)
		if !call.needsSettings {
			if err != nil {
				all = append(all, err.Error())
			}
			return all
		}
		var stderr bytes.Buffer
		run(t.Context(), args, environ, strings.NewReader(""), io.Discard, &stderr)
		for line := range strings.Lines(stderr.String()) {
			line = strings.TrimSuffix(line, "\n")
			if !strings.Contains(line, nonsense) && !strings.HasSuffix(line, "no such file or directory") &&
				!strings.HasPrefix(line, "Run \"linesman") {
				all = append(all, line)
			}
		}
		return all
	}
	if len(mistakes([]string{"events", "--nope"})) == 0 || len(mistakes([]string{"evnts"})) == 0 {
		t.Fatal("this test does not see mistakes")
	}
	pages := fixture.Documents(t, root)
	maps.Copy(pages, helps(t))
	t.Chdir(root + "/docs") // where a page names a file
	parsed := map[string]bool{}
	for name, page := range pages {
		for _, args := range commands(page) {
			if command := fmt.Sprintf("%q", args); !parsed[command] {
				parsed[command] = true
				for _, mistake := range mistakes(args) {
					t.Errorf("%s: linesman %s: %s", name, command, mistake)
				}
			}
		}
	}
	if len(parsed) < 100 {
		t.Errorf("only %d commands", len(parsed))
	}
}

func grammarOf(t *testing.T) *kong.Node {
	t.Helper()
	k, err := newParser(&grammar{}, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return k.Model.Node
}

// helps are the texts of --help of all commands, by the command line.
func helps(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	var visit func(n *kong.Node)
	visit = func(n *kong.Node) {
		if n.Hidden {
			return
		}
		args := append(strings.Fields(n.FullPath())[1:], "--help")
		var help bytes.Buffer
		if _, err := parse(args, &help); err != nil || help.Len() == 0 {
			t.Fatalf("linesman %q: %v", args, err)
		}
		all["linesman "+strings.Join(args, " ")] = help.String()
		for _, c := range n.Children {
			visit(c)
		}
	}
	visit(grammarOf(t))
	if len(all) < 20 {
		t.Fatalf("only %d commands have a help", len(all))
	}
	return all
}

// foreign are flags of other programs.
var foreign = map[string]string{
	"auth": "a2a", "stream": "a2a", "url": "codex mcp add", "bearer-token-env-var": "codex mcp add",
	"sandbox": "codex exec", "output-format": "claude", "verbose": "claude", "format": "opencode run",
	"context": "nats", "inbox-prefix": "nats", "replies": "nats", "reply-timeout": "nats", "wait-for-empty": "nats",
	"git": "git diff", "global": "git config", "init": "docker run",
	"version": "codex", "acp": "gemini",
}

var (
	offered = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z][a-z0-9-]*)`)
	named   = regexp.MustCompile(`(?:^|[^-\w])--([a-z][a-z0-9-]*)`)
)

// Each flag that a help text or a page names is one of linesman's commands, or
// of another program that is known here.
func TestNamedFlagsExist(t *testing.T) {
	texts := helps(t)
	ours := map[string]bool{}
	for _, text := range texts {
		for _, m := range offered.FindAllStringSubmatch(text, -1) {
			ours[m[1]] = true
		}
	}
	for name, page := range fixture.Documents(t, root) {
		if name != "CHANGELOG.md" { // what there was
			texts[name] = page
		}
	}
	for name, text := range texts {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if !ours[m[1]] && foreign[m[1]] == "" {
				t.Errorf("%s: there is no flag --%s", name, m[1])
			}
		}
	}
}

// What the help of normalize selects by jq is in an event.
func TestKeyInTheHelpOfNormalizeExists(t *testing.T) {
	var out, stderr bytes.Buffer
	in := strings.NewReader(`{"type":"turn.started"}` + "\n")
	code := run(t.Context(), []string{"normalize"}, []string{"HOME=" + t.TempDir()}, in, &out, &stderr)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	keys := regexp.MustCompile(`\| jq \.(\S+)`).FindAllStringSubmatch(helps(t)["linesman normalize --help"], -1)
	if len(keys) == 0 {
		t.Error("it names no key")
	}
	for _, m := range keys {
		if !gjson.GetBytes(out.Bytes(), m[1]).Exists() {
			t.Errorf("an event has no %s: %s", m[1], &out)
		}
	}
}
