package api_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
)

// fields are the JSON names of a struct, with those in its embedded structs.
func fields(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			names = append(names, fields(f.Type)...)
		case name != "-":
			names = append(names, name)
		}
	}
	return names
}

// A surface that has a word of its own for a field of a task has it from the table.
func TestEachFieldOfASubmissionHasOneRowOfNames(t *testing.T) {
	others := map[string][]string{
		"runId": {api.FieldRun}, "env": {"env.policy", "env.allow"}, "once": {api.FieldKey},
		"traceparent": {}, // a header in all other surfaces
		"forkedFrom":  {}, // fork says it
		"within":      {}, // the settings say it
	}
	for _, name := range fields(reflect.TypeFor[api.Submission]()) {
		want, known := others[name]
		if !known {
			want = []string{name}
		}
		for _, field := range want {
			is := func(n api.Name) bool { return n.Field == field }
			first := slices.IndexFunc(api.Names, is)
			if first < 0 || slices.ContainsFunc(api.Names[first+1:], is) {
				t.Errorf("%s has no row, or several", field)
			}
		}
	}
	for _, of := range []func(api.Name) string{
		func(n api.Name) string { return n.Field }, func(n api.Name) string { return n.Tool },
	} {
		seen := map[string]bool{}
		for _, n := range api.Names {
			if seen[of(n)] || of(n) == "" {
				t.Errorf("%q stands twice, or is missing: %+v", of(n), n)
			}
			seen[of(n)] = true
		}
	}
}
