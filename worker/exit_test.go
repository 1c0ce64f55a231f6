package worker

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
)

const forged = `echo '{"reason":"exited","code":0}'`

// An agent that exits with 9 writes an exit record with code 0 to the file of
// its shim.
func TestAnAgentDoesNotDecideItsExit(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"before its end":     forged + ` > exit.json; sleep 0.2`,
		"under another name": forged + ` > x; mv x exit.json; ` + forged + ` > exit.json.tmp`,
		"a symbolic link": forged + ` > /tmp/$$.forged; ln -s /tmp/$$.forged exit.json; ` +
			`ln -s /tmp/$$.forged exit.json.tmp; (sleep 2; rm -f /tmp/$$.forged) >/dev/null 2>&1 &`,
		"a directory":             `mkdir -p exit.json/x exit.json.tmp/x`,
		"a FIFO":                  `mkfifo exit.json exit.json.tmp`,
		"no write permission":     `chmod 500 .; ` + forged + ` > exit.json; chmod 0 exit.json`,
		"the shim's lock gone":    forged + ` > exit.json; rm -f shim`,
		"again and again":         `(while [ -e run.json ]; do ` + forged + ` > exit.json; done) >/dev/null 2>&1 &`,
		"a child, without output": `(while [ -e run.json ]; do ` + forged + ` > x; mv x exit.json; done) 2>/dev/null &`,
		"as it is taken away":     `(while [ -e run.json ]; do rm -rf exit.json*; done) >/dev/null 2>&1 &`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			spec := shell("r", "cd "+filepath.Join(l.root, "r")+"; echo one; "+script+"\nexit 9")
			spec.Limits.Linger, spec.Limits.Grace = 500*time.Millisecond, 100*time.Millisecond
			want := runs.Exit{Reason: runs.ReasonExited, Code: code(9)}
			if ex := l.drive(spec); !sameExit(ex, want) || !sameExit(l.exit("r"), want) {
				t.Errorf("exit %s, want %s", runs.Encode(ex), runs.Encode(want))
			}
		})
	}
}

// No worker is running when the agent exits. A later worker reads the record
// of the shim.
func TestAnAgentDoesNotDecideItsExitForTheNextWorker(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		script string
		shim   bool // the shim is killed
		want   runs.Exit
	}{
		{"before its end", forged + ` > exit.json`, false, runs.Exit{Reason: runs.ReasonExited, Code: code(9)}},
		{"with a lost mark", forged + ` > exit.json; cp mark m; sed s/keys/kyes/ m > mark`, false,
			runs.Exit{Reason: runs.ReasonExited, Code: code(9)}},
		{"by a child", `(while [ -e shim ] && ! flock -n shim true; do :; done; ` + forged +
			` > exit.json) >/dev/null 2>&1 &`, false, runs.Exit{Reason: runs.ReasonLost}},
		{"without a shim", forged + ` > exit.json`, true, runs.Exit{Reason: runs.ReasonLost}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			dir := t.TempDir()
			at := filepath.Join(l.root, "r")
			spec := shell("r", recordPIDs+"echo one; while ! [ -e go ]; do sleep 0.01; done; cd "+at+"; "+test.script+"\nexit 9")
			spec.Dir, spec.Limits.Keep = dir, true
			l.create(spec).Close()
			worker := l.process(nil, nil, "adopt")
			l.await("r", "one")
			kill(worker)
			pid := readPID(t, filepath.Join(dir, "agent"))
			if test.shim {
				killShim(t, dir)
			}
			write(t, filepath.Join(dir, "go"), "")
			waitFor(t, "the agent's end", func() bool { p, ok := lookup(pid); return !ok || p.dead })
			waitFor(t, "the shim's end",
				func() bool { busy, err := files.Held(filepath.Join(at, shimFile)); return !busy && err == nil })
			if test.name == "by a child" {
				waitFor(t, "the child", func() bool { return strings.HasSuffix(contents(t, filepath.Join(at, exitFile)), "0}\n") })
			}
			l.adopt()
			waitFor(t, "the end", func() bool { return l.ended("r") && l.empty() })
			if ex := l.exit("r"); !sameExit(ex, test.want) {
				t.Errorf("exit %s, want %s", runs.Encode(ex), runs.Encode(test.want))
			}
		})
	}
}

