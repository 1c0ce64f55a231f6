// Text for people. Pure: the time now is an argument.
//
//   duration(73_000)  "1m 13s"      age(at, now)   "12s", "5m", "3h", "2d"
//   bytes(15_360)     "15 kB"       count(12_345)  "12,345"      tokens(12_345)  "12.3k"
//   clock(at)         "14:03:07"    when(at, now)  "14:03", "Nov 3", "Nov 3, 2025"
//   stateName('input-required') "needs you"        elapsed(run, now)   milliseconds or undefined
//   doing(run, now)   "running a command, 12s"

import type { Changed, Mode, Phase, Run, State, Time } from './api';

/** The word for a key that may be any text: of an object itself, never one that all objects have, such as `constructor`. */
export const wordFor = (words: Readonly<Record<string, string>>, key: string | null | undefined, otherwise = ''): string =>
  Object.hasOwn(words, key ?? '') ? words[key!]! : otherwise;

export const ms = (at: Time | undefined): number => (at ? Date.parse(at) : 0);

const unit = (n: number, of: string): string => `${n}${of}`;

/** A length of time in at most two units. */
export function duration(millis: number): string {
  const s = Math.max(0, Math.floor(millis / 1000));
  if (s < 60) return unit(s, 's');
  const m = Math.floor(s / 60);
  if (m < 60) return two(m, 'm', s % 60, 's');
  const h = Math.floor(m / 60);
  if (h < 24) return two(h, 'h', m % 60, 'm');
  return two(Math.floor(h / 24), 'd', h % 24, 'h');
}

/** A length of a tool call: with milliseconds below ten seconds. */
export function fine(millis: number): string {
  if (millis < 1000) return `${Math.max(0, Math.round(millis))}ms`;
  if (millis < 9950) return `${(millis / 1000).toFixed(1)}s`;
  return duration(millis);
}

function two(a: number, ofA: string, b: number, ofB: string): string {
  return b === 0 ? unit(a, ofA) : `${unit(a, ofA)} ${unit(b, ofB)}`;
}

/** The time since, in one unit. */
export function age(at: Time | number | undefined, now: number): string {
  const since = typeof at === 'number' ? at : ms(at);
  if (!since) return '';
  const s = Math.max(0, Math.floor((now - since) / 1000));
  if (s < 60) return unit(s, 's');
  if (s < 3600) return unit(Math.floor(s / 60), 'm');
  if (s < 86_400) return unit(Math.floor(s / 3600), 'h');
  return unit(Math.floor(s / 86_400), 'd');
}

const pad = (n: number): string => String(n).padStart(2, '0');

/** Local time of day with seconds. */
export function clock(at: Time | undefined): string {
  if (!at) return '';
  const d = new Date(at);
  return `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** Local time: of day if today, else the date. */
export function when(at: Time | undefined, now: number): string {
  if (!at) return '';
  const d = new Date(at);
  const today = new Date(now);
  if (d.toDateString() === today.toDateString()) return `${pad(d.getHours())}:${pad(d.getMinutes())}`;
  const day = `${months[d.getMonth()]} ${d.getDate()}`;
  return d.getFullYear() === today.getFullYear() ? day : `${day}, ${d.getFullYear()}`;
}

/** Local date and time, for tooltips. */
export function full(at: Time | undefined): string {
  if (!at) return '';
  const d = new Date(at);
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock(at)}`;
}

