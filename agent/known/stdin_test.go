package known_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
	lab "github.com/linesman/linesman/test/lab/agents"
)

// The real agents read a prompt that is too long for an argument from stdin, all of it.
func TestRealAgentsReadALongPromptOnStdin(t *testing.T) {
	const first, last = "--help \"first\" words\n", "\nthe last words"
	line := "- a step of a plan, with 'quotes', $HOME and <tags> & more\n"
	prompt := first + strings.Repeat(line, (runs.MaxPrompt-len(first)-len(last))/len(line)) + last
	for _, a := range known.Agents {
		t.Run(a.Short, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			argv, out := runReal(t, a, dir, prompt)
			if strings.Contains(strings.Join(argv, " "), "first") {
				t.Fatalf("the prompt is in the command line: %.200q", argv)
			}
			var want bytes.Buffer
			encoder := json.NewEncoder(&want)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(strings.TrimSpace(prompt)); err != nil {
				t.Fatal(err)
			}
			text := bytes.Trim(want.Bytes(), "\"\n")
			for _, body := range lab.Requests(t, dir) {
				if bytes.Contains(body, text) {
					return
				}
			}
			for i, body := range lab.Requests(t, dir) {
				t.Logf("request %d: %d bytes, first words %v, last words %v", i, len(body),
					bytes.Contains(body, []byte("first")), bytes.Contains(body, []byte("the last words")))
			}
			t.Errorf("the model was not asked the whole prompt; the agent printed %.1000s", out)
		})
	}
}

// The real agents get a short prompt as it is: it is one text of a request to the model.
func TestRealAgentsGetThePromptByteForByte(t *testing.T) {
	for _, a := range known.Agents {
		t.Run(a.Short, func(t *testing.T) {
			t.Parallel()
			for _, prompt := range []string{
				`  Say "it is" in 'two'  words, \"then\" $HOME; rm -rf *` + "\n\n\tof  the   end -- 1e3 \\ é 🎉 <tag> & %s  ",
				"-p --help  \"--\" it", "42",
			} {
				dir := t.TempDir()
				_, out := runReal(t, a, dir, prompt)
				bodies := lab.Requests(t, dir)
				asked := false
				for _, body := range bodies {
					var v any
					if err := json.Unmarshal(body, &v); err != nil {
						t.Fatal(err)
					}
					asked = asked || hasText(v, prompt)
				}
				if !asked {
					t.Errorf("the model was not asked %.200q, but %.3000s\n%.1000s", prompt, bodies, out)
				}
			}
		})
	}
}

// hasText reports whether a JSON value has a text in it.
func hasText(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return v == text
	case []any:
		for _, element := range v {
			if hasText(element, text) {
				return true
			}
		}
	case map[string]any:
		for _, member := range v {
			if hasText(member, text) {
				return true
			}
		}
	}
	return false
}

// runReal runs a task with a real agent in dir, and returns its command line and its output.
func runReal(t *testing.T, a agent.Agent, dir, prompt string) (argv []string, output []byte) {
	t.Helper()
	env, lines, project := lab.Setup(t, a.Short+"-hello", dir)
	task := runs.Task{Prompt: prompt, Attributes: runs.Attributes{Mode: runs.ReadOnly, Dir: project}, SkipGit: true}
	how := a.Launch
	how.Command = lines[0][:1]
	argv = how.Argv(task, "")
	in := filepath.Join(dir, "in")
	input := ""
	if how.OnStdin(prompt) {
		input = prompt
	}
	if err := os.WriteFile(in, []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	stdin, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin = env, project, stdin
	if how.Set != nil {
		cmd.Env = append(cmd.Env, how.Set(task)...)
	}
	if output, err = cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %.2000s", err, output)
	}
	return argv, output
}
