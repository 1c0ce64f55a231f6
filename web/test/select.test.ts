import { expect, test } from 'vitest';
import type { Run } from '../src/lib/api';
import { phase } from '../src/lib/format';
import { Layout } from '../src/overview/layout';
import { olderOf, parseSearch, sectionOf, select, type Selection, type View } from '../src/overview/select';
import { size } from './size';

const at = Date.parse('2026-11-23T12:00:00.000Z');
const ago = (s: number): string => new Date(at - s * 1000).toISOString();
let n = 0;
const run = (more: Partial<Run>): Run => ({ run: `r${String(n++).padStart(5, '0')}`, agent: 'codex', state: 'working', seq: n, ...more });
const all: Selection = { filter: 'all', search: '', sort: 'need', reverse: false };

const some = [
  run({ title: 'old', state: 'completed', endedAt: ago(500) }),
  run({ title: 'fresh', state: 'completed', endedAt: ago(50), unseen: true }),
  run({ title: 'broken', state: 'failed', reason: 'exit status', endedAt: ago(60), unseen: true, labels: { team: 'shop' } }),
  run({ title: 'gone', state: 'failed', reason: 'lost', endedAt: ago(400) }),
  run({ title: 'busy', startedAt: ago(10), workingDir: '/srv/shop', tokens: { input: 5, output: 5 } }),
  run({ title: 'longer', startedAt: ago(100), agent: 'claude_code', tokens: { input: 500, output: 5 } }),
  run({ title: 'silent', startedAt: ago(100), workerLost: true }),
  run({ title: 'second', state: 'queued', position: 1 }),
  run({ title: 'first', state: 'queued', position: 0 }),
  run({ title: 'asks', state: 'input-required', activeAt: ago(5) }),
  run({ title: 'asks for longer', state: 'input-required', activeAt: ago(500) }),
];
const titles = (s: Partial<Selection>): unknown => {
  const { groups } = select(some, { ...all, ...s }, at);
  return groups.map((g) => [g.section, ...g.runs.map((r) => r.title)]);
};

test('sections come in the order of need', () => {
  expect(titles({})).toEqual([
    ['needs', 'asks for longer', 'asks'], ['lost', 'silent'], ['running', 'busy', 'longer'], ['queued', 'first', 'second'], ['new', 'fresh', 'broken'], ['earlier', 'gone', 'old'],
  ]);
});

test('filters overlap, and count what the search leaves', () => {
  expect(titles({ filter: 'failed' })).toEqual([[null, 'broken']]);
  expect(titles({ filter: 'lost' })).toEqual([['lost', 'silent'], ['earlier', 'gone']]);
  expect(select(some, all, at).counts).toEqual({ all: 11, needs: 2, may: 0, turn: 0, running: 2, queued: 2, new: 2, failed: 1, lost: 2 });
  expect(select(some, { ...all, search: 'shop' }, at).counts).toEqual({ all: 2, needs: 0, may: 0, turn: 0, running: 1, queued: 0, new: 1, failed: 1, lost: 0 });
});

test('searches', () => {
  expect(parseSearch('fix agent:codex -label:"team=a b" dir:/srv "two words')).toEqual([
    { field: '', text: 'fix', not: false }, { field: 'agent', text: 'codex', not: false }, { field: 'label', text: 'team=a b', not: true },
    { field: 'dir', text: '/srv', not: false }, { field: '', text: 'two words', not: false },
  ]);
  const found = (search: string): unknown => select(some, { ...all, search, sort: 'title' }, at).groups[0]!.runs.map((r) => r.title);
  expect(found('LONG claude')).toEqual(['longer']);
  expect(found('label:team=shop')).toEqual(['broken']);
  expect(found('dir:shop')).toEqual(['busy']);
  expect(found('state:"needs you" -longer')).toEqual(['asks']);
  expect(found('is:lost')).toEqual(['gone', 'silent']);
  expect(found('http://x')).toEqual([]);
});

