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

func TestACredentialsFileThatOthersCanReadIsRefused(t *testing.T) {
	t.Parallel()
	dir := signed(t)
	path, private := filepath.Join(dir, "subscriber.creds"), filepath.Join(dir, "operator.creds")
	for mode, taken := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o644: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		d := &Dialer{Config: config.Default()}
		d.Config.NATS, d.Config.Creds = "nats://x", path
		_, asContext := d.NATSContext(embedded.SubscriberUser)
		_, _, asCreds := fileLogins("nats://x", path, "", embedded.SubscriberUser)
		_, _, asPublic := fileLogins("nats://x", private, path, embedded.OperatorUser)
		_, alone := FileLogin("nats://x", path)
		for how, err := range map[string]error{
			"creds": asCreds, "public_creds": asPublic, "announce.creds": alone, "context": asContext,
		} {
			if (err == nil) != taken || err != nil && !strings.Contains(err.Error(), path+" can be read by others") {
				t.Errorf("%s with the mode %v: %v", how, mode, err)
			}
		}
	}
}
