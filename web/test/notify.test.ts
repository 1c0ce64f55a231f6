import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { notifying, startNotifications } from '../src/overview/notify';

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
