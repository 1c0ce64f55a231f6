package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
)

// signed makes the credentials files of all users.
func signed(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	var out, stderr bytes.Buffer
	if code := run(t.Context(), []string{"context", "--server-config", "--jwt", "--keys", dir}, []string{"HOME=" + t.TempDir()}, strings.NewReader(""), &out, &stderr); code != exitDone {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	return dir
}

func TestACredentialsFileTellsItsUserAndInboxes(t *testing.T) {
	t.Parallel()
	dir := signed(t)
	for _, user := range allUsers() {
		c, err := readCredentials(filepath.Join(dir, user+".creds"))
		if err != nil || c.user != user || c.inbox != bus.InboxPrefix(user) {
			t.Errorf("%s.creds is of %q with the inboxes %q, %v", user, c.user, c.inbox, err)
		}
	}
}

func TestCredentialsOfTwoAccountsLieSideBySide(t *testing.T) {
	t.Parallel()
	dir := signed(t)
	for user, two := range map[string]bool{embedded.WorkerUser: false, embedded.SubscriberUser: false, embedded.NormalizerUser: true, embedded.ResponderUser: true, embedded.OperatorUser: true} {
		_, public, err := fileLogins("nats://x", filepath.Join(dir, user+".creds"), "", user)
		if err != nil || public.Creds != "" != two {
			t.Errorf("%s: the second file is %q, %v", user, public.Creds, err)
		}
		if !two {
			continue
		}
		if err := os.Remove(public.Creds); err != nil {
			t.Fatal(err)
		}
		want := "put " + user + "_public.creds beside "
		if _, _, err := fileLogins("nats://x", filepath.Join(dir, user+".creds"), "", user); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s without it: %v, want %q", user, err, want)
		}
		if _, public, err := fileLogins("nats://x", filepath.Join(dir, user+".creds"), filepath.Join(dir, "subscriber.creds"), user); err != nil || filepath.Base(public.Creds) != "subscriber.creds" {
			t.Errorf("%s with public_creds: %q, %v", user, public.Creds, err)
		}
	}
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
	for args, want := range map[string]string{
		"status --creds " + filepath.Join(alone, "subscriber.creds"): "subscriber.creds holds the keys of subscriber; this needs those of operator, which may send requests (publish to linesman.api.>)",
		"worker --creds " + filepath.Join(dir, "responder.creds"):    "responder.creds holds the keys of responder; this needs those of worker, which may take tasks",
		"events --creds " + filepath.Join(dir, "worker.creds"):       "worker.creds holds the keys of worker; this needs those of subscriber, which may read the events",
		"status --creds " + alone:                                    "no keys of operator in " + alone + ": operator.creds, operator.nk, or operator.pem and operator-key.pem; there are those of subscriber",
	} {
		var out, stderr bytes.Buffer
		code := run(t.Context(), append(strings.Fields(args), "--nats", "nats://127.0.0.1:1"), []string{"HOME=" + t.TempDir()}, strings.NewReader(""), &out, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit %d, want %d and %q:\n%s", args, code, exitUsage, want, &stderr)
		}
	}
}
