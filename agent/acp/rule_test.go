package acp_test

import (
	"slices"
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
	for _, bad := range []string{
		"", "allow", "permit edit", "allow edits", "allow edit x", "allow execute:", "allow execute: ...", "allow: x",
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
