// Package local owns what one `linesman up` and the commands beside it share on
// a machine: the data directory with its lock, the instance file that names the
// server, and the process in the background. It finds the NATS server that a
// command needs, starts it if none is running, stops it, and selects the
// credentials for it.
//
// The lock of the data directory alone decides which process may serve it. The
// kernel releases the lock when that process ends, so a kill at any moment
// leaves a state that the next process can start from. The instance file is a
// hint: a killed process leaves it behind.
//
//	command ──▶ Dialer.Connect ─┬─▶ instance file ──▶ NATS server of the `up`
//	                            └─▶ start ──▶ `up --background` ──▶ Detach ──▶ Ready
package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Instance is the content of linesman.json, the instance file: how to reach the
// `linesman up` of a data directory. Its keys are a contract.
type Instance struct {
	NATS      string `json:"nats"`
	HTTP      string `json:"http"`
	TokenFile string `json:"token_file"`
	Data      string `json:"data"` // the data directory
	PID       int    `json:"pid"`
	Version   string `json:"version"`
	Program   string `json:"program"` // path of the program file when the process started

	Dir   string   `json:"dir,omitempty"`   // working directory of tasks that name none
	Roots []string `json:"roots,omitempty"` // directories in which tasks may work; empty: it accepts no tasks

	// Background reports that another command started the process, which ends when idle.
	Background bool `json:"background,omitempty"`
}

// InstanceFile returns the path of the instance file of a data directory.
func InstanceFile(data string) string { return filepath.Join(data, "linesman.json") }

// RunsDir returns the directory of the run directories of a data directory.
func RunsDir(data string) string { return filepath.Join(data, "runs") }

// TokensFile returns the file with the tokens for callers over HTTP that have
// scopes, of a data directory.
func TokensFile(data string) string { return filepath.Join(data, "tokens.json") }

// Write replaces the instance file of i.Data atomically.
func (i Instance) Write() error {
	b, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	tmp := InstanceFile(i.Data) + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, InstanceFile(i.Data))
}

// ReadInstance reads the instance file of a data directory. The error is
// [fs.ErrNotExist] if there is none.
func ReadInstance(data string) (Instance, error) {
	var i Instance
	b, err := os.ReadFile(InstanceFile(data))
	if err != nil {
		return i, err
	}
	if err := json.Unmarshal(b, &i); err != nil {
		return i, fmt.Errorf("%s is damaged: %w", InstanceFile(data), err)
	}
	return i, nil
}

// serverAddress returns HOST:PORT of the server of a data directory, or "".
func serverAddress(data string) string {
	i, err := ReadInstance(data)
	if err != nil {
		return ""
	}
	u, err := url.Parse(i.NATS)
	if err != nil {
		return ""
	}
	return u.Host
}

// ProgramReplaced reports whether the program file of the process was removed or
// replaced after the process started. Without /proc only removal is detected.
func (i Instance) ProgramReplaced() bool {
	if now, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", i.PID)); err == nil {
		return i.Program != "" && now != i.Program
	}
	_, err := os.Stat(i.Program)
	return i.Program != "" && errors.Is(err, fs.ErrNotExist)
}

// isSameProcess reports whether the process with the ID in the instance file is
// still the one that wrote the file, as far as /proc shows. The system reuses
// process IDs, and a person is advised to kill this one.
func (i Instance) isSameProcess() bool {
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", i.PID))
	return err == nil && strings.TrimSuffix(program, " (deleted)") == i.Program
}

// unresponsive describes a process that holds the lock and does not answer, and
// advises what to do about it.
func (i Instance) unresponsive() string {
	process, number := "a process", ""
	if i.isSameProcess() {
		process, number = fmt.Sprintf("process %d", i.PID), fmt.Sprintf(" %d", i.PID)
	}
	return fmt.Sprintf("%s has the data directory and does not answer: if it was stopped, `kill -CONT%s` resumes it, "+
		"else `kill -9%[2]s` ends it; its agents continue", process, number)
}
