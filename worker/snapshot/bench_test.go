package snapshot_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/linesman/linesman/worker/snapshot"
)

// The time that a snapshot adds to the start of an agent: in a repository without changes, in one
// whose files git does not know yet, and in no repository.
func BenchmarkTake(b *testing.B) {
	for _, c := range []struct {
		files     int
		committed bool
	}{{1_000, true}, {50_000, true}, {10_000, false}} {
		b.Run(fmt.Sprintf("files=%d,committed=%v", c.files, c.committed), func(b *testing.B) {
			dir := b.TempDir()
			for i := range c.files {
				name := filepath.Join(dir, fmt.Sprint(i/1000), fmt.Sprint(i/20%50), fmt.Sprint(i))
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					b.Fatal(err)
				}
				if err := os.WriteFile(name, fmt.Append(nil, "file ", i), 0o644); err != nil {
					b.Fatal(err)
				}
			}
			steps := [][]string{{"init", "-q"}}
			if c.committed {
				steps = append(steps, []string{"add", "."},
					[]string{"-c", "user.name=a", "-c", "user.email=a@b", "commit", "--no-gpg-sign", "-q", "-m", "m"})
			}
			for _, args := range steps {
				cmd := exec.Command("git", args...)
				if cmd.Dir = dir; cmd.Run() != nil {
					b.Skip("no git")
				}
			}
			for b.Loop() {
				if err := snapshot.Take(b.Context(), dir, filepath.Join(b.TempDir(), "diff"), "/nowhere"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("no repository", func(b *testing.B) {
		dir := b.TempDir()
		for b.Loop() {
			if snapshot.InWorkTree(dir) {
				b.Fatal("a repository")
			}
		}
	})
}