export function count(n: number): string {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** "1 file", "3 files". */
export function plural(n: number, one: string, many = one + 's'): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

const changedIn: Record<Changed['in'], string> = { directory: 'in the directory', tools: 'by its tools', cloud: 'in the cloud' };

/** How many files a run changed, and what is counted: "2 files changed in the directory"; "" if it is unknown. */
export function changedText(c: Changed | undefined): string {
  return c ? `${plural(c.files, 'file')} changed ${changedIn[c.in] ?? ''}`.trimEnd() : '';
}

function scaled(n: number, step: number, units: string[]): string {
  let i = 0;
  while (i < units.length - 1 && Math.round(n) >= step) {
    n /= step;
    i++;
  }
  if (i === 0) return `${Math.round(n)}${units[0]}`;
  return (n < 99.95 ? n.toFixed(1).replace(/\.0$/, '') : String(Math.round(n))) + units[i];
}

export const tokens = (n: number): string => scaled(n, 1000, ['', 'k', 'M', 'G']);
export const bytes = (n: number): string => scaled(n, 1000, [' B', ' kB', ' MB', ' GB', ' TB']);

/** US dollars. */
export const cost = (usd: number): string => (usd > 0 && usd < 0.01 ? '<$0.01' : `$${usd.toFixed(2)}`);

/** The labels of a run, without its trace context, which is for machines. */
export const labelsOf = (run: Run): [string, string][] => Object.entries(run.labels ?? {}).filter(([key]) => key !== 'linesman.traceparent');

const modes: Record<Mode, string> = { 'read-only': 'Read only', 'workspace-write': 'Write in the directory', 'danger-full-access': 'Full access' };

/** What an agent may do, for people. */
export const modeName = (mode: Mode): string => modes[mode] ?? mode;

const states: Record<State, string> = {
  queued: 'queued', working: 'running', 'input-required': 'needs you', completed: 'completed', failed: 'failed', cancelled: 'cancelled', timeout: 'timed out',
};

export const stateName = (state: State): string => states[state] ?? state;

/** Whether a person is needed: the agent asks its user, or the run waits for an answer from outside. As in `top` and `watch`. */
export const needsYou = (run: Run): boolean =>
  (run.state === 'input-required' && run.doing?.phase !== 'your-turn') || (run.state === 'working' && run.doing?.phase === 'waiting-for-answer' && !run.workerLost);

/** How long a tool of a session runs, or its agent waits for a permission, until it may need a person, in ms: the log does not tell them apart. */
export const mayNeed = 30_000;

/** Whether the agent runs a tool or waits for a permission. */
export const unsure = (run: Run): boolean => run.state === 'working' && run.doing?.phase === 'running-or-waiting' && !run.workerLost;

/** Whether a person may be needed. */
export const mayNeedYou = (run: Run, now: number): boolean => unsure(run) && now - ms(run.doing?.since) >= mayNeed;

/** Whether the agent waits for the next prompt. */
export const yourTurn = (run: Run): boolean => ['working', 'input-required'].includes(run.state) && run.doing?.phase === 'your-turn' && !run.workerLost;

/** Whether a live run that is kept is between two turns. */
export const waitsForMessage = (run: Run): boolean =>
  run.state === 'input-required' && !run.questions?.length && run.agent !== 'external' && !run.reason && !run.workerLost;

export const ended = (run: Run): boolean => !['queued', 'working', 'input-required'].includes(run.state);

const unseenFor = 7 * 24 * 3_600_000; // ms after its end, as the server has it

/** Whether a run ended in the last seven days and is not marked as seen; for the server a cancelled or continued one is. */
export const unseen = (run: Run, now: number): boolean => Boolean(run.unseen) && !(run.endedAt && now - ms(run.endedAt) > unseenFor);

/** Whether the run was lost with its worker: it ended this way, or its worker is silent. */
export const lost = (run: Run): boolean => Boolean(run.workerLost) || (ended(run) && run.reason === 'lost');

const phases: Record<Phase, string> = {
  starting: 'starting', thinking: 'thinking', running: 'running a tool', writing: 'writing', retrying: 'retrying', 'rate-limited': 'rate-limited',
  compacting: 'compacting', 'waiting-for-agent': 'waiting for a sub-agent', 'waiting-for-answer': 'waiting for an answer',
  'your-turn': 'your turn', 'running-or-waiting': 'running a tool or waiting for permission',
};

/** What the agent of a run does, without its age; "" if unknown. */
export function phase(run: Run): string {
  const d = run.doing;
  if (!d) return '';
  if ((d.phase === 'running' || d.phase === 'running-or-waiting') && d.tool) {
    const what = /^(bash|shell|command|command_execution|run_shell_command|exec)$/i.test(d.tool) ? 'running a command' : `running ${d.tool}`;
    return d.phase === 'running' ? what : `${what} or waiting for permission`;
  }
  const text = phases[d.phase] ?? d.phase;
  return d.attempt ? `${text} ${d.attempt}${d.of ? `/${d.of}` : ''}` : text;
}

/** What the agent of a run does, and for how long. */
export function doing(run: Run, now: number): string {
  const text = phase(run);
  const since = age(run.doing?.since, now);
  return text && since ? `${text}, ${since}` : text;
}

/** Milliseconds that the run has taken so far, or took; undefined before its start. */
export function elapsed(run: Run, now: number): number | undefined {
  if (!run.startedAt) return undefined;
  return Math.max(0, (ended(run) ? ms(run.endedAt) || ms(run.activeAt) : now) - ms(run.startedAt));
}

/** The last two names of a path, and whether there are more. */
export function shortPath(path: string): string {
  const names = path.split('/').filter(Boolean);
  return names.length <= 2 ? path : '…/' + names.slice(-2).join('/');
}
