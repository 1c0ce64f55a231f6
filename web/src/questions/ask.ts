// What a question of a live run says, and what may answer it. Pure.

import { agentName } from '../lib/agents';
import type { Answered, ApiError, Question, QuestionOption, Run } from '../lib/api';
import { wordFor } from '../lib/format';
import { nameOf } from '../lib/keys';
import { revealed } from '../lib/plaintext';

export const keyOf = (run: string, id: string): string => `${run}/${id}`;

/** The ids of the questions that a run waits for: those of a live run, or the one of a request of a file bridge. */
export const questionsOf = (run: Run): readonly string[] => run.questions ?? (run.agent === 'external' && run.state === 'input-required' ? ['q1'] : []);

/** The questions that runs wait for, by key. */
export function wantedOf(runs: Iterable<Run>): Map<string, { run: string; id: string }> {
  const wanted = new Map<string, { run: string; id: string }>();
  for (const row of runs) for (const id of questionsOf(row)) wanted.set(keyOf(row.run, id), { run: row.run, id });
  return wanted;
}

const numberOf = (id: string): number => Number(/\d+/.exec(id)?.[0] ?? 0);

/** What orders questions: the oldest first, those that are not read yet last. */
export interface Placed { run: string; id: string; question?: Question }

export function byAge(a: Placed, b: Placed): number {
  const [at, bt] = [a, b].map((e) => (e.question ? Date.parse(e.question.askedAt ?? '') || 0 : Infinity)) as [number, number];
  if (at !== bt) return at - bt;
  if (a.run !== b.run) return a.run < b.run ? -1 : 1;
  return numberOf(a.id) - numberOf(b.id);
}

const acts: Record<string, string> = {
  execute: 'run a command', edit: 'edit files', delete: 'delete files', move: 'move files', read: 'read', search: 'search', fetch: 'fetch from the network',
  think: 'think', switch_mode: 'switch its mode',
};

/** What an agent asks to do: of a kind of tool, never of a text of the agent. */
export const actOf = (q: { kind: string; tool?: string | null }): string =>
  q.kind === 'form' || q.kind === 'text' ? 'ask you something' : wordFor(acts, q.tool, 'use a tool');

/** The question in a sentence without its texts. */
export const headOf = (q: Question): string =>
  q.kind === 'text' ? 'A program asks you something' : `${agentName(q.agentName ?? '')} ${q.kind === 'form' ? 'asks you something' : `asks to ${actOf(q)}`}`;

/** `once` can be chosen by a press; `lasting` changes more than this request, or nobody knows what it does. */
export interface Choices { once: QuestionOption[]; lasting: QuestionOption[] }

/** The options in the order in which they are shown: those that deny, then those that allow, each as the agent has them. */
export function choicesOf(q: Question): Choices {
  const options = q.options ?? [];
  const of = (kind: string): QuestionOption[] => options.filter((o) => o.kind === kind);
  const denies = of('reject_once');
  if (denies.length === 0) denies.push({ id: 'deny', kind: 'reject_once', name: 'Deny' }); // without an option
  return { once: [...denies, ...of('allow_once')], lasting: options.filter((o) => o.kind !== 'reject_once' && o.kind !== 'allow_once') };
}

const kinds: Record<string, string> = { allow_once: 'allow once', reject_once: 'deny once', allow_always: 'allow always', reject_always: 'deny always' };

export const kindName = (kind: string): string => wordFor(kinds, kind, 'another answer of the agent');

/** Whether an option permits something, or might. */
export const permits = (o: QuestionOption): boolean => !o.kind.startsWith('reject_');

const longName = 60; // characters of a name on a button

/** The name of an option for its button: the beginning of a long one, which is listed in full above. */
export function buttonName(o: QuestionOption): { text: string; whole: boolean } {
  const text = revealed(o.name).replace(/\s+/g, ' ').trim() || kindName(o.kind);
  const whole = text.length <= longName;
  return { text: whole ? text : `${[...text].slice(0, longName - 12).join('')}…`, whole };
}

