// Package natsagents runs callers of the Agent Protocol for NATS from elsewhere against `linesman up`: the packages
// that its SDKs are made of, and the nats command line.
package natsagents

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

var program string // the linesman under test

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, "needs Node.js, or the nats command line", func(dir string) error {
		program = filepath.Join(dir, "linesman")
		return fixture.Build(dir, "./cmd/linesman")
	}))
}

// asks is an agent that asks for a command in each turn, and says what became of it.
const asks = `#!/bin/sh
answer() { echo '{"jsonrpc":"2.0","id":'$1',"result":{'"$2"'}}'; }
n=100
while read -r line; do
	id=${line#*'"id":'}; id=${id%%,*}
	case "$line" in
	*'"initialize"'*) answer $id '"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{}}}' ;;
	*'"session/new"'*) answer $id '"sessionId":"s1"' ;;
	*'"session/set_mode"'*) answer $id ;;
	*'"session/prompt"'*)
		n=$((n+1))
		case "$line" in *'Attached file note.txt:'*'A note.'*) note=' with a note' ;; *) note= ;; esac
		printf '%s' '{"jsonrpc":"2.0","id":'$n',"method":"session/request_permission","params":{"sessionId":"s1",'
		printf '%s' '"toolCall":{"toolCallId":"c'$n'","kind":"execute","title":"make","rawInput":{"command":"make"}},'
		printf '%s' '"options":[{"optionId":"a","kind":"allow_once","name":"Yes"},'
		echo '{"optionId":"d","kind":"reject_once","name":"No"}]}}'
		read -r line
		case "$line" in *'"optionId":"a"'*) what=allowed ;; *) what=denied ;; esac
		printf '%s' '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'
		echo '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$what$note'"}}}}'
		answer $id '"stopReason":"end_turn","usage":{"inputTokens":7,"outputTokens":5,"totalTokens":12}' ;;
	*'"session/close"'*) answer $id; exit 0 ;;
	esac
done
`

