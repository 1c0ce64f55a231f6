// The form of a task, and the request that it makes. Pure.

import { canBeLive } from '../lib/agents';
import type { Mode, Task, Worker } from '../lib/api';
import { count } from '../lib/format';

export interface Draft {
  agent: string; task: string; workingDir: string; mode: Mode; confirm: boolean; title: string; labels: string; model: string; timeout: string; skipGit: boolean;
  live: boolean; keep: boolean; ask: boolean; policy: string; // only for agents that can be live; rules, one a line
}

export const blank: Draft = { agent: '', task: '', workingDir: '', mode: 'read-only', confirm: false, title: '', labels: '', model: '', timeout: '', skipGit: false, live: false, keep: false, ask: true, policy: '' };

const maxTask = 1 << 20; // bytes of UTF-8

/** What is wrong with the text of a task; "": nothing. */
export function wrongTask(text: string): string {
  if (!text.trim()) return 'Write what the agent is to do';
  const size = new TextEncoder().encode(text).length;
  return size > maxTask ? `At most ${count(maxTask)} bytes, and these are ${count(size)}` : '';
}

const oneLabel = /("(?:[^"\\]|\\.)*"|[^,\s=]*)=("(?:[^"\\]|\\.)*"(?![^,\s])|[^,\s]*)|[^,\s]+/g;

/** Labels of one text: `team=shop, note="hello world"`, by commas, spaces or lines. */
export function parseLabels(text: string): { labels: Record<string, string>; wrong?: string } {
  const labels = new Map<string, string>();
  for (const [part, key = '', value] of text.matchAll(oneLabel)) {
    if (!unquoted(key) || value === undefined) return { labels: Object.fromEntries(labels), wrong: `“${part}” is not KEY=VALUE` };
    labels.set(unquoted(key), unquoted(value));
  }
  return { labels: Object.fromEntries(labels) };
}

/** The text that parseLabels reads as these labels. */
export function labelText(labels: [string, string][]): string {
  return labels.map((label) => label.map(quoted).join('=')).join(' ');
}

const quoted = (text: string, i: number): string => ((i === 0 ? /[,\s="]/ : /[,\s]|^"/).test(text) ? `"${text.replace(/["\\]/g, '\\$&')}"` : text);
const unquoted = (text: string): string => (/^".*"$/s.test(text) && text.length > 1 ? text.slice(1, -1).replace(/\\(.)/gs, '$1') : text);

/** "90", "90s", "15m", "2h" in seconds; undefined: none, NaN: not a time. */
export function parseSeconds(text: string): number | undefined {
  const t = text.trim();
  if (!t) return undefined;
  const [, n, unit = 's'] = /^(\d+)\s*([smh])?$/.exec(t) ?? [];
  return n === undefined ? NaN : Number(n) * { s: 1, m: 60, h: 3600 }[unit as 's' | 'm' | 'h'];
}

/** The request, or what is wrong by the name of the field, before the server is asked. */
export function request(draft: Draft): { task: Task; errors: Record<string, string> } {
  const errors: Record<string, string> = {};
  const { labels, wrong } = parseLabels(draft.labels);
  if (wrong) errors['labels'] = wrong;
  const seconds = parseSeconds(draft.timeout);
  if (Number.isNaN(seconds)) errors['timeoutSec'] = 'must be a duration such as 90s, 15m or 2h';
  const wrongText = wrongTask(draft.task);
  if (wrongText) errors['task'] = wrongText;
  if (draft.mode !== 'read-only' && !draft.confirm) errors['confirm'] = 'Confirm that the agent may write';
  const task: Task = { task: draft.task };
  if (draft.agent) task.agent = draft.agent;
  if (draft.mode !== 'read-only') {
    task.mode = draft.mode;
    task.confirm = draft.confirm;
  }
  if (draft.workingDir.trim()) task.workingDir = draft.workingDir.trim();
  if (draft.title.trim()) task.title = draft.title.trim();
  if (draft.model.trim()) task.model = draft.model.trim();
  if (Object.keys(labels).length > 0) task.labels = labels;
  if (seconds) task.timeoutSec = seconds;
  if (draft.skipGit) task.skipGitRepoCheck = true;
  if (draft.live && canBeLive(draft.agent)) {
    const policy = draft.policy.split('\n').map((rule) => rule.trim()).filter(Boolean);
    Object.assign(task, { live: true }, draft.keep && { keep: true }, !draft.ask && { ask: false }, policy.length > 0 && { policy });
  }
  return { task, errors };
}

/** Whether every worker that takes tasks is known to refuse a mode. */
export function forbidden(workers: Worker[] | undefined, mode: Mode): boolean {
  const able = (workers ?? []).filter((w) => w.slots > 0);
  return able.length > 0 && able.every((w) => w.modes !== undefined && !w.modes.includes(mode));
}
