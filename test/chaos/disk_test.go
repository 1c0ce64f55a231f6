package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// mounted has the calling test run once more, in a process that has mounts of
// its own: they end with it, whatever becomes of the test. It reports whether
// it is that process. Where the system allows none, the test is skipped.
func mounted(t *testing.T) bool {
	t.Helper()
	const inside = "CHAOS_MOUNTED"
	if os.Getenv(inside) != "" {
		return true
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=8m", fmt.Sprintf("-chaos.seed=%d",
		*seed))
	cmd.Env = append(os.Environ(), inside+"=1", "CHAOS_PROGRAM="+program, "CHAOS_AGENT="+agent)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if id := os.Getuid(); id != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Skipf("no mounts of one's own here: %v", err)
	}
	if strings.Contains(string(out), "--- SKIP: ") {
		t.Skipf("%s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return false
}

// maxFiles is how many files a disk can have.
const maxFiles = 4000

// disk is a small file system.
type disk struct {
	t    *testing.T
	path string
}

// newDisk mounts one at path until the test ends.
func newDisk(t *testing.T, path string, size int) *disk {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("size=%d,nr_inodes=%d,mode=0700", size, maxFiles)
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, options); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return &disk{t, path}
}

func (d *disk) ballast() string { return filepath.Join(d.path, "ballast") }

// fill leaves no room: a block at a time, with pauses as long as given.
func (d *disk) fill(pause time.Duration) {
	d.t.Helper()
	f, err := os.OpenFile(d.ballast(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 256<<10); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			block = block[:len(block)/2] // to the last byte
		} else if err != nil {
			d.t.Fatal(err)
		}
		if pause > 0 {
			<-time.After(pause)
		}
	}
}

// fillFiles leaves no room for another file, though for bytes.
func (d *disk) fillFiles() {
	d.t.Helper()
	if err := os.Mkdir(d.ballast(), 0o700); err != nil {
		d.t.Fatal(err)
	}
	for n := 0; ; n++ {
		switch err := os.WriteFile(filepath.Join(d.ballast(), strconv.Itoa(n)), nil, 0o600); {
		case errors.Is(err, unix.ENOSPC):
			return
		case err != nil:
			d.t.Fatal(err)
		}
	}
}

// free is how much room there is.
func (d *disk) free() uint64 {
	d.t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(d.path, &st); err != nil {
		d.t.Fatal(err)
	}
	return st.Bavail * uint64(st.Bsize)
}

// empty makes room again.
func (d *disk) empty() {
	d.t.Helper()
	if err := os.RemoveAll(d.ballast()); err != nil {
		d.t.Fatal(err)
	}
}

// readonly makes the file system one that nobody can write to, or ends that.
func (d *disk) readonly(is bool) {
	d.t.Helper()
	flags := uintptr(unix.MS_REMOUNT)
	if is {
		flags |= unix.MS_RDONLY
	}
	eventually(d.t, "something is still being written", func() (bool, string) { // by a shim that is about to end
		err := unix.Mount("tmpfs", d.path, "tmpfs", flags, "")
		if err != nil && !errors.Is(err, unix.EBUSY) {
			d.t.Fatal(err)
		}
		return err == nil, ""
	})
}

const sayFull = "the disk of the data directory is nearly full"

// talked waits until each of the agents has written something more.
func (s *site) talked(keys []string, more int) {
	s.t.Helper()
	for _, key := range keys {
		from := s.journal(key).Out.Sure
		eventually(s.t, "agent "+key+" does not go on", func() (bool, string) {
			return s.journal(key).Out.Sure >= from+more,
				""
		})
	}
}

// The disk that has all of `up` on it, streams and spools, fills up while
// agents write. They get the error themselves, linesman says so once, and
// what was stored stays: once there is room all goes on.
func TestFullDiskLosesNothing(t *testing.T) {
	if !mounted(t) {
		return
	}
	s := newSite(t, drawn(t, 0), "")
	s.data = []string{filepath.Join(s.dir, "disk", "data")}
	d := newDisk(t, filepath.Join(s.dir, "disk"), 96<<20)
	s.begin("up")
	var agents []string
	for range 4 {
		key := s.run("endless", nil, "pace=20")
		s.may(key) // what becomes of its write is its own affair
		agents = append(agents, key)
	}
	ended := s.run("talk", nil, "lines=20", "pace=1")
	s.direct[ended].code()
	s.talked(agents, 20_000)
	before := len(s.roles["up"].said())
	d.fill(10 * time.Millisecond)
	if free := d.free(); free > 0 {
		t.Logf("%d bytes are free", free)
	}
	s.roles["up"].await(before, sayFull)

	// Nothing new begins, with an error that says why.
	key := s.run("talk", nil, "lines=5")
	if code := s.direct[key].code(); code != 125 || !strings.Contains(s.direct[key].said(), "no space left") {
		t.Errorf("run on a full disk: exit %d, and says %s", code, s.direct[key].said())
	}
	<-time.After(5 * time.Second) // how long it lasts
	if words := s.roles["up"].said()[before:]; strings.Count(words, sayFull) != 1 || strings.Count(words, "\n") > 40 {
		t.Errorf("in 5 s `up` says:\n%s", words)
	}
	d.empty()
	s.roles["up"].await(before, "there is room again")
	late := s.run("talk", nil, "lines=5")
	s.direct[late].code()
	for _, key := range agents {
		s.touch(key, "stop")
	}
	e := s.check()
	full := 0
	for _, key := range agents {
		if j := s.journal(key); j.Code == nil {
			full++
		}
	}
	t.Logf("%d of %d agents got an error of their own; %d entries, %d events", full, len(agents), len(e.Raw),
		len(e.Events))
}

