import { beforeEach, expect, test, vi } from 'vitest';
import type { Run } from '../src/lib/api';
import { apply, begin, left, loadAll, loadOlder, olderFailed, put, runs, synced, updates } from '../src/overview/store';

const run = (id: string, more: Partial<Run> = {}): Run => ({ run: id, agent: 'codex', state: 'working', seq: 1, ...more });
const message = (event: string, data: unknown, id = '') => ({ id, event, data: JSON.stringify(data) });
const ids = (): string[] => [...runs.keys()].sort();

beforeEach(() => {
  runs.clear();
  updates.clear();
  synced.value = false;
  begin();
});

test('the list arrives, and then its changes', () => {
  const seen: unknown[] = [];
  updates.add((before, after) => seen.push([before?.state, after?.state]));
  apply([message('run', run('a')), message('run', run('b')), message('synced', { resumed: false }, '1'), message('run', run('a', { state: 'completed' }), '2'), message('gone', { run: 'b' }, '3'), message('later', {})]);
  expect([ids(), synced.value, seen]).toEqual([['a'], true, [['working', 'completed'], ['working', undefined]]]);
});

test('a stream that resumes keeps what it does not name; one that begins again does not', () => {
  apply([message('run', run('a')), message('run', run('b')), message('synced', { resumed: false })]);
  begin();
  apply([message('run', run('c')), message('synced', { resumed: true })]);
  expect(ids()).toEqual(['a', 'b', 'c']);
  begin();
  apply([message('run', run('a'))]);
  begin(); // cut in the middle
  apply([message('run', run('c')), message('run', run('d'))]);
  expect(ids()).toEqual(['a', 'b', 'c', 'd']);
  apply([message('synced', { resumed: false })]);
  expect(ids()).toEqual(['c', 'd']);
});

test('older runs of a query are in pages, until all are here or the stream begins again', async () => {
  const all = { order: 'changed' as const };
  const some = { ...all, word: ['x y'] };
  apply([message('run', run('c')), message('synced', { resumed: false, next: 'p1' })]);
  const asked: string[] = [];
  let during = (): void => {};
  const pages: Record<string, unknown> = {
    p1: { runs: [run('b'), run('c', { seq: 0 })], next: 'p2' }, p2: { runs: [run('a')] }, p3: { runs: [run('x')] },
    '': { runs: [run('w')], next: 'w2' }, w2: { runs: [] },
  };
  vi.stubGlobal('fetch', (url: string) => {
    const cursor = /cursor=(\w+)/.exec(url)?.[1] ?? '';
    asked.push(url);
    during();
    return Promise.resolve(pages[cursor] ? new Response(JSON.stringify(pages[cursor])) : new Response('{}', { status: 503 }));
  });
  try {
    await Promise.all([loadOlder(all), loadOlder(all)]); // one request
    expect([ids(), left(all), runs.get('c')?.seq, asked]).toEqual([['b', 'c'], true, 1, ['/v1/runs?order=changed&limit=100&cursor=p1']]);
    expect([left(undefined), left(some)]).toEqual([false, true]);
    expect([await loadAll(some), ids(), left(some), left(all)]).toEqual([true, ['b', 'c', 'w'], false, true]);
    expect(asked.slice(1)).toEqual(['/v1/runs?order=changed&word=x%20y&limit=100', '/v1/runs?order=changed&word=x%20y&limit=100&cursor=w2']);
    expect([await loadAll(all), ids(), left(all), left({})]).toEqual([true, ['a', 'b', 'c', 'w'], false, false]);
    await loadOlder(all);
    expect(asked.length).toBe(4);
    begin();
    apply([message('run', run('c')), message('synced', { resumed: false, next: 'p3' })]);
    expect(left(some)).toBe(true);
    during = () => apply([message('synced', { resumed: false, next: 'p4' })]); // what was asked for belongs to the stream before
    await loadOlder(all);
    during = () => {};
    expect([ids().includes('x'), left(all), await loadAll(all), olderFailed.value]).toEqual([false, true, false, true]);
  } finally {
    vi.unstubAllGlobals();
  }
});

test('a run that ended while the page was disconnected is news', () => {
  const seen: unknown[] = [];
  apply([message('run', run('a')), message('synced', { resumed: false })]);
  updates.add((before, after) => seen.push([before?.state, after?.state]));
  begin();
  apply([message('run', run('a', { state: 'failed' })), message('synced', { resumed: false })]);
  expect(seen).toEqual([['working', 'failed']]);
});

test('who shows a run hears that it is gone, also one that is not in the list', () => {
  const lost: unknown[] = [];
  apply([message('run', run('a')), message('run', run('b')), message('synced', { resumed: false })]);
  updates.add((before, after) => after ?? lost.push(before?.run));
  apply([message('gone', { run: 'a' }, '1'), message('gone', { run: 'old' }, '2')]);
  begin();
  apply([message('run', run('c')), message('synced', { resumed: false })]);
  expect(lost).toEqual(['a', 'old', 'b']);
});

test('an answer does not replace what is newer', () => {
  put(run('a', { seq: 5, title: 'new' }));
  put(run('a', { seq: 4, title: 'old' }));
  expect(runs.get('a')?.title).toBe('new');
});
