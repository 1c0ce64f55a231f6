package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxResponse is the maximum size of a response file in bytes.
const MaxResponse = 32 << 20

// responseFields are the fields of a response and their JSON types.
var responseFields = []struct {
	name  string
	types []string
}{
	{"request_id", []string{"string"}},
	{"version", []string{"string"}},
	{"status", []string{"string"}},
	{"response", []string{"string", "null"}},
	{"error_message", []string{"string", "null"}},
	{"error_type", []string{"string", "null"}},
	{"created_at", []string{"string"}},
	{"duration_seconds", []string{"number"}},
	{"metadata", []string{"object"}},
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
	mistakes := duplicates(b)
	for _, f := range responseFields {
		raw, present := field[f.name]
		delete(field, f.name)
		switch kind := kindOf(raw); {
		case !present:
			text := f.name + ": is missing"
			if _, result := field["result"]; result && f.name == "response" {
				text += `; it must be called "response", not "result"`
			}
			mistakes = append(mistakes, text)
		case !slices.Contains(f.types, kind):
			text := fmt.Sprintf("%s: must be %s, is %s", f.name, strings.Join(f.types, " or "), kind)
			if f.name == "response" {
				text += ": encode what the agent said as a JSON string"
			}
			mistakes = append(mistakes, text)
		default:
			mistakes = append(mistakes, valueOf(f.name, raw)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(field)) {
		mistakes = append(mistakes, fmt.Sprintf("%.64q: is not a field of a response", name))
	}
	return append(mistakes, contradictions(b)...)
}

// valueOf returns the errors in the value of a field whose type is valid.
func valueOf(name string, raw json.RawMessage) []string {
	text, _ := textOf(raw)
	switch name {
	case "request_id":
		if strings.TrimSpace(text) == "" {
			return []string{"request_id: must not be blank"}
		}
	case "version":
		if text != "1.0" {
			return []string{`version: must be "1.0"`}
		}
	case "status":
		if text != StatusSuccess && text != StatusError && text != StatusTimeout {
			return []string{"status: must be success, error or timeout"}
		}
	case "created_at":
		if !isTime(text) {
			return []string{"created_at: must be an ISO 8601 time with its zone"}
		}
	case "duration_seconds":
		if raw[0] == '-' {
			return []string{"duration_seconds: must not be negative"}
		}
	}
	return nil
}

// isTime reports whether s is a time in the format of Python's isoformat, or
// with a Z.
func isTime(s string) bool {
	_, err := time.Parse(time.RFC3339Nano, strings.Replace(s, " ", "T", 1))
	return err == nil
}

// contradictions returns the errors in combinations of fields.
func contradictions(b []byte) []string {
	var r struct {
		Status   any `json:"status"`
		Response any `json:"response"`
		Message  any `json:"error_message"`
		Type     any `json:"error_type"`
	}
	if json.Unmarshal(b, &r) != nil {
		return nil
	}
	var mistakes []string
	switch r.Status {
	case StatusSuccess:
		if r.Response == nil {
			mistakes = append(mistakes, "response: must not be null or missing where the status is success")
		}
		if r.Message != nil {
			mistakes = append(mistakes, "error_message: must be null where the status is success")
		}
		if r.Type != nil {
			mistakes = append(mistakes, "error_type: must be null where the status is success")
		}
	case StatusError, StatusTimeout:
		if r.Message == nil {
			mistakes = append(mistakes, "error_message: must say what went wrong where the status is "+r.Status.(string))
		}
	}
	return mistakes
}

// duplicates returns an error for each field that occurs more than once in the
// object b.
func duplicates(b []byte) []string {
	d := json.NewDecoder(bytes.NewReader(b))
	if _, err := d.Token(); err != nil {
		return nil
	}
	seen, mistakes := map[string]int{}, []string(nil)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return mistakes
		}
		name, _ := key.(string)
		if seen[name]++; seen[name] == 2 {
			mistakes = append(mistakes, fmt.Sprintf("%.64q: is there more than once", name))
		}
		var skip json.RawMessage
		if d.Decode(&skip) != nil {
			return mistakes
		}
	}
	return mistakes
}

// kindOf returns the JSON type of a value, or "" for none.
func kindOf(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}
