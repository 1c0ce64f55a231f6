package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/linesman/linesman/agent"
)

// The time that npm gets for one version, and an agent for one scenario.
const (
	installTime  = 10 * time.Minute
	scenarioTime = 2 * time.Minute
)

// player installs the agents, one version after another, and plays the scenarios.
type player struct {
	root    string // of the repository, absolute
	temp    string // removed at the end
	outputs string // OUTPUTS/AGENT/VERSION/SCENARIO.jsonl and .exit
}

func newPlayer(root, outputs string) (*player, error) {
	temp, err := os.MkdirTemp("", "drift-")
	if err != nil {
		return nil, err
	}
	if root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	if outputs == "" {
		outputs = filepath.Join(temp, "outputs")
	}
	return &player{root: root, temp: temp, outputs: outputs}, nil
}

func (p *player) close() { _ = os.RemoveAll(p.temp) }

// version plays one version, unless its output is there, and folds what it printed.
func (p *player) version(ctx context.Context, a agent.Agent, plan plan, version string) result {
	r := result{Version: version, Scenarios: len(plan.played(version))}
	if err := p.play(ctx, a.Short, plan, version); err != nil {
		return result{Version: version, Missing: err.Error()}
	}
	for _, scenario := range plan.played(version) {
		r.add(a, scenario, p.file(a.Short, version, scenario), filepath.Join(p.root, plan.Recorded, scenario),
			plan.of(version, scenario), slices.Contains(plan.Unordered, scenario))
	}
	return r
}

// file returns the path of the recording of a scenario, without extension.
func (p *player) file(agent, version, scenario string) string {
	return filepath.Join(p.outputs, agent, version, scenario)
}

// play records all scenarios of a version. The error says why nothing can be played.
func (p *player) play(ctx context.Context, agent string, plan plan, version string) error {
	var missing []string
	for _, scenario := range plan.played(version) {
		if _, err := os.Stat(p.file(agent, version, scenario) + ".exit"); err != nil {
			missing = append(missing, scenario)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	place := filepath.Join(p.temp, agent)
	defer os.RemoveAll(place)
	if err := install(ctx, place, plan.Package+"@"+version); err != nil {
		return err
	}
	program := filepath.Join(place, "node_modules", ".bin", agent)
	if err := succeed(ctx, time.Minute, place, []string{"HOME=" + place}, program, "--version"); err != nil {
		return fmt.Errorf("does not start: %w", err)
	}
	for _, scenario := range missing {
		if err := p.scenario(ctx, agent, program, version, scenario, plan.of(version, scenario)); err != nil {
			return fmt.Errorf("%s cannot be played: %w", scenario, err)
		}
	}
	return nil
}

// install installs a package of npm in place.
func install(ctx context.Context, place, pkg string) error {
	if err := os.MkdirAll(place, 0o755); err != nil {
		return err
	}
	err := succeed(ctx, installTime, place, nil, "npm", "install", "--prefix", place,
		"--cache", filepath.Join(place, "cache"), "--no-audit", "--no-fund", "--no-save", "--no-package-lock",
		"--loglevel=error", pkg)
	if err != nil {
		return fmt.Errorf("cannot be installed: %w", err)
	}
	return os.RemoveAll(filepath.Join(place, "cache"))
}

// scenario records one scenario, as differs says.
func (p *player) scenario(ctx context.Context, agent, program, version, scenario string, differs span) error {
	dir, err := os.MkdirTemp(p.temp, "run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lab := filepath.Join(p.root, "test", "lab", "agents")
	file, err := prepare(filepath.Join(lab, "scenarios", agent+"-"+scenario+".json"), dir, differs)
	if err != nil {
		return err
	}
	stdout, stderr, exit, err := execute(ctx, scenarioTime, dir, []string{strings.ToUpper(agent) + "_BIN=" + program},
		"node", filepath.Join(lab, "run-scenario.mjs"), file, "--dir", dir)
	switch {
	case err != nil:
		return err
	case exit < 0 || exit == 127: // run-scenario.mjs itself failed
		said := lines(stderr) // the agent's, and at the end its own
		return fmt.Errorf("exit status %d: %s", exit, strings.Join(said[max(len(said)-1, 0):], ""))
	}
	to := p.file(agent, version, scenario)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(to+".jsonl", stdout, 0o644); err != nil {
		return err
	}
	return os.WriteFile(to+".exit", []byte(strconv.Itoa(exit)+"\n"), 0o644)
}

// prepare writes a scenario into dir as a version needs it, and returns its path.
func prepare(from, dir string, differs span) (string, error) {
	b, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	var s map[string]any
	if err := json.Unmarshal(b, &s); err != nil {
		return "", err
	}
	if s["model"] == nil && differs.Model != "" {
		s["model"] = differs.Model
	}
	if differs.Config != nil {
		s["config"] = *differs.Config
	}
	if b, err = json.Marshal(s); err != nil {
		return "", err
	}
	to := filepath.Join(dir, "scenario.json")
	return to, os.WriteFile(to, b, 0o644)
}

// killed is the exit status of a program that had not ended when its time was over.
const killed = 128 + int(syscall.SIGKILL)

// execute runs a program in dir, for limit at most, and ends what it left running. It
// returns what the program printed, and its exit status, which can be killed.
func execute(ctx context.Context, limit time.Duration, dir string, env []string, argv ...string) (
	stdout, stderr []byte, exit int, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), &out, &errOut
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endGroup := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = endGroup, time.Second
	err = cmd.Run()
	if cmd.Process != nil {
		_ = endGroup() // fails if no process is left
	}
	exit = cmd.ProcessState.ExitCode()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		exit, err = killed, nil
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) || errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return out.Bytes(), errOut.Bytes(), exit, err
}

// succeed runs a program as execute does, and returns an error unless it exits with 0.
func succeed(ctx context.Context, limit time.Duration, dir string, env []string, argv ...string) error {
	_, stderr, exit, err := execute(ctx, limit, dir, env, argv...)
	if err == nil && exit != 0 {
		said := lines(stderr) // npm begins with the reason
		err = fmt.Errorf("exit status %d: %s", exit, strings.Join(said[:min(len(said), 2)], "; "))
	}
	return err
}

// lines returns the lines that a program printed, without empty ones.
func lines(out []byte) []string {
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}