/** What is shown must have been there for so long before a press answers it, in ms. */
export const settled = 500;

export type Press = Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'shiftKey' | 'altKey' | 'repeat' | 'isComposing'>;

/**
 * The option that a key chooses for the question with the focus, or undefined. `a` is the only one that allows once, `d` the
 * only one that denies once. `shown` is for how long the question has been there unmoved and with the focus, in ms.
 */
export function keyChoice(press: Press, q: Question, { typing, shown }: { typing: boolean; shown: number }): QuestionOption | undefined {
  const name = nameOf(press);
  if (typing || press.repeat || press.isComposing || shown < settled || (name !== 'a' && name !== 'd')) return undefined;
  if (q.kind === 'text') return undefined;
  if (q.kind === 'form') return name === 'd' ? { id: 'decline', kind: 'reject_once', name: 'Decline' } : undefined;
  const fit = choicesOf(q).once.filter((o) => o.kind === (name === 'a' ? 'allow_once' : 'reject_once'));
  return fit.length === 1 ? fit[0] : undefined;
}

/** When nobody answers. */
export function dueText(q: Question, now: number): { text: string; soon: boolean } {
  const what = q.kind === 'form' ? 'Cancelled' : q.kind === 'text' ? 'Ended' : 'Denied';
  if (!q.dueAt) return { text: 'Waits until it is answered', soon: false };
  const s = Math.ceil((Date.parse(q.dueAt) - now) / 1000);
  if (s <= 0) return { text: `${what}: nobody has answered in time`, soon: true };
  const left = s < 120 ? `${s} s` : s < 7200 ? `${Math.ceil(s / 60)} min` : `${Math.round(s / 3600)} h`;
  return { text: `${what} in ${left} unless answered`, soon: s < 300 };
}

const outcomes: Record<string, string> = { allow: 'Allowed', deny: 'Denied', submitted: 'Submitted', declined: 'Declined', cancelled: 'Cancelled' };

/** The outcome of an answer; `me` is the name of the session. */
export function resultText(a: Answered, me: string): string {
  const by = !a.by || a.by === (me || 'owner') ? 'you' : revealed(a.by);
  const late = a.delivered === false ? '. The agent gets the answer when its worker is back' : '';
  return `${wordFor(outcomes, a.outcome, 'Answered')} by ${by}${late}`;
}

/** Why an answer was refused. `gone`: the question is over; `unsure`: nobody knows whether the answer was stored. */
export function refusal(e: ApiError, q: Question): { text: string; gone: boolean; unsure: boolean } {
  const unsure = e.status === 0 || e.status >= 500;
  if (unsure) return { text: 'No reply: it is not known whether the answer was stored. It is safe to send it again.', gone: false, unsure };
  let said = revealed(e.message);
  for (const o of q.options ?? []) said = said.replace(`the answer was ${revealed(o.id)},`, () => `the answer was “${revealed(o.name)}”,`);
  if (e.code === 'CONFLICT' || e.code === 'ENDED') return { text: `Your answer does not count: ${said}.`, gone: true, unsure };
  if (e.status === 404) return { text: `${said}.`, gone: true, unsure };
  return { text: e.status === 403 ? 'This login may not answer: it lacks the scope answer.' : `Refused: ${said}.`, gone: false, unsure };
}

/** JSON over several lines, with each of its characters that is not a space between two values: nothing is parsed and lost. */
export function indentJSON(text: string): string {
  let out = '';
  let depth = 0;
  const line = (): string => `\n${'  '.repeat(Math.min(depth, 40))}`;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\[^])*"?|[[{]\s*[\]}]|\s+|[^]/g)) {
    if (/^\s+$/.test(token)) continue;
    if (token === '{' || token === '[') {
      depth++;
      out += token + line();
    } else if (token === '}' || token === ']') {
      depth = Math.max(0, depth - 1);
      out += line() + token;
    } else out += token === ',' ? token + line() : token === ':' ? ': ' : token;
  }
  return out;
}
