import { computed } from '@preact/signals';
import { expect, test, vi } from 'vitest';
import { here, now, serverNow, setServerTime } from '../src/lib/clock';
import { label, nameOf } from '../src/lib/keys';
import { parse, runPath, withPath } from '../src/lib/router';
import { iconURL, titleText } from '../src/lib/title';
import { message, newsOf, notify, notifying } from '../src/overview/notify';
import { blank, forbidden, parseLabels, parseSeconds, request } from '../src/overview/task';
import { agents } from '../src/lib/agents';
import type { Run, Worker } from '../src/lib/api';

agents.value = [{ kind: 'codex', short: 'codex', name: 'Codex' }];
const run = (more: Partial<Run>): Run => ({ run: 'T-1', agent: 'codex', state: 'working', seq: 1, ...more });

test('paths', () => {
  expect(parse('/')).toEqual({ name: 'overview' });
  expect(parse('/runs/T-local-1')).toEqual({ name: 'run', id: 'T-local-1' });
  expect(parse('/runs/T-local-1/')).toEqual({ name: 'run', id: 'T-local-1' });
  expect(parse('/runs/a/with/b')).toEqual({ name: 'with', left: 'a', right: 'b' });
  for (const path of ['/runs', '/runs/', '/runs/..%2fx', '/runs/<img>', '/runs/a/with', '/runs/a/with/b/c', '/x', '//evil.example', '/runs/%E0%A4%A'])
    expect(parse(path).name, path).toBe('unknown');
  expect([runPath('a-b_c'), withPath('a', 'b')]).toEqual(['/runs/a-b_c', '/runs/a/with/b']);
});

test('names of keys', () => {
  const key = (key: string, more = {}) => nameOf({ key, ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, ...more });
  expect([key('j'), key('?', { shiftKey: true }), key('G', { shiftKey: true }), key('Enter', { metaKey: true }), key('Tab', { shiftKey: true })])
    .toEqual(['j', '?', 'Shift+G', 'Ctrl+Enter', 'Shift+Tab']);
  expect(['ArrowDown', 'Shift+G', ' '].map(label)).toEqual(['↓', 'Shift+G', 'Space']);
});

test('the tab counts what needs a person', () => {
  expect(titleText('Fix it', { needs: 0, unseen: 0, failed: false })).toBe('Fix it · linesman');
  expect(titleText(undefined, { needs: 1, unseen: 2, failed: false })).toBe('(3) linesman');
  expect(titleText('', { needs: 0, unseen: 500, failed: true })).toBe('(99+) linesman');
  expect(iconURL({ needs: 0, unseen: 0, failed: false })).toBe('/favicon.svg');
  expect(new Set([iconURL({ needs: 1, unseen: 0, failed: true }), iconURL({ needs: 0, unseen: 1, failed: true }), iconURL({ needs: 0, unseen: 1, failed: false })]).size).toBe(3);
});

test('news are ends and questions, once', () => {
  expect(newsOf(run({}), run({ state: 'completed' }))).toBe('ended');
  expect(newsOf(run({}), run({ state: 'input-required' }))).toBe('needs');
  const asks = run({ doing: { phase: 'waiting-for-answer', since: '2026-11-23T12:00:00Z' } });
  expect([newsOf(run({}), asks), newsOf(asks, asks)]).toEqual(['needs', undefined]);
  expect(message([asks]).body).toBe('Codex needs an answer');
  expect(newsOf(run({ state: 'completed' }), run({ state: 'completed' }))).toBeUndefined();
  expect(newsOf(run({}), run({ state: 'cancelled' }))).toBeUndefined();
  expect(newsOf(undefined, run({ state: 'completed' }))).toBeUndefined();
  expect(newsOf(run({}), undefined)).toBeUndefined();
  expect(message([run({ state: 'failed', title: 'Fix it', workingDir: '/srv/shop' })])).toEqual({ title: 'Fix it', body: 'Codex failed · /srv/shop' });
  expect(message([run({ state: 'failed', title: 'a\u202eb', workingDir: '/c\u200fd' })])).toEqual({ title: 'a‹U+202E›b', body: 'Codex failed · /c‹U+200F›d' });
  expect(message([run({ state: 'failed' }), run({ state: 'completed' }), run({ state: 'completed' }), run({ state: 'input-required' })]))
    .toEqual({ title: '4 runs', body: '1 needs an answer, 1 failed, 2 completed' });
});