// up starts `linesman up`, whose codex is a script that says hello, and then waits if it is asked to; live it is asks,
// above. It returns its data directory and the variables that it has.
func up(t *testing.T) (s *fixture.Server, data string, env []string) {
	t.Helper()
	dir := t.TempDir()
	data = filepath.Join(dir, "data")
	script, recording := filepath.Join(dir, "codex"), fixture.Path(t, "test", "corpus", "codex", "hello.jsonl")
	err := os.WriteFile(script, []byte("#!/bin/sh\ncase $1 in --version) echo codex-cli 0.169.0; exit ;; esac\n"+
		"case \"$*\" in *Wait.*) head -3 '"+recording+"'; exec sleep 600 ;; esac\nexec cat '"+recording+"'\n"), 0o700)
	live := filepath.Join(dir, "live")
	if err == nil {
		err = os.WriteFile(live, []byte(asks), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	env = append(os.Environ(), "HOME="+dir, "LINESMAN_AGENTS_CODEX_COMMAND="+script, "LINESMAN_ANNOUNCE_OWNER=ada",
		"LINESMAN_DATA_DIR="+data, "LINESMAN_AGENTS_CODEX_ACP="+live, "LINESMAN_ANNOUNCE_PROFILES="+
			`[{"name":"default","agent":"codex"},{"name":"chat","agent":"codex","working_dir":"`+dir+`","live":true}]`)
	cmd := exec.Command("git", "init", "-q", dir) // Codex wants a repository
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return fixture.Up(t, program, data, env, "--root", dir), data, env
}

func TestClientOfTheSDKsPackages(t *testing.T) {
	fixture.Long(t, "installs packages of Node.js")
	t.Parallel()
	node, dir := fixture.Need(t, "AGENTS", "node"), fixture.Install(t, "AGENTS", "test", "clients", "natsagents")
	s, data, env := up(t)
	b, err := os.ReadFile(filepath.Join(data, "credentials.json"))
	var passwords map[string]string
	if err == nil {
		err = json.Unmarshal(b, &passwords)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, filepath.Join(dir, "client.mjs"), s.NATS)
	cmd.Env = append(env, "NATS_PASSWORD="+passwords["prompter"])
	out, said, code := fixture.Run(t, cmd)
	if code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, said)
	}
	type message struct {
		Type string
		Data any
		Code string
		Body map[string]any
	}
	var seen struct {
		Info      struct{ Metadata map[string]string }
		Said      []any
		Refused   []any
		Ended     []any
		Cancelled map[string]string
		Beat      map[string]any

		Denied, Kept, Next, Busy []any

		Over  map[string]string
		Takes string
	}
	if err := json.Unmarshal([]byte(out), &seen); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// kinds are the types of the messages, each once where it is repeated, with the words of states and texts.
	kinds := func(all []any) (kinds []string, last message) {
		for _, one := range all {
			b, _ := json.Marshal(one)
			var m message
			what := "end"
			if json.Unmarshal(b, &m) == nil {
				what, last = m.Type, m
				if text, ok := m.Data.(string); ok {
					what += " " + text
				}
				if m.Code != "" {
					what = m.Code
				}
			}
			if what != "status queued" { // where no worker was free at once
				kinds = append(kinds, what)
			}
		}
		return slices.Compact(kinds), last
	}
	got, _ := kinds(seen.Said)
	const want = "status ack, linesman.run, status working, response Hello. Nothing to do., linesman.result, end"
	if strings.Join(got, ", ") != want {
		t.Errorf("the stream is %q", got)
	}
	if got, last := kinds(seen.Refused); strings.Join(got, ", ") != "400, end" && strings.Join(got, ", ") != "400" ||
		last.Body["error"] != "validation" {
		t.Errorf("refused: %q, %v", got, last.Body)
	}
	if got, last := kinds(seen.Ended); !slices.Contains(got, "500") || last.Body["error"] != "cancelled" ||
		seen.Cancelled["run"] == "" {
		t.Errorf("cancelled: %q, %v, %v", got, last, seen.Cancelled)
	}
	for text, all := range map[string][]any{"denied with a note": seen.Denied, "allowed": seen.Next} {
		want := "status ack, linesman.run, status working, query, response " + text + ", linesman.result, end"
		got, _ := kinds(all)
		// Before the text, or after it:
		got = slices.DeleteFunc(got, func(kind string) bool { return kind == "linesman.answered" })
		if strings.Join(got, ", ") != want {
			t.Errorf("the stream is %q, want %s", got, want)
		}
	}
	got, last := kinds(seen.Busy)
	if strings.Join(got, ", ") != "status ack, 409, end" || last.Body["error"] != "conflict" {
		t.Errorf("while a turn runs: %q, %v", got, last.Body)
	}
	if got, _ := kinds(seen.Kept); !slices.Contains(got, "response allowed") || seen.Over["run"] == "" ||
		seen.Takes != "true" {
		t.Errorf("the session begins with %q, and ends with %v", got, seen.Over)
	}
	if seen.Beat["agent"] == "" || seen.Info.Metadata["owner"] != "ada" {
		t.Errorf("heartbeat %v of %v", seen.Beat, seen.Info)
	}
}

// TestCommandsOfThePage runs the lines of docs/integrate.md for the nats command line, 0.5.1 or newer.
func TestCommandsOfThePage(t *testing.T) {
	nats := fixture.Need(t, "NATS_CLI", "nats")
	t.Parallel()
	s, _, env := up(t)
	env = append(env, "XDG_CONFIG_HOME="+t.TempDir(),
		"PATH="+filepath.Dir(program)+":"+filepath.Dir(nats)+":"+os.Getenv("PATH"))
	page, err := os.ReadFile(fixture.Path(t, "docs", "integrate.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(page), "\n## Prompt agents over NATS\n")
	part, _, _ = strings.Cut(strings.ReplaceAll(part, "\\\n", ""), "\n## ")
	want := []string{"", "", `"protocol_version":"0.3"`, "Hello. Nothing to do.", `"instance_id"`}
	for line := range strings.Lines(part) {
		line, is := strings.CutPrefix(line, "    ")
		if !is {
			continue
		}
		if len(want) == 0 {
			t.Fatalf("one line too many: %s", line)
		}
		line = strings.NewReplacer("OWNER", "ada", "~/.config", "$XDG_CONFIG_HOME").Replace(line)
		var out, said string
		fixture.Eventually(t, fixture.Patience, line, func() bool { // once it is announced
			cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
			cmd.Env = env
			code := 0
			out, said, code = fixture.Run(t, cmd)
			return code == 0 && strings.Contains(out, want[0])
		})
		t.Logf("%s%s%s", line, out, said)
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("the page has no line for %q", want)
	}
	_ = s
}