test('an agent that asks its user needs you, until its worker is lost', () => {
  const asks = run({ doing: { phase: 'waiting-for-answer', since: ago(9) } });
  expect([sectionOf(asks, at), sectionOf({ ...asks, workerLost: true }, at), sectionOf({ ...asks, state: 'completed' }, at)]).toEqual(['needs', 'lost', 'earlier']);
  const { counts, shown } = select([asks], { ...all, search: 'state:"needs you"' }, at);
  expect([shown, counts.needs, counts.running]).toEqual([1, 1, 0]);
});

test('sorts, and turns round', () => {
  const first = (s: Partial<Selection>): string | undefined => select(some, { ...all, ...s }, at).groups[0]!.runs[0]!.title;
  expect([first({ sort: 'tokens' }), first({ sort: 'elapsed' }), first({ sort: 'title' }), first({ sort: 'title', reverse: true }), first({ sort: 'agent' }), first({ sort: 'directory' })])
    .toEqual(['longer', 'silent', 'asks', 'silent', 'longer', 'busy']);
});

const ids = (view: View): string => view.groups.map((g) => `${g.section}: ${g.runs.map((r) => r.run).join()}`).join();

test('ten thousand runs are the same in any order of arrival', () => {
  const many = Array.from({ length: size(10_000) }, (_, i) => run({ state: i % 3 ? 'completed' : 'working', startedAt: ago(i % 100), endedAt: ago(i % 50), title: `t ${i % 7}` }));
  const mixed = many.map((r, i) => [r, (i * 7919) % 10_007] as const).sort((a, b) => a[1] - b[1]).map(([r]) => r);
  for (const sort of ['need', 'started', 'title', 'tokens'] as const)
    expect(ids(select(mixed, { ...all, sort }, at))).toEqual(ids(select(many, { ...all, sort }, at)));
});

test('a session may need you once its tool has run for long, and it is your turn after a turn', () => {
  const since = new Date(at - 30_000).toISOString();
  const unsure = run({ doing: { phase: 'running-or-waiting', tool: 'Bash', since } });
  expect([sectionOf(unsure, at - 1), sectionOf(unsure, at), sectionOf({ ...unsure, workerLost: true }, at)]).toEqual(['running', 'may', 'lost']);
  expect([select([unsure], all, at - 1).moves, select([unsure], all, at).moves]).toEqual([true, false]);
  expect(phase(unsure)).toBe('running a command or waiting for permission');
  const turn = run({ doing: { phase: 'your-turn', since } });
  expect([sectionOf(turn, at), sectionOf({ ...turn, state: 'completed' }, at)]).toEqual(['turn', 'earlier']);
  const { counts } = select([turn, unsure], all, at);
  expect([counts.needs, counts.may, counts.turn, counts.running]).toEqual([0, 1, 1, 1]);
  expect(select([turn, unsure], { ...all, search: 'state:"your turn"' }, at).shown).toBe(1);
});

test('a run is unseen for a week', () => {
  const week = 7 * 24 * 3_600_000;
  const old = run({ state: 'completed', unseen: true, endedAt: ago(0) });
  expect([0, week, week + 1].map((later) => [sectionOf(old, at + later), select([old], all, at + later).counts.new, select([old], { ...all, search: 'is:unseen' }, at + later).shown]))
    .toEqual([['new', 1, 1], ['new', 1, 1], ['earlier', 0, 0]]);
});

test('every run has a section', () => {
  for (const state of ['queued', 'working', 'input-required', 'completed', 'failed', 'cancelled', 'timeout'] as const) expect(sectionOf(run({ state }), at)).toBeTruthy();
});

