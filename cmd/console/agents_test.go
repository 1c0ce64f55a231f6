package console

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/programs"
)

func TestCommandLinesCanBePastedIntoAShell(t *testing.T) {
	for _, tt := range []struct {
		argv []string
		want string
	}{
		{[]string{"/bin/codex", "--sandbox=read-only", "--", "PROMPT"}, "/bin/codex --sandbox=read-only -- PROMPT"},
		{[]string{"A={\"b\":1}", "x", "a b", "it's", ""}, `A='{"b":1}' x 'a b' 'it'\''s' ''`},
		{[]string{"--settings=a b", "a b=c d"}, `--settings='a b' 'a b=c d'`},
	} {
		if got := shellWords(tt.argv); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// Paths and commands come from settings and from the file system.
func TestHostileNamesOfProgramsAreEscaped(t *testing.T) {
	const bad = "/bin/\x1b[2Jcodex\n"
	a := programs.Agent{
		Short: "codex", Command: []string{bad}, Path: bad, Problem: bad, Fix: bad,
		Variables: []programs.Variable{{Name: bad}},
		Modes:     []programs.Mode{{Mode: runs.ReadOnly, Argv: []string{bad}, Resume: []string{bad}}},
	}
	for _, details := range []bool{false, true} {
		var out strings.Builder
		if err := New(&out, func(string) string { return "" }).Agents([]programs.Agent{a}, details); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), `/bin/\x1b[2Jcodex\n`) {
			t.Errorf("details %t: %q", details, out.String())
		}
	}
}
