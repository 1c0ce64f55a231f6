package launch_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

func TestExternalSandboxMustBeAllowed(t *testing.T) {
	task := runs.Task{Attributes: runs.Attributes{Mode: runs.DangerFull}, Unboxed: new(true)}
	for _, rules := range []launch.Rules{{}, {Danger: true}, {Boxed: true}, {Boxed: true, Danger: true}} {
		err := rules.Allow(task)
		if (err == nil) != rules.Boxed || len(rules.Allows()) == 0 == rules.Boxed {
			t.Errorf("%+v: %v, %q", rules, err, rules.Allows())
		}
		const why = "externalSandbox: is not allowed by this worker: see its setting work.external_sandbox"
		if err != nil && err.Error() != why {
			t.Errorf("%v", err)
		}
		plain := task
		if plain.Unboxed = nil; (rules.Allow(plain) == nil) != rules.Danger {
			t.Errorf("%+v: without the option: %v", rules, rules.Allow(plain))
		}
	}
}

func TestFurtherDirectoriesAreInTheRoots(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"work/sub", "work/more", "other"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "work/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"work/out": "../other", "work/in": "sub"} {
		if err := os.Symlink(to, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	work := filepath.Join(base, "work")
	rules := launch.Rules{Dir: work, Roots: []string{work}}
	for _, c := range []struct {
		dirs []string
		want []string // below base
		why  string
	}{
		{[]string{"sub", "../work/more", work + "/in", "sub/."}, []string{"work/sub", "work/more"}, ""},
		{[]string{"sub", "gone"}, nil, "addDirs.1: does not exist"},
		{[]string{"file"}, nil, "addDirs.0: is not a directory"},
		{[]string{"../other"}, nil, "addDirs.0: is not in a directory that this worker allows"},
		{[]string{"out"}, nil, "addDirs.0: is not in a directory that this worker allows"},
		{[]string{"sub", "/"}, nil, "addDirs.1: is not in a directory that this worker allows"},
		{[]string{"~"}, nil, "addDirs.0: does not exist"},
	} {
		for _, dir := range []string{work, ""} {
			task := runs.Task{Attributes: runs.Attributes{Dir: dir}, AddDirs: c.dirs}
			got, err := rules.AddDirs(task)
			why := ""
			if err != nil {
				why = err.Error()
			}
			for i := range got {
				got[i] = strings.TrimPrefix(got[i], base+"/")
			}
			if !slices.Equal(got, c.want) || why != c.why {
				t.Errorf("%q: %q, %s; want %q, %s", c.dirs, got, why, c.want, c.why)
			}
			outside := rules.Outside(task)
			var field *runs.FieldError
			if (outside == nil) != (c.why == "") || errors.As(outside, &field) != (c.why != "") ||
				field != nil && !strings.HasPrefix(c.why, field.Field+": ") {
				t.Errorf("%q: outside: %v, want %s", c.dirs, outside, c.why)
			}
		}
	}
}
