package codex_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/runs"
)

// argv is the command line of a task.
func argv(command []string, task runs.Task, schema string) []string {
	l := codex.Agent.Launch
	l.Command = command
	return l.Argv(task, schema)
}

const thread = "01a1fe74-f5b4-7e33-89c9-b25c3e636bcc"

func TestCodexCommandLine(t *testing.T) {
	for name, row := range map[string]struct {
		command []string
		task    runs.Task
		schema  string
		want    []string
	}{
		"least": {
			command: []string{"codex"},
			task:    runs.Task{Attributes: runs.Attributes{Mode: runs.ReadOnly}, Prompt: "Go."},
			want:    []string{"codex", "exec", "--json", "--sandbox=read-only", "--", "Go."},
		},
		"all": {
			command: []string{"/opt/codex", "-c", "a=b"},
			task: runs.Task{
				Attributes: runs.Attributes{Mode: runs.WorkspaceWrite, Dir: "/srv/a b", Model: "m", Thread: thread,
					Labels: runs.LabelsOf(map[string]string{"k": "v"})}, SkipGit: true, Prompt: "Go.",
				Schema: []byte(`{}`), Env: runs.EnvPolicy{Policy: runs.InheritAll},
				Idle: 1, Hard: 2,
			},
			schema: "/run/schema.json",
			want: []string{
				"/opt/codex", "-c", "a=b", "exec", "--json", "--sandbox=workspace-write", "--cd=/srv/a b", "--model=m",
				"--output-schema=/run/schema.json", "--skip-git-repo-check", "resume", "--", thread, "Go.",
			},
		},
		"options": {
			command: []string{"codex"},
			task: runs.Task{Attributes: runs.Attributes{Mode: runs.DangerFull, Dir: "/srv", Model: "m", Thread: thread},
				Prompt: "Go.", AddDirs: []string{"/a b", "/-c"}, Unboxed: new(true)},
			want: []string{"codex", "exec", "--json", "--dangerously-bypass-approvals-and-sandbox", "--cd=/srv",
				"--add-dir=/a b", "--add-dir=/-c", "--model=m", "resume", "--", thread, "Go."},
		},
		"flags that are none": {
			command: []string{"codex"},
			task: runs.Task{Attributes: runs.Attributes{Mode: runs.DangerFull, Model: "--oss", Thread: "--last"},
				Prompt: "--help"},
			want: []string{"codex", "exec", "--json", "--sandbox=danger-full-access", "--model=--oss", "resume", "--",
				"--last", "--help"},
		},
		"a command that is none": {
			command: []string{"codex"},
			task:    runs.Task{Attributes: runs.Attributes{Mode: runs.ReadOnly}, Prompt: "resume"},
			want:    []string{"codex", "exec", "--json", "--sandbox=read-only", "--", "resume"},
		},
		"a dash is no stdin": {
			command: []string{"codex"},
			task:    runs.Task{Attributes: runs.Attributes{Mode: runs.ReadOnly}, Prompt: "-"},
			want:    []string{"codex", "exec", "--json", "--sandbox=read-only", "--", "-\n"},
		},
		"two dashes": {
			command: []string{"codex"},
			task:    runs.Task{Attributes: runs.Attributes{Mode: runs.ReadOnly}, Prompt: "--"},
			want:    []string{"codex", "exec", "--json", "--sandbox=read-only", "--", "--"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := argv(row.command, row.task, row.schema); !slices.Equal(got, row.want) {
				t.Errorf("got  %q\nwant %q", got, row.want)
			}
		})
	}
}

// Two tasks must not share the backing array of the configured command.
func TestCodexDoesNotChangeTheConfiguredCommand(t *testing.T) {
	command := append(make([]string, 0, 20), "codex", "-c", "a=b")
	one := argv(command, runs.Task{Attributes: runs.Attributes{Mode: runs.ReadOnly}, Prompt: "one"}, "")
	argv(command, runs.Task{Attributes: runs.Attributes{Mode: runs.ReadOnly}, Prompt: "two"}, "")
	if got := one[len(one)-1]; got != "one" {
		t.Errorf("got prompt %q, want %q", got, "one")
	}
}

