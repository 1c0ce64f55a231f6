package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/test/quiet"
)

// A command starts an `up`, and is served by another one that was faster. The
// late one does not take the data directory when `down` has ended the other.
func TestUpInTheBackgroundThatCameTooLateEndsWithItsStarter(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	lock, err := os.Create(filepath.Join(data, "lock")) // of the one that was faster
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	starter, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer says.Close()
	late := exec.Command(program, "up", "--background", "--nats=", "--data-dir", data)
	late.Env = append(os.Environ(), "HOME="+t.TempDir(), "LINESMAN_BACKGROUND_IDLE=1m")
	late.Stdout, late.Stderr = says, says
	quiet.Watch(t, late)
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	if err := starter.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil { // which is `down`
		t.Fatal(err)
	}
	kill := time.AfterFunc(deadline, func() { _ = late.Process.Kill() })
	defer kill.Stop()
	_ = late.Wait() // its code says it
	if code := late.ProcessState.ExitCode(); code != 75 {
		t.Errorf("it ends with %d, want 75 at once", code)
	}
	if left, err := filepath.Glob(filepath.Join(data, "*")); err != nil || len(left) > 1 {
		t.Errorf("it left %q in the data directory, %v", left, err)
	}
}
