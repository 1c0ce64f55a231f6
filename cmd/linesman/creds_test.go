package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// signed makes the credentials files of all users.
func signed(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	var out, stderr bytes.Buffer
	if code := run(t.Context(), []string{"context", "--server-config", "--jwt", "--keys", dir},
		[]string{"HOME=" + t.TempDir()}, strings.NewReader(""), &out, &stderr); code != exitDone {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	return dir
}

// Keys of one user do not serve a command that needs another one: that is said
// before anything is tried, with the right that is missing.
func TestKeysOfAnotherUserAreNamedAtOnce(t *testing.T) {
	t.Parallel()
	dir := signed(t)
	alone := t.TempDir()
	b, err := os.ReadFile(filepath.Join(dir, "subscriber.creds"))
	if err == nil {
		err = os.WriteFile(filepath.Join(alone, "subscriber.creds"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ command, creds, want string }{
		{"status", filepath.Join(alone, "subscriber.creds"), "subscriber.creds holds the keys of subscriber; this needs " +
			"those of operator, which may send requests (publish to linesman.api.>)"},
		{"worker", filepath.Join(dir, "responder.creds"), "responder.creds holds the keys of responder; this needs those " +
			"of worker, which may take tasks"},
		{"events", filepath.Join(dir, "worker.creds"), "worker.creds holds the keys of worker; this needs those of " +
			"subscriber, which may read the events"},
		{"status", alone, "no keys of operator in " + alone +
			": operator.creds, operator.nk, or operator.pem and operator-key.pem; there are those of subscriber"},
	} {
		var out, stderr bytes.Buffer
		code := run(t.Context(), []string{tt.command, "--creds", tt.creds, "--nats", "nats://127.0.0.1:1"},
			[]string{"HOME=" + t.TempDir()}, strings.NewReader(""), &out, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%s with %s: exit %d, want %d and %q:\n%s", tt.command, tt.creds, code, exitUsage, tt.want, &stderr)
		}
	}
}

func TestCommandsRefuseADataDirectoryThatOthersCanWrite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // a group that is not root's own
		if err := os.Chown(dir, 0, 12345); err != nil {
			t.Fatal(err)
		}
	}
	for mode, taken := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o750: true, 0o702: false, 0o777: false,
		0o1777: false, 0o775: os.Getuid() != 0 && os.Getgid() == os.Getuid()} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		var out, stderr bytes.Buffer
		code := run(t.Context(), []string{"status", "--no-daemon", "--data-dir", dir}, nil, strings.NewReader(""), &out,
			&stderr)
		if refused := code == exitUsage && strings.Contains(stderr.String(), "others can write to "); refused == taken {
			t.Errorf("mode %v: status ends with %d: %s", mode, code, &stderr)
		}
	}
}
