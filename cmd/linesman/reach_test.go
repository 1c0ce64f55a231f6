package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/bus/embedded"
)

func TestLockThatAKilledProcessLeavesForAMomentIsWaitedFor(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	ghost, err := lockData(data)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.AfterFunc(time.Second, func() { _ = ghost.Close() })
		f, err := lockDataSoon(t.Context(), data, func() bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	})
}

func TestLockOfALivingProcessIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	up, err := lockData(data)
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f, err := lockDataSoon(t.Context(), data, func() bool { return true })
		if waited := time.Since(began); !errors.Is(err, errLocked) || waited > 3*time.Second {
			t.Errorf("got %v, %v after %v, want errLocked in 3s at most", f, err, waited)
		}
	})
}

// Else commands would start one `up` after the other, and say nothing.
func TestLockThatFailsIsNoLockOfAnotherProcess(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := takeLock(f); errors.Is(err, errLocked) || !errors.Is(err, unix.EBADF) {
		t.Errorf("got %v, want the error of the system", err)
	}
}

// What it started would be killed with the agent.
func TestCommandInsideAnAgentStartsNoUpAndWaitsForOne(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var stderr strings.Builder
		a := &app{stderr: &stderr, log: zap.NewNop(), environ: []string{"_LINESMAN_MARK=ABC"}}
		a.config.DataDir, a.config.Background.Start = data, true
		began := time.Now()
		_, err := a.client(t.Context(), embedded.OperatorUser)
		if waited := time.Since(began); waited < away || waited > away+5*time.Second {
			t.Errorf("gave up after %v, want %v", waited, away)
		}
		const next = "start `linesman up` outside of the agent"
		if exitCode(err) != exitNATS || !strings.Contains(err.Error(), next) {
			t.Errorf("the error: %v", err)
		}
		if said := stderr.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, next+"; waiting for it, 1m0s at most") {
			t.Errorf("stderr: %q", said)
		}
		a.free = time.Now().Add(-away)
		if a.revive(); a.up != nil {
			t.Error("it starts one for a connection that it has lost")
		}
	})
	if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
		t.Errorf("in the data directory: %v, %v", left, err)
	}
}
