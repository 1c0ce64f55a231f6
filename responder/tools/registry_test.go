package tools_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/linesman/linesman/responder"
)

// atHome is a path as it is shown, wherever temporary files are.
func atHome(path string) string {
	home, _ := os.UserHomeDir()
	if below, ok := strings.CutPrefix(path, home+"/"); ok && home != "" {
		return "~/" + below
	}
	return path
}

func TestEnvironmentsOfBothShapesAreListed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "environments.json")
	s := newStage(t, func(c *responder.Config) { c.Environments = path })
	if a := ask(t, s.tools, "_codex_cloud_list_environments", ``); a.IsError || a.Meta["count"] != 0.0 ||
		a.Meta["source"] != atHome(path) {
		t.Errorf("a file that is not there: %s", a.Envelope)
	}
	for content, want := range map[string]string{
		`{}`: ``,
		`{"env_a":{"name":"A","repoUrl":"https://github.com/o/a","stack":"go","description":"The \"a\" <b>"},"env_b":{"name":"B"}}`:                   `env_a A https://github.com/o/a go <nil>|env_b B <nil> <nil> <nil>`,
		`{"environments":[{"id":"e","name":"E","repository":"https://github.com/o/e","tech_stack":"rust","created_at":"2025-11-01T02:00:00+02:00"}]}`: `e E https://github.com/o/e rust 2025-11-01T00:00:00.000Z`,
		`[{"id":"e"}]`:                           `e e <nil> <nil> <nil>`,
		`{"environments":{"name":"its id"}}`:     `environments its id <nil> <nil> <nil>`,
		`{"e":{"name":"E","created_at":"then"}}`: `e E <nil> <nil> <nil>`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		a := ask(t, s.tools, "_codex_cloud_list_environments", ``)
		var got []string
		list, _ := a.Data["environments"].([]any)
		for _, e := range list {
			m := e.(map[string]any)
			got = append(got, fmt.Sprint(m["id"], " ", m["name"], " ", m["repository"], " ", m["tech_stack"], " ",
				m["created_at"]))
		}
		if strings.Join(got, "|") != want || a.Meta["count"] != float64(len(got)) {
			t.Errorf("%s: %q, meta %v", content, got, a.Meta)
		}
	}
}

func TestTheHomeDirectoryIsNotTold(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	s := newStage(t, func(c *responder.Config) { c.Environments = filepath.Join(home, "dir", "environments.json") })
	const want = "~/dir/environments.json"
	if a := ask(t, s.tools, "_codex_cloud_list_environments", ``); a.Meta["source"] != want {
		t.Errorf("source %v, want %s", a.Meta["source"], want)
	}
	if err := os.Mkdir(filepath.Join(home, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "dir", "environments.json"), []byte("nope"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := ask(t, s.tools, "_codex_cloud_list_environments", ``); a.Error.Details["file"] != want {
		t.Errorf("an error about the file %v, want %s", a.Error.Details["file"], want)
	}
}

func TestBrokenEnvironmentsSayWhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "environments.json")
	s := newStage(t, func(c *responder.Config) { c.Environments = path })
	for content, line := range map[string]any{
		``:                                      1.0,
		"{\n\n  \"a\": nope\n}":                 3.0,
		"{\"a\":{}}\ntrailing":                  2.0,
		`"text"`:                                1.0,
		`null`:                                  1.0,
		"{\"a\":{},\n\"b\":[]}":                 2.0,
		"{\"a\":{},\n\"b\":{\"name\":1}}":       2.0,
		"[\n{\"id\":\"a\"},\n{\"name\":\"x\"}]": nil,
		"{\"\":{}}":                             1.0,
		"{\"a\":{\"name\":\"\\u0000\"}}":        1.0,
		"\xff":                                  nil,
		"{\"a\":{\"name\":\"" + strings.Repeat("n", 513) + "\"}}": 1.0,
		strings.Repeat(" ", 1<<20) + "{}":                         nil,
		strings.Repeat("[", 100_000):                              nil,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		a := ask(t, s.tools, "_codex_cloud_list_environments", `{"format":"json"}`)
		if a.Error.Code != "TOOL_ERROR" || a.Error.Details["file"] != atHome(path) || a.Error.Retryable {
			t.Errorf("%.60q: %s", content, a.Envelope)
		}
		if line != nil && a.Error.Details["line"] != line {
			t.Errorf("%.60q: line %v, want %v", content, a.Error.Details["line"], line)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil { // to read it would be to wait
		t.Fatal(err)
	}
	if a := ask(t, s.tools, "_codex_cloud_list_environments", ``); a.Error.Code != "TOOL_ERROR" {
		t.Errorf("a pipe: %s", a.Envelope)
	}
}

func TestGuideHoldsNothingThatRuns(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, url := range []string{"http://github.com/o/r", "https://gitlab.com/o/r", "https://github.com/o",
		"https://github.com/o/r/tree", "https://github.com/o/..",
		"https://github.com/o/r;rm", "https://github.com/o/$(id)", "https://github.com/o/`id`", "https://user@github.com/o/r",
		"https://github.com.evil/o/r", "https://github.com/-o/r",
		"https://github.com/o/r?x", "https://github.com/o/r#x"} {
		refused(t, ask(t, s.tools, "_codex_cloud_github_setup", args("repoUrl", url, "stack", "go")), "repoUrl", false)
	}
	for _, url := range []string{"https://github.com/Owner-1/repo.name_x", "https://github.com/o/r.git",
		"https://github.com/o/r/"} {
		if a := ask(t, s.tools, "_codex_cloud_github_setup", args("repoUrl", url, "stack", "node")); a.IsError ||
			len(a.Data["steps"].([]any)) != 3 {
			t.Errorf("%s: %s", url, a.Envelope)
		}
	}
	for _, email := range []string{"x", "a@b c", "a'@b.c", "-a@b.c", "a@b.c;id"} {
		refused(t, ask(t, s.tools, "_codex_cloud_github_setup", args(with(good["_codex_cloud_github_setup"], "gitUserEmail",
			email)...)), "gitUserEmail", false)
	}
	refused(t, ask(t, s.tools, "_codex_cloud_github_setup", args(with(good["_codex_cloud_github_setup"], "gitUserName",
		"--unset")...)), "gitUserName", false)

	// A shell takes any name for one word.
	for _, name := range []string{"it's", "$(touch owned)", "`touch owned`", "a\"b", "''; touch owned; '", "```", `\'`,
		"x'\\''; touch owned #"} {
		a := ask(t, s.tools, "_codex_cloud_github_setup", args("repoUrl", "https://github.com/o/r", "stack", "go",
			"gitUserName", name))
		step := a.Data["steps"].([]any)[2].(map[string]any)["instructions"].(string)
		_, word, _ := strings.Cut(step, "user.name ")
		word, _, _ = strings.Cut(word, "\ngit config")
		cmd := exec.Command("sh", "-c", "printf %s "+word)
		cmd.Dir = t.TempDir()
		if out, err := cmd.Output(); err != nil || string(out) != name {
			t.Errorf("%q: the shell reads %q, %v", name, out, err)
		}
		if files, _ := os.ReadDir(cmd.Dir); len(files) > 0 {
			t.Errorf("%q: the shell ran it", name)
		}
	}
}
