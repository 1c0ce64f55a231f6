// The task that continues the thread of a run, or a copy of it. Pure.

import type { Mode, Run, Task } from '../lib/api';

/** In its thread it is for the run, whose agent and directory it has; a copy names both by the thread. */
export function nextTask(run: Run, task: string, mode: Mode, copy: boolean): Task {
  return {
    task,
    ...(mode !== 'read-only' && { mode, confirm: true }),
    ...(copy && run.threadId && { agent: run.agent, fork: { selector: 'id', id: run.threadId } }),
  };
}
