import type { ComponentChildren, VNode } from 'preact';
import { expect, test, vi } from 'vitest';
import { type Run, session } from '../src/lib/api';
import { now } from '../src/lib/clock';
import type { RunView } from '../src/run/view';

/** The text of elements; `told`: of what a screen reader announces. */
function textOf(of: ComponentChildren, told: boolean): string {
  if (Array.isArray(of)) return of.map((each) => textOf(each, told)).join('');
  if (typeof of !== 'object' || of === null) return typeof of === 'string' || typeof of === 'number' ? String(of) : '';
  const { 'aria-hidden': hidden, children } = (of as VNode<Record<string, unknown>>).props;
  return told && hidden ? '' : textOf(children as ComponentChildren, told);
}

test('a notice has an age, which is not announced each time it changes', async () => {
  vi.stubGlobal('crypto', { getRandomValues: (bytes: Uint8Array) => bytes });
  try {
    const { Notices } = await import('../src/run/header');
    session.value = { scopes: ['read', 'raw'], name: '', version: '1' };
    const at = Date.parse('2026-11-23T12:00:00.000Z');
    const run: Run = { run: 'r', agent: 'codex', state: 'working', seq: 1, workerLost: true, activeAt: new Date(at).toISOString() };
    const stream = { state: { value: 'stale' }, heardAt: () => Date.now() - 90_000 };
    const view = { stream: { value: stream }, expired: { value: false } } as unknown as RunView;
    const texts = [60_000, 120_000].map((later) => {
      now.value = at + later;
      return [true, false].map((told) => textOf(Notices({ view, run }), told));
    });
    expect(texts.map(([told]) => told)).toEqual(Array(2).fill('linesman has not answered. Reconnecting.Its worker has been silent. The agent may still be working: its output arrives when the worker is back.'));
    expect(texts.map(([, all]) => /answered for 1m\..*silent for (\w+)\./.exec(all!)?.[1])).toEqual(['1m', '2m']);
  } finally {
    vi.unstubAllGlobals();
  }
});
