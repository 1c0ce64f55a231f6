package runs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeSecrets returns fake secrets. They are concatenated here, so that scanners do
// not report them as real secrets.
func fakeSecrets() map[string]string {
	n := func(s string, count int) string { return strings.Repeat(s, count) }
	return map[string]string{
		"-----BEGIN " + "RSA PRIVATE KEY-----\nMIIE" + n("x", 200) +
			"\n-----END RSA PRIVATE KEY-----": "[REDACTED:private-key]",
		// truncated
		"-----BEGIN " + "OPENSSH PRIVATE KEY-----\nb3Bl" + n("y", 90): "[REDACTED:private-key]",
		"eyJ" + n("a", 20) + ".eyJ" + n("b", 40) + "." + n("c", 43):   "[REDACTED:jwt]",
		"postgres://shop:" +
			"hunter2@db.example/shop": "postgres://shop:[REDACTED:password]@db.example/shop",
		"sk-" + n("A1b", 16):                    "[REDACTED:api-key]",
		"sk-proj-" + n("A1b", 10) + "_-x":       "[REDACTED:api-key]",
		"sk-ant-api03-" + n("Z9y", 20):          "[REDACTED:api-key]",
		"sk_live_" + n("4e", 12):                "[REDACTED:stripe]",
		"ghp_" + n("aB3", 12):                   "[REDACTED:github]",
		"github_pat_" + n("aB3_", 20):           "[REDACTED:github]",
		"glpat-" + n("aB3-", 5):                 "[REDACTED:gitlab]",
		"npm_" + n("aB3", 12):                   "[REDACTED:npm]",
		"pypi-AgE" + n("aB3", 20):               "[REDACTED:pypi]",
		"hf_" + n("aB", 17):                     "[REDACTED:hugging-face]",
		"AKIA" + n("QW23", 4):                   "[REDACTED:aws]",
		"AIza" + n("aB3-x", 7):                  "[REDACTED:google]",
		"xoxb-" + "123456789012-" + n("aB3", 8): "[REDACTED:slack]",
		"dop_v1_" + n("0a", 32):                 "[REDACTED:digitalocean]",
		"SG." + n("a", 22) + "." + n("b", 43):   "[REDACTED:sendgrid]",
	}
}

func TestScrubTakesSecretsAndNothingAround(t *testing.T) {
	for secret, want := range fakeSecrets() {
		for _, around := range []string{"%", "the key is %.", "a\n%\nb", `KEY="%"`, "é(%)é"} {
			if strings.Contains(secret, "BEGIN") && !strings.Contains(secret, "END") &&
				!strings.HasSuffix(around, "%") {
				continue // an incomplete key extends to the end of the text
			}
			in := strings.Replace(around, "%", secret, 1)
			if got := Scrub(in); got != strings.Replace(around, "%", want, 1) {
				t.Errorf("%q\n%q", in, got)
			} else if again := Scrub(got); again != got {
				t.Errorf("twice: %q\n%q", got, again)
			}
		}
	}
}

// What ends in a letter or a digit in front of a secret, and is no part of a word, does not hide it. What Scrub
// replaces, Redact does too.
func TestSecretsBehindEscapes(t *testing.T) {
	for secret := range fakeSecrets() {
		for _, before := range []string{
			"", " ", "\n", `\n`, `\t`, `\r`, `\u003d`, "\x1b[32m", `\u001b[1;32m`, "%3D", "%20", `{"a":"b\n`, "KEY=",
		} {
			text := "a " + before + secret
			hidden := secret[8:]
			if at := strings.Index(secret, "hunter2"); at > 0 {
				hidden = "hunter2"
			}
			for by, got := range map[string]string{"Scrub": Scrub(text), "Redact": Redact(text), "Limit": limited(text)} {
				if strings.Contains(got, hidden) || !strings.HasPrefix(got, "a "+before) {
					t.Errorf("%s leaves %q as %q", by, text, got)
				}
			}
		}
	}
}

func limited(text string) string {
	d := Detail{Output: Whole(text)}
	d.Limit(Scrub)
	return d.Output.Head
}

func TestScrubKeepsSimilarText(t *testing.T) {
	for _, s := range []string{
		"", "plain", "sk-learn and sk-container-fluid", "task-1234567890123456789012345",
		"sk-" + strings.Repeat("a-b", 20), "ask-me", "eyJust", "eyJhbGciOi",
		"https://example.com:8080/a@b", "https://user@example.com", "see http://[::1]:80/@x", "mailto:a:b@c",
		"a://b c:d@e", "ghp_short", "npm_config_registry",
		"npm_lifecycle_event_of_some_package_x", "AKIA", "AKIAIOSFODNN7EXAMPLEXX1",
		"-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----",
		"-----BEGIN PUBLIC KEY-----", "hf_hub_download", "xoxb-", "SG.1", "AIzaSy", "glpat-x",
		"0199a213-81c0-7800-8aa1-bbab2a035a53",
		"sha256:" + strings.Repeat("0a", 32), "commit " + strings.Repeat("4f", 20), "T-local-0mwqeheq41ojmir",
	} {
		if got := Scrub(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

// The source of the Go library has millions of words of code and prose.
func TestScrubLeavesOrdinaryTextAlone(t *testing.T) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	total, src := 0, filepath.Join(strings.TrimSpace(string(out)), "src")
	for _, root := range []string{filepath.Join(src, "net"), filepath.Join(src, "cmd", "go"), ".."} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains([]string{"node_modules", ".git", "testdata", "bin"}, d.Name()):
				return fs.SkipDir
			case d.IsDir(), !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".md"),
				strings.HasPrefix(d.Name(), "scrub"), strings.HasPrefix(d.Name(), "redact"):
				return nil
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			total += len(b)
			for line := range strings.SplitSeq(string(b), "\n") {
				// tests and documents mention such URLs
				if got := Scrub(line); got != line && !strings.Contains(line, "://") {
					t.Errorf("%s:\n%s\n%s", path, line, got)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d bytes", total)
	if total < 5<<20 {
		t.Errorf("only %d bytes of text were checked", total)
	}
}

func FuzzScrub(f *testing.F) {
	for secret := range fakeSecrets() {
		f.Add("a " + secret + " b")
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := Scrub(s)
		if again := Scrub(once); again != once {
			t.Errorf("not idempotent:\n%q\n%q\n%q", s, once, again)
		}
		if once != s && !strings.Contains(once, "[REDACTED:") {
			t.Errorf("%q became %q", s, once)
		}
	})
}
