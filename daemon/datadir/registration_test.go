package datadir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// register registers this process for a new data directory.
func register(t *testing.T) *Registration {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	lock, err := takeLock(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	r, err := Register(Instance{NATS: "nats://127.0.0.1:1", Data: data, PID: os.Getpid()}, lock)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// load is a load of which only Busy matters.
type load func() bool

func (l load) Busy(context.Context) bool { return l() }
func (load) Requests() uint64            { return 0 }

// A command that connects at the last moment has a server that stays.
func TestUpThatIsUsedAgainAsItEndsStays(t *testing.T) {
	t.Parallel()
	r := register(t)
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Minute
		saved := 0
		last := load(func() bool { // looks at the file as the command does
			if _, err := ReadInstance(r.instance.Data); err == nil || saved > 0 {
				return false
			}
			saved++
			return true
		})
		began := time.Now()
		if !r.AwaitIdle(t.Context(), last, timeout) {
			t.Error("it does not end when idle")
		}
		if took := time.Since(began); saved != 1 || took < 2*timeout || took > 2*timeout+time.Minute {
			t.Errorf("kept %d times, ended after %v; want once, and twice the timeout", saved, took)
		}
		if _, err := ReadInstance(r.instance.Data); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the instance file of one that ends: %v", err)
		}
	})
}

func TestInstanceFileIsRestoredUntilTheDataDirectoryIsReplaced(t *testing.T) {
	t.Parallel()
	r := register(t)
	data := r.instance.Data
	synctest.Test(t, func(t *testing.T) {
		kept := make(chan error, 1)
		go func() { kept <- r.Keep(t.Context(), zap.NewNop()) }()
		if err := os.Remove(InstanceFile(data)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second) // on the fake clock
		if _, err := ReadInstance(data); err != nil {
			t.Errorf("it was removed: %v", err)
		}
		if err := os.Rename(data, data+".old"); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		other := Instance{Data: data, PID: 1}
		if err := other.Write(); err != nil {
			t.Fatal(err)
		}
		if err := <-kept; err == nil || !strings.Contains(err.Error(), "was removed or replaced") {
			t.Errorf("the data directory was replaced: %v", err)
		}
		r.Withdraw()
		if now, err := ReadInstance(data); err != nil || now.PID != other.PID {
			t.Errorf("the instance file of the other process: %+v, %v", now, err)
		}
	})
}
