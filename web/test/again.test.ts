import { expect, test } from 'vitest';
import { agents } from '../src/lib/agents';
import type { Run } from '../src/lib/api';
import { parseLabels } from '../src/overview/task';
import { again } from '../src/run/again';

const run = (more: Partial<Run> = {}): Run => ({ run: 'r', agent: 'codex', state: 'failed', source: 'queue', seq: 1, ...more });
agents.value = [{ kind: 'codex', short: 'codex', name: 'Codex' }];
const prompt = { head: 'Fix the test.\nIt fails.' };

test('a run is run again as it was', () => {
  const of = run({ workingDir: '/srv', mode: 'workspace-write', model: 'm', title: 'Fix the test.', labels: { team: 'a', 'linesman.caller': 'ci' } });
  expect(again(of, prompt, true)).toEqual({ task: { agent: 'codex', workingDir: '/srv', mode: 'workspace-write', model: 'm', task: prompt.head, title: '', labels: 'team=a', live: false, keep: false, ask: true, policy: '' } });
  expect(again(run({ title: 'Named' }), prompt, true).task).toMatchObject({ title: 'Named', mode: 'read-only' });
});

test('the labels of a run are those of its form', () => {
  const labels = {
    team: 'a', note: 'hello world', list: 'x,y', quoted: '"so"', path: 'C:\\a b', open: '"', empty: '', eq: 'a=b', last: 'a\\', both: '\\"', 'my key': 'v', 'k"': 'w', 'a=b': 'c', wide: 'a\u00a0b',
  };
  const text = again(run({ labels }), prompt, true).task!.labels!;
  expect(text).toContain('team=a note="hello world" ');
  expect(parseLabels(text)).toEqual({ labels });
});

test('a live run is run again live, with its rules', () => {
  const conversation = { process: 1, turn: 2, waiting: 0 };
  expect(again(run({ conversation }), { ...prompt, live: { policy: ['ask edit', 'deny fetch'] } }, true).task).toMatchObject({ live: true, keep: true, ask: false, policy: 'ask edit\ndeny fetch' });
  expect(again(run(), { ...prompt, live: { ask: true } }, true).task).toMatchObject({ live: true, keep: false, ask: true, policy: '' });
  expect(again(run({ conversation }), prompt, true).task).toMatchObject({ live: true, keep: true, ask: true }); // of a version that did not record it
});

test('or it says why not', () => {
  const why = (of: Partial<Run>, p: Parameters<typeof again>[1] = prompt, raw = true): string | undefined => again(run(of), p, raw).why;
  expect([
    why({ source: 'pipe' }), why({ agent: 'codex_cloud' }), why({}, prompt, false), why({}, 'loading'), why({}, 'expired'), why({}, 'none'),
    why({}, { head: 'a', omittedBytes: 5 }), why({}, { head: 'use [redacted]' }), why({}, { head: 'a', live: { policy: ['deny execute: [redacted]'] } }), why({}),
  ]).toEqual([
    'linesman did not start its agent', 'its agent takes no tasks', 'its prompt needs the scope raw', 'its prompt is not read yet', 'its prompt has expired with the raw log',
    'its prompt is not recorded', 'its prompt is longer than what is kept of it here', 'its prompt has a secret, which is not shown', 'its prompt has a secret, which is not shown', undefined,
  ]);
});
