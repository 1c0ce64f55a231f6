// Which runs a list shows, and in which order. Pure.
//
// A search is words, all of which must occur in the title, directory, agent, ids, labels, worker or model of a run;
// `agent:codex`, `dir:/srv`, `label:team=shop`, `state:failed`, `worker:`, `model:`, `thread:` look in one of
// these. Quotes keep spaces; a minus before a word excludes. Case does not matter.

import { agentName } from '../lib/agents';
import type { Run, RunQuery, State } from '../lib/api';
import { elapsed, ended, lost, mayNeedYou, needsYou, phase, stateName, unseen, unsure, yourTurn } from '../lib/format';

export const filters = ['all', 'needs', 'may', 'turn', 'running', 'queued', 'new', 'failed', 'lost'] as const;
export type Filter = (typeof filters)[number];

export const sections = ['needs', 'may', 'lost', 'turn', 'running', 'queued', 'new', 'earlier'] as const;
export type Section = (typeof sections)[number];

export const sorts = ['need', 'started', 'active', 'elapsed', 'tokens', 'state', 'title', 'directory', 'agent'] as const;
export type Sort = (typeof sorts)[number];

export interface Selection { filter: Filter; search: string; sort: Sort; reverse: boolean }

export interface Group { section: Section | null; runs: Run[] } // null: one list without sections

/** `moves`: a run comes to another section as time passes. */
export interface View { groups: Group[]; total: number; shown: number; counts: Record<Filter, number>; moves: boolean }

export function fits(run: Run, filter: Filter, now: number): boolean {
  switch (filter) {
    case 'all': return true;
    case 'needs': return needsYou(run);
    case 'may': return mayNeedYou(run, now);
    case 'turn': return yourTurn(run);
    case 'running': return run.state === 'working' && !run.workerLost && !needsYou(run) && !yourTurn(run);
    case 'queued': return run.state === 'queued';
    case 'new': return unseen(run, now);
    case 'failed': return (run.state === 'failed' || run.state === 'timeout') && !lost(run);
    case 'lost': return lost(run);
  }
}

export function sectionOf(run: Run, now: number): Section {
  if (needsYou(run)) return 'needs';
  if (mayNeedYou(run, now)) return 'may';
  if (run.workerLost && !ended(run)) return 'lost';
  if (yourTurn(run)) return 'turn';
  if (run.state === 'working') return 'running';
  if (run.state === 'queued') return 'queued';
  return unseen(run, now) ? 'new' : 'earlier';
}

interface Term { field: string; text: string; not: boolean }

export function parseSearch(search: string): Term[] {
  const terms: Term[] = [];
  for (const [, minus, field = '', quoted, plain] of search.toLowerCase().matchAll(/(-?)(?:(agent|dir|label|state|worker|model|thread|run|is):)?(?:"([^"]*)"?|(\S+))/g)) {
    const text = quoted ?? plain ?? '';
    if (text) terms.push({ field, text, not: minus === '-' });
  }
  return terms;
}

const endings: readonly State[] = ['completed', 'failed', 'cancelled', 'timeout'];
const maxWords = 16; // of a request
const maxWord = 60; // characters
const maxAll = 6_000; // characters of all words in the address: the server reads 8 KiB

/**
 * What to ask the server for, of runs that ended some time ago: all that a selection shows of them, and perhaps more.
 * Undefined: it shows none of them.
 */
export function olderOf({ filter, search, sort }: Pick<Selection, 'filter' | 'search' | 'sort'>): RunQuery | undefined {
  let states = endings;
  const only = (some: (state: State) => boolean): void => void (states = states.filter(some));
  const word: string[] = [];
  let onlyUnseen = filter === 'new';
  if (filter === 'lost') only((s) => s === 'failed');
  else if (filter === 'failed') only((s) => s === 'failed' || s === 'timeout');
  else if (filter !== 'all' && filter !== 'new') return undefined;
  for (const { field, text, not } of parseSearch(search)) {
    if (not) continue;
    if (field === 'state') only((s) => s.includes(text) || stateName(s).includes(text));
    else if (field === 'is') text === 'unseen' ? (onlyUnseen = true) : only((s) => text === 'lost' && s === 'failed');
    else word.push([...text].slice(0, maxWord).join(''));
  }
  if (states.length === 0) return undefined;
  const query: RunQuery = sort === 'started' ? {} : { order: 'changed' };
  if (states.length < endings.length) query.state = states;
  if (onlyUnseen) query.unseen = true;
  let room = maxAll;
  if (word.length > 0) query.word = word.slice(0, maxWords).filter((w) => (room -= encodeURIComponent(w).length) >= 0);
  return query;
}

const wordOf = (run: Run): string => yourTurn(run) ? 'your turn' : stateName(needsYou(run) ? 'input-required' : run.state);

const texts = new WeakMap<Run, string>();

