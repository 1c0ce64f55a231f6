// Package adcp has the storyboard runner of the AdCP SDK call a real linesman.
// It needs Node.js, and `npm ci` in this directory.
package adcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linesman/linesman/test/guard"
	"github.com/linesman/linesman/test/quiet"
)

// runner is the program of the SDK.
var runner = filepath.Join("node_modules", "@adcp", "sdk", "bin", "adcp.js")

func TestStoryboard(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node")
	}
	if _, err := os.Stat(runner); err != nil {
		t.Skip("the AdCP SDK is not installed: run npm ci in test/adcp")
	}
	url, token := up(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, node, runner, "storyboard", "run", url, "--file", "storyboard.yaml", "--protocol", "mcp", "--json",
		"--auth", token, "--allow-http")
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

// up is a running `linesman up` that takes no tasks: where it serves MCP, and
// its token.
func up(t *testing.T) (url, token string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "linesman")
	if err := guard.Build(dir, "./cmd/linesman"); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	var stderr bytes.Buffer
	cmd := exec.Command(program, "up", "--data-dir", data, "--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "HOME="+dir, "LINESMAN_WORK_MAX_RUNS=0")
	cmd.Stderr = &stderr
	quiet.Watch(t, cmd)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("up: %v\n%s", err, stderr.Bytes())
		}
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("up said %q, %v\n%s", line, err, stderr.Bytes())
	}
	var here struct {
		HTTP  string `json:"http"`
		Token string `json:"token_file"`
	}
	raw, err := os.ReadFile(filepath.Join(data, "linesman.json"))
	if err == nil {
		err = json.Unmarshal(raw, &here)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(here.Token)
	if err != nil {
		t.Fatal(err)
	}
	return here.HTTP + "/mcp", strings.TrimSpace(string(b))
}
