package bus_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/linesman/linesman/bus"
)

// Credentials say where their user may get answers.
func TestInboxesAreThoseThatTheCredentialsAllow(t *testing.T) {
	for name, tt := range map[string]struct {
		allow []string
		want  string
	}{
		"all":       {nil, ""},
		"own":       {[]string{"linesman.>", "_INBOX_operator.>"}, "_INBOX_operator"},
		"of others": {[]string{"_INBOX.*.>", "_INBOX_*.>"}, ""},
	} {
		account, err := nkeys.CreateAccount()
		if err != nil {
			t.Fatal(err)
		}
		user, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := user.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		seed, err := user.Seed()
		if err != nil {
			t.Fatal(err)
		}
		claims := jwt.NewUserClaims(public)
		claims.Sub.Allow = tt.allow
		token, err := claims.Encode(account)
		if err != nil {
			t.Fatal(err)
		}
		file, err := jwt.FormatUserConfig(token, seed)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "user.creds")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := bus.InboxOf(path); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	if got := bus.InboxOf(""); got != "" {
		t.Errorf("no file: %q", got)
	}
}
