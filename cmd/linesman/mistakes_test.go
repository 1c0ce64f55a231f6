package main

import (
	"bytes"
	"strings"
	"testing"
)

// Whatever is wrong with a command line, nothing is begun, and all of it is
// said: what the flags are, what their values mean together, and the settings.
func TestNoMistakeHidesAnother(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args    string
		environ []string
		want    []string
	}{
		{"normalize --agent nobody --exit-code 900 --max-line-bytes nope --foo", nil, []string{
			"unknown flag --foo",
			"max_line_bytes: not a size such as 64KiB, 8MiB or 1GiB, got \"nope\" (--max-line-bytes)",
			"--agent: \"nobody\" is not known; there is: codex, claude, gemini, opencode, copilot, qwen, kimi",
			"--exit-code: must be from 0 to 255, got 900",
		}},
		{"run --agent nobody --timeout=-1s true", nil, []string{
			"limits.hard: must not be negative, got -1s (--timeout)",
			"--agent: \"nobody\" is not known; there is: codex, claude, gemini, opencode, copilot, qwen, kimi",
			"the agent's command line must come after --",
		}},
		{"run --run a --resume b --label =c -- x", nil, []string{
			"--label: label: a key must have 1 to 64 bytes of printable text, one of 0 bytes has not",
			"--run and --resume: the id of a run that continues a task derives from the task's id",
		}},
		{"run -- ", nil, []string{"the agent's command line begins with an empty word"}},
		{"up --http 127.0.0.1:0 --nats-listen 127.0.0.1:0 --foo 127.0.0.1:0", nil, []string{`unknown flag --foo, did you mean "--root"?`}},
		{"pipe --agent nobody", []string{"LINESMAN_FOO=1"}, []string{
			"LINESMAN_FOO: no such setting",
			"--agent: \"nobody\" is not known; there is: codex, claude, gemini, opencode, copilot, qwen, kimi",
		}},
		{"tail --agent nobody --log-level loud x", nil, []string{
			"log_level: must be one of debug, info, warn, error, got \"loud\" (--log-level)",
			"--agent: \"nobody\" is not known; there is: codex, claude, gemini, opencode, copilot, qwen, kimi",
		}},
		{"events --since=-3s --kind x", nil, []string{
			"--kind: must be one of unknown, text_output, tool_call, tool_result, status, error, completion, got \"x\"",
			"--since: must not be negative, got -3s",
		}},
		{"events --nats nats://127.0.0.1:1 --creds /no/such.creds", []string{"LINESMAN_PUBLIC_CREDS=/no/other.creds"},
			[]string{
				"creds: open /no/such.creds: no such file or directory",
				"public_creds: open /no/other.creds: no such file or directory",
			}},
		{"ls --creds /no/such.creds --label =c", nil, []string{
			"--label: label: a key must have 1 to 64 bytes of printable text, one of 0 bytes has not",
			"--creds: needs --nats",
		}},
		{"run --nats nats://127.0.0.1:1 --creds /no/such.creds -- /bin/sh", nil, []string{
			"creds: open /no/such.creds: no such file or directory",
		}},
		{"events --nats nats://127.0.0.1:1 --creds /dev/null", nil, []string{
			"creds: /dev/null holds no credentials of a user (a .creds file)",
		}},
	} {
		var stdout, stderr bytes.Buffer
		environ := append([]string{"HOME=" + t.TempDir()}, tt.environ...)
		code := run(t.Context(), strings.Split(tt.args, " "), environ, strings.NewReader(""), &stdout, &stderr)
		said := stderr.String()
		if code != exitUsage || stdout.Len() > 0 {
			t.Errorf("%s: exit %d and %q on stdout, want %d and nothing", tt.args, code, stdout.String(), exitUsage)
		}
		for _, want := range tt.want {
			if !strings.Contains(said, "linesman: "+want+"\n") {
				t.Errorf("%s: does not say %q:\n%s", tt.args, want, said)
			}
		}
		if got := strings.Count(said, "linesman: "); got != len(tt.want) {
			t.Errorf("%s: %d mistakes, want %d:\n%s", tt.args, got, len(tt.want), said)
		}
	}
}
