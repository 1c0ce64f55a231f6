package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/live"
	"github.com/linesman/linesman/runs"
)

// policy decides what the agent of a run asks.
func (s *Spec) policy() (p live.Policy, err error) {
	dirs := append([]string{s.Dir}, s.AddDirs...)
	p = live.Policy{Mode: s.Mode, Dirs: dirs, Ask: s.Ask, Answer: s.Limits.Answer.Milliseconds()}
	if p.Rules, err = s.rules(s.Policy); err == nil {
		p.Narrows, err = s.rules(s.Narrows)
	}
	return p, err
}

// rules reads rules. Their directories are absolute then; one that does not allow is there with the real path of its
// directory, too.
func (s *Spec) rules(texts []string) (all []acp.Rule, err error) {
	for _, text := range texts {
		rule, err := acp.ParseRule(text)
		if err != nil {
			return nil, err
		}
		if rest, ok := strings.CutPrefix(rule.In, "~"); ok {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, err
			}
			rule.In = home + rest
		} else if strings.HasPrefix(rule.In, ".") {
			rule.In = s.Dir + "/" + rule.In
		}
		all = append(all, rule)
		if at, ok := realPath(rule.In); ok && rule.In != "" && rule.Do != "allow" {
			rule.In = at
			all = append(all, rule)
		}
	}
	return all, nil
}

// followLinks adds the real path of each file of a question, and that of the file itself if it is a link: all must be
// where the policy allows it. Later the agent can still make a link of one.
func followLinks(q *live.Question) {
	for _, p := range q.Paths {
		to, known := realPath(p)
		p = filepath.Clean(p)
		in, _ := realPath(filepath.Dir(p))
		q.Paths = append(q.Paths, to, filepath.Join(in, filepath.Base(p)))
		q.Unknown = q.Unknown || !known
	}
}

// realPath returns a path without links, also of a file that does not exist. It is false where that is not certain: at
// a link to nowhere, in a directory that cannot be read, and for `..` after a link, which programs read in two ways.
func realPath(p string) (string, bool) {
	for i := range p {
		if rest := p[i:]; rest == "/.." || strings.HasPrefix(rest, "/../") {
			if info, err := os.Lstat(filepath.Clean(p[:i])); i > 0 && err == nil && info.Mode()&fs.ModeSymlink != 0 {
				return "", false
			}
		}
	}
	missing := ""
	for p = filepath.Clean(p); ; p = filepath.Dir(p) {
		at, err := filepath.EvalSymlinks(p)
		if err == nil {
			return filepath.Join(at, missing), true
		}
		if _, is := os.Lstat(p); !errors.Is(err, fs.ErrNotExist) || !errors.Is(is, fs.ErrNotExist) {
			return "", false
		}
		missing = filepath.Join(filepath.Base(p), missing)
	}
}

// terms are those of a live run, nil of another one.
func (s *Spec) terms() *runs.Terms {
	if !s.Live {
		return nil
	}
	return &runs.Terms{Ask: s.Ask, Policy: s.Narrows}
}
