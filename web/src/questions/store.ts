// The questions that live runs ask people. The rows of runs name them; what they ask is read when a row names a new one,
// and gone when no row names it any more. Nothing is polled: only a question that could not be read is asked for again.
//
//   inbox.value             the open questions, the oldest first, and those that were closed a moment ago
//   waiting.value           how many are open, also for a session that may not see them
//   arrivals.add(f)         f(question) for each new question, but not for those that were there when the page was opened
//   close(q, text, tone)    shows what came of a question in its place, for a moment
//   typedOf(key, values)    what is typed for a question, at first these values: it stays as long as a row names it
//   movedAt()               when a question last went away: what is below it has moved (performance.now)

import { effect, signal, untracked, type Signal } from '@preact/signals';
import { allowed, api, ApiError, type Question } from '../lib/api';
import { backoff } from '../lib/stream';
import { changed, runs, synced } from '../overview/store';
import { byAge, keyOf, wantedOf } from './ask';
import type { Values } from './form';

export interface Closed { text: string; tone: 'ok' | 'bad' | 'idle' }

export interface Entry {
  key: string;
  run: string;
  id: string;
  /** Absent until it is read. */
  question?: Question;
  closed?: Closed;
}

export const inbox = signal<readonly Entry[]>([]);
export const waiting = signal(0);
/** Why questions cannot be read; "": they can. */
export const unread = signal('');
export const arrivals = new Set<(q: Question) => void>();

const known = new Map<string, Question>();
const typed = new Map<string, Signal<Values>>();
const closed = new Map<string, { entry: Entry; until: number }>();
let wanted = wantedOf([]);
let old: Set<string> | undefined; // keys that are no news; undefined until the runs are here
let tried = new Set<string>();
let attempts = 0;
let loading = false;
let timer: ReturnType<typeof setTimeout> | undefined;
let moved = 0;

export const movedAt = (): number => moved;

export function typedOf(key: string, initial: Values): Signal<Values> {
  const values = typed.get(key) ?? signal(initial);
  typed.set(key, values);
  return values;
}

const told = { ok: 4_000, idle: 8_000, bad: 15_000 }; // ms for which a closed question is shown

/** Ends a question here, before the stream says so: as long as a row has it, it is shown as closed. */
export function close(entry: Entry, result: Closed): void {
  const until = Date.now() + told[result.tone];
  closed.set(entry.key, { entry: { key: entry.key, run: entry.run, id: entry.id, question: entry.question, closed: result }, until });
  setTimeout(show, told[result.tone] + 10);
  show();
}

function show(): void {
  for (const [key, { until }] of closed) if (!wanted.has(key) && until <= Date.now()) closed.delete(key);
  const entries: Entry[] = [...closed.values()].map((c) => c.entry);
  if (allowed('answer')) for (const [key, of] of wanted) if (!closed.has(key)) entries.push({ key, ...of, question: known.get(key) });
  entries.sort(byAge);
  const open = new Set(entries.filter((e) => !e.closed).map((e) => e.key));
  if (inbox.peek().some((e) => !e.closed !== open.has(e.key) || (e.closed && !closed.has(e.key)))) moved = performance.now();
  inbox.value = entries;
  waiting.value = [...wanted.keys()].filter((key) => !closed.has(key)).length;
}

const missing = (): string[] => [...wanted.keys()].filter((key) => !known.has(key));

/** Looks at what the rows of the runs name. */
export function follow(): void {
  wanted = wantedOf(runs.values());
  if (synced.peek()) old ??= new Set(wanted.keys());
  else if (runs.size === 0) old = undefined;
  for (const each of [known, typed]) for (const key of each.keys()) if (!wanted.has(key)) each.delete(key);
  for (const key of old ?? []) if (!wanted.has(key)) old!.delete(key);
  tried = new Set([...tried].filter((key) => wanted.has(key)));
  show();
  if (allowed('answer') && missing().some((key) => !tried.has(key))) void load();
}

async function load(): Promise<void> {
  if (loading) return;
  loading = true;
  clearTimeout(timer);
  const asked = missing();
  try {
    const page = await api.questions();
    take(page.requests);
    const left = new Set(missing().filter((key) => asked.includes(key)).map((key) => wanted.get(key)!.run));
    if (page.unlisted) for (const run of left) take((await api.questions(run)).requests); // they did not fit
    unread.value = page.unread?.length ? 'the record of its run is damaged' : '';
  } catch (e) {
    unread.value = e instanceof ApiError ? e.message : String(e);
  }
  loading = false;
  for (const key of asked) tried.add(key);
  show();
  const rest = missing();
  if (rest.length === 0) attempts = 0;
  else if (rest.some((key) => !tried.has(key))) void load();
  else if (allowed('answer')) timer = setTimeout(() => void load(), backoff(++attempts, Math.random()));
}

function take(questions: readonly Question[]): void {
  for (const q of questions) {
    const key = keyOf(q.run, q.id);
    if (!wanted.has(key) || known.has(key)) continue;
    known.set(key, q);
    if (!old || old.has(key)) continue;
    old.add(key);
    for (const each of arrivals) each(q);
  }
}

/** Follows the runs and the session. */
export function startQuestions(): void {
  effect(() => {
    void changed.value;
    void allowed('answer');
    untracked(follow);
  });
}
