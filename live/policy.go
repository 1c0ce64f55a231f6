package live

import (
	"cmp"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

// Decide returns the decision of the policy of a mode on a question, as a command for the raw log. It is false if
// the policy leaves the decision to a person; none here does. What is not certain is denied:
//
//	read-only           allows read, search and think, not of files outside of the directory
//	workspace-write     allows edit, delete and move, too, of files that are all inside of it
//	danger-full-access  allows all
//
// No policy picks an option that holds for longer than the call. A form is closed. The policy is no sandbox: it
// knows what the agent says that it will do.
func Decide(mode runs.Mode, q Question) (runs.Command, bool) {
	cmd := runs.Command{
		ID: runs.ByPolicy + "-" + q.ID, Do: runs.DoAnswer, By: runs.ByPolicy, Question: q.ID,
		Rule: string(mode) + " denies " + cmp.Or(q.Tool, "other"),
	}
	allowed := q.Kind == acp.Permission && allows(mode, &q)
	switch option := optionOf(&q, "allow_once", true); {
	case q.Kind == acp.Form:
		cmd.Rule = string(mode) + " closes forms"
	case allowed && option != "":
		cmd.Rule, cmd.Option = string(mode)+" allows "+cmp.Or(q.Tool, "other"), option
	case allowed:
		cmd.Rule = "not one option to allow it once"
		fallthrough
	default:
		cmd.Option = optionOf(&q, "reject_once", false)
	}
	return cmd, true
}

func allows(mode runs.Mode, q *Question) bool {
	if mode == runs.DangerFull {
		return true
	}
	switch q.Tool {
	case "read", "search", "think":
		return q.Files != Outside
	case "edit", "delete", "move":
		return mode == runs.WorkspaceWrite && q.Files == Inside
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
