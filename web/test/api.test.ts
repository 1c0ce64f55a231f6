import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { api, ApiError } from '../src/lib/api';

// A server that answers nothing, or the head of an answer alone.

let answers: 'nothing' | 'head' = 'nothing';

const never = (signal: AbortSignal | null | undefined): Promise<never> =>
  new Promise((_, fail) => {
    const stop = (): void => fail(new DOMException('', 'AbortError'));
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop);
  });

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('fetch', (_: string, { signal }: RequestInit) =>
    (answers === 'nothing' ? never(signal) : Promise.resolve({ status: 200, headers: { get: () => null }, json: () => never(signal) })));
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

/** What becomes of a request in a time. */
async function after(ms: number, request: Promise<unknown>): Promise<string> {
  let found = 'waits';
  request.then(() => (found = 'done'), (e: unknown) => (found = e instanceof ApiError ? `${e.status} ${e.message}` : (e as Error).name));
  await vi.advanceTimersByTimeAsync(ms);
  return found;
}

test('what is read has failed after a minute without all of its answer, what is changed has not', async () => {
  for (answers of ['nothing', 'head'] as const) {
    expect(await after(59_000, api.run('r'))).toBe('waits');
    expect(await after(60_000, api.run('r'))).toBe('0 linesman does not answer');
    expect(await after(600_000, api.cancel('r'))).toBe('waits');
  }
});

test('who gives up a request hears that alone', async () => {
  const abort = new AbortController();
  const request = api.run('r', abort.signal);
  abort.abort();
  expect([await after(0, request), await after(0, api.run('r', abort.signal))]).toEqual(['AbortError', 'AbortError']);
});