function allText(run: Run): string {
  let text = texts.get(run);
  if (text === undefined) {
    const labels = Object.entries(run.labels ?? {}).map(([k, v]) => `${k}=${v}`);
    text = [run.title, run.workingDir, run.agent, agentName(run.agent), run.run, run.threadId, run.worker, run.model, wordOf(run), run.state, run.activity, phase(run), run.answer, run.cause, ...labels]
      .join('\n').toLowerCase();
    texts.set(run, text);
  }
  return text;
}

function holds(run: Run, { field, text, not }: Term, now: number): boolean {
  const has = (value: string | undefined): boolean => Boolean(value?.toLowerCase().includes(text));
  let found: boolean;
  switch (field) {
    case '': found = allText(run).includes(text); break;
    case 'agent': found = has(run.agent) || has(agentName(run.agent)); break;
    case 'dir': found = has(run.workingDir); break;
    case 'label': found = Object.entries(run.labels ?? {}).some(([k, v]) => has(`${k}=${v}`)); break;
    case 'state': found = has(run.state) || has(wordOf(run)); break;
    case 'worker': found = has(run.worker); break;
    case 'model': found = has(run.model); break;
    case 'thread': found = has(run.threadId); break;
    case 'run': found = has(run.run); break;
    default: found = text === 'unseen' ? unseen(run, now) : text === 'lost' ? lost(run) : false;
  }
  return found !== not;
}

// What a list is sorted by: a key of each run, and whether the largest comes first. Times are compared
// as text: all have one form.
interface Order { key: (run: Run) => string | number; descending?: boolean }

const entered = (run: Run): string => run.queuedAt ?? run.startedAt ?? '';
const started: Order = { key: entered, descending: true };
const endedLast: Order = { key: (run) => run.endedAt ?? run.activeAt ?? '', descending: true };
const text = (of: (run: Run) => string | undefined): Order => ({ key: (run) => of(run)?.toLowerCase() || '\uffff' }); // those without one last

const waiting: Order = { key: (run) => run.doing?.since ?? run.activeAt ?? '' }; // those that have waited longest first

const inSection: Record<Section, Order> = {
  needs: waiting,
  may: waiting,
  turn: { key: (run) => run.doing?.since ?? run.activeAt ?? '', descending: true },
  lost: started,
  running: { key: (run) => run.startedAt ?? '', descending: true },
  queued: { key: (run) => String(run.position ?? 0).padStart(6, '0') + entered(run) },
  new: endedLast,
  earlier: endedLast,
};

const bySort: Record<Exclude<Sort, 'need'>, (now: number) => Order> = {
  started: () => started,
  active: () => ({ key: (run) => run.endedAt ?? run.activeAt ?? entered(run), descending: true }),
  elapsed: (now) => ({ key: (run) => elapsed(run, now) ?? -1, descending: true }),
  tokens: () => ({ key: (run) => (run.tokens ? run.tokens.input + run.tokens.output : -1), descending: true }),
  state: (now) => ({ key: (run) => sections.indexOf(sectionOf(run, now)) + run.state }),
  title: () => text((run) => run.title),
  directory: () => text((run) => run.workingDir),
  agent: () => text((run) => agentName(run.agent)),
};

/** Runs that are equal in an order are in that of their ids, the newest first, so that it is always the same. */
function sort(runs: Run[], { key, descending = false }: Order, reverse: boolean): Run[] {
  const sign = descending !== reverse ? -1 : 1;
  const keyed = runs.map((run) => ({ key: key(run), run }));
  keyed.sort((a, b) => (a.key === b.key ? (a.run.run < b.run.run ? 1 : -1) : a.key < b.key ? -sign : sign));
  return keyed.map((each) => each.run);
}

export function select(all: Iterable<Run>, { filter, search, sort: by, reverse }: Selection, now: number): View {
  const terms = parseSearch(search);
  const counts = Object.fromEntries(filters.map((f) => [f, 0])) as Record<Filter, number>;
  const found: Run[] = [];
  let total = 0;
  let moves = false;
  for (const run of all) {
    total++;
    if (!terms.every((term) => holds(run, term, now))) continue;
    for (const f of filters) if (fits(run, f, now)) counts[f]++;
    if (fits(run, filter, now)) found.push(run);
    moves ||= unsure(run) && !mayNeedYou(run, now);
  }
  if (by !== 'need') return { groups: [{ section: null, runs: sort(found, bySort[by](now), reverse) }], total, shown: found.length, counts, moves };

  const bySection = new Map<Section, Run[]>();
  for (const run of found) {
    const section = sectionOf(run, now);
    const list = bySection.get(section);
    if (list) list.push(run);
    else bySection.set(section, [run]);
  }
  let groups: Group[] = sections.filter((s) => bySection.has(s)).map((s) => ({ section: s, runs: sort(bySection.get(s)!, inSection[s], reverse) }));
  if (reverse) groups = groups.reverse();
  if (filter !== 'all' && groups.length === 1) groups[0]!.section = null;
  return { groups, total, shown: found.length, counts, moves };
}