// The disk that has all of `up` on it can take no more files, although it has room for bytes.
func TestDiskWithoutRoomForFilesOnlyCostsTime(t *testing.T) {
	fixture.Long(t, "fills a disk")
	if !mounted(t) {
		return
	}
	s := newSite(t, drawn(t, 0), "")
	s.data = []string{filepath.Join(s.dir, "disk", "data")}
	d := newDisk(t, filepath.Join(s.dir, "disk"), 256<<20)
	s.begin("up")
	key := s.run("endless", nil, "pace=20")
	s.may(key) // what becomes of its files is its own affair
	s.talked([]string{key}, 5_000)
	before := len(s.roles["up"].said())
	d.fillFiles()
	s.roles["up"].await(before, sayFull)
	<-time.After(25 * time.Second) // how long it lasts
	if words := s.roles["up"].said()[before:]; strings.Count(words, sayFull) != 1 || strings.Count(words, "\n") > 40 {
		t.Errorf("in 25 s `up` says:\n%s", words)
	}
	d.empty()
	s.roles["up"].await(before, "there is room again")
	s.direct[s.run("talk", nil, "lines=5")].code()
	s.touch(key, "stop")
	s.check()
}

// The disk of one of two workers on somebody else's server is full: the other one has all tasks, which there would
// fail at once, one after the other.
func TestWorkerWithoutRoomLeavesTasksToOthers(t *testing.T) {
	if !mounted(t) {
		return
	}
	s := newSite(t, drawn(t, 0), "")
	s.url = startNATS(t).url
	s.data = []string{filepath.Join(s.dir, "worker-a"), filepath.Join(s.dir, "worker-b")}
	d := newDisk(t, s.data[1], 96<<20)
	for _, role := range []string{"normalizer", "responder", "worker-b"} {
		s.begin(role)
	}
	d.fill(0)
	for range 8 { // more than it has slots
		s.submit("talk", "lines=20")
	}
	s.roles["worker-b"].await(0, sayFull)
	s.begin("worker-a")
	s.check()
	if words := s.roles["worker-b"].said(); strings.Contains(words, "started") || strings.Count(words, sayFull) != 1 {
		t.Errorf("without room the worker says\n%s", words)
	}
	before := len(s.roles["worker-b"].said())
	d.empty()
	s.roles["worker-b"].await(before, "tasks are taken again")
}

