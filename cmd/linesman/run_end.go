package main

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"

	"github.com/linesman/linesman/runs"
)

// explain says what linesman knows of an end that the agent itself cannot have
// spoken of.
func (c *runCmd) explain(id string, x runs.Exit) error {
	switch x.Reason {
	case runs.ReasonExited:
		if x.Code != nil && *x.Code == runs.ExitNeedsAgent {
			return fmt.Errorf("the program needs an agent's answer; once it has that, go on with `linesman run "+
				"--resume %s -- …`", cmp.Or(string(c.Resume), id))
		}
	case runs.ReasonSpawn:
		switch x.Spawn {
		case runs.SpawnNotFound:
			return fmt.Errorf("%s: command not found", safe(c.Command[0]))
		case runs.SpawnNotExecutable:
			return fmt.Errorf("%s: cannot be executed", safe(c.Command[0]))
		}
		return fmt.Errorf("%s: could not be started", safe(c.Command[0]))
	case runs.ReasonIdle:
		return errors.New("the agent printed nothing for so long that it was ended (--idle-timeout)")
	case runs.ReasonHard:
		return errors.New("the agent ran for so long that it was ended (--timeout)")
	case runs.ReasonSpool:
		return errors.New("the agent printed so much that it was ended (spool.max_bytes)")
	case runs.ReasonLost:
		return errors.New("nobody knows how the agent ended: the process that watched over it is gone")
	}
	return nil
}

// agentCode is the exit code that tells how the agent ended.
func agentCode(x runs.Exit) int {
	switch {
	case x.Reason == runs.ReasonIdle, x.Reason == runs.ReasonHard:
		return exitTimeout
	case x.Reason == runs.ReasonSpawn && x.Spawn == runs.SpawnNotFound:
		return exitNotFound
	case x.Reason == runs.ReasonSpawn && x.Spawn == runs.SpawnNotExecutable:
		return exitNotExecutable
	case x.Reason == runs.ReasonSpawn, x.Reason == runs.ReasonLost, x.Reason == runs.ReasonSpool:
		return exitLinesman
	case x.Signal != 0:
		return exitSignal + x.Signal
	case x.Code != nil:
		return *x.Code
	case x.Reason == runs.ReasonCancelled: // before there was an agent
		return exitSignal + int(syscall.SIGINT)
	}
	return exitLinesman
}
