package live

import (
	"cmp"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

// Policy decides the questions of a run.
type Policy struct {
	Mode  runs.Mode
	Dirs  []string   // of the run, absolute: its own, and further ones
	Rules []acp.Rule // the first one that matches decides; without one the mode does. Their directories are absolute
	// Narrows are rules of the task. They make a decision only stricter.
	Narrows []acp.Rule
	Ask     bool  // people are asked what is not allowed
	Answer  int64 // milliseconds that they have; 0: no limit
}

// Decide returns what is done about an open question at now, in Unix milliseconds, as a command for the raw log; false:
// nothing, people are asked. The policy of the mode decides what it allows:
//
//	read-only           read, search and think, not of files outside of the directories
//	workspace-write     edit, delete and move, too, of files that are all inside of them
//	danger-full-access  all
//
// A file of which a question has two paths must be inside by both of them. Only for think none need be told.
//
// All else people are asked. What they do not answer in time, or are not asked, is denied, and a form is closed. No
// policy picks an option that holds for longer than the call. The policy is no sandbox: it knows what the agent says
// that it will do.
func (p Policy) Decide(q Question, now int64) (runs.Command, bool) {
	mode := string(p.Mode)
	tool := cmp.Or(q.Tool, "other")
	cmd := runs.Command{ID: runs.ByPolicy + "-" + q.ID, Do: runs.DoAnswer, By: runs.ByPolicy, Question: q.ID}
	option := optionOf(&q, "allow_once", true)
	rule := p.ruled(&q)
	by := mode
	if rule != "" {
		by = "a rule"
	}
	allowed := !q.People && q.Kind == acp.Permission && (rule == "allow" || rule == "" && p.allows(&q))
	if allowed && option != "" {
		cmd.Rule, cmd.Option = by+" allows "+tool, option
		return cmd, true
	}
	switch {
	case q.People && (q.Due == 0 || now < q.Due):
		return cmd, false
	case q.People:
		cmd.ID, cmd.By, cmd.Rule = runs.ByTimeout+"-"+q.ID, runs.ByTimeout, "nobody answered"
	case p.Ask && rule != "deny":
		cmd.ID, cmd.Do, cmd.Rule = runs.DoAsk+"-"+q.ID, runs.DoAsk, by+" asks"
		if p.Answer > 0 {
			cmd.Due = now + p.Answer
		}
		return cmd, true
	case q.Kind == acp.Form:
		cmd.Rule = mode + " closes forms"
	case allowed:
		cmd.Rule = "not one option to allow it once"
	default:
		cmd.Rule = by + " denies " + tool
	}
	cmd.Option = optionOf(&q, "reject_once", false)
	return cmd, true
}

func (p *Policy) allows(q *Question) bool {
	if p.Mode == runs.DangerFull {
		return true
	}
	switch q.Tool {
	case "read", "search", "think":
		return !q.untold() && q.inside(p.Dirs)
	case "edit", "delete", "move":
		return p.Mode == runs.WorkspaceWrite && !q.untold() && q.inside(p.Dirs)
	}
	return false
}

// optionOf returns the first option of a kind, "" if there is none, or if it must be the only one and is not.
func optionOf(q *Question, kind string, only bool) (id string) {
	for _, o := range q.Options {
		switch {
		case o.Kind != kind:
		case id == "":
			id = o.ID
		case only:
			return ""
		}
	}
	return id
}
