package worker

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A child process that is being started has copies of all descriptors.
func TestClosedDirectoryIsFreeWhileAProcessIsBeingStarted(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	d := l.create(shell("r", "true"))
	inherited, err := unix.Dup(int(d.owner.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