test('positions of rows', () => {
  const runs = Array.from({ length: 5 }, () => run({}));
  const layout = new Layout([{ section: 'needs', runs: runs.slice(0, 2) }, { section: 'running', runs: runs.slice(2) }], 10, 4);
  expect([layout.height, layout.count]).toEqual([58, 5]);
  expect([0, 1, 2, 4].map((i) => layout.topOf(i))).toEqual([4, 14, 28, 48]);
  expect([0, 3, 13, 14, 24, 27, 28, 57, 900].map((y) => layout.firstAt(y))).toEqual([0, 0, 0, 1, 2, 2, 2, 4, 4]);
  expect(runs.map((r) => layout.indexOf(r.run))).toEqual([0, 1, 2, 3, 4]);
  expect(layout.runAt(2)).toBe(runs[2]);
  expect([layout.runAt(-1), layout.runAt(5), layout.indexOf('x')]).toEqual([undefined, undefined, -1]);
  const shape = (from: number, to: number): unknown => {
    const { top, parts } = layout.between(from, to);
    return [top, ...parts.flatMap((p) => [...(p.head ? [p.section] : []), ...p.rows.map((r, i) => (layout.runAt(p.first + i) === r ? p.first + i : 'wrong'))])];
  };
  expect(shape(-5, 5)).toEqual([0, 'needs', 0]);
  expect(shape(15, 30)).toEqual([14, 1, 'running', 2]);
  expect(shape(40, 100)).toEqual([38, 3, 4]);
  expect(shape(0, 1000)).toEqual([0, 'needs', 0, 1, 'running', 2, 3, 4]);
  expect(new Layout([], 10, 4).between(0, 100)).toEqual({ top: 0, parts: [] });
});

test('what lies between two heights is contiguous and covers them, wherever', () => {
  const groups = [3, 0, 40, 1].map((count, i) => ({ section: i === 1 ? null : ('running' as const), runs: Array.from({ length: count }, () => run({})) }));
  const layout = new Layout(groups, 10, 7);
  for (let from = -20; from < layout.height + 20; from += 3) {
    const { top, parts } = layout.between(from, from + 55);
    const bottom = top + parts.reduce((sum, p) => sum + (p.head ? 7 : 0) + p.rows.length * 10, 0);
    expect(parts.length === 0 || (top <= Math.max(0, from) && bottom >= Math.min(layout.height, from + 55)), `from ${from}`).toBe(true);
  }
});

test('what a selection asks the server for has all that it shows of runs that have ended', () => {
  const asked = (search: string, more: Partial<Selection> = {}): unknown => olderOf({ ...all, search, ...more });
  expect(asked('')).toEqual({ order: 'changed' });
  expect(asked('', { sort: 'started' })).toEqual({});
  expect(asked('', { filter: 'new' })).toEqual({ order: 'changed', unseen: true });
  expect(asked('', { filter: 'failed' })).toEqual({ order: 'changed', state: ['failed', 'timeout'] });
  expect(asked('is:lost')).toEqual(asked('', { filter: 'lost' }));
  expect(asked('is:unseen')).toEqual(asked('', { filter: 'new' }));
  expect(asked('Parser dir:/srv -agent:codex "two words" state:timed')).toEqual({ order: 'changed', state: ['timeout'], word: ['parser', '/srv', 'two words'] });
  for (const none of [asked('state:running'), asked('is:odd'), asked('state:completed', { filter: 'failed' }), asked('', { filter: 'running' }), asked('', { filter: 'queued' })]) expect(none).toBe(undefined);
  // It fits into an address, whatever is typed.
  for (const odd of ['😀', '€', 'a\u0301']) {
    const { word } = asked(`a${odd.repeat(40)} `.repeat(20)) as { word: string[] };
    expect([word.length > 4, word.map((w) => encodeURIComponent(w)).join('').length <= 6_000, word[0]!.startsWith(`a${odd}`)]).toEqual([true, true, true]);
  }
  expect((asked('w '.repeat(20) + 'x'.repeat(100)) as { word: string[] }).word.length).toBe(16);
});
