package main

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
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