// The file system of the server's store is full from one moment to the next,
// so that the server runs into it. Agents write elsewhere and notice nothing.
func TestStoreFullAtOnceIsFilledAgainFromTheSpools(t *testing.T) {
	fixture.Long(t, "fills a disk")
	if !mounted(t) {
		return
	}
	s := newSite(t, drawn(t, 0), "")
	s.data = []string{filepath.Join(s.dir, "data")}
	d := newDisk(t, filepath.Join(s.data[0], "jetstream"), 96<<20)
	s.begin("up")
	var agents []string
	for range 4 {
		agents = append(agents, s.run("endless", nil, "pace=20"))
	}
	server := s.server()
	fired := 0
	for n := 0; n < 3 || fired == 0 && n < 10; n++ { // it may just have nothing to write
		s.talked(agents, 20_000)
		before := len(s.roles["up"].said())
		d.fill(0)
		s.roles["up"].await(before, sayFull)
		s.talked(agents, 50_000) // meanwhile they go on
		d.empty()
		s.roles["up"].await(before, "there is room again")
		for _, key := range agents {
			want := int64(s.journal(key).Out.Sure)
			s.record(server, key, "read to where it was", func(r runs.Record) bool { return r.Bytes >= want })
		}
		fired = strings.Count(s.roles["up"].said(), "the server could not write, and is started again")
	}
	if fired == 0 {
		t.Error("the server never ran into the end of its disk")
	}
	for _, key := range agents {
		s.touch(key, "stop")
	}
	e, err := s.settle().Gather(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range agents {
		s.unbroken(e, key)
	}
	t.Logf("the server was started again %d times", fired)
}

// On a data directory that cannot be written to nobody starts, and says why.
func TestReadOnlyDataDirectoryIsSaid(t *testing.T) {
	if !mounted(t) {
		return
	}
	s := newSite(t, drawn(t, 0), "")
	s.data = []string{filepath.Join(s.dir, "disk", "data")}
	d := newDisk(t, filepath.Join(s.dir, "disk"), 96<<20)
	s.begin("up")
	kept := s.run("talk", nil, "lines=20", "pace=1")
	s.direct[kept].code()
	s.roles["up"].signal(syscall.SIGTERM)
	s.roles["up"].code()
	d.readonly(true)
	t.Setenv("LINESMAN_BACKGROUND_START", "true") // run says why the `up` that it starts cannot work
	for _, c := range []struct {
		command string
		args    []string
		code    int
	}{
		{"up", []string{"--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, 1},
		{"run", []string{"--", agent, s.journals, "never talk 1"}, 125},
	} {
		p := start(t, filepath.Join(s.dir, "home"), s.log("readonly-"+c.command), s.at(s.data[0], c.command, c.args...)...)
		if code := p.code(); code != c.code || !strings.Contains(p.said(), "read-only file system") ||
			strings.Count(p.said(), "\n") > 5 {
			t.Errorf("%s: exit %d, want %d; it says %s", c.command, code, c.code, p.said())
		}
	}
	if _, err := os.Stat(filepath.Join(s.journals, "never")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("an agent was started")
	}
	t.Setenv("LINESMAN_BACKGROUND_START", "false")
	d.readonly(false)
	s.begin("up")
	s.direct[s.run("talk", nil, "lines=20", "pace=1")].code()
	s.check()
}

// frozen makes a directory read-only for all that opens something in it from
// now on, until the returned function is called.
func frozen(t *testing.T, path string) (thaw func()) {
	t.Helper()
	if err := unix.Mount(path, path, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("nothing can be mounted: %v", err)
	}
	if err := unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
	}
}

// The spool turns read-only under a worker: what has begun goes on, nothing new
// begins, which is said, and all of it is done once it can be written again.
func TestSpoolThatTurnsReadOnlyOnlyCostsTime(t *testing.T) {
	fixture.Long(t, "waits for retries")
	if !mounted(t) {
		return
	}
	s := newSite(t, drawn(t, 0), "")
	s.url = startNATS(t).url
	s.data = []string{filepath.Join(s.dir, "worker-a")}
	for _, role := range []string{"normalizer", "responder", "worker-a"} {
		s.begin(role)
	}
	open := s.run("endless", nil, "pace=20")
	s.submit("talk", "lines=200", "pace=20")
	s.talked([]string{open}, 5_000)
	s.waiting.Wait()
	before := len(s.roles["worker-a"].said())
	thaw := frozen(t, filepath.Join(s.data[0], "runs"))
	for range 4 {
		s.submit("talk", "lines=20", "pace=2")
	}
	refused := s.run("talk", nil, "lines=5")
	if code := s.direct[refused].code(); code != 125 || !strings.Contains(s.direct[refused].said(),
		"read-only file system") {
		t.Errorf("run: exit %d, and says %s", code, s.direct[refused].said())
	}
	s.talked([]string{open}, 20_000)
	<-time.After(5 * time.Second) // how long it lasts
	if said := s.roles["worker-a"].said()[before:]; !strings.Contains(said, "read-only file system") ||
		strings.Count(said, "\n") > 40 {
		t.Errorf("the worker says:\n%s", said)
	}
	thaw()
	s.touch(open, "stop")
	e := s.check()
	t.Logf("%d runs, %d entries, %d events", len(e.Runs), len(e.Raw), len(e.Events))
}

// The same of the server's store: nothing is stored for as long, agents go on,
// and what they write is stored from their spools.
func TestStoreThatTurnsReadOnlyIsFilledFromTheSpools(t *testing.T) {
	fixture.Long(t, "waits for retries")
	if !mounted(t) {
		return
	}
	s := newUp(t, drawn(t, 0), "")
	open := s.run("endless", nil, "pace=20")
	s.submit("talk", "lines=200", "pace=20")
	s.talked([]string{open}, 5_000)
	s.waiting.Wait()
	before := len(s.roles["up"].said())
	thaw := frozen(t, filepath.Join(s.data[0], "jetstream"))
	s.roles["up"].await(before, sayFull)
	s.talked([]string{open}, 20_000)
	if said := s.roles["up"].said()[before:]; strings.Count(said, sayFull) != 1 || strings.Count(said, "\n") > 40 {
		t.Errorf("`up` says:\n%s", said)
	}
	for range 4 { // until they are taken
		s.submit("talk", "lines=20", "pace=2")
	}
	thaw()
	s.roles["up"].await(before, "there is room again")
	s.touch(open, "stop")
	e := s.check()
	t.Logf("%d runs, %d entries, %d events", len(e.Runs), len(e.Raw), len(e.Events))
}
