package test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// helps are the texts of --help of all commands, by the command line.
func helps(t *testing.T, program string) map[string]string {
	t.Helper()
	all := map[string]string{}
	help := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), program, slices.Concat(args, []string{"--help"})...).Output()
		if err != nil {
			t.Fatalf("linesman %q --help: %v", args, err)
		}
		all[strings.Join(slices.Concat([]string{"linesman"}, args, []string{"--help"}), " ")] = string(out)
		return string(out)
	}
	_, list, _ := strings.Cut(help(), "Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		words := strings.Fields(name)
		for i := range words {
			help(words[:i+1]...)
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %d commands have a help", len(all))
	}
	return all
}

// foreign are flags of other programs.
var foreign = map[string]string{
	"auth": "a2a", "stream": "a2a", "url": "codex mcp add", "bearer-token-env-var": "codex mcp add",
	"sandbox": "codex exec", "output-format": "claude", "verbose": "claude", "format": "opencode run",
	"context": "nats", "inbox-prefix": "nats", "git": "git diff", "global": "git config", "init": "docker run",
	"version": "codex",
}

var (
	offered = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z][a-z0-9-]*)`)
	named   = regexp.MustCompile(`(?:^|[^-\w])--([a-z][a-z0-9-]*)`)
)

// Each flag that a help text or a page names is one of linesman's commands, or
// of another program that is known here.
func TestNamedFlagsExist(t *testing.T) {
	texts := helps(t, filepath.Join(install(t, "./cmd/linesman"), "linesman"))
	ours := map[string]bool{}
	for _, text := range texts {
		for _, m := range offered.FindAllStringSubmatch(text, -1) {
			ours[m[1]] = true
		}
	}
	for name, page := range documents(t) {
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
