package live

import (
	"cmp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

func TestRulesDecideBeforeTheMode(t *testing.T) {
	once := []acp.Option{{ID: "y", Kind: "allow_once"}, {ID: "n", Kind: "reject_once"}}
	more := []string{"/run/docs/a", "/more/b"}
	in, out := []string{"/run/docs/a"}, []string{"/run/docs/a", "/run/docs/../../b"}
	for _, test := range []struct {
		rules string // separated by ;;, those of the task after ||
		q     Question
		want  string // option, or ask
		rule  string
	}{
		{"", Question{Tool: "execute", Command: "go test"}, "ask", "workspace-write asks"},
		{"", Question{Tool: "edit", Paths: in}, "y", "workspace-write allows edit"},
		{"", Question{Tool: "edit", Paths: more}, "y", ""},
		{"", Question{Tool: "edit", Paths: []string{"/more/../b"}}, "ask", ""},
		{"allow edit in /run", Question{Tool: "edit", Paths: more}, "y", "workspace-write allows edit"},
		{"allow delete", Question{Tool: "delete", Paths: more}, "y", "a rule allows delete"},
		{"allow execute: go test ...", Question{Tool: "execute", Command: "go test"}, "y", "a rule allows execute"},
		{"allow execute: go test ...", Question{Tool: "execute", Command: "go  test ./... -run X=1"}, "y", ""},
		{"allow execute: go test", Question{Tool: "execute", Command: "go test ./..."}, "ask", ""},
		{"allow execute: go test *", Question{Tool: "execute", Command: "go test ./..."}, "y", ""},
		{"allow execute: go test *", Question{Tool: "execute", Command: "go test a b"}, "ask", ""},
		{"allow execute: git log ...", Question{Tool: "execute", Command: "git log; curl x | sh"}, "ask", ""},
		{"allow execute: git log ...", Question{Tool: "execute", Command: "git log $(id)"}, "ask", ""},
		{"allow execute: git log ...", Question{Tool: "execute", Command: "git log\nid"}, "ask", ""},
		{"allow execute: git log ...", Question{Tool: "execute", Command: "git log 'a'"}, "ask", ""},
		{"allow execute: cat *", Question{Tool: "execute", Command: "cat *"}, "ask", ""}, // one word becomes several
		{"allow execute: cat *", Question{Tool: "execute", Command: "cat ~/.a"}, "ask", ""},
		{"allow execute: cat *", Question{Tool: "execute", Command: "cat -[a-z]?"}, "ask", ""},
		{"allow execute: * log ...", Question{Tool: "execute", Command: "A=b log x"}, "ask", ""},
		{"allow execute: git log ...", Question{Tool: "execute"}, "ask", ""}, // no command is told
		{"allow execute: ls", Question{Tool: "execute", Command: "ls", Paths: out}, "ask", ""},
		{"allow execute", Question{Tool: "execute"}, "y", ""},
		{"allow *", Question{Tool: "fetch"}, "y", ""},
		{"allow *", Question{}, "y", ""},
		{"allow other", Question{}, "y", ""},
		{"allow edit", Question{Tool: "edit", Paths: out}, "ask", ""},
		{"allow edit", Question{Tool: "edit"}, "ask", ""},
		{"ask edit", Question{Tool: "edit", Paths: in}, "ask", "a rule asks"},
		{"deny execute: git push;;allow execute", Question{Tool: "execute", Command: "cd x && git  push -f"}, "n",
			"a rule denies execute"},
		{"deny execute: git push;;allow execute", Question{Tool: "execute", Command: "git pushed"}, "y", ""},
		// A command that no rule can read may have the words.
		{"deny execute: git push;;allow execute", Question{Tool: "execute", Unread: true}, "ask", "a rule asks"},
		{"deny execute: git push;;allow execute", Question{Tool: "execute"}, "ask", "a rule asks"},
		{"ask execute: git push;;allow execute", Question{Tool: "execute", Unread: true}, "ask", "a rule asks"},
		{"deny execute: git push;;deny execute", Question{Tool: "execute", Unread: true}, "n", "a rule denies execute"},
		{"deny execute in /b: git push;;allow execute", Question{Tool: "execute", Unread: true, Paths: in}, "y", ""},
		{"allow execute;;deny execute: git push", Question{Tool: "execute", Unread: true}, "y", ""},
		{"deny *: git push;;allow *", Question{Unread: true}, "ask", ""},
		{"deny *: git push;;allow *", Question{Tool: "read", Paths: in}, "y", "a rule allows read"},
		{"deny edit: git push;;allow *", Question{Tool: "execute", Unread: true}, "y", ""},
		{"allow execute||deny execute: git push", Question{Tool: "execute", Unread: true}, "ask", "a rule asks"},
		{"deny execute: rm ...;;allow execute", Question{Tool: "execute", Command: "(rm -r x)"}, "n", ""},
		{"allow execute;;deny execute: git push", Question{Tool: "execute", Command: "git push"}, "y", ""},
		{"allow edit in /run/docs", Question{Tool: "edit", Paths: in}, "y", "a rule allows edit"},
		{"allow edit in /run/docs/", Question{Tool: "edit", Paths: []string{"/run/docs/../docs/"}}, "y", ""},
		{"allow fetch in /run/docs", Question{Tool: "fetch"}, "ask", ""}, // no file is told
		{"allow fetch in /run/docs", Question{Tool: "fetch", Paths: in, Unknown: true}, "ask", ""},
		{"allow fetch in /run/docs", Question{Tool: "fetch", Paths: out}, "ask", ""},
		{"allow fetch in /run/docs", Question{Tool: "fetch", Paths: []string{"/run/docs2/a"}}, "ask", ""},
		{"allow fetch in /run/docs", Question{Tool: "fetch", Paths: []string{"/run/Docs/a"}}, "ask", ""},
		{"allow fetch in /b", Question{Tool: "fetch", Paths: []string{"/b/c"}}, "y", ""}, // outside of the run's
		{"allow execute in /run/docs: make", Question{Tool: "execute", Paths: in, Command: "make"}, "y", ""},
		{"allow execute in /run/docs: make", Question{Tool: "execute", Paths: in, Command: "make x"}, "ask", ""},
		{"allow execute in /run/docs: make", Question{Tool: "execute", Command: "make"}, "ask", ""},
		{"deny * in /b;;allow *", Question{Tool: "read", Paths: out}, "n", "a rule denies read"},
		{"deny * in /B;;allow *", Question{Tool: "read", Paths: []string{"/b/Ä"}}, "n", ""},
		{"deny * in /b;;allow *", Question{Tool: "read", Paths: in}, "y", ""},
		{"deny * in /b;;allow *", Question{Tool: "fetch"}, "y", ""},
		{"deny * in /b;;allow *", Question{Tool: "fetch", Unknown: true}, "n", ""},
		{"deny * in /b: rm;;allow *", Question{Tool: "execute", Paths: []string{"/b"}, Command: "ls"}, "ask", ""},
		{"ask read in /run/docs", Question{Tool: "read", Paths: in}, "ask", "a rule asks"},
		// A tool for files that tells none, or not where to one goes, may be about those of the rule.
		{"", Question{Tool: "read"}, "ask", "workspace-write asks"},
		{"allow read", Question{Tool: "read"}, "ask", "workspace-write asks"},
		{"allow *", Question{Tool: "search"}, "ask", ""},
		{"allow *", Question{Tool: "edit", Paths: in, Bare: true}, "ask", ""},
		{"allow edit in /run/docs", Question{Tool: "edit", Paths: in, Bare: true}, "ask", ""},
		{"deny * in /b;;allow *", Question{Tool: "search"}, "ask", "a rule asks"},
		{"deny * in /b", Question{Tool: "edit", Paths: in, Bare: true}, "ask", "a rule asks"},
		{"deny edit in /b;;allow *", Question{Tool: "search", Paths: in}, "y", ""},
		// A search, or a change, of a directory is about what is in it.
		{"deny * in /run/docs/x", Question{Tool: "search", Paths: []string{"/run"}}, "ask", "a rule asks"},
		{"deny * in /run/docs/x;;allow *", Question{Tool: "delete", Paths: []string{"/run/Docs/"}}, "ask", "a rule asks"},
		{"deny * in /run/docs/x;;allow *", Question{Paths: []string{"/run"}}, "ask", "a rule asks"},
		{"deny * in /run/docs/x;;allow *", Question{Tool: "execute", Paths: []string{"/run"}, Command: "ls"}, "y", ""},
		{"deny * in /run/docs/x", Question{Tool: "search", Paths: []string{"/run/src"}}, "y", ""},
		// A tool whose kind nothing tells may be that of the rule.
		{"deny execute;;allow *", Question{Kindless: true}, "ask", "a rule asks"},
		{"deny execute: git push;;allow *", Question{Kindless: true}, "ask", "a rule asks"},
		{"deny execute: git push;;allow *", Question{Kindless: true, Command: "ls"}, "y", ""},
		{"deny execute;;allow *", Question{}, "y", ""},
		{"deny read in /b;;allow *", Question{Kindless: true}, "ask", "a rule asks"}, // and be about any file
		{"ask * in /b;;allow *", Question{Kindless: true, Unread: true}, "ask", "a rule asks"},
		{"deny read in /b;;allow *", Question{Kindless: true, Paths: in}, "y", ""},
		{"deny read in /b;;allow *", Question{Kindless: true, Command: "ls"}, "y", ""},
		{"deny other;;allow *", Question{Kindless: true}, "n", "a rule denies other"},
		{"deny * in /b;;deny read", Question{Tool: "read"}, "n", "a rule denies read"},
		{"allow fetch||deny * in /x", Question{Tool: "fetch"}, "y", ""},
		{"||deny edit", Question{Tool: "edit", Paths: in}, "n", "a rule denies edit"},
		{"||ask edit", Question{Tool: "edit", Paths: in}, "ask", "a rule asks"},
		{"allow fetch||deny * in /x;;ask fetch", Question{Tool: "fetch"}, "ask", "a rule asks"},
		{"deny fetch||ask fetch", Question{Tool: "fetch"}, "n", "a rule denies fetch"},
		{"ask fetch||deny fetch", Question{Tool: "fetch"}, "n", ""},
		{"deny fetch||ask edit", Question{Tool: "fetch"}, "n", ""},
		{"allow fetch||ask edit", Question{Tool: "fetch"}, "y", ""},
		{"allow *", Question{Kind: acp.Form}, "ask", "workspace-write asks"},
		{"deny *", Question{Kind: acp.Form}, "ask", ""},
	} {
		own, narrows, _ := strings.Cut(test.rules, "||")
		p := Policy{Mode: runs.WorkspaceWrite, Dirs: []string{"/run", "/more"}, Ask: true}
		p.Rules, p.Narrows = rulesOf(t, own), rulesOf(t, narrows)
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

func rulesOf(t *testing.T, texts string) (rules []acp.Rule) {
	for s := range strings.SplitSeq(texts, ";;") {
		if s == "" {
			continue
		}
		rule, err := acp.ParseRule(s)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, rule)
	}
	return rules
}

// The example of the document: a search tells its directory in its input, or none at all.
func TestARuleOfADirectoryKnowsWhatASearchReads(t *testing.T) {
	p := Policy{Mode: runs.DangerFull, Dirs: []string{"/home/dev/project"}, Ask: true,
		Rules: rulesOf(t, "deny * in /home/dev/.ssh")}
	for input, want := range map[string]string{
		`{"pattern":"KEY","path":"/home/dev/.ssh"}`: "n",
		`{"pattern":"/home/dev/.ssh/*"}`:            "n",
		`{"pattern":"KEY","path":["/home"]}`:        "n",
		`{"pattern":"KEY"}`:                         "ask",
		`{"pattern":"KEY","path":"/home/dev/x"}`:    "y",
	} {
		s := inTurn(t)
		s.say(strings.NewReplacer(`"no"`, `"n"`, `"yes"`, `"y"`).Replace(permission("7", "search", `,"rawInput":`+input)))
		if cmd, _ := p.Decide(s.c.Open()[0], 0); cmp.Or(cmd.Option, cmd.Do) != want {
			t.Errorf("%s: %+v, want %s", input, cmd, want)
		}
	}
}

func TestRulesOfATaskNeverWidenAPolicy(t *testing.T) {
	strict := map[string]int{"y": 0, "ask": 1, "n": 2}
	rapid.Check(t, func(rt *rapid.T) {
		rules := func(name string, do ...string) (all []acp.Rule) {
			for range rapid.IntRange(0, 3).Draw(rt, name) {
				all = append(all, acp.Rule{Do: rapid.SampledFrom(do).Draw(rt, "do"),
					Tool: rapid.SampledFrom([]string{"*", "edit", "read"}).Draw(rt, "tool"),
					In:   rapid.SampledFrom([]string{"", "/run", "/b"}).Draw(rt, "in")})
			}
			return all
		}
		p := Policy{Mode: rapid.SampledFrom([]runs.Mode{runs.ReadOnly, runs.DangerFull}).Draw(rt, "mode"),
			Dirs: []string{"/run"},
			Ask:  rapid.Bool().Draw(rt, "ask"), Rules: rules("worker", "allow", "ask", "deny")}
		q := Question{ID: "q1", Kind: acp.Permission, Tool: rapid.SampledFrom([]string{"edit", "read"}).Draw(rt, "kind"),
			Paths:   []string{rapid.SampledFrom([]string{"/run/a", "/b/c"}).Draw(rt, "path")},
			Options: []acp.Option{{ID: "y", Kind: "allow_once"}, {ID: "n", Kind: "reject_once"}}}
		of := func() string {
			cmd, _ := p.Decide(q, 1)
			return cmp.Or(cmd.Option, cmd.Do)
		}
		without := of()
		if p.Narrows = rules("task", "ask", "deny"); strict[of()] < strict[without] {
			rt.Fatalf("%s, and with %+v %s", without, p.Narrows, of())
		}
	})
}
