package snapshot

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/internal/lazy"
)

// isObjectID reports the id of a git object: SHA-1 or SHA-256.
func isObjectID(id string) bool {
	return (len(id) == 40 || len(id) == 64) && hexadecimal().MatchString(id)
}

var hexadecimal = lazy.Regexp(`^[0-9a-f]+$`)

// settings are the few settings of the user that change the content of a snapshot.
type settings struct {
	Config  map[string]string `json:"config,omitempty"`  // see safe
	Exclude string            `json:"exclude,omitempty"` // patterns of files that the user ignores
	Private string            `json:"private,omitempty"` // relative to the root of the work tree; "": outside of it
}

// safe are the settings that are taken from the user's configuration, with their values. None of
// them names a program or a file.
var safe = map[string][]string{
	"core.autocrlf":           {"true", "false", "input"},
	"core.eol":                {"lf", "crlf", "native"},
	"core.ignorecase":         {"true", "false"},
	"core.precomposeunicode":  {"true", "false"},
	"extensions.objectformat": {"sha1", "sha256"},
}

// fixed are the settings of a scratch repository. Large files count as binary, and are stored
// without compression, for speed.
const fixed = `[core]
	repositoryformatversion = 1
	bare = false
	fsmonitor = false
	untrackedCache = false
	hooksPath = /dev/null
	attributesFile = /dev/null
	looseCompression = 0
	compression = 0
	bigFileThreshold = 4m
	fsync = none
	safecrlf = false
	sharedRepository = 0600
[gc]
	auto = 0
[maintenance]
	auto = false
[protocol]
	allow = never
`

// maxExclude bounds each file of patterns, in bytes.
const maxExclude = 8 << 10

// readSettings reads the settings of a repository and its user. git reads files for that, and
// runs nothing.
func readSettings(ctx context.Context, git, gitDir string) (s settings, err error) {
	env := append(minimal(), "GIT_DIR="+gitDir)
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	r := &repository{git: git, root: "/", env: env}
	s.Config = map[string]string{}
	excludes := defaultExcludes()
	var scope string
	err = r.each(ctx, nil, func(field string) error {
		if !strings.Contains(field, "\n") && slices.Contains(scopes, field) {
			scope = field
			return nil
		}
		key, value, _ := strings.Cut(field, "\n")
		if slices.Contains(safe[key], strings.ToLower(value)) {
			s.Config[key] = strings.ToLower(value)
		}
		if key == "core.excludesfile" && (scope == "system" || scope == "global") {
			excludes = expandHome(value)
		}
		return nil
	}, "config", "--list", "--show-scope", "-z")
	if err != nil {
		return s, err
	}
	if filepath.IsAbs(excludes) {
		s.addExcludes(excludes)
	}
	return s, nil
}

var scopes = []string{"system", "global", "local", "worktree", "command", "unknown"}

// defaultExcludes is the file of patterns that git uses without a setting.
func defaultExcludes() string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		dir = expandHome("~/.config")
	}
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "git", "ignore")
}

func expandHome(path string) string {
	rest, found := strings.CutPrefix(path, "~/")
	if !found {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, rest)
}

// addExcludes adds the patterns of a file. A longer one does not count, nor one that is missing.
func (s *settings) addExcludes(file string) {
	if text, err := readBounded(file, maxExclude+1); err == nil && len(text) <= maxExclude {
		s.Exclude += strings.TrimSuffix(string(text), "\n") + "\n"
	}
}

// exclude adds the patterns of the repository, and one for the files below private. A .gitignore file may include those
// again.
func (s *settings) exclude(p place, private string) {
	s.addExcludes(filepath.Join(p.Common, "info", "exclude"))
	if real, err := filepath.EvalSymlinks(private); err == nil {
		private = real
	}
	if rel, err := filepath.Rel(p.Root, private); err == nil && filepath.IsLocal(rel) && rel != "." {
		s.Exclude += "/" + literal.Replace(rel) + "\n"
		s.Private = rel
	}
}

var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, " ", `\ `)

// repository is a scratch repository.
type repository struct {
	git     string // program
	dir     string
	root    string // of the work tree
	below   string // the directory that counts, relative to root
	private string // where files do not count, relative to root; "": nowhere
	env     []string
}

