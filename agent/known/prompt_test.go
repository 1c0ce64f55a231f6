package known_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
)

func TestThePromptIsFoundInCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"":                                                     "",
		"codex":                                                "",
		"codex|exec":                                           "",
		"codex|exec|--json|Fix it.":                            "Fix it.",
		"codex|exec|Fix it.|--json":                            "Fix it.",
		"codex|exec|--json|-":                                  "",
		"codex|exec|--json|--|-":                               "",
		"codex|exec|--json|--|-\n":                             "-",
		"codex|exec|--json|--|resume":                          "resume",
		"codex|exec|-m|gpt|Fix":                                "Fix",
		"codex|exec|-mgpt|--model=x|Fix":                       "Fix",
		"codex|-c|a=b|exec|-s|read-only|Go":                    "Go",
		"codex|exec|-o|out.txt":                                "",
		"codex|exec|-i|a.png|Fix":                              "",
		"codex|exec|-i|a.png|--json|Fix":                       "Fix",
		"codex|exec|-i|a.png|--|Fix":                           "Fix",
		"codex|exec|--new-flag|Fix":                            "",
		"codex|exec|--new-flag=x|Fix":                          "Fix",
		"codex|exec|--new-flag|--json|Fix":                     "Fix",
		"codex|exec|--new-flag|x|--|Fix":                       "Fix",
		"codex|exec|resume|--last|Again":                       "Again",
		"codex|exec|resume|01a1|Again":                         "Again",
		"codex|exec|resume|01a1":                               "",
		"codex|exec|resume|--|01a1|Again":                      "Again",
		"codex|login":                                          "",
		"env|A=b|codex|exec|Fix":                               "Fix",
		"npx|-y|codex@0.169.0|exec|Fix":                        "Fix",
		"/opt/bin/codex|exec|Fix":                              "Fix",
		"sh|-c|codex exec Fix":                                 "",
		"claude|-p|Fix it.|--verbose":                          "Fix it.",
		"claude|-p|--output-format|stream-json|--verbose|Fix":  "Fix",
		"claude|--model|opus|-p|Fix":                           "Fix",
		"claude|-p|Fix|--resume|01a1":                          "Fix",
		"claude|-p|--allowedTools|Bash|Edit":                   "",
		"claude|-p|Fix|--allowedTools|Bash|Edit":               "Fix",
		"claude|-p|--new-flag|Fix":                             "",
		"claude|-p|Fix|more":                                   "Fix",
		"gemini|-p|Fix it.":                                    "Fix it.",
		"gemini|-o|stream-json|-p|Fix":                         "Fix",
		"gemini|--prompt=Fix|-m|flash":                         "Fix",
		"gemini|-pFix":                                         "Fix",
		"gemini|-y|Fix|it.":                                    "Fix it.",
		"gemini|-m|flash":                                      "",
		"opencode|run|Fix|it.":                                 "Fix it.",
		"opencode|run|--format|json|Fix it.|-m|a/b":            "Fix it.",
		"opencode|run|-f|a.txt|--format|json|--|Fix it.":       "Fix it.",
		"opencode|serve|--port|80":                             "",
		"opencode|run|--new-flag|x|Fix":                        "",
		"opencode|run|--session=ses_1|--model|a/b|--auto|Fix.": "Fix.",
	} {
		var argv []string
		if line != "" {
			argv = strings.Split(line, "|")
		}
		if got := known.Agents.Prompt(argv); got != want {
			t.Errorf("%q: %q, want %q", argv, got, want)
		}
	}
}

// The prompt of a task is found in its command line, whatever it is. One on stdin is not there.
func TestThePromptOfATaskIsFound(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"Go.", "-", "--", "--last", "-c", "resume", "exec",
		"a=b", "--prompt=x", "run"}))
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom(known.Agents).Draw(t, "agent")
		task := runs.Task{
			Attributes: runs.Attributes{Mode: rapid.SampledFrom([]runs.Mode{runs.ReadOnly, runs.WorkspaceWrite,
				runs.DangerFull}).Draw(t, "mode"), Dir: rapid.SampledFrom([]string{"", "/d", "/a=b c"}).Draw(t, "dir"),
				Model: text.Draw(t, "model"), Thread: text.Draw(t, "thread")},
			SkipGit: rapid.Bool().Draw(t, "skip"),
			Prompt:  text.Filter(func(s string) bool { return s != "" && s != "-\n" }).Draw(t, "prompt"),
		}
		a.Command = rapid.SampledFrom([][]string{
			{a.Program}, {"/opt/" + a.Program}, {"env", "A=b", a.Program}, {a.Program, "-m", "x"}, {a.Program, "--new", "x"},
		}).Draw(t, "command")
		argv := a.Argv(task, rapid.SampledFrom([]string{"", "/s.json"}).Draw(t, "schema"))
		if a.Short == "opencode" && len(a.Command) > 2 && a.Command[0] != "env" {
			t.Skip("its command comes first")
		}
		want := task.Prompt
		if a.OnStdin(want) {
			want = ""
		}
		if got := known.Agents.Prompt(argv); got != want {
			t.Fatalf("%q: prompt %q, want %q", argv, got, want)
		}
	})
}
