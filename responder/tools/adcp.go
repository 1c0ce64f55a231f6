package tools

import (
	"context"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/request"
	v36 "github.com/linesman/linesman/responder/v36"
)

// Names of tools for clients of AdCP. The first two ask for the state of runs.
const (
	PollTool         = "get_task_status"
	StatusTool       = "codex-status"
	ResumeTool       = "codex-resume"
	CancelTool       = "codex-cancel"
	CapabilitiesTool = "get_adcp_capabilities"
	RunSuffix        = "-run" // after the short name of an agent
)

// pollNames are names under which clients of AdCP poll, too. They are in no list.
var pollNames = []string{"tasks/get", "tasks_get"}

// named is an agent by the names that tools have of it.
type named struct{ kind, short, name string }

// adcpTools are those for clients of AdCP, the skills of the agent card: every answer is the envelope of AdCP. The
// requests are those of tools of v3.6, and so are the keys that carry them out once. Also are further names of them.
func adcpTools(limits string, agents []named) (list, also []*tool) {
	for _, a := range agents {
		list = append(list, &tool{
			Tool: v36.Tool{
				Name: a.short + RunSuffix, Title: "Run a task with " + a.name, Hints: working,
				Description: "Starts a coding task with " + a.name + " in the background, and answers with its task_id. " + limits,
			},
			changes: true, reads: true, request: request.ToolExec, agent: a.short,
			params: request.Skill(request.TaskParams, a.short), check: (*call).readTask, act: (*call).submit,
		})
	}
	poll := tool{
		Tool: v36.Tool{
			Name: PollTool, Title: "Get AdCP task status", Hints: reading,
			Description: "Returns the status of a task, its times and its progress; with include_result its result.",
		},
		reads: true, params: request.Skill(request.PollParams, ""), act: (*call).poll,
	}
	list = append(list,
		&tool{
			Tool: v36.Tool{
				Name: ResumeTool, Title: "Resume a session", Hints: working,
				Description: "Starts a further task on the thread of an earlier one, with its agent and in its directory.",
			},
			changes: true, reads: true, request: request.ToolResume, params: request.Skill(request.ContinueParams, ""),
			check: (*call).readTask, act: (*call).submit,
		},
		&tool{
			Tool: v36.Tool{
				Name: StatusTool, Title: "Status of tasks", Hints: reading,
				Description: "Returns which tasks are queued, work, and have ended lately, or one of them.",
			},
			reads: true, params: request.Skill(request.StatusParams, ""), check: func(c *call) { c.args.CheckDir() },
			act: (*call).localStatus,
		},
		&tool{
			Tool: v36.Tool{
				Name: CancelTool, Title: "Cancel a task", Hints: v36.Hints{Destructive: true},
				Description: "Cancels a task: a queued one is never started, a working one is ended.",
			},
			changes: true, reads: true, params: request.Skill(request.CancelParams, ""), act: (*call).localCancel,
		},
		&poll,
		&tool{
			Tool: v36.Tool{
				Name: CapabilitiesTool, Title: "Get AdCP capabilities", Hints: reading,
				Description: "Returns the releases of AdCP, the agents and their skills.",
			},
			params: request.Skill(request.CapabilitiesParams, ""), act: (*call).capabilities,
		})
	for _, t := range list {
		t.InputSchema, t.Category = request.Schema(t.params), adcp.Category
	}
	for _, name := range pollNames {
		one := poll
		one.Name = name
		also = append(also, &one)
	}
	return list, also
}

// Submits reports whether a tool for clients of AdCP submits a task.
func (t *Set) Submits(name string) bool {
	one := t.byName[name]
	return one != nil && one.Category == adcp.Category && one.request != ""
}

// poll returns the state of a task.
func (c *call) poll(ctx context.Context) (outcome, error) {
	v, err := c.service.Look(ctx, c.args.Text("task_id"))
	if api.Is(err, api.NotFound) { // a client that reads another status would poll for ever
		e := adcp.ErrorOf(api.Known(err), false)
		return outcome{said: &adcp.Response{Status: adcp.Rejected, Message: e.Message, Error: e}}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	said, err := adcp.Poll(ctx, c.service, v, c.args.Release(), c.args.Flag(request.IncludeResult))
	return outcome{said: &said}, err
}

// capabilities returns what clients of AdCP can ask for.
func (c *call) capabilities(context.Context) (outcome, error) {
	skills := map[string][]string{}
	for _, a := range agentsOf(c.service) {
		skills[a.kind] = []string{a.short + RunSuffix, ResumeTool, StatusTool, CancelTool}
	}
	said := adcp.Capabilities(c.service, skills)
	return outcome{said: &said}, nil
}

// agentsOf are the agents of a service.
func agentsOf(s *responder.Service) (all []named) {
	for _, a := range s.Agents() {
		all = append(all, named{a.Kind(), a.Short, a.Name})
	}
	return all
}
