package responder

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/runs"
)

// Limits of a search.
const (
	maxWords = 16
	maxWord  = 256 // bytes
)

// readWords returns the condition that a text of a run has all words, without regard to capitals: its id, title,
// directory, agent, thread, worker, model, labels, state, activity, or what came of it. Nil: there are no words.
// The condition is for one goroutine: it has a buffer.
func (s *Service) readWords(words []string) (func(runs.Header) bool, error) {
	if len(words) == 0 {
		return nil, nil
	}
	if len(words) > maxWords {
		return nil, api.Invalid(api.FieldWords, fmt.Sprintf("at most %d, got %d", maxWords, len(words)))
	}
	var all [][]byte
	for _, word := range words {
		if word == "" || len(word) > maxWord || !utf8.ValidString(word) {
			return nil, api.Invalid(api.FieldWords, fmt.Sprintf("must be texts of 1 to %d bytes", maxWord))
		}
		all = append(all, lower([]byte(word)))
	}
	names := map[string]string{codexcloud.Agent: "Codex Cloud"} // of agents, by kind
	for _, a := range s.cfg.Agents {
		names[a.Kind()] = a.Name
	}
	var text []byte
	return func(r runs.Header) bool {
		text = text[:0]
		for _, one := range [...]string{
			r.ID, r.Title, r.Dir, r.Agent, names[r.Agent], r.Thread, r.Worker, r.Model, string(r.State), stateWords[r.State],
			r.Activity, r.Answer, r.Cause,
		} {
			text = append(append(text, one...), '\n')
		}
		if r.Labels != "" {
			for key, value := range r.Labels.Map() {
				text = append(append(append(append(text, key...), '='), value...), '\n')
			}
		}
		text = lower(text)
		return !slices.ContainsFunc(all, func(word []byte) bool { return !bytes.Contains(text, word) })
	}, nil
}

// stateWords are what people read in place of states.
var stateWords = map[runs.State]string{
	runs.StateWorking: "running", runs.StateInputRequired: "needs you", runs.StateTimeout: "timed out",
}

// lower is [bytes.ToLower], in place for ASCII.
func lower(text []byte) []byte {
	for i, c := range text {
		switch {
		case c >= utf8.RuneSelf:
			return bytes.ToLower(text)
		case 'A' <= c && c <= 'Z':
			text[i] = c + 'a' - 'A'
		}
	}
	return text
}
