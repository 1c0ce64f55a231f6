import { beforeEach, expect, test, vi } from 'vitest';
import type { Run } from '../src/lib/api';
import type { Stream } from '../src/lib/stream';
import { markAllSeen } from '../src/overview/seen';
import { apply, begin, keepAll, left, loadAll, loadOlder, olderFailed, put, runs, stream, synced, updates } from '../src/overview/store';

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

test('a page of older runs does not replace what the stream has sent meanwhile', async () => {
  apply([message('run', run('c')), message('synced', { resumed: false, next: 'p1' })]);
  vi.stubGlobal('fetch', async () => {
    await Promise.resolve();
    apply([message('run', run('a', { seq: 3, title: 'new' })), message('run', run('b')), message('gone', { run: 'b' })]);
    return Response.json({ runs: [run('a', { seq: 3, title: 'old' }), run('b'), run('d')] });
  });
  try {
    await loadOlder({ order: 'changed' });
    expect([ids(), runs.get('a')?.title]).toEqual([['a', 'c', 'd'], 'new']);
  } finally {
    vi.unstubAllGlobals();
  }
});

test('runs that have passed by are left to the server, unless all are wanted', () => {
  const first = Array.from({ length: 100 }, (_, i) => message('run', run(`first ${i}`, { state: 'completed' })));
  const again = (): void => {
    begin();
    apply([...first, message('run', run('works')), message('synced', { resumed: false, next: 'p1' })]);
  };
  let restarts = 0;
  stream.value = { restart: () => (restarts++, again()) } as Stream;
  again();
  const pass = (n: number): void => {
    for (let i = 0; i < n; i++) apply([message('run', run(`${n} ${i}`)), message('run', run(`${n} ${i}`, { state: 'completed' }))]);
  };
  let most = 0;
  for (let i = 0; i < 5; i++) {
    pass(1_000 + i);
    most = Math.max(most, runs.size);
  }
  expect([restarts, most < 2_500, runs.size < 2_500, left({ order: 'changed' })]).toEqual([2, true, true, true]);
  keepAll.value = true;
  pass(3_000);
  expect([restarts, runs.size > 3_000]).toEqual([2, true]);
  keepAll.value = false;
  pass(1);
  expect([restarts, runs.size]).toEqual([3, 101]);
  stream.value = undefined;
});

test('all runs are marked as seen that a search shows, or none if they cannot be read', async () => {
  apply([
    message('run', run('a', { state: 'completed', unseen: true, title: 'fix it' })), message('run', run('b', { state: 'completed', unseen: true })),
    message('run', run('c', { state: 'completed', title: 'fix it' })), message('synced', { resumed: false, next: 'p1' }),
  ]);
  const asked: string[] = [];
  let down = true;
  vi.stubGlobal('fetch', (url: string) => {
    asked.push(url);
    if (url.endsWith('/seen')) return Promise.resolve(new Response(null, { status: 204 }));
    return Promise.resolve(down ? new Response('{}', { status: 503 }) : Response.json({ runs: [run('old', { state: 'failed', unseen: true, title: 'Fix' }), run('other', { state: 'failed', unseen: true })] }));
  });
  try {
    expect([await markAllSeen('fix'), asked]).toEqual([undefined, ['/v1/runs?order=changed&unseen=true&word=fix&limit=100']]);
    down = false;
    asked.length = 0;
    expect(await markAllSeen('fix')).toBe(0);
    expect(asked.slice(1).sort()).toEqual(['/v1/runs/a/seen', '/v1/runs/old/seen']);
    expect(ids().filter((id) => runs.get(id)!.unseen)).toEqual(['b', 'other']);
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
