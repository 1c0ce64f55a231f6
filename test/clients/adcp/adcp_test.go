// Package adcp has the storyboard runner of the AdCP SDK call a real linesman.
// It needs Node.js and npm.
package adcp

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

var program string // the linesman under test

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, "the storyboard runner comes from npm", func(dir string) error {
		program = filepath.Join(dir, "linesman")
		return fixture.Build(dir, "./cmd/linesman")
	}))
}

func TestStoryboard(t *testing.T) {
	fixture.Long(t, "installs the SDK of Node.js")
	node := fixture.Need(t, "AGENTS", "node")
	runner := filepath.Join(fixture.Install(t, "AGENTS", "test", "clients", "adcp"), "node_modules", "@adcp", "sdk",
		"bin", "adcp.js")
	up := fixture.Up(t, program, t.TempDir(), append(os.Environ(), "HOME="+t.TempDir(), "LINESMAN_WORK_MAX_RUNS=0"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, node, runner, "storyboard", "run", up.HTTP+"/mcp", "--file", "storyboard.yaml",
		"--protocol", "mcp", "--json",
		"--auth", up.Token, "--allow-http")
	cmd.Env, cmd.Stderr = append(os.Environ(), "HOME="+t.TempDir()), &stderr
	out, err := cmd.Output()
	var told struct {
		Passed bool `json:"overall_passed"`
		Phases []struct {
			Steps []struct {
				ID          string `json:"step_id"`
				Passed      bool
				Error       string
				Validations []struct {
					Check, Path, Error string
					Passed             bool
				}
			}
		}
	}
	if bad := json.Unmarshal(out, &told); bad != nil {
		t.Fatalf("%v, %v\n%s%s", err, bad, out, stderr.Bytes())
	}
	steps, checks := 0, 0
	for _, p := range told.Phases {
		for _, s := range p.Steps {
			steps++
			if !s.Passed {
				t.Errorf("%s: %s", s.ID, s.Error)
			}
			for _, v := range s.Validations {
				checks++
				if !v.Passed {
					t.Errorf("%s: %s %s: %s", s.ID, v.Check, v.Path, v.Error)
				}
			}
		}
	}
	if err != nil || !told.Passed || steps != 5 || checks < 14 {
		t.Errorf("%v: passed %v, %d steps, %d checks", err, told.Passed, steps, checks)
	}
}
