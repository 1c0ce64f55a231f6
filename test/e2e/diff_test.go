package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// repository is a git work tree whose configuration names programs. Each of them leaves a marker.
type repository struct {
	t           *testing.T
	dir, marker string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t, secretDir(t), filepath.Join(t.TempDir(), "marker")}
	r.write("a.txt", "one\ntwo\n")
	r.git("init", "-q")
	r.git("add", ".")
	r.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--no-gpg-sign", "-q", "-m", "first")
	evil := filepath.Join(t.TempDir(), "evil")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\necho $0 $* >>'"+r.marker+"'\ncat\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.write(".git/config", fmt.Sprintf("[core]\nfsmonitor = %[1]s\npager = %[1]s\n[filter \"evil\"]\nclean = %[1]s\n"+
		"smudge = %[1]s\n[diff]\nexternal = %[1]s\n[diff \"evil\"]\ncommand = %[1]s\ntextconv = %[1]s\n", evil))
	r.write(".git/info/attributes", "* filter=evil diff=evil\n")
	r.write(".git/hooks/post-index-change", "#!/bin/sh\necho hook >>'"+r.marker+"'\n")
	if err := os.Chmod(filepath.Join(r.dir, ".git/hooks/post-index-change"), 0o700); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *repository) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.t.Fatal(err)
	}
	write(r.t, path, text)
}

// git runs git without the programs of the repository.
func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{
		"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "filter.evil.clean=cat", "-c", "diff.external=",
	}, args...)...)
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), "GIT_OPTIONAL_LOCKS=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// state is all of the repository that linesman must leave alone.
func (r *repository) state() string {
	r.t.Helper()
	index := filepath.Join(r.dir, ".git", "index")
	body, err := os.ReadFile(index)
	if err != nil {
		r.t.Fatal(err)
	}
	info, err := os.Stat(index)
	if err != nil {
		r.t.Fatal(err)
	}
	locks, err := filepath.Glob(filepath.Join(r.dir, ".git", "*.lock"))
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprintf("%x %v %q %s %s %s", body, info.ModTime(), locks, r.git("rev-parse", "HEAD"), r.git("for-each-ref"),
		r.git("stash", "list"))
}

// untouched fails the test if linesman changed the repository, or a program of it ran.
func (r *repository) untouched(before string) {
	r.t.Helper()
	if now := r.state(); now != before {
		r.t.Errorf("the repository has changed:\n%s\nbefore:\n%s", now, before)
	}
	r.git("fsck", "--strict")
	if text, err := os.ReadFile(r.marker); err == nil {
		r.t.Errorf("a program of the repository ran: %s", text)
	}
}

const edit = `
say one
await go
cd "$1"
echo three >>a.txt
echo new >new.txt
`

// sameDiff checks the answer about a run of [edit].
func sameDiff(s *site, run string) {
	s.t.Helper()
	d, _ := s.want(200, "GET", "/v1/runs/"+run+"/diff", "")
	if d.Get("changes").Raw != `{"files":2,"added":2,"removed":0}` || d.Get("files.#.path").Raw != `["a.txt","new.txt"]` ||
		!strings.Contains(d.Get("patch").String(), " two\n+three\n") {
		s.t.Errorf("the diff: %s", d.Raw)
	}
	if r, _ := s.want(200, "GET", "/v1/runs/"+run, ""); r.Get("changes.files").Int() != 2 {
		s.t.Errorf("the run: %s", r.Raw)
	}
}

func TestDiffOfARunInAHostileRepository(t *testing.T) {
	t.Parallel()
	data, agent, r := t.TempDir(), newScript(t, edit), newRepository(t)
	up(t, data)
	agent.touch("go")
	before := r.state()
	run := beginAt(t, r.dir, nil, nil, "run", "--data-dir", data, "--run", "here", "--json", "--", agent.path, r.dir)
	if code := run.Code(); code != 0 {
		t.Fatalf("run: exit %d\n%s", code, run.Stderr)
	}
	r.untouched(before)
	if got := r.git("status", "--porcelain"); got != " M a.txt\n?? new.txt\n" {
		t.Errorf("status %q", got)
	}
	events(t, data, "here")
	sameDiff(newSiteOf(t, data), "here")
	noDirectories(t, data)
	reader := newSite(t, data, "read")
	reader.want(403, "GET", "/v1/runs/here/diff", "")
	if text, _ := reader.want(200, "GET", "/v1/runs/here", ""); strings.Contains(text.Raw, "new.txt") {
		t.Errorf("a path is public: %s", text.Raw)
	}
}

// The worker of a task is killed while its agent runs; the next one has the diff.
func TestDiffOfATaskSurvivesItsWorker(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	data, agent, lab := t.TempDir(), newScript(t, strings.ReplaceAll(edit, "$1", r.dir)), secretDir(t)
	config := filepath.Join(lab, "linesman.toml")
	write(t, config, fmt.Sprintf("[work]\nmax_runs = 1\nroots = [%q]\n[agents.codex]\ncommand = ['/bin/sh', %q]\n", r.dir,
		agent.path))
	first := up(t, data, "--config", config)
	before := r.state()
	ack, _ := newSiteOf(t, data).want(202, "POST", "/v1/runs",
		fmt.Sprintf(`{"task":"go","workingDir":%q}`, r.dir))
	run := ack.Get("run").String()
	follow := begin(t, nil, "events", "--data-dir", data, "--run", run, "--follow", "--json")
	follow.Await(follow.Stdout, `"text":"one"`)
	first.Kill()
	agent.touch("go")
	up(t, data, "--config", config)
	events(t, data, run)
	r.untouched(before)
	sameDiff(newSiteOf(t, data), run)
	noDirectories(t, data)
}

// newSiteOf is a site for the token of the data directory.
func newSiteOf(t *testing.T, data string) *site {
	t.Helper()
	a := fixture.ReadAddress(t, data)
	return &site{t, a.HTTP, a.Token}
}

// A setting turns it off.
func TestDiffIsTurnedOff(t *testing.T) {
	t.Parallel()
	data, agent, r := t.TempDir(), newScript(t, edit), newRepository(t)
	up(t, data)
	agent.touch("go")
	cmd := exec.Command(program, "run", "--data-dir", data, "--run", "off", "--json", "--", agent.path, r.dir)
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), "LINESMAN_DIFF=false")
	if _, stderr, code := fixture.Run(t, cmd); code != 0 {
		t.Fatalf("run: exit %d\n%s", code, stderr)
	}
	events(t, data, "off")
	if d, _ := newSiteOf(t, data).want(200, "GET", "/v1/runs/off/diff", ""); d.Get("reason").String() != "off" {
		t.Errorf("the diff: %s", d.Raw)
	}
}
