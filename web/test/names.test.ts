import { expect, test } from 'vitest';
import type { Run } from '../src/lib/api';
import { lineOf } from '../src/overview/row';
import { blank, request } from '../src/overview/task';
import { resultText } from '../src/questions/ask';
import { Comments } from '../src/run/comments';
import { type EventItem, fromEvent } from '../src/run/items';
import { toolName } from '../src/run/row';
import type { CallRow } from '../src/run/rows';

// Names that every object has are names like others: of tools, labels, runs, and of words of a later version.
const odd = ['__proto__', 'constructor', 'toString'];

test('a tool has its name', () => {
  const name = (name: string, item = 'tool_use'): unknown => toolName({ name, item } as CallRow);
  expect(odd.map((each) => name(each))).toEqual(odd);
  expect([name('a\u202eb'), name('a\u202eb', 'collab_tool_call')]).toEqual(['a‹U+202E›b', 'Sub-agent: a‹U+202E›b']);
  expect([name('bash'), name('Read'), name('spawn', 'collab_tool_call')]).toEqual(['Command', 'Read', 'Sub-agent: spawn']);
});

test('a label has its name', () => {
  const { task, errors } = request({ ...blank, task: 'Do', labels: 'constructor=a __proto__=b' });
  expect([JSON.stringify(task.labels), errors]).toEqual(['{"constructor":"a","__proto__":"b"}', {}]);
});

test('a run has its own comments, and a reason its words', () => {
  for (const each of odd) {
    const kept = new Map<string, string>();
    const store = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) };
    const comments = new Comments(each, store);
    expect(comments.list.value).toEqual([]);
    comments.add({ place: 'a.go:1', quote: '> +a', text: 'why' });
    expect(new Comments(each, store).list.value.map((c) => c.text)).toEqual(['why']);
    const run: Run = { run: 'r', agent: 'codex', state: 'failed', seq: 1, reason: each };
    expect([lineOf(run, 0).text, resultText({ run: 'r', state: 'working', outcome: each as never }, '')]).toEqual([each, 'Answered by you']);
  }
});

test('an item weighs what it has, not what all objects have', () => {
  const item = (): number => fromEvent({ seq: 1, kind: 'status', event: { agent_kind: 'codex', message: 'm' } } as EventItem).weight;
  const before = item();
  let after = 0;
  Object.defineProperty(Object.prototype, 'unlike', { value: Object.prototype, enumerable: true, configurable: true });
  try {
    after = item();
  } finally {
    Reflect.deleteProperty(Object.prototype, 'unlike');
  }
  expect(after).toBe(before);
});