// create creates a scratch repository in scratch, with the objects of other repositories.
func create(scratch, git string, p place, s settings, objects ...string) (*repository, error) {
	dir, err := os.MkdirTemp(scratch, scratchPrefix)
	if err != nil {
		return nil, err
	}
	config := fixed
	for key, value := range s.Config {
		if slices.Contains(safe[key], value) {
			section, name, _ := strings.Cut(key, ".")
			config += "[" + section + "]\n\t" + name + " = " + value + "\n"
		}
	}
	alternates := ""
	for _, path := range objects {
		if strings.ContainsAny(path, "\n\r") {
			return nil, errors.New("a path of the repository has a line break")
		}
		if strings.HasPrefix(path, `"`) || strings.HasPrefix(path, "#") { // relative, which it is not
			return nil, errors.New("a path of the repository is not absolute")
		}
		alternates += path + "\n"
	}
	for name, text := range map[string]string{
		"HEAD": "ref: refs/heads/none\n", "config": config, "info/exclude": s.Exclude, "refs/none": "",
		"objects/info/alternates": alternates,
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			return nil, err
		}
	}
	if err := os.Remove(filepath.Join(dir, "refs/none")); err != nil {
		return nil, err
	}
	return &repository{
		git: git, dir: dir, root: p.Root, below: p.Below, private: s.Private,
		env: append(minimal(),
			"GIT_DIR="+dir, "GIT_WORK_TREE="+p.Root, "GIT_INDEX_FILE="+filepath.Join(dir, "index"),
			"HOME="+dir, "XDG_CONFIG_HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
			"GIT_CONFIG_SYSTEM="+os.DevNull),
	}, nil
}

// minimal is the environment of every git process: no variable of the worker has an effect on it,
// and it can neither ask nor fetch.
func minimal() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0",
		"GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_ATTR_NOSYSTEM=1", "GIT_LITERAL_PATHSPECS=1",
		"GIT_NO_REPLACE_OBJECTS=1",
	}
}

// copyIndex copies the index of a repository, with which git need not read unchanged files. Its
// modification time counts, too: files that changed in that second are read.
func (r *repository) copyIndex(gitDir string) error {
	files, err := sharedIndexes(gitDir)
	if err != nil {
		return err
	}
	for _, file := range append(files, filepath.Join(gitDir, "index")) {
		err := copyFile(file, filepath.Join(r.dir, filepath.Base(file)), maxIndex)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// sharedIndexes returns the files that a split index may share, the newest first, as long as all of them together have
// at most the size of an index: git touches the one that it uses, and whoever writes to the repository can add any
// number of others.
func sharedIndexes(gitDir string) (files []string, err error) {
	all, err := filepath.Glob(filepath.Join(literalGlob.Replace(gitDir), "sharedindex.*"))
	if err != nil {
		return nil, err
	}
	infos := make(map[string]fs.FileInfo, len(all))
	for _, file := range all {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			infos[file] = info
		}
	}
	newest := slices.SortedFunc(maps.Keys(infos), func(a, b string) int {
		return cmp.Or(infos[b].ModTime().Compare(infos[a].ModTime()), cmp.Compare(a, b))
	})
	left := int64(maxIndex)
	for _, file := range newest[:min(len(newest), maxShared)] {
		if size := infos[file].Size(); size <= left {
			left -= size
			files = append(files, file)
		}
	}
	return files, nil
}

var literalGlob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// copyFile copies a regular file with its modification time.
func copyFile(from, to string, limit int64) error {
	in, err := openRegular(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if info.Size() > limit {
		return fmt.Errorf("%w: the index", errTooLarge)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, limit))
	return errors.Join(err, out.Close(), os.Chtimes(to, time.Time{}, info.ModTime()))
}

// openRegular opens a regular file. It does not wait for the writer of a FIFO.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fs.ErrInvalid, err, f.Close())
	}
	return f, nil
}

// start starts git. Its end must be waited for.
func (r *repository) start(ctx context.Context, stdin io.Reader, args ...string) (*exec.Cmd, io.Reader, error) {
	options := []string{"--no-pager"}
	if args[0] == "update-index" { // all content goes into one pack, which is much faster than a file for each
		options = append(options, "-c", "core.bigFileThreshold=1")
	}
	cmd := exec.CommandContext(ctx, r.git, append(options, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdin = r.root, r.env, stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals to the worker's terminal do not reach it
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	return cmd, out, err
}

// read runs git and calls f with its output. A call that does not read all of it ends git.
func (r *repository) read(ctx context.Context, stdin io.Reader, f func(io.Reader) error, args ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd, out, err := r.start(ctx, stdin, args...)
	if err != nil {
		return failed(ctx, args[0], err)
	}
	failure := f(out)
	if failure != nil {
		cancel()
	}
	err = cmd.Wait()
	switch {
	case failure != nil:
		return failure
	case err != nil:
		return failed(ctx, args[0], err)
	}
	return nil
}

// failed is the error of a command of git, without its output, which may have paths.
func failed(ctx context.Context, command string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("git %s: %w", command, err)
}

// each calls f with each NUL-terminated field of the output of git.
func (r *repository) each(ctx context.Context, stdin io.Reader, f func(field string) error, args ...string) error {
	return r.read(ctx, stdin, func(out io.Reader) error {
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<20)
		s.Split(func(data []byte, atEOF bool) (int, []byte, error) {
			if i := bytes.IndexByte(data, 0); i >= 0 {
				return i + 1, data[:i], nil
			}
			if atEOF && len(data) > 0 {
				return len(data), data, nil
			}
			return 0, nil, nil
		})
		for s.Scan() {
			if err := f(s.Text()); err != nil {
				return err
			}
		}
		return s.Err()
	}, args...)
}
