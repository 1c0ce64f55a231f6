import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Run } from '../src/lib/api';
import { notifying, startNotifications } from '../src/overview/notify';
import { apply, begin, leader, updates } from '../src/overview/store';

// A browser with another tab of the page: what that tab stores is in `kept`, and told by the event `storage`.

const kept = new Map<string, string>();
const listeners = new Map<string, (e: object) => void>();
let shown: string[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  kept.clear();
  shown = [];
  vi.stubGlobal('isSecureContext', true);
  vi.stubGlobal('localStorage', { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value), removeItem: (key: string) => void kept.delete(key) });
  vi.stubGlobal('Notification', class {
    static permission = 'granted';
    constructor(title: string) {
      shown.push(title);
    }
  });
  vi.stubGlobal('addEventListener', (name: string, f: (e: object) => void) => void listeners.set(name, f));
});

afterEach(() => {
  updates.clear();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test('what another tab switches on or off is so here', () => {
  startNotifications();
  const stored = (key: string | null) => listeners.get('storage')?.({ key });
  kept.set('linesman.notify', 'on');
  stored('linesman.theme');
  expect(notifying.value).not.toBe('on');
  stored('linesman.notify');
  expect(notifying.value).toBe('on');
  kept.clear();
  stored(null); // all of it was removed
  expect(notifying.value).toBe('off');
});

test('a tab that takes over tells only what is new and not seen', async () => {
  const now = Date.now();
  const at = (s: number): string => new Date(now + 1000 * s).toISOString();
  const run = (id: string, more: Partial<Run> = {}): Run => ({ run: id, agent: 'codex', state: 'working', seq: 1, title: id, ...more });
  const asks = (since: string): Partial<Run> => ({ doing: { phase: 'waiting-for-answer', since } });
  const rows = (...all: Run[]): void => apply([...all.map((r) => ({ id: '', event: 'run', data: JSON.stringify(r) })), { id: '', event: 'synced', data: '{"resumed":true}' }]);
  vi.stubGlobal('document', { visibilityState: 'hidden', hasFocus: () => false });
  notifying.value = 'on';
  startNotifications();
  rows(...['old', 'new', 'seen', 'asked', 'asks'].map((id) => run(id)));
  await vi.advanceTimersByTimeAsync(1000);
  leader.value = true;
  begin();
  rows(
    run('old', { state: 'completed', endedAt: at(-60), unseen: true }), run('new', { state: 'completed', endedAt: at(2), unseen: true }),
    run('seen', { state: 'completed', endedAt: at(2) }), run('asked', asks(at(-60))), run('asks', asks(at(2))),
  );
  await vi.advanceTimersByTimeAsync(1000);
  expect(shown).toEqual(['new', 'asks']);
  // What is older and arrives now, of a worker that was cut off, has been told by no tab.
  apply([{ id: '', event: 'run', data: JSON.stringify(run('asked', { state: 'completed', endedAt: at(-30), unseen: true })) }]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(shown).toEqual(['new', 'asks', 'asked']);
});
