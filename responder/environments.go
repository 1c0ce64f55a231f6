package responder

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/linesman/linesman/api"
)

// Limits of the file of environments.
const (
	maxEnvironmentsFile = 1 << 20
	maxEnvironments     = 1000
	maxEnvironmentText  = 512 // bytes of a name, an address, …
)

// Environments lists the environments of Codex Cloud that the configured file
// names; a missing file names none. The error is [api.ProgramFailed].
func (s *Service) Environments() (api.Environments, error) {
	list := api.Environments{File: s.cfg.Environments, All: []api.Environment{}}
	body, err := readFile(list.File)
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err == nil {
		list.All, err = parseEnvironments(body)
	}
	if err != nil {
		e := &api.Error{
			Code: api.ProgramFailed, Message: "the file of environments cannot be used", File: list.File, Reason: "unreadable",
			Suggestion: "Make it a JSON object of environments by id, each with name, repoUrl, stack and description", Err: err,
		}
		var broken *brokenFile
		if errors.As(err, &broken) {
			e.Line, e.Reason = broken.line, "malformed"
			e.Message += ": " + broken.problem
		}
		return api.Environments{}, e
	}
	return list, nil
}

// brokenFile says what is wrong with the content of a file, and where.
type brokenFile struct {
	line    int // from 1; 0: the file as a whole
	problem string
}

func (b *brokenFile) Error() string { return b.problem }

func readFile(name string) ([]byte, error) {
	if name == "" {
		return nil, fs.ErrNotExist
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // to open a pipe is to wait for a writer
		return nil, &brokenFile{problem: "it is no regular file"}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, maxEnvironmentsFile+1))
	if err == nil && len(body) > maxEnvironmentsFile {
		err = &brokenFile{problem: fmt.Sprintf("it has more than %d bytes", maxEnvironmentsFile)}
	}
	return body, err
}

// fileEntry is an environment as files have it: with the names of the file that
// the delegator shipped with, or with those of the answer.
type fileEntry struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	RepoURL     string `json:"repoUrl"`
	Repository  string `json:"repository"`
	Stack       string `json:"stack"`
	TechStack   string `json:"tech_stack"`
	Description string `json:"description"`
	Created     string `json:"created_at"`
}

// parseEnvironments reads a file of environments: an object with one member an
// environment, by id; or a list of them, which may be the member
// "environments" of an object, as an answer has it.
func parseEnvironments(body []byte) ([]api.Environment, error) {
	lineAt := func(offset int64) int {
		return 1 + bytes.Count(body[:max(min(offset, int64(len(body))), 0)], []byte{'\n'})
	}
	broken := func(offset int64, problem string) ([]api.Environment, error) {
		return nil, &brokenFile{line: lineAt(offset), problem: problem}
	}
	var syntax *json.SyntaxError
	var whole json.RawMessage
	switch err := json.Unmarshal(body, &whole); {
	case !utf8.Valid(body):
		return nil, &brokenFile{problem: "it is not UTF-8"}
	case errors.As(err, &syntax):
		return broken(syntax.Offset, "it is not JSON")
	case err != nil:
		return broken(0, "it is not JSON")
	}
	all := []api.Environment{}
	d := json.NewDecoder(bytes.NewReader(body))
	add := func(id string) string {
		var raw json.RawMessage
		var e fileEntry
		if d.Decode(&raw) != nil || raw[0] != '{' || json.Unmarshal(raw, &e) != nil {
			return "an environment must be an object of strings"
		}
		if id != "" {
			e.ID = id
		}
		if len(all) == maxEnvironments {
			return fmt.Sprintf("it has more than %d environments", maxEnvironments)
		}
		env, problem := e.environment()
		if problem == "" {
			all = append(all, env)
		}
		return problem
	}
	list := func() (int64, string) {
		for d.More() {
			at := d.InputOffset()
			if problem := add(""); problem != "" {
				return at, problem
			}
		}
		_, _ = d.Token()
		return 0, ""
	}
	t, _ := d.Token()
	switch t {
	case json.Delim('['):
		if at, problem := list(); problem != "" {
			return broken(at+1, problem)
		}
		return all, nil
	case json.Delim('{'):
	default:
		return broken(0, "it is no object")
	}
	for d.More() {
		key, _ := d.Token()
		at := d.InputOffset()
		id, _ := key.(string)
		if id == "environments" && nextIs(body[at:], '[') {
			_, _ = d.Token()
			if at, problem := list(); problem != "" {
				return broken(at+1, problem)
			}
			continue
		}
		if id == "" {
			return broken(at, "an environment needs an id")
		}
		if problem := add(id); problem != "" {
			return broken(at, problem)
		}
	}
	return all, nil
}

// nextIs reports whether c is what the value of a member begins with.
func nextIs(b []byte, c byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n:")
	return len(b) > 0 && b[0] == c
}

// environment is e as an answer shows it, or what is wrong with it.
func (e *fileEntry) environment() (api.Environment, string) {
	env := api.Environment{
		ID: e.ID, Name: cmp.Or(e.Name, e.ID), Repository: cmp.Or(e.RepoURL, e.Repository),
		Stack:       cmp.Or(e.Stack, e.TechStack),
		Description: e.Description,
	}
	if e.ID == "" {
		return env, "an environment needs an id"
	}
	for _, s := range []string{e.ID, env.Name, env.Repository, env.Stack, e.Description} {
		if len(s) > maxEnvironmentText {
			return env, fmt.Sprintf("a text of an environment has more than %d bytes", maxEnvironmentText)
		}
		for _, c := range s {
			if unicode.IsControl(c) {
				return env, "a text of an environment has control characters"
			}
		}
	}
	if t, err := time.Parse(time.RFC3339, e.Created); err == nil {
		env.Created = api.TimeOf(t)
	}
	return env, ""
}
