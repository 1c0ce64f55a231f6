package console

import (
	"errors"
	"fmt"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Mistakes are all that is wrong with a request, as joined errors. Names are the
// names of its fields on the command line.
func Mistakes(e *api.Error, names map[string]string) error {
	name := func(field string) string {
		switch flag := names[field]; {
		case flag != "":
			return flag
		case field == "task_id", field == "taskId", field == api.FieldRun:
			return "RUN"
		}
		return Word(field)
	}
	var all []error
	for _, i := range e.Issues {
		all = append(all, fmt.Errorf("%s: %s", name(i.Field), Safe(i.Problem)))
	}
	if e.Unlisted > 0 {
		all = append(all, fmt.Errorf("and %d more mistakes", e.Unlisted))
	}
	switch {
	case all != nil:
		return errors.Join(all...)
	case e.Field != "":
		return errors.New(Safe(name(e.Field) + ": " + e.Message))
	}
	return errors.New(Safe(e.Message))
}

// Ended is what the agent itself cannot have printed about its end, or "". Program
// is that of the agent, and task the one that waits for an answer.
func Ended(x runs.Exit, program, task string) string {
	switch {
	case x.Reason == runs.ReasonExited && x.Code != nil && *x.Code == runs.ExitNeedsAgent:
		return fmt.Sprintf("the program needs an agent's answer; once it has that, continue with `linesman run "+
			"--resume %s -- …`", task)
	case x.Reason == runs.ReasonSpawn && x.Spawn == runs.SpawnNotFound:
		return Safe(program) + ": command not found"
	case x.Reason == runs.ReasonSpawn && x.Spawn == runs.SpawnNotExecutable:
		return Safe(program) + ": cannot be executed"
	case x.Reason == runs.ReasonSpawn:
		return Safe(program) + ": could not be started"
	}
	return map[runs.Reason]string{
		runs.ReasonIdle:  "the agent printed nothing until the idle timeout (--idle-timeout)",
		runs.ReasonHard:  "the agent ran until its time limit (--timeout)",
		runs.ReasonSpool: "the agent printed more than the limit (spool.max_bytes)",
		runs.ReasonLost:  "it is not known how the agent ended: the process that supervised it is gone",
	}[x.Reason]
}