test('labels and times of the form', () => {
  expect(parseLabels('a=1, b=2\nurl=x=y  c=')).toEqual({ labels: { a: '1', b: '2', url: 'x=y', c: '' } });
  expect(parseLabels('a=1 nonsense').wrong).toContain('nonsense');
  expect(parseLabels('=x').wrong).toBeDefined();
  expect(parseLabels('note="two, words" x="').labels).toEqual({ note: 'two, words', x: '"' });
  expect(parseLabels('note="two" "x y"=z').labels).toEqual({ note: 'two', 'x y': 'z' });
  expect([parseLabels('""=x').wrong, parseLabels('x="a b').wrong]).toEqual(['“""=x” is not KEY=VALUE', '“b” is not KEY=VALUE']);
  expect([parseSeconds(''), parseSeconds('90'), parseSeconds('15m'), parseSeconds('2 h')]).toEqual([undefined, 90, 900, 7200]);
  expect(parseSeconds('soon')).toBeNaN();
});

test('a request has what was filled in, and a mode that writes is confirmed', () => {
  expect(request({ ...blank, task: 'Look' })).toEqual({ task: { task: 'Look' }, errors: {} });
  expect(Object.keys(request({ ...blank, mode: 'workspace-write', labels: 'x', timeout: '?' }).errors).sort()).toEqual(['confirm', 'labels', 'task', 'timeoutSec']);
  expect(request({ ...blank, task: 'Do', mode: 'danger-full-access', confirm: true, workingDir: ' /srv ', labels: 'a=b', timeout: '1m', skipGit: true }).task)
    .toEqual({ task: 'Do', mode: 'danger-full-access', confirm: true, workingDir: '/srv', labels: { a: 'b' }, timeoutSec: 60, skipGitRepoCheck: true });
});

test('a long text is the task, and one that is too long is said to be', () => {
  const task = 'ä'.repeat(12_000);
  expect(request({ ...blank, task })).toEqual({ task: { task }, errors: {} });
  expect(request({ ...blank, task: 'ä'.repeat(1 << 19) }).errors).toEqual({});
  expect(request({ ...blank, task: 'ä'.repeat(1 << 19) + '.' }).errors['task']).toMatch(/^At most 1.048.576 bytes, and these are 1.048.577$/);
});

test('only a run of an agent that can be live is', () => {
  const draft = { ...blank, task: 'Do', live: true, keep: true, ask: false, policy: ' ask edit\n\ndeny fetch' };
  expect(request(draft).task).toEqual({ task: 'Do' });
  agents.value = [{ kind: 'codex', short: 'codex', name: 'Codex', live: true }];
  expect(request(draft).task).toEqual({ task: 'Do', live: true, keep: true, ask: false, policy: ['ask edit', 'deny fetch'] });
  expect(request({ ...blank, task: 'Do', live: true }).task).toEqual({ task: 'Do', live: true });
  expect(request({ ...draft, live: false }).task).toEqual({ task: 'Do' });
});

test('a mode is forbidden if every worker that takes tasks is known to refuse it', () => {
  const worker = (slots: number, modes?: Worker['modes']): Worker =>
    ({ id: 'w', name: 'w', queue: 'default', slots, busy: 0, agents: [], lastSeenAt: '', modes });
  const careful = worker(2, ['read-only', 'workspace-write']);
  const bold = worker(1, ['read-only', 'workspace-write', 'danger-full-access']);
  expect(forbidden(undefined, 'danger-full-access')).toBe(false);
  expect(forbidden([], 'danger-full-access')).toBe(false);
  expect(forbidden([careful], 'danger-full-access')).toBe(true);
  expect(forbidden([careful], 'workspace-write')).toBe(false);
  expect(forbidden([careful, bold], 'danger-full-access')).toBe(false);
  expect(forbidden([careful, worker(1)], 'danger-full-access')).toBe(false); // of an earlier version
  expect(forbidden([careful, worker(0, bold.modes)], 'danger-full-access')).toBe(true);
});

test('a browser that has notifications in name only is found out', () => {
  vi.stubGlobal('Notification', class {
    constructor() {
      throw new TypeError('Illegal constructor');
    }
  });
  try {
    notifying.value = 'on';
    expect([notify({ title: 'a', body: 'b' }, 'tag', '/'), notifying.value]).toEqual([undefined, 'unsupported']);
  } finally {
    vi.unstubAllGlobals();
  }
});

test('what happened here is as old as this machine says, whatever the time of the server', async () => {
  vi.useFakeTimers();
  try {
    setServerTime(new Date(Date.now() - 600_000).toUTCString());
    const at = computed(here);
    now.value = serverNow();
    const before = Date.now();
    expect(at.value).toBe(before);
    await vi.advanceTimersByTimeAsync(5_000);
    now.value = serverNow();
    expect(at.value).toBe(before + 5_000);
  } finally {
    setServerTime(new Date().toUTCString());
    vi.useRealTimers();
  }
});
