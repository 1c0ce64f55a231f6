// A task like that of a run, for "Run again". Pure.

import { takesTasks } from '../lib/agents';
import type { Run } from '../lib/api';
import { labelsOf } from '../lib/format';
import { labelText, type Draft } from '../overview/task';
import type { Detail, DetailText } from './items';

/** The prompt of a run, with what was asked for a live one: not known yet, or why it is not known. */
export type Prompt = (DetailText & Pick<Detail, 'live'>) | 'loading' | 'expired' | 'none';

/** A task with the same agent, directory, mode, model and prompt, and of a live run with the same rules; or why there is none. */
export type Again = { task: Partial<Draft>; why?: undefined } | { task?: undefined; why: string };

export function again(run: Run, prompt: Prompt, raw: boolean): Again {
  if (run.source !== 'run' && run.source !== 'queue') return { why: 'linesman did not start its agent' };
  if (!takesTasks(run.agent)) return { why: 'its agent takes no tasks' };
  if (!raw) return { why: 'its prompt needs the scope raw' };
  if (prompt === 'loading') return { why: 'its prompt is not read yet' };
  if (prompt === 'expired') return { why: 'its prompt has expired with the raw log' };
  if (prompt === 'none') return { why: 'its prompt is not recorded' };
  if (prompt.tail || prompt.omittedBytes) return { why: 'its prompt is longer than what is kept of it here' };
  const policy = prompt.live?.policy?.join('\n') ?? '';
  if (/\[redacted\]|\[REDACTED:/.test(prompt.head + policy)) return { why: 'its prompt has a secret, which is not shown' };
  const first = prompt.head.trimStart().split('\n', 1)[0]!.trim();
  const title = run.title && !first.startsWith(run.title.replace(/…$/, '')) ? run.title : '';
  const labels = labelText(labelsOf(run).filter(([key]) => !key.startsWith('linesman.')));
  const keep = run.conversation !== undefined;
  return {
    task: {
      agent: run.agent, workingDir: run.workingDir ?? '', mode: run.mode ?? 'read-only', model: run.model ?? '', task: prompt.head, title, labels,
      live: prompt.live !== undefined || keep, keep, ask: !prompt.live || prompt.live.ask === true, policy,
    },
  };
}
