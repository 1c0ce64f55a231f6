package quiet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/bus/embedded"
)

// secretive makes a data directory with secrets, as linesman does.
func secretive(t *testing.T) (data string, password, token string) {
	t.Helper()
	data = t.TempDir()
	credentials, err := embedded.LoadCredentials(data)
	if err != nil {
		t.Fatal(err)
	}
	token = "a-token-of-another-shape"
	if err := os.WriteFile(filepath.Join(data, "token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return data, credentials[embedded.WorkerUser], token
}

func TestEachKindOfSecretIsFound(t *testing.T) {
	data, password, token := secretive(t)
	secrets, err := Secrets(data)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ log, want string }{
		"nothing":          {`{"level":"info","msg":"ready","run":"T-local-0mi3v7q2t4k9x1b"}`, ""},
		"a planted word":   {`{"msg":"taken","prompt":"` + Sentinel + `go"}`, "a word that a test planted"},
		"a line, escaped":  {`{"msg":"bad line","line":"{\"type\":\"item.completed\"}"}`, "a line of Codex"},
		"a password":       {"connect: user=worker password=" + password, "the password of worker"},
		"a password, URL":  {"nats://worker:" + password + "@127.0.0.1:4222", "the password of worker"},
		"the token":        {"Authorization: Bearer " + token, "the token"},
		"another token":    {"token " + strings.Repeat("0a", 32) + " is new", "a token or the like"},
		"a seed":           {"seed=SUA" + strings.Repeat("C", 55), "the seed of an NKey"},
		"a JWT":            {"creds: eyJ0eXAiOiJKV1QifQ.eyJqdGkiOiJYIn0.c2ln", "a JWT"},
		"a private key":    {"-----BEGIN EC PRIVATE" + " KEY-----", "a private key"},
		"longer than that": {"sum " + strings.Repeat("0a", 33), ""},
	} {
		want := []string(nil)
		if c.want != "" {
			want = []string{"line 2 has " + c.want}
		}
		got := Leaks([]byte("fine\n"+c.log+"\nfine\n"), secrets)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := Leaks([]byte(strings.Repeat(Sentinel+"\n", 2*MaxLeaks)), nil); len(got) != MaxLeaks {
		t.Errorf("%d leaks are told, want %d", len(got), MaxLeaks)
	}
}

func TestDamagedCredentialsAreNoQuiet(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "credentials.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Secrets(data); err == nil {
		t.Error("no error, though nobody knows the secrets")
	}
	if got, err := Secrets(t.TempDir()); err != nil || len(got) != 0 {
		t.Errorf("of an empty directory: %v, %v", got, err)
	}
}

// trial is a test that may fail: what it was told, and the end of it.
type trial struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (t *trial) Errorf(format string, args ...any) {
	t.failures = append(t.failures, fmt.Sprintf(format, args...))
}

func (t *trial) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

// A program that gives a secret away fails the test that watches it, wherever
// its stderr goes; what is said is where to look, and not the secret.
func TestWatchedProgramThatTellsASecretFailsItsTest(t *testing.T) {
	data, password, _ := secretive(t)
	for name, c := range map[string]struct {
		args  []string
		env   []string
		leaks bool
	}{
		"by a flag":        {[]string{"--data-dir", data}, nil, true},
		"by another flag":  {[]string{"--data-dir=" + data}, nil, true},
		"by a variable":    {nil, []string{"LINESMAN_DATA_DIR=" + data}, true},
		"of somebody else": {nil, nil, false},
	} {
		for _, kept := range []bool{false, true} {
			cmd := exec.Command("/bin/sh", append([]string{"-c", `echo "level $LINESMAN_LOG_LEVEL" >&2; echo "it is ` + password + `" >&2`, "sh"}, c.args...)...)
			cmd.Env = c.env
			var said strings.Builder
			if kept {
				cmd.Stderr = &said
			}
			outcome := &trial{TB: t}
			Watch(outcome, cmd)
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			for _, f := range outcome.cleanups {
				f()
			}
			told := strings.Join(outcome.failures, "\n")
			if leaks := strings.Contains(told, ".log: line 2 has the password of worker"); leaks != c.leaks || len(outcome.failures) > 1 {
				t.Errorf("%s: told is %q", name, told)
			}
			if strings.Contains(told, password) {
				t.Errorf("%s: the secret is told again", name)
			}
			if want := "level debug\nit is " + password + "\n"; kept && said.String() != want {
				t.Errorf("%s: stderr has %d bytes, want %d", name, said.Len(), len(want))
			}
		}
	}
}

func TestLevelThatWasChosenStays(t *testing.T) {
	for _, chosen := range []string{"info", "warn"} {
		cmd := exec.Command("/bin/sh", "-c", `echo "<$LINESMAN_LOG_LEVEL>" >&2`)
		cmd.Env = []string{level + chosen}
		var said strings.Builder
		cmd.Stderr = &said
		Watch(t, cmd)
		if err := cmd.Run(); err != nil || said.String() != "<"+chosen+">\n" {
			t.Errorf("%q: %q, %v", chosen, said.String(), err)
		}
	}
}

// starts is how a suite starts the linesman that it has built.
var starts = regexp.MustCompile(`exec\.Command(?:Context\([\w.()]+, |\()(?:program|linesman)(?:,|\(t, "linesman"\))`)

// Each function of a suite that starts a linesman has it watched.
func TestEveryLinesmanIsWatched(t *testing.T) {
	files, err := filepath.Glob("../*/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	watched := map[string]int{}
	for _, file := range files {
		suite := filepath.Base(filepath.Dir(file))
		if suite == "chaos" || suite == "bench" { // one checks its logs itself, with [Leaks]; one has benchmarks alone
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for function := range strings.SplitSeq(string(b), "\nfunc ") {
			n := len(starts.FindAllString(function, -1))
			watched[suite] += n
			if n > strings.Count(function, "quiet.Watch(") {
				head, _, _ := strings.Cut(function, "\n")
				t.Errorf("%s: %q starts a linesman that nobody watches", file, head)
			}
		}
	}
	for _, suite := range []string{"adcp", "bridge", "e2e", "mcp", "security", "upgrade"} {
		if watched[suite] == 0 {
			t.Errorf("%s starts none, as far as this test sees", suite)
		}
	}
}

// Files that are not Go plant the same word.
func TestPlantedWordIsTheSameEverywhere(t *testing.T) {
	for _, file := range []string{"../script/quiet.txtar", "../adcp/storyboard.yaml"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), Sentinel) {
			t.Errorf("%s plants no %s", file, Sentinel)
		}
	}
}
