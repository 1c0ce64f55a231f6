// Package datadir owns what one `linesman up` and the commands beside it share on
// a machine: the data directory with its lock, the instance file that names the
// server, and the process in the background. It finds the NATS server that a
// command needs, starts it if none is running, stops it, and selects the
// credentials for it.
//
// The lock of the data directory alone decides which process may serve it. It is two
// locks: of the lock file, which somebody could remove, and of the directory of the
// streams. The kernel releases the lock when that process ends, so a kill at any
// moment leaves a state that the next process can start from. The instance file is
// a hint: a killed process leaves it behind.
//
//	command ──▶ Dialer.Dial ─┬─▶ instance file ──▶ NATS server of the `up`
//	                            └─▶ start ──▶ `up --background` ──▶ Detach ──▶ Ready
package datadir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
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
	// Notes say what an `up` in the background could not take over from the one before.
	Notes []string `json:"notes,omitempty"`
}

// InstanceFile returns the path of the instance file of a data directory.
func InstanceFile(data string) string { return filepath.Join(data, "linesman.json") }

// RunsDir returns the directory of the run directories of a data directory.
func RunsDir(data string) string { return filepath.Join(data, "runs") }

// TokensFile returns the file with the tokens for callers over HTTP that have
// scopes, of a data directory.
func TokensFile(data string) string { return filepath.Join(data, "tokens.json") }

// VersionsFile returns the file that remembers the versions of the agents' programs, of a data
// directory.
func VersionsFile(data string) string { return filepath.Join(data, "versions.json") }

// HookDir is where the hooks of an agent leave files about its sessions.
func HookDir(data, kind string) string { return filepath.Join(data, "hooks", kind) }

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

// serverAddress returns HOST:PORT of the server of a data directory, or "". While its lock is free it has no server:
// another user may listen at the address of one that was killed, and would get the passwords.
func serverAddress(data string) string {
	if !isLocked(data) {
		return ""
	}
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

// Registration is the instance file of this process, an `up` that holds the lock
// of the data directory. Its methods may be called from several goroutines.
type Registration struct {
	instance Instance
	lock     *Lock

	mu        sync.Mutex
	withdrawn bool // the file must not exist
}

// Register writes the instance file. The caller holds the lock of i.Data, and
// calls Withdraw at its end.
func Register(i Instance, lock *Lock) (*Registration, error) {
	if err := i.Write(); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	return &Registration{instance: i, lock: lock}, nil
}

// Withdraw removes the instance file, so that no command connects any more. It
// leaves the file of another process that has a new data directory at the same path.
func (r *Registration) Withdraw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdrawn = true
	if !r.lock.isLost() {
		_ = os.Remove(InstanceFile(r.instance.Data))
	}
}

// restore writes the file again after Withdraw.
func (r *Registration) restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdrawn = false
	_ = r.instance.Write() // if that fails, Keep retries
}

// Keep restores the instance file if it is removed or changed, until ctx ends:
// then it returns nil. The error reports that the data directory was removed or
// replaced, so that the process must end.
func (r *Registration) Keep(ctx context.Context, log *zap.Logger) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		r.mu.Lock()
		if r.lock.isLost() {
			r.mu.Unlock()
			return fmt.Errorf("%s was removed or replaced, and this `linesman up` ends", r.instance.Data)
		}
		if now, err := ReadInstance(r.instance.Data); !r.withdrawn && (err != nil || !reflect.DeepEqual(now, r.instance)) {
			if err := r.instance.Write(); err != nil {
				log.Warn("linesman.json cannot be written", zap.Error(err))
			}
		}
		r.mu.Unlock()
	}
}

// usage reports whether an `up` is in use.
type usage interface {
	// Busy reports whether it has clients or work.
	Busy(ctx context.Context) bool
	// Requests counts the requests of clients that do not stay connected.
	Requests() uint64
}

// AwaitIdle returns true after the idle timeout: then the instance file is
// removed, and the process must end. It removes the file before it looks at the
// load for the last time, because a command that connects checks afterwards that
// the file is still there. It returns false if ctx ends. The timeout 0 means none.
func (r *Registration) AwaitIdle(ctx context.Context, load usage, timeout time.Duration) bool {
	if timeout == 0 {
		<-ctx.Done()
		return false
	}
	tick := time.NewTicker(min(max(timeout/10, 20*time.Millisecond), 10*time.Second))
	defer tick.Stop()
	used, requests := time.Now(), load.Requests()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		now := load.Requests()
		if now != requests || load.Busy(ctx) {
			used, requests = time.Now(), now
			continue
		}
		if time.Since(used) < timeout {
			continue
		}
		r.Withdraw()
		if !load.Busy(ctx) && load.Requests() == requests {
			return true
		}
		r.restore()
		used = time.Now()
	}
}
