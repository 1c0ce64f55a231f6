package request_test

import (
	"slices"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/request"
)

// The parameters of requests for tasks are those of the table of names, in both directions.
func TestParametersOfTasksAreInTheTableOfNames(t *testing.T) {
	for _, c := range []struct {
		what   string
		params []request.Param
		own    []string // that are no field of a submission
		of     func(api.Name) string
	}{
		{"v3.6", slices.Concat(request.RunParams, request.TaskParams, request.ContinueParams, request.CloudSubmitParams),
			[]string{"async", request.ContextID, request.Format, "adcp_version", "adcp_major_version", "ext"}, func(n api.Name) string { return n.Tool }},
		{"agents of every kind", slices.Concat(request.AgentRunParams, request.LiveStartParams,
			[]request.Param{request.AgentRefParam}), nil, func(n api.Name) string { return n.Agent }},
	} {
		for _, p := range c.params {
			in := slices.ContainsFunc(api.Names, func(n api.Name) bool { return c.of(n) == p.Name })
			if in == slices.Contains(c.own, p.Name) {
				t.Errorf("%s: %s: in the table: %v", c.what, p.Name, in)
			}
		}
		for _, n := range api.Names {
			name := c.of(n)
			if name == "" || slices.Contains([]string{api.FieldRun, api.FieldRef}, n.Field) {
				continue
			}
			if !slices.ContainsFunc(c.params, func(p request.Param) bool { return p.Name == name }) {
				t.Errorf("%s: %s is no parameter", c.what, name)
			}
		}
	}
}