func TestOnlyAKnownKeySealsAnExit(t *testing.T) {
	t.Parallel()
	ex := runs.Exit{Reason: runs.ReasonExited, Code: code(9)}
	private, key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	forger, other, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	body := string(sealed(ex, private))
	forged := string(sealed(ex, forger))
	before := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	older := []byte(before.Public().(ed25519.PublicKey))
	keyOf := func(body string) string { return gjson.Get(body, "key").Raw }
	for _, test := range []struct {
		name string
		body string
		keys [][]byte
		want *runs.Exit
	}{
		{"sealed", body, [][]byte{other, key}, &ex},
		{"by another", body, [][]byte{other}, nil},
		{"by another, with the key of the shim", strings.Replace(forged, keyOf(forged), keyOf(body), 1), [][]byte{key}, nil},
		{"not at all", string(runs.Encode(ex)), [][]byte{key}, nil},
		{"for another exit", strings.Replace(body, ":9", ":0", 1), [][]byte{key}, nil},
		{"key of another size", body, [][]byte{key[1:], nil}, nil},
		{"no JSON", body[1:], [][]byte{key}, nil},
		{"an older version's, with its key", sealedBefore(ex, before), [][]byte{other, older}, &ex},
		{"an older version's, by another", sealedBefore(ex, before), [][]byte{other, key}, nil},
		{"an older version's", string(runs.Encode(ex)), nil, &ex},
		{"an older version's, sealed", body, nil, &ex},
		{"an older version's, torn", "{", nil, &runs.Exit{Reason: runs.ReasonLost}},
	} {
		got := unseal([]byte(test.body), test.keys)
		if (got == nil) != (test.want == nil) || got != nil && !sameExit(*got, *test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// sealedBefore is an exit as shims signed it whose keys were of Ed25519.
func sealedBefore(ex runs.Exit, key ed25519.PrivateKey) string {
	return string(runs.Encode(sealedExit{Exit: ex, Seal: ed25519.Sign(key, runs.EncodeExit(ex))}))
}

// Other kinds of files at this path neither block nor are followed.
func TestOnlyARegularFileIsAnExit(t *testing.T) {
	t.Parallel()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	write(t, elsewhere, `{"reason":"exited","code":0}`)
	for name, put := range map[string]func(path string) error{
		"nothing":   func(string) error { return nil },
		"a FIFO":    func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a link":    func(path string) error { return os.Symlink(elsewhere, path) },
		"a socket":  func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := t.TempDir()
		if err := put(filepath.Join(dir, exitFile)); err != nil {
			t.Fatal(err)
		}
		if ex, err := readExit(dir); ex != nil || err != nil {
			t.Errorf("%s: %v, %v", name, ex, err)
		}
	}
}

// A file that the worker writes may have been replaced, too: it waits for no reader, and writes to no other file.
func TestOnlyARegularFileIsWritten(t *testing.T) {
	t.Parallel()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	write(t, elsewhere, "of others")
	for name, put := range map[string]func(path string) error{
		"a FIFO":  func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a link":  func(path string) error { return os.Symlink(elsewhere, path) },
		"a file":  func(path string) error { return os.WriteFile(path, []byte("longer than the new text"), 0o600) },
		"nothing": func(string) error { return nil },
	} {
		path := filepath.Join(t.TempDir(), "asking.new")
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		if err := writeFile(path, []byte("text"), false); err != nil || contents(t, path) != "text" {
			t.Errorf("%s: %v, %q", name, err, contents(t, path))
		}
	}
	if got := contents(t, elsewhere); got != "of others" {
		t.Errorf("the target of the link is %q", got)
	}
}