// Every value of a task is found where codex looks for it: in the flags before
// the first "--"; behind it there are only the thread and the prompt.
func TestNoValueOfATaskBecomesAFlag(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(),
			rapid.SampledFrom([]string{"", "-", "--", "--last", "-c", "--sandbox=danger-full-access", "resume", "a=b", "\n"}))
		task := runs.Task{
			Attributes: runs.Attributes{Mode: rapid.SampledFrom([]runs.Mode{runs.ReadOnly, runs.WorkspaceWrite,
				runs.DangerFull}).Draw(t, "mode"), Dir: rapid.SampledFrom([]string{"", "/d", "/-d", "/a=b c"}).Draw(t, "dir"),
				Model: text.Draw(t, "model"), Thread: text.Draw(t, "thread")},
			Prompt:  text.Draw(t, "prompt"),
			SkipGit: rapid.Bool().Draw(t, "skip"),
		}
		schema := rapid.SampledFrom([]string{"", "/s.json", "/a=b"}).Draw(t, "schema")

		args := argv([]string{"codex"}, task, schema)
		end := slices.Index(args, "--")
		if end < 3 || !slices.Equal(args[:3], []string{"codex", "exec", "--json"}) {
			t.Fatalf("got %q", args)
		}
		flags, rest := args[3:end], args[end+1:]
		var got runs.Task
		gotSchema := ""
		for i, flag := range flags {
			switch name, value, _ := strings.Cut(flag, "="); name {
			case "--sandbox":
				got.Mode = runs.Mode(value)
			case "--cd":
				got.Dir = value
			case "--model":
				got.Model = value
			case "--output-schema":
				gotSchema = value
			case "--skip-git-repo-check":
				got.SkipGit = true
			case "resume":
				if i != len(flags)-1 || len(rest) != 2 {
					t.Fatalf("resume in the wrong place in %q", args)
				}
				got.Thread, rest = rest[0], rest[1:]
			default:
				t.Fatalf("flag %q in %q", flag, args)
			}
		}
		if len(rest) != 1 || (rest[0] == "-") != (task.Prompt == "") {
			t.Fatalf("got %q behind --, want one prompt, which is stdin if there is none", rest)
		}
		switch got.Prompt = rest[0]; task.Prompt {
		case "-":
			got.Prompt = strings.TrimSuffix(got.Prompt, "\n")
		case "":
			got.Prompt = ""
		}
		if got.Mode != task.Mode || got.Dir != task.Dir || got.Model != task.Model || got.Thread != task.Thread ||
			got.Prompt != task.Prompt || got.SkipGit != task.SkipGit || gotSchema != schema {
			t.Errorf("%q says %+v and schema %q, want %+v and %q", args, got, gotSchema, task, schema)
		}
	})
}

func TestOnlyAUUIDNamesAThread(t *testing.T) {
	for id, ok := range map[string]bool{
		"":                                   true, // a new thread
		thread:                               true,
		strings.ToUpper(thread):              true,
		"my thread":                          false,
		"-x":                                 false,
		"--last":                             false,
		thread[:35]:                          false,
		thread + "0":                         false,
		strings.ReplaceAll(thread, "-", ""):  false,
		strings.Replace(thread, "-", "0", 1): false,
		strings.Replace(thread, "0", "-", 1): false,
		strings.Replace(thread, "0", "g", 1): false,
		strings.Replace(thread, "0", "G", 1): false,
	} {
		err := codex.Agent.Check(runs.Task{Attributes: runs.Attributes{Thread: id}})
		var field *runs.FieldError
		switch {
		case ok && err != nil:
			t.Errorf("thread %q: %v", id, err)
		case !ok && (!errors.As(err, &field) || field.Field != "threadId"):
			t.Errorf("thread %q: got %v, want an error of the field threadId", id, err)
		case !ok && strings.Contains(err.Error(), id):
			t.Errorf("the error quotes the thread: %v", err)
		}
	}
}
