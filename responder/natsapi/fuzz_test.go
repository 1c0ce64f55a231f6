package natsapi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	v36 "github.com/linesman/linesman/responder/v36"
)

// FuzzRequest reads a request's body: a tool gets what the caller sent, with a
// format where neither that nor a release of AdCP was named, and an error that quotes it is one bounded line
// of the headers.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		``, ` null `, `{}`, ` { "task_id" : "x" } `, `{"format":"markdown"}`, `{"f\u006frmat":"markdown"}`,
		`{"a":{"format":1}}`, `{,}`, `{} x`, `{`, `[]`, `"x"`, "\xff",
		`{"adcp_version":"3.1"}`, `{"adcpVersion":"3.0"}`, `{"adcp_major_version":3}`, `{ "adcpMajorVersion":3}`,
		"a\r\nNats-Service-Error-Code: 200\r\n\r\n", "\u2028\x00\x7f",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sent := bytes.Clone(body)
		got := arguments(body)
		if !bytes.Equal(body, sent) {
			t.Errorf("%q became %q under its owner", sent, body)
		}
		trimmed := bytes.Trim(body, space)
		if none := len(trimmed) == 0 || string(trimmed) == "null"; json.Valid(got) != (none || json.Valid(body)) {
			t.Errorf("%q became %q", body, got)
		}
		var asked, given map[string]any
		if json.Unmarshal(body, &asked) == nil && asked != nil {
			if err := json.Unmarshal(got, &given); err != nil {
				t.Fatalf("%q became %q: %v", body, got, err)
			}
			releases := []string{"adcp_version", "adcpVersion", "adcp_major_version", "adcpMajorVersion"}
			if _, named := asked["format"]; !named && !slices.ContainsFunc(releases, func(name string) bool {
				_, has := asked[name]
				return has
			}) {
				asked["format"] = "json"
			}
			if !reflect.DeepEqual(asked, given) {
				t.Errorf("%q became %q", body, got)
			}
		}
		for _, named := range []string{"VALIDATION", "VALIDATION_ERROR", ""} {
			code, text := problem(v36.Answer{Code: named, Message: string(body)})
			if code < 400 || code > 599 || len(text) > 600 || strings.ContainsFunc(text, func(c rune) bool {
				return c < ' ' ||
					c > '~'
			}) {
				t.Errorf("%q is told as %d %q", body, code, text)
			}
		}
	})
}
