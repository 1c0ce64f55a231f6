package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// read returns the value of a parameter, or the mistake in it.
func (p *Param) read(raw string) (v any, problem string) {
	if p.Unread {
		return json.RawMessage(raw), ""
	}
	switch p.Kind {
	case text, choice:
		s, ok := readString(raw)
		if !ok {
			return nil, "must be a string"
		}
		if p.Kind == choice {
			return p.word(s)
		}
		return s, p.text(s)
	case integer:
		if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
			return nil, "must be a number"
		}
		f, err := strconv.ParseFloat(raw, 64)
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange):
			return nil, "must be a number"
		case f < float64(p.Min) || f > float64(p.Max):
			return nil, fmt.Sprintf("must be %d to %d", p.Min, p.Max)
		case f != math.Trunc(f):
			return nil, "must be a whole number"
		}
		return int64(f), ""
	case boolean:
		if raw == "true" || raw == "false" {
			return raw == "true", ""
		}
		return nil, "must be true or false"
	case object:
		if raw[0] != '{' {
			return nil, "must be an object"
		}
		if p.Max > 0 && int64(len(raw)) > p.Max {
			return nil, fmt.Sprintf("at most %d bytes, got %d", p.Max, len(raw))
		}
		if depth(raw) > maxDepth {
			return nil, fmt.Sprintf("must not be nested deeper than %d", maxDepth)
		}
		if p.Members != nil {
			if members := Read(p.Members, json.RawMessage(raw)); len(members.issues) > 0 {
				return nil, members.issues[0].Field + " " + members.issues[0].Problem
			}
		}
		return json.RawMessage(raw), ""
	}
	var list []*string
	if json.Unmarshal([]byte(raw), &list) != nil || raw[0] != '[' || slices.Contains(list, nil) {
		return nil, "must be an array of strings"
	}
	if int64(len(list)) > p.Max {
		return nil, fmt.Sprintf("at most %d names", p.Max)
	}
	all := make([]string, len(list))
	for i, s := range list {
		all[i] = *s
	}
	return all, ""
}

func (p *Param) word(s string) (any, string) {
	if slices.Contains(p.Words, s) {
		return s, ""
	}
	problem := "must be one of " + strings.Join(p.Words, ", ")
	if plainWord(s) {
		problem += ", not " + s
	}
	return nil, problem
}

func (p *Param) text(s string) string {
	control := func(c rune) bool {
		return unicode.IsControl(c) && !(p.Lines && (c == '\n' || c == '\r' || c == '\t'))
	}
	switch n := int64(utf8.RuneCountInString(s)); {
	case p.Chars > 0 && n > p.Chars:
		return fmt.Sprintf("at most %d characters, got %d", p.Chars, n)
	case p.Max > 0 && int64(len(s)) > p.Max:
		return fmt.Sprintf("at most %d bytes, got %d", p.Max, len(s))
	case strings.TrimSpace(s) == "":
		return "must not be blank"
	case strings.ContainsRune(s, 0):
		return "must be text without NUL"
	case p.Chars == 0 && !p.Any && strings.ContainsFunc(s, control):
		return "must be text without control characters"
	case p.Form != nil && !p.Form().MatchString(s):
		return p.Rule
	}
	return ""
}

// depth returns the nesting depth of valid JSON.
func depth(raw string) int {
	now, deepest, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// readString reads a string of valid JSON.
func readString(raw string) (s string, ok bool) {
	if raw[0] != '"' {
		return "", false
	}
	if strings.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], true
	}
	err := json.Unmarshal([]byte(raw), &s)
	return s, err == nil
}
