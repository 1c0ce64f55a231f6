package webhook

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
)

// vectorsOf reads a file of AdCP's vectors.
func vectorsOf(t *testing.T, name string) gjson.Result {
	t.Helper()
	raw, err := os.ReadFile(fixture.Path(t, "test", "clients", "adcp", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	return gjson.ParseBytes(raw)
}

func vectorKey(t *testing.T) *Key {
	t.Helper()
	private := vectorsOf(t, "keys.json").Get(`keys.#(kid=="test-ed25519-webhook-2026")`)
	seed, err := base64.RawURLEncoding.DecodeString(private.Get("_private_d_for_test_only").String())
	if err != nil {
		t.Fatal(err)
	}
	k, err := newKey(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	if got := gjson.GetBytes(k.set, "keys.0.x").String(); got != private.Get("x").String() {
		t.Fatalf("public key %s", got)
	}
	k.id = private.Get("kid").String()
	return k
}

func TestSignaturesOfRFC9421AreThoseOfTheVectors(t *testing.T) {
	key := vectorKey(t)
	files, err := filepath.Glob(fixture.Path(t, "test", "clients", "adcp", "vectors", "0*.json"))
	if err != nil || len(files) != 5 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		v := vectorsOf(t, filepath.Base(file))
		q, err := http.NewRequest(http.MethodPost, v.Get("request.url").String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		header := func(name string) string { return v.Get("request.headers." + name).String() }
		q.Header.Set("Content-Type", header("Content-Type"))
		q.Header.Set("Content-Digest", header("Content-Digest")) // the vectors have it in standard Base64
		parameters := key.parameters(v.Get("reference_now").Int(), "KXYnfEfJ0PBRZXQyVXfVQA")
		base := signatureBase(q, parameters)
		if base != v.Get("expected_signature_base").String() || "sig1="+parameters != header("Signature-Input") {
			t.Errorf("%s: %s", v.Get("name"), base)
		}
		got := "sig1=:" + base64url(ed25519.Sign(key.private, []byte(base))) + ":"
		if got != header("Signature") {
			t.Errorf("%s: %s", v.Get("name"), got)
		}
	}
}

func TestURIsAreCanonical(t *testing.T) {
	n, refused := 0, 0
	vectorsOf(t, "canonicalization.json").Get("cases").ForEach(func(_, c gjson.Result) bool {
		raw := c.Get("input_url").String()
		if checkURL(raw, true) != "" { // is not registered: one that is malformed, of another alphabet, or with a password
			if refused++; !c.Get("reject").Bool() && !strings.ContainsAny(raw, "@#üÜ") {
				t.Errorf("%s: %s is refused: %s", c.Get("name"), raw, checkURL(raw, true))
			}
			return true
		}
		u, err := url.Parse(raw)
		if err != nil || c.Get("reject").Bool() {
			t.Errorf("%s: %v", c.Get("name"), err)
			return true
		}
		n++
		target, authority := canonical(u)
		if target != c.Get("expected_target_uri").String() || authority != c.Get("expected_authority").String() {
			t.Errorf("%s: %s, %s", c.Get("name"), target, authority)
		}
		return true
	})
	if n < 19 || refused < 10 {
		t.Errorf("%d were compared, %d refused", n, refused)
	}
}

func TestEachAttemptIsSignedAnew(t *testing.T) {
	key := vectorKey(t)
	body := []byte(`{"a":1}`)
	parameters := regexp.MustCompile(`^sig1=\("@method" "@target-uri" "@authority" "content-type" "content-digest"\);` +
		`created=(\d+);expires=(\d+);nonce="([\w-]{22})";keyid="[^"]+";alg="ed25519";tag="adcp/webhook-signing/v1"$`)
	seen := map[string]bool{}
	for range 3 {
		q := httptest.NewRequest(http.MethodPost, "https://Receiver.example:443/hook?b=2&a=1", nil)
		q.Header.Set("Content-Type", "application/json")
		key.sign(q, body, time.Unix(1000, 0))
		found := parameters.FindStringSubmatch(q.Header.Get("Signature-Input"))
		if found == nil || found[1] != "1000" || found[2] != "1300" || seen[found[3]] {
			t.Fatalf("%q", q.Header)
		}
		seen[found[3]] = true
		if got := q.Header.Get("Content-Digest"); got != "sha-256=:AVq9f1zFei3ZS3WQ8ErYCEJzkF7jPsXOvq5iJ2qX-GI:" {
			t.Errorf("digest %s", got)
		}
		text := strings.TrimSuffix(strings.TrimPrefix(q.Header.Get("Signature"), "sig1=:"), ":")
		signature, err := base64.RawURLEncoding.DecodeString(text)
		base := signatureBase(q, strings.TrimPrefix(q.Header.Get("Signature-Input"), "sig1="))
		public, ok := key.private.Public().(ed25519.PublicKey)
		if err != nil || !ok || !ed25519.Verify(public, []byte(base), signature) {
			t.Errorf("%v: %q", err, q.Header)
		}
	}
}

func TestRefusedSignaturesHaveTheirCode(t *testing.T) {
	for challenge, want := range map[string]string{
		`Signature error="webhook_signature_key_unknown"`:                         "webhook_signature_key_unknown",
		`signature realm="x", error="webhook_mode_mismatch", error_description=x`: "webhook_mode_mismatch",
		`Signature error=webhook_signature_replayed`:                              "webhook_signature_replayed",
		`Bearer error="webhook_signature_invalid"`:                                "",
		`Signature error="sentinel"`:                                              "",
		`Signature error="webhook_` + strings.Repeat("a", 80) + `"`:               "",
		"": "",
	} {
		answer := &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{"Www-Authenticate": {challenge}}}
		if got := refusedFor(answer); got != want {
			t.Errorf("%s: %q", challenge, got)
		}
		if answer.StatusCode = http.StatusBadRequest; refusedFor(answer) != "" {
			t.Errorf("%s: of another status", challenge)
		}
	}
}

func TestAKeyIsCreatedOnceAndReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.pem")
	made, err := CreateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	before, _ := os.ReadFile(path)
	if _, err := CreateKey(path); err == nil || !strings.Contains(err.Error(), "is kept") {
		t.Errorf("again: %v", err)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("it was overwritten")
	}
	read, err := ReadKey(path)
	if err != nil || read.ID() != made.ID() || !read.private.Equal(made.private) {
		t.Fatalf("read: %v", err)
	}
	w := httptest.NewRecorder()
	read.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/.well-known/jwks.json", nil))
	var set struct{ Keys []map[string]any }
	if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil || len(set.Keys) != 1 {
		t.Fatalf("%s, %v", w.Body, err)
	}
	one := set.Keys[0]
	ops, _ := json.Marshal(one["key_ops"])
	delete(one, "key_ops")
	for name, want := range map[string]string{
		"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "adcp_use": "webhook-signing", "kid": made.ID(),
		"x": base64url(made.private[32:]),
	} {
		if one[name] != want {
			t.Errorf("%s is %v", name, one[name])
		}
		delete(one, name)
	}
	if len(one) != 0 || string(ops) != `["verify"]` || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%s, %v", w.Body, w.Header())
	}
}

