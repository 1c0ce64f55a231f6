package daemon_test

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/daemon/daemontest"
	"github.com/linesman/linesman/responder/webhook"
)

// jwks requests the public keys, without a token.
func jwks(t *testing.T, d *daemon.Daemon) (status int, body string) {
	t.Helper()
	answer, err := http.Get(d.Responder.URL() + "/.well-known/jwks.json")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

func TestThePublicKeyIsServedWhereOneIsConfigured(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.pem")
	key, err := webhook.CreateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	d := daemontest.Start(t, func(s *config.Config) {
		s.HTTP, s.AdCP.WebhookKey, s.AdCP.BrandJSONURL = "127.0.0.1:0", path, "https://brand.example/brand.json"
	})
	if status, body := jwks(t, d); status != http.StatusOK || gjson.Get(body, "keys.0.kid").String() != key.ID() ||
		gjson.Get(body, "keys.0.d").Exists() || gjson.Get(body, "keys.#").Int() != 1 {
		t.Errorf("%d: %s", status, body)
	}
	without := daemontest.Start(t, func(s *config.Config) { s.HTTP = "127.0.0.1:0" })
	if status, body := jwks(t, without); status == http.StatusOK || strings.Contains(body, "keys") {
		t.Errorf("without a key %d: %s", status, body)
	}
}
