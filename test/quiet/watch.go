package quiet

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// level is the setting by which linesman logs all that it can.
const level = "LINESMAN_LOG_LEVEL="

// Watch looks, when the test ends, at all that a linesman has said on stderr,
// which goes on to wherever it went before. It is called right before the
// command is started, and before a cleanup that ends it. The log level is
// debug, unless the command's own environment has one.
//
// `go test -artifacts` keeps the logs.
func Watch(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if !slices.ContainsFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, level) }) {
		cmd.Env = append(cmd.Environ(), level+"debug")
	}
	log, err := os.CreateTemp(t.ArtifactDir(), filepath.Base(cmd.Args[0])+"-*.log")
	if err != nil {
		t.Fatalf("quiet: %v", err)
	}
	if cmd.Stderr == nil {
		cmd.Stderr = log
	} else {
		cmd.Stderr = io.MultiWriter(cmd.Stderr, log)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Errorf("quiet: %v", err)
		}
		look(t, log.Name(), dataOf(cmd))
	})
}

// look fails the test for each leak in a log.
func look(t testing.TB, log string, data []string) {
	secrets := map[string]string{}
	for _, dir := range data {
		some, err := Secrets(dir)
		if err != nil {
			t.Errorf("quiet: %v", err)
		}
		for what, word := range some {
			secrets[what] = word
		}
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Errorf("quiet: %v", err)
	}
	for _, leak := range Leaks(text, secrets) {
		t.Errorf("log %s: %s", filepath.Base(log), leak)
	}
}

// dataOf are the data directories of a command.
func dataOf(cmd *exec.Cmd) (all []string) {
	add := func(dir string) {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(cmd.Dir, dir)
		}
		all = append(all, dir)
	}
	const flag = "--data-dir"
	for i, arg := range cmd.Args {
		if arg == flag && i+1 < len(cmd.Args) {
			add(cmd.Args[i+1])
		}
	}
	for _, word := range slices.Concat(cmd.Args, cmd.Env) {
		for _, name := range []string{flag + "=", "LINESMAN_DATA_DIR="} {
			if dir, ok := strings.CutPrefix(word, name); ok && dir != "" {
				add(dir)
			}
		}
	}
	return all
}
