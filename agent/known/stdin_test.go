package known_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
			env, argv, project := lab.Setup(t, a.Short+"-hello", dir)
			task := runs.Task{Prompt: prompt, Attributes: runs.Attributes{Mode: runs.ReadOnly, Dir: project}, SkipGit: true}
			how := a.Launch
			how.Command = argv[0][:1]
			in := filepath.Join(dir, "in")
			if err := os.WriteFile(in, []byte(prompt), 0o600); err != nil {
				t.Fatal(err)
			}
			stdin, err := os.Open(in)
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			line := how.Argv(task, "")
			if strings.Contains(strings.Join(line, " "), "first") {
				t.Fatalf("the prompt is in the command line: %.200q", line)
			}
			cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
			cmd.Env, cmd.Dir, cmd.Stdin = env, project, stdin
			if how.Set != nil {
				cmd.Env = append(cmd.Env, how.Set(task)...)
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %.2000s", err, out)
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
