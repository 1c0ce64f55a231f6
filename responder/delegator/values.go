package delegator

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// read is the value of a parameter, or what is wrong with it.
func (p *param) read(raw string) (v any, problem string) {
	switch p.kind {
	case text, choice:
		s, ok := readString(raw)
		if !ok {
			return nil, "must be a string"
		}
		if p.kind == choice {
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
		case f < float64(p.least) || f > float64(p.most):
			return nil, fmt.Sprintf("must be %d to %d", p.least, p.most)
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
		if p.most > 0 && int64(len(raw)) > p.most {
			return nil, fmt.Sprintf("at most %d bytes, got %d", p.most, len(raw))
		}
		if depth(raw) > MaxDepth {
			return nil, fmt.Sprintf("must not be nested deeper than %d", MaxDepth)
		}
		return json.RawMessage(raw), ""
	}
	var list []string
	if raw[0] != '[' {
		return nil, "must be an array of strings"
	}
	d := json.NewDecoder(strings.NewReader(raw))
	_, _ = d.Token()
	for d.More() {
		t, err := d.Token()
		s, ok := t.(string)
		if err != nil || !ok {
			return nil, "must be an array of strings"
		}
		if int64(len(list)) == p.most {
			return nil, fmt.Sprintf("at most %d names", p.most)
		}
		list = append(list, s)
	}
	return list, ""
}

func (p *param) word(s string) (any, string) {
	for _, word := range p.words {
		if s == word {
			return s, ""
		}
	}
	problem := oneOf(p.words)
	if plainWord(s) {
		problem += ", not " + s
	}
	return nil, problem
}

func (p *param) text(s string) string {
	control := func(c rune) bool {
		return unicode.IsControl(c) && !(p.lines && (c == '\n' || c == '\r' || c == '\t'))
	}
	switch n := int64(utf8.RuneCountInString(s)); {
	case p.chars > 0 && n > p.chars:
		return fmt.Sprintf("at most %d characters, got %d", p.chars, n)
	case p.most > 0 && int64(len(s)) > p.most:
		return fmt.Sprintf("at most %d bytes, got %d", p.most, len(s))
	case strings.TrimSpace(s) == "":
		return "must not be blank"
	case strings.ContainsRune(s, 0):
		return "must be text without NUL"
	case p.chars == 0 && strings.ContainsFunc(s, control):
		return "must be text without control characters"
	case p.form != nil && !p.form.MatchString(s):
		return p.rule
	}
	return ""
}

// depth is how deep valid JSON is nested.
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