// An id is the thumbprint of RFC 7638; this one is an example of RFC 8037.
func TestIDOfAKeyIsItsThumbprint(t *testing.T) {
	seed, _ := base64.RawURLEncoding.DecodeString("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")
	k, err := newKey(ed25519.NewKeyFromSeed(seed))
	if err != nil || k.ID() != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("%s, %v", k.ID(), err)
	}
}

func TestWrongFilesOfKeysAreRefused(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	if _, err := CreateKey(good); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(good)
	const sentinel = "c2VudGluZWwtc2VudGluZWw="
	rsa := "-----BEGIN " + "PRIVATE KEY-----\n" + sentinel + "\n-----END PRIVATE KEY-----\n"
	for name, tt := range map[string]struct {
		content string
		mode    fs.FileMode
		says    string
	}{
		"readable": {string(text), 0o640, "chmod 600"}, "empty": {"", 0o600, "setup webhook-key"},
		"text": {sentinel, 0o600, "setup webhook-key"}, "other": {rsa, 0o600, "no Ed25519 key"},
		"twice":       {string(text) + string(text), 0o600, "setup webhook-key"},
		"certificate": {strings.ReplaceAll(string(text), "PRIVATE KEY", "CERTIFICATE"), 0o600, "setup webhook-key"},
		"long":        {strings.Repeat(sentinel, 1000), 0o600, "longer than"},
	} {
		path := filepath.Join(dir, name)
		err := os.WriteFile(path, []byte(tt.content), tt.mode)
		if err == nil {
			err = os.Chmod(path, tt.mode) // whatever the umask is
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err = ReadKey(path); err == nil {
			t.Errorf("%s: it is read", name)
			continue
		}
		if !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		for line := range strings.Lines(tt.content) {
			if !strings.HasPrefix(line, "---") && strings.Contains(err.Error(), strings.TrimSpace(line)) {
				t.Errorf("%s: the error has what is secret: %v", name, err)
			}
		}
	}
	if _, err := ReadKey(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing file is read")
	}
}
