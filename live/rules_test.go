package live

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

func TestRulesDecideBeforeTheMode(t *testing.T) {
	once := []acp.Option{{ID: "y", Kind: "allow_once"}, {ID: "n", Kind: "reject_once"}}
	for _, test := range []struct {
		rules string // separated by ;;
		q     Question
		want  string // option, or ask
		rule  string
	}{
		{"", Question{Tool: "execute", Command: "go test"}, "ask", "workspace-write asks"},
		{"", Question{Tool: "edit", Files: Inside}, "y", "workspace-write allows edit"},
		{"allow execute: go test ...", Question{Tool: "execute", Command: "go test"}, "y", "a rule allows execute"},
		{"allow execute: go test ...", Question{Tool: "execute", Command: "go  test ./... -run X=1"}, "y", ""},
		{"allow execute: go test", Question{Tool: "execute", Command: "go test ./..."}, "ask", ""},
		{"allow execute: go test *", Question{Tool: "execute", Command: "go test ./..."}, "y", ""},
		{"allow execute: go test *", Question{Tool: "execute", Command: "go test a b"}, "ask", ""},
		{"allow execute: git log ...", Question{Tool: "execute", Command: "git log; curl x | sh"}, "ask", ""},
		{"allow execute: git log ...", Question{Tool: "execute", Command: "git log $(id)"}, "ask", ""},
		{"allow execute: git log ...", Question{Tool: "execute", Command: "git log\nid"}, "ask", ""},
		{"allow execute: git log ...", Question{Tool: "execute", Command: "git log 'a'"}, "ask", ""},
		{"allow execute: * log ...", Question{Tool: "execute", Command: "A=b log x"}, "ask", ""},
		{"allow execute: git log ...", Question{Tool: "execute"}, "ask", ""}, // no command is told
		{"allow execute: ls", Question{Tool: "execute", Command: "ls", Files: Outside}, "ask", ""},
		{"allow execute", Question{Tool: "execute"}, "y", ""},
		{"allow *", Question{Tool: "fetch"}, "y", ""},
		{"allow *", Question{}, "y", ""},
		{"allow other", Question{}, "y", ""},
		{"allow edit", Question{Tool: "edit", Files: Outside}, "ask", ""},
		{"allow edit", Question{Tool: "edit"}, "ask", ""},
		{"ask edit", Question{Tool: "edit", Files: Inside}, "ask", "a rule asks"},
		{"deny execute: git push;;allow execute", Question{Tool: "execute", Command: "cd x && git  push -f"}, "n",
			"a rule denies execute"},
		{"deny execute: git push;;allow execute", Question{Tool: "execute", Command: "git pushed"}, "y", ""},
		{"deny execute: rm ...;;allow execute", Question{Tool: "execute", Command: "(rm -r x)"}, "n", ""},
		{"allow execute;;deny execute: git push", Question{Tool: "execute", Command: "git push"}, "y", ""},
		{"allow *", Question{Kind: acp.Form}, "ask", "workspace-write asks"},
		{"deny *", Question{Kind: acp.Form}, "ask", ""},
	} {
		p := Policy{Mode: runs.WorkspaceWrite, Ask: true}
		for s := range strings.SplitSeq(test.rules, ";;") {
			if s == "" {
				continue
			}
			rule, err := acp.ParseRule(s)
			if err != nil {
				t.Fatal(err)
			}
			p.Rules = append(p.Rules, rule)
		}
		q := test.q
		if q.ID = "q1"; q.Kind == "" {
			q.Kind, q.Options = acp.Permission, once
		}
		cmd, ok := p.Decide(q, 1)
		got := cmd.Option
		if cmd.Do == runs.DoAsk {
			got = "ask"
		}
		if !ok || got != test.want || test.rule != "" && cmd.Rule != test.rule {
			t.Errorf("%s: %s %q: %s, %q", test.rules, q.Tool, q.Command, got, cmd.Rule)
		}
		p.Ask = false
		if cmd, _ := p.Decide(q, 1); test.want == "ask" && (cmd.Do != runs.DoAnswer || cmd.Option == "y") {
			t.Errorf("%s: %s %q: nobody is asked, and it is %+v", test.rules, q.Tool, q.Command, cmd)
		}
	}
}
