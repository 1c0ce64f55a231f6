package responder

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
)

// Limits of the file of environments.
const (
	maxEnvironmentsFile = 1 << 20
	maxEnvironments     = 1000
	maxEnvironmentText  = 512 // bytes of a single text
)

// Environments lists the environments of Codex Cloud in the configured file; a
// missing file has none. The error is [api.ProgramFailed].
func (s *Service) Environments(context.Context, api.Nothing) (api.Environments, error) {
	list := api.Environments{File: withTilde(s.cfg.Environments), All: []api.Environment{}}
	body, err := readFile(s.cfg.Environments)
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
		if broken, ok := errors.AsType[*brokenFile](err); ok {
			e.Line, e.Reason = broken.line, "malformed"
			e.Message += ": " + broken.problem
		}
		return api.Environments{}, e
	}
	return list, nil
}

// withTilde is a path for callers: below the home directory it begins with "~", so that it does
// not tell whose it is.
func withTilde(path string) string {
	home, err := os.UserHomeDir()
	if err != nil || home == "" || home == "/" {
		return path
	}
	if below, ok := strings.CutPrefix(path, strings.TrimSuffix(home, "/")+"/"); ok {
		return "~/" + below
	}
	return path
}

// brokenFile reports invalid content of a file, and where it is.
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
	if !info.Mode().IsRegular() { // opening a pipe would wait for a writer
		return nil, &brokenFile{problem: "it is no regular file"}
	}
	if info.Size() > maxEnvironmentsFile {
		return nil, &brokenFile{problem: fmt.Sprintf("it has more than %d bytes", maxEnvironmentsFile)}
	}
	return os.ReadFile(name)
}

// fileEntry is an environment in the file: with the field names of the v3.6
// delegator's file, or with those of the answer.
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

// parseEnvironments reads a file of environments: an object with one member per
// environment, by id; or a list of them, which may be the member "environments"
// of an object, as in an answer.
func parseEnvironments(body []byte) ([]api.Environment, error) {
	broken := func(offset int64, problem string) ([]api.Environment, error) {
		before := body[:max(min(offset, int64(len(body))), 0)]
		return nil, &brokenFile{line: 1 + bytes.Count(before, []byte{'\n'}), problem: problem}
	}
	if !utf8.Valid(body) {
		return nil, &brokenFile{problem: "it is not UTF-8"}
	}
	if err := json.Unmarshal(body, new(json.RawMessage)); err != nil {
		offset := int64(0)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			offset = syntax.Offset
		}
		return broken(offset, "it is not JSON")
	}
	all, wrong, at := []api.Environment{}, "", 0
	add := func(key, value gjson.Result) bool {
		var e fileEntry
		switch {
		case !value.IsObject() || json.Unmarshal([]byte(value.Raw), &e) != nil:
			wrong = "an environment must be an object of strings"
		case len(all) == maxEnvironments:
			wrong = fmt.Sprintf("it has more than %d environments", maxEnvironments)
		default:
			if key.Type == gjson.String {
				e.ID = key.Str
			}
			wrong = e.problem()
		}
		all, at = append(all, e.environment()), value.Index
		return wrong == ""
	}
	switch file := gjson.ParseBytes(body); {
	case file.IsArray():
		file.ForEach(add)
	case file.IsObject():
		file.ForEach(func(key, value gjson.Result) bool {
			if key.Str == "environments" && value.IsArray() {
				value.ForEach(add)
				return wrong == ""
			}
			return add(key, value)
		})
	default:
		wrong = "it is no object"
	}
	if wrong != "" {
		return broken(int64(at), wrong)
	}
	return all, nil
}

// problem says what is wrong with e, or "".
func (e *fileEntry) problem() string {
	if e.ID == "" {
		return "an environment needs an id"
	}
	for _, s := range []string{e.ID, e.Name, e.RepoURL, e.Repository, e.Stack, e.TechStack, e.Description} {
		if len(s) > maxEnvironmentText {
			return fmt.Sprintf("a text of an environment has more than %d bytes", maxEnvironmentText)
		}
		if strings.ContainsFunc(s, unicode.IsControl) {
			return "a text of an environment has control characters"
		}
	}
	return ""
}

// environment is e as an answer shows it.
func (e *fileEntry) environment() api.Environment {
	env := api.Environment{
		ID: e.ID, Name: cmp.Or(e.Name, e.ID), Repository: cmp.Or(e.RepoURL, e.Repository),
		Stack: cmp.Or(e.Stack, e.TechStack), Description: e.Description,
	}
	if t, err := time.Parse(time.RFC3339, e.Created); err == nil {
		env.Created = api.TimeOf(t)
	}
	return env
}
