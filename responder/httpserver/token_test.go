package httpserver

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestTokenIsCreatedOnceAndPrivate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	const makers = 16
	tokens := make([]string, makers)
	var wg sync.WaitGroup
	for i := range tokens {
		wg.Go(func() {
			var err error
			if tokens[i], err = TokenFile(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, got := range tokens {
		if got != tokens[0] || len(got) != 64 {
			t.Fatalf("got different tokens, or none: %q", tokens)
		}
	}
	if again, err := TokenFile(path); err != nil || again != tokens[0] {
		t.Errorf("got %q, %v on the next start", again, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v; want 0600", info.Mode(), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the directory holds %v, %v; want the token alone", left, err)
	}
	other, err := TokenFile(filepath.Join(t.TempDir(), "token"))
	if err != nil || other == tokens[0] {
		t.Errorf("got %q, %v elsewhere; want another token", other, err)
	}
}

func TestInvalidTokenFileIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for _, content := range []string{"", "\n", "short", "two words of a certain length",
		strings.Repeat("x", maxTokenFile+1)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := TokenFile(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%.20q: got %q, %v; want an error with the path", content, got, err)
		}
		if kept, err := os.ReadFile(path); err != nil || string(kept) != content {
			t.Errorf("%.20q: the file was changed", content)
		}
	}
}

func TestTokenWrittenByHandIsAccepted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("  chosen-by-somebody\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := TokenFile(path); err != nil || got != "chosen-by-somebody" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestTokenNeedsItsDirectory(t *testing.T) {
	if got, err := TokenFile(filepath.Join(t.TempDir(), "absent", "token")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %q, %v; want that nothing is there", got, err)
	}
}
