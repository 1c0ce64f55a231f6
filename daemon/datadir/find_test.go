package datadir

import (
	"errors"
	"io/fs"
	"net"
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
	stale, err := takeLock(data)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.AfterFunc(time.Second, func() { _ = stale.Close() })
		f, err := lockWhileWanted(t.Context(), data, func() bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	})
}

func TestLockOfALivingProcessIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	up, err := takeLock(data)
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f, err := lockWhileWanted(t.Context(), data, func() bool { return true })
		if waited := time.Since(began); !errors.Is(err, ErrLocked) || waited > 3*time.Second {
			t.Errorf("got %v, %v after %v, want ErrLocked in 3s at most", f, err, waited)
		}
	})
}

// If it counted as locked, commands would start one `up` after the other, silently.
func TestLockThatFailsIsNoLockOfAnotherProcess(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := tryLock(f); errors.Is(err, ErrLocked) || !errors.Is(err, unix.EBADF) {
		t.Errorf("got %v, want the error of the system", err)
	}
}

// Only a missing instance file means that nothing runs.
func TestInstanceFileThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	logins := func(data string) error {
		d := &Dialer{}
		d.Config.DataDir = data
		_, _, err := d.Logins(embedded.OperatorUser)
		return err
	}
	data := t.TempDir()
	if err := logins(data); !errors.Is(err, ErrUnavailable) ||
		!strings.Contains(err.Error(), "no linesman is running here") {
		t.Errorf("without one: %v", err)
	}
	if err := os.WriteFile(InstanceFile(data), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := logins(data); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(),
		InstanceFile(data)+" is damaged") || strings.Contains(err.Error(), "no linesman is running") {
		t.Errorf("a damaged one: %v", err)
	}
	if err := logins(closedTo(t)); !errors.Is(err, ErrUnavailable) || !errors.Is(err, fs.ErrPermission) ||
		!strings.Contains(err.Error(), "run this as its owner") {
		t.Errorf("one of another user: %v", err)
	}
}

// An `up` that it starts would be killed with the agent.
func TestCommandInsideAnAgentStartsNoUpAndWaitsForOne(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var stderr strings.Builder
		d := &Dialer{Stderr: &stderr, Log: zap.NewNop(), Environ: []string{"_LINESMAN_MARK=ABC"}}
		d.Config.DataDir, d.Config.Background.Start = data, true
		began := time.Now()
		_, err := d.DialOrStart(t.Context(), embedded.OperatorUser)
		if waited := time.Since(began); waited < MaxOutage || waited > MaxOutage+5*time.Second {
			t.Errorf("gave up after %v, want %v", waited, MaxOutage)
		}
		const next = "start `linesman up` outside of the agent"
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), next) {
			t.Errorf("the error: %v", err)
		}
		if said := stderr.String(); strings.Count(said, "\n") != 1 ||
			!strings.Contains(said, next+"; waiting for it, 1m0s at most") {
			t.Errorf("stderr: %q", said)
		}
		d.free = time.Now().Add(-MaxOutage)
		if d.revive(); d.starting != nil {
			t.Error("it starts one for a connection that it has lost")
		}
	})
	if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
		t.Errorf("in the data directory: %v, %v", left, err)
	}
}

// The streams themselves are locked: another process would damage them.
func TestLockFileThatIsRemovedLetsNobodyIn(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	up, err := takeLock(data)
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	for _, makeOther := range []bool{false, true} {
		if err := os.Remove(lockFile(data)); err != nil {
			t.Fatal(err)
		}
		if makeOther {
			if err := os.WriteFile(lockFile(data), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if !isLocked(data) {
			t.Error("it counts as free")
		}
		if other, err := takeLock(data); !errors.Is(err, ErrLocked) {
			t.Errorf("got %v, %v; want ErrLocked", other, err)
		}
		if up.isLost() || isReplaced(up.file) {
			t.Error("the one that serves does not restore its lock file")
		}
	}
	if err := os.Rename(storeDir(data), storeDir(data)+".old"); err != nil {
		t.Fatal(err)
	}
	if !up.isLost() {
		t.Error("its streams were replaced, and it does not see it")
	}
}

// Once the lock is free, another user may listen at the address of the `up` that held it: neither a first connection nor
// a later one goes there.
func TestTheAddressOfAnUpThatIsGoneGetsNoPassword(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	came := make(chan struct{})
	go func() {
		if c, err := listener.Accept(); err == nil {
			_ = c.Close()
			close(came)
		}
	}()
	at, data := listener.Addr().String(), t.TempDir()
	lock, err := takeLock(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := (Instance{NATS: "nats://" + at, Data: data}).Write(); err != nil {
		t.Fatal(err)
	}
	d := &Dialer{Stderr: new(strings.Builder), Log: zap.NewNop()}
	d.Config.DataDir = data
	inside, _, err := d.Logins(embedded.OperatorUser)
	if err != nil || inside.Where() != at {
		t.Fatalf("the address of one that runs: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if got := inside.Where(); got != "" {
		t.Errorf("a lost connection goes to %s", got)
	}
	const next = "was that `linesman up` killed? Start it again"
	if _, err := d.DialOrStart(t.Context(), embedded.OperatorUser); !errors.Is(err, ErrUnavailable) ||
		!strings.Contains(err.Error(), next) {
		t.Errorf("the error: %v", err)
	}
	select {
	case <-came:
		t.Error("somebody came")
	default:
	}
}
