package acp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/acp"
)

func TestRulesAreRead(t *testing.T) {
	r, err := acp.ParseRule("allow execute:  go  test ... ")
	if err != nil || r.Do != "allow" || r.Tool != "execute" || !slices.Equal(r.Command, []string{"go", "test", "..."}) {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := acp.ParseRule("deny *"); err != nil || len(r.Command) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = acp.ParseRule("allow execute in ~/a b in c/ :  make all")
	if err != nil || r.Tool != "execute" || r.In != "~/a b in c/" || !slices.Equal(r.Command, []string{"make", "all"}) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, dir := range []string{".", "./a", "/", "~", "~/.ssh"} {
		if r, err := acp.ParseRule("deny * in " + dir); err != nil || r.In != dir || len(r.Command) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if r, err := acp.ParseRule("deny *: cp in /x"); err != nil || r.In != "" || len(r.Command) != 3 {
		t.Errorf("words of a command are a directory: %+v, %v", r, err)
	}
	for _, bad := range []string{
		"", "allow", "permit edit", "allow edits", "allow edit x", "allow execute:", "allow execute: ...", "allow: x",
		"deny execute: git ... push", "deny execute: ... push", "deny execute: ... ...", "deny execute: git ... ...",
		"deny * in", "deny * in ", "deny * in docs", "deny * in ..", "deny * in ~root/x", "deny in /x", "deny * /x",
		"deny * in /a:b", "deny * in /a:", "deny * in C:\\x", "deny * in /" + strings.Repeat("x", acp.MaxPath),
	} {
		if _, err := acp.ParseRule(bad); err == nil {
			t.Errorf("%q is a rule", bad)
		}
	}
	if acp.CheckRules(slices.Repeat([]string{"deny *"}, acp.MaxRules+1)) == nil ||
		acp.CheckRules(slices.Repeat([]string{"deny *"}, acp.MaxRules)) != nil {
		t.Error("not 100 rules")
	}
}

// An input that is a text or a list is shown as it is, or the question is marked as cut.
func TestInputThatIsNoObjectIsShown(t *testing.T) {
	long := `"` + strings.Repeat("x", acp.MaxAsked) + `"`
	for input, want := range map[string]acp.Asked{
		`"rm -rf /"`:            {Input: `"rm -rf /"`},
		`["rm","-rf","/"]`:      {Input: `["rm","-rf","/"]`},
		`{"cmd":"rm -rf /"}`:    {Input: `{"cmd":"rm -rf /"}`},
		`{"command":"rm -r /"}`: {Command: "rm -r /"},
		long:                    {Cut: true},
		`null`:                  {},
	} {
		line := `{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"toolCall":{"rawInput":` + input + `}}}`
		got, ok := acp.AskedIn([]byte(line))
		if !ok || got.Input != want.Input || got.Command != want.Command || got.Cut != want.Cut {
			t.Errorf("%.40s: %.40q %q, cut %t", input, got.Input, got.Command, got.Cut)
		}
	}
}
