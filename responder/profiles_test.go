package responder_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// The directory of a profile may be named by a link: threads of its runs have the path without it.
func TestTheDirectoryOfAProfileMayBeALink(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	home, link := filepath.Join(root, "home"), filepath.Join(root, "link")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(home, "sub"), 0o700), os.Symlink(home, link), os.Symlink(root, filepath.Join(home, "out")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := responder.New(responder.Config{})
	p := responder.Profile{Owner: "ada", Name: "p", Attributes: runs.Attributes{Agent: "codex", Dir: link}}
	for dir, allowed := range map[string]bool{
		"": true, "sub": true, home: true, home + "/sub": true, link + "/sub": true, "none": true,
		"out": false, home + "/out": false, root: false, "..": false,
	} {
		q, err := s.Prompt(p, api.Submission{Task: runs.Task{Attributes: runs.Attributes{Dir: dir}, Prompt: "Go."}}, nil)
		if (err == nil) != allowed || q.Below != link {
			t.Errorf("%q: %v, below %q", dir, err, q.Below)
		}
	}
	q := api.Submission{Task: runs.Task{Prompt: "Go.", Within: root}}
	if err := s.CheckSubmit(q); err == nil {
		t.Error("a caller may not say within what")
	}
}
