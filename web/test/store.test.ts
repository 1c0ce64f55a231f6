import { beforeEach, expect, test } from 'vitest';
import type { Run } from '../src/lib/api';
import { apply, begin, put, runs, synced, updates } from '../src/overview/store';

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

test('a run that ended while the page was disconnected is news', () => {
  const seen: unknown[] = [];
  apply([message('run', run('a')), message('synced', { resumed: false })]);
  updates.add((before, after) => seen.push([before?.state, after?.state]));
  begin();
  apply([message('run', run('a', { state: 'failed' })), message('synced', { resumed: false })]);
  expect(seen).toEqual([['working', 'failed']]);
});

test('an answer does not replace what is newer', () => {
  put(run('a', { seq: 5, title: 'new' }));
  put(run('a', { seq: 4, title: 'old' }));
  expect(runs.get('a')?.title).toBe('new');
});
