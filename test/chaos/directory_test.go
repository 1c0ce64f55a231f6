package chaos

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// What people, agents and disks do to a data directory while agents work in it.
var (
	// stopShim stops a shim, which is then asked to cancel its run.
	stopShim = fault{"stop shim", func(s *site) bool {
		key := s.run("endless", nil)
		s.mark(key, "out")
		s.may(key, runs.ReasonCancelled, runs.ReasonLost)
		fired := false
		for _, p := range s.shims() {
			if filepath.Base(p.argv[2]) == key {
				fired = p.signal(unix.SIGSTOP)
			}
		}
		s.cancel(key)
		return fired
	}}
	// removeLock removes the lock file, and starts a second `up`.
	removeLock = fault{"remove lock", func(s *site) bool {
		if err := os.Remove(filepath.Join(s.data[0], "lock")); err != nil {
			s.t.Fatal(err)
		}
		p := start(s.t, filepath.Join(s.dir, "home"), s.log("second"), s.at(s.data[0], "up", fixture.Loopback()...)...)
		if code := p.code(); code == 0 {
			s.t.Errorf("a second `up` ends with %d: %s", code, p.said())
		}
		return true
	}}
	// copyDirectory makes a copy while `up` is stopped, as docs/recovery.md has it,
	// starts an `up` on the copy, too, and cancels all that works there.
	copyDirectory = fault{"copy directory", func(s *site) bool {
		if !s.attached() || !s.roles["up"].signal(unix.SIGTERM) {
			return false
		}
		s.roles["up"].code()
		other := s.copied()
		s.begin("up")
		other.begin("up")
		defer other.close()
		for _, key := range other.working() { // one that ends meanwhile cannot be cancelled
			start(s.t, other.dir, other.log("cancel"), other.at(other.data[0], "cancel", key)...).code()
		}
		eventually(s.t, "a run of the copy goes on", func() (bool, string) {
			left := other.working()
			return len(left) == 0, strings.Join(left, ", ")
		})
		return true
	}}
	// damageDerived damages a stream that is derived from RAW, while `up` is away.
	damageDerived = fault{"damage derived stream", func(s *site) bool {
		if !s.attached() || !s.roles["up"].kill() {
			return false
		}
		defer s.begin("up")
		return s.damage()
	}}
)

// copied is a site with a copy of this one's data directory. What has not been started yet is started there, too:
// those agents have journals of their own.
func (s *site) copied() *site {
	s.t.Helper()
	other := &site{
		t: s.t, rng: s.rng, dir: s.t.TempDir(), names: s.names, roles: map[string]*process{}, direct: map[string]*process{},
		cut: map[string]bool{},
	}
	other.journals, other.data = filepath.Join(other.dir, "journals"), []string{filepath.Join(other.dir, "data")}
	// The exit status tells of files that have gone while they were copied: agents end all the time.
	_ = exec.Command("cp", "-a", filepath.Join(s.dir, "home"), filepath.Join(s.dir, "linesman.toml"), s.data[0],
		other.dir).Run()
	for _, name := range []string{"journals", "logs"} {
		if err := os.Mkdir(filepath.Join(other.dir, name), 0o700); err != nil {
			s.t.Fatal(err)
		}
	}
	specs, err := filepath.Glob(filepath.Join(other.data[0], "runs", "*", "run.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range append(specs, filepath.Join(other.dir, "linesman.toml")) {
		b, err := os.ReadFile(name)
		if err != nil {
			s.t.Fatal(err)
		}
		b = bytes.ReplaceAll(b, []byte(s.journals), []byte(other.journals))
		if err := os.WriteFile(name, b, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return other
}

// working are the runs that have not ended.
func (s *site) working() (all []string) {
	s.t.Helper()
	server := s.server()
	begun, err := server.Begun(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, run := range begun {
		r, err := server.Record(s.t.Context(), run)
		if err != nil {
			s.t.Fatal(err)
		}
		if r != nil && !r.State.Final() {
			all = append(all, run)
		}
	}
	return all
}

// damage changes a block of one of the streams that are derived from RAW.
func (s *site) damage() bool {
	s.t.Helper()
	streams := filepath.Join(s.data[0], "jetstream", "jetstream")
	derived := []string{
		filepath.Join(embedded.PublicAccount, "streams", s.names.Events()),
		filepath.Join(embedded.InsideAccount, "streams", stream(s.names.Runs())),
		filepath.Join(embedded.InsideAccount, "streams", stream(s.names.State())),
		filepath.Join(embedded.InsideAccount, "streams", stream(s.names.Threads())),
		filepath.Join(embedded.InsideAccount, "streams", stream(s.names.Folds())),
	}
	blocks, err := filepath.Glob(filepath.Join(streams, derived[s.rng.IntN(len(derived))], "msgs", "*.blk"))
	if err != nil {
		s.t.Fatal(err)
	}
	blocks = slices.DeleteFunc(blocks, func(name string) bool { return size(s.t, name) == 0 })
	if len(blocks) == 0 {
		return false
	}
	name := blocks[s.rng.IntN(len(blocks))]
	b, err := os.ReadFile(name)
	if err != nil {
		s.t.Fatal(err)
	}
	at, kind := s.rng.IntN(len(b)), s.rng.IntN(3)
	switch kind {
	case 0:
		b[at] ^= 0xff
	case 1:
		clear(b[at:min(at+4096, len(b))])
	case 2:
		b = b[:at]
	}
	s.t.Logf("damage of kind %d in %s, at %d", kind, name, at)
	if err := os.WriteFile(name, b, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return true
}

func size(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestWhatIsDoneToADirectoryLosesAndDoublesNothing(t *testing.T) {
	fixture.Long(t, "copies and damages of a data directory take minutes")
	sieges(t, 8, func(t *testing.T, rng *rand.Rand, rounds uint64) {
		siege(newUp(t, rng, ""), rounds, stopShim, removeLock, copyDirectory, damageDerived)
	})
}
