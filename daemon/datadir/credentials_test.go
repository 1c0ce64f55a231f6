package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/config"
)

// signed creates the credentials files of all users.
func signed(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	if _, err := (&Dialer{Config: config.Default()}).ServerConfig(dir, true); err != nil {
		t.Fatal(err)
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
	for user, two := range map[string]bool{embedded.WorkerUser: false, embedded.SubscriberUser: false,
		embedded.NormalizerUser: true, embedded.ResponderUser: true, embedded.OperatorUser: true} {
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
		if _, _, err := fileLogins("nats://x", filepath.Join(dir, user+".creds"), "", user); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s without it: %v, want %q", user, err, want)
		}
		if _, public, err := fileLogins("nats://x", filepath.Join(dir, user+".creds"), filepath.Join(dir, "subscriber.creds"),
			user); err != nil || filepath.Base(public.Creds) != "subscriber.creds" {
			t.Errorf("%s with public_creds: %q, %v", user, public.Creds, err)
		}
	}
}
