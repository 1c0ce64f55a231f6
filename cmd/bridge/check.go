package bridge

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// MaxResponse is the maximum size of a response file in bytes.
const MaxResponse = 32 << 20

// responseFields are the fields of a response, their JSON types, and what their
// values must be: a string, or the text of another value.
var responseFields = []struct {
	name  string
	types []string
	valid func(string) bool // nil: any value
	rule  string
}{
	{"request_id", []string{"string"}, func(s string) bool { return strings.TrimSpace(s) != "" }, "must not be blank"},
	{"version", []string{"string"}, func(s string) bool { return s == "1.0" }, `must be "1.0"`},
	{"status", []string{"string"}, isStatus, "must be success, error or timeout"},
	{"response", []string{"string", "null"}, nil, ""},
	{"error_message", []string{"string", "null"}, nil, ""},
	{"error_type", []string{"string", "null"}, nil, ""},
	{"created_at", []string{"string"}, isTime, "must be an ISO 8601 time with its zone"},
	{"duration_seconds", []string{"number"}, func(s string) bool { return s[0] != '-' }, "must not be negative"},
	{"metadata", []string{"object"}, nil, ""},
}

func isStatus(s string) bool { return s == statusSuccess || s == statusError || s == statusTimeout }

// isTime reports whether s is a time in the format of Python's isoformat, or
// with a Z.
func isTime(s string) bool {
	_, err := time.Parse(time.RFC3339Nano, strings.Replace(s, " ", "T", 1))
	return err == nil
}

// Check returns all violations of the contract in a response file. There are
// none if a reader that accepts exactly the nine fields can read it.
func Check(b []byte) []string {
	if len(b) > MaxResponse {
		return []string{fmt.Sprintf("the file has more than %d bytes", MaxResponse)}
	}
	if !utf8.Valid(b) {
		return []string{"the file is not UTF-8"}
	}
	var field map[string]json.RawMessage
	if json.Unmarshal(b, &field) != nil || field == nil {
		return []string{"the file is not a JSON object"}
	}
	mistakes, wrong := duplicates(b), contradictions(field)
	for _, f := range responseFields {
		raw, present := field[f.name]
		delete(field, f.name)
		text, isText := textOf(raw)
		if !isText {
			text = string(raw)
		}
		switch kind := kindOf(raw); {
		case !present:
			mistake := f.name + ": is missing"
			if _, result := field["result"]; result && f.name == "response" {
				mistake += `; it must be called "response", not "result"`
			}
			mistakes = append(mistakes, mistake)
		case !slices.Contains(f.types, kind):
			mistake := fmt.Sprintf("%s: must be %s, is %s", f.name, strings.Join(f.types, " or "), kind)
			if f.name == "response" {
				mistake += ": encode what the agent said as a JSON string"
			}
			mistakes = append(mistakes, mistake)
		case f.valid != nil && !f.valid(text):
			mistakes = append(mistakes, f.name+": "+f.rule)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(field)) {
		mistakes = append(mistakes, fmt.Sprintf("%.64q: is not a field of a response", name))
	}
	return append(mistakes, wrong...)
}

// contradictions returns the errors in combinations of fields.
func contradictions(field map[string]json.RawMessage) (mistakes []string) {
	switch status, _ := textOf(field["status"]); status {
	case statusSuccess:
		if isNull(field["response"]) {
			mistakes = append(mistakes, "response: must not be null or missing where the status is success")
		}
		for _, name := range []string{"error_message", "error_type"} {
			if !isNull(field[name]) {
				mistakes = append(mistakes, name+": must be null where the status is success")
			}
		}
	case statusError, statusTimeout:
		if isNull(field["error_message"]) {
			mistakes = append(mistakes, "error_message: must say what went wrong where the status is "+status)
		}
	}
	return mistakes
}

// duplicates returns an error for each field that occurs more than once in the
// object b.
func duplicates(b []byte) (mistakes []string) {
	seen := map[string]int{}
	gjson.ParseBytes(b).ForEach(func(name, _ gjson.Result) bool {
		if seen[name.Str]++; seen[name.Str] == 2 {
			mistakes = append(mistakes, fmt.Sprintf("%.64q: is there more than once", name.Str))
		}
		return true
	})
	return mistakes
}

// kindOf returns the JSON type of a value, or "" for none.
func kindOf(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	if kind, ok := map[byte]string{
		'"': "string", '{': "object", '[': "array", 't': "boolean", 'f': "boolean", 'n': "null",
	}[raw[0]]; ok {
		return kind
	}
	return "number"
}
