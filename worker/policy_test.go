package worker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/live"
	"github.com/linesman/linesman/runs"
)

// Whatever is done at a path that a rule allows, in either reading of `..`, changes only the directory of the rule.
func TestNoPathLetsARuleAllowWhatIsOutside(t *testing.T) {
	names := []string{"docs", "Docs", "docs2", "in", "out", "in", "out", "a", "new", "..", "..", "..", ".", ""}
	allowed := 0
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp("", "rule")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(root)
		if root, err = filepath.EvalSymlinks(root); err != nil {
			t.Fatal(err)
		}
		dir := root + "/run"
		for _, at := range []string{"/run/docs/a/b", "/run/docs2/a", "/run/a/docs", "/else/a/docs", "/else/docs"} {
			if err := os.MkdirAll(root+at, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		places := []string{"docs", "docs/a", "docs2", "a", "../else"}
		targets := []string{"docs", "../docs", root + "/else", "..", ".", "../../else/a", "../else", dir + "/docs/a",
			"nowhere", "/nowhere/x", root + "/else/new"}
		for _, at := range places {
			for _, name := range []string{"in", "out"} {
				target := rapid.SampledFrom(targets).Draw(t, at+"/"+name)
				if err := os.Symlink(target, filepath.Join(dir, at, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 40 {
			told := rapid.SampledFrom([]string{"", "docs/", dir + "/docs/", root + "/else/"}).Draw(t, "prefix") +
				strings.Join(rapid.SliceOfN(rapid.SampledFrom(names), 1, 7).Draw(t, "path"), "/")
			path := told
			if !filepath.IsAbs(path) {
				path = dir + "/" + path
			}
			spec := Spec{Attributes: runs.Attributes{Dir: dir, Mode: runs.ReadOnly}}
			p := live.Policy{Mode: runs.ReadOnly, Dirs: []string{dir}}
			if p.Rules, err = spec.rules([]string{"allow edit in " + rapid.SampledFrom([]string{"./docs", dir + "/docs/"}).
				Draw(t, "rule")}); err != nil {
				t.Fatal(err)
			}
			q := live.Question{ID: "q1", Kind: acp.Permission, Tool: "edit", Paths: []string{path},
				Options: []acp.Option{{ID: "y", Kind: "allow_once"}}}
			followLinks(&q)
			if cmd, ok := p.Decide(q, 1); !ok || cmd.Option != "y" {
				continue
			}
			allowed++
			before := outside(t, root, dir+"/docs")
			for _, at := range []string{path, filepath.Clean(path)} {
				_ = os.WriteFile(at, []byte("x"), 0o600)
				_ = os.Mkdir(at, 0o700)
				_ = os.Remove(at)
			}
			if after := outside(t, root, dir+"/docs"); !slices.Equal(before, after) {
				t.Fatalf("%s is allowed\n%q\n%q", told, before, after)
			}
		}
	})
	if allowed == 0 {
		t.Error("nothing was allowed")
	}
}

// outside lists what is below root, but not what is in dir.
func outside(t *rapid.T, root, dir string) (all []string) {
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return filepath.SkipDir
		}
		all = append(all, path+" "+d.Type().String())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRulesKnowTheRealPathOfADirectory(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", root+"/home")
	for _, dir := range []string{"/vault", "/home", "/run/docs"} {
		if err := os.MkdirAll(root+dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"/home/.ssh": "/vault", "/run/docs/out": "/vault/x", "/run/secret": "/vault",
	} {
		if err := os.Symlink(root+target, root+link); err != nil {
			t.Fatal(err)
		}
	}
	spec := Spec{Attributes: runs.Attributes{Dir: root + "/run", Mode: runs.WorkspaceWrite}}
	for _, test := range []struct{ rule, path, want string }{
		{"", "/run/docs/f", "y"},
		{"", "/run/docs/out", ""}, // a link that leads out
		{"deny * in ~/.ssh", "/vault/key", "n"},
		{"deny * in ~/.ssh", "/home/.ssh/key", "n"},
		{"deny * in ~/.ssh", "/run/secret/key", "n"},
		{"deny * in ~/.ssh", "/run/docs/out", "n"},
		{"deny * in ./docs", "/run/docs/out", "n"}, // it is there
		{"allow edit in ~", "/home/f", "y"},
		{"allow edit in ~", "/home/.ssh/f", ""},
		{"allow edit in ~/.ssh", "/vault/f", ""}, // a rule that allows names the real directory
		{"allow edit in ./docs", "/home/../run/docs/f", "y"},
	} {
		policy, rules := live.Policy{Mode: spec.Mode, Dirs: []string{spec.Dir}, Ask: true}, []string{test.rule}
		if policy.Rules, err = spec.rules(rules[:len(test.rule)/max(len(test.rule), 1)]); err != nil {
			t.Fatal(err)
		}
		q := live.Question{ID: "q1", Kind: acp.Permission, Tool: "edit", Paths: []string{root + test.path},
			Options: []acp.Option{{ID: "y", Kind: "allow_once"}, {ID: "n", Kind: "reject_once"}}}
		followLinks(&q)
		if cmd, _ := policy.Decide(q, 1); cmd.Option != test.want {
			t.Errorf("%s, %s: got %q, want %q", test.rule, test.path, cmd.Option, test.want)
		}
	}
}

func TestRulesOfTheDocumentMeanWhatItSays(t *testing.T) {
	page, err := os.ReadFile("../docs/live.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(page), "\npolicy = ")
	list, _, _ = strings.Cut(list, "]\n")
	var rules []string
	if err := json.Unmarshal([]byte(list+"]"), &rules); err != nil {
		t.Fatal(err)
	}
	home, dir := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	spec := Spec{Attributes: runs.Attributes{Dir: dir, Mode: runs.ReadOnly}, Policy: rules, Ask: true}
	policy, err := spec.policy()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ tool, path, command, want string }{
		{"read", home + "/.ssh/id", "", "n"},
		{"execute", dir, "cd x && git push", "n"},
		{"execute", dir, "go test ./... -race", "y"},
		{"edit", dir + "/docs/a.md", "", "y"},
		{"edit", dir + "/a.go", "", ""},
		{"fetch", "", "", "y"},
	} {
		q := live.Question{ID: "q1", Kind: acp.Permission, Tool: test.tool, Command: test.command,
			Options: []acp.Option{{ID: "y", Kind: "allow_once"}, {ID: "n", Kind: "reject_once"}}}
		if test.path != "" {
			q.Paths = []string{test.path}
		}
		if cmd, _ := policy.Decide(q, 1); cmd.Option != test.want {
			t.Errorf("%+v: %+v", test, cmd)
		}
	}
}
