package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// The last line of `run` says what the agent does, and that it is being cancelled.
func TestRunSaysWhatItsAgentDoes(t *testing.T) {
	t.Parallel()
	data, lab := t.TempDir(), t.TempDir()
	fixture.Up(t, program, data, nil)
	agent := filepath.Join(lab, "agent")
	err := os.WriteFile(agent, []byte(`trap '' TERM
echo '{"type":"turn.started"}'
echo '{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"make test"}}'
until [ -e `+lab+`/end ]; do sleep 0.05; done
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(lab, "linesman.toml")
	if err := os.WriteFile(config, []byte("[limits]\ngrace = \"10m\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, 80, 24, nil, fmt.Sprintf("echo before; %s run --data-dir %s --config %s --run shown -- sh %s%s", program,
		data, config, agent, after))
	s.Shows(`\nrunning shell.* \| – tokens`)
	cancel := exec.Command(program, "cancel", "--data-dir", data, "shown")
	if _, stderr, code := fixture.Run(t, cancel); code != 0 {
		t.Fatalf("cancel: exit %d\n%s", code, stderr)
	}
	s.Shows(`\nis being cancelled \| – tokens`)
	if err := os.WriteFile(filepath.Join(lab, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.left("0")
}
