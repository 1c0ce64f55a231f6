import { afterEach, describe, expect, test, vi } from 'vitest';

// What the tests use of a browser: here that of Node, and in the bundle that of test/engine.

async function outcome(promise: Promise<unknown>): Promise<unknown> {
  try {
    return await promise;
  } catch (e) {
    return `failed: ${String(e)}`;
  }
}

test('text is decoded wherever its bytes are cut', () => {
  const text = 'aé€😀\u0000z';
  const bytes = new TextEncoder().encode(text);
  expect([...bytes]).toEqual([97, 195, 169, 226, 130, 172, 240, 159, 152, 128, 0, 122]);
  expect(new TextDecoder().decode(bytes)).toBe(text);
  for (let a = 0; a <= bytes.length; a++) {
    for (let b = a; b <= bytes.length; b++) {
      const decoder = new TextDecoder();
      const parts = [bytes.slice(0, a), bytes.slice(a, b), bytes.slice(b)].map((part) => decoder.decode(part, { stream: true }));
      expect(parts.join('') + decoder.decode()).toBe(text);
    }
  }
});

describe('a stream', () => {
  type Controller = ReadableStreamDefaultController<string>;
  function open(): { control: Controller; read: () => Promise<unknown> } {
    let control: Controller;
    const reader = new ReadableStream<string>({ start: (c) => void (control = c) }).getReader();
    return { control: control!, read: () => outcome(reader.read().then(({ done, value }) => [done, value])) };
  }

  test('has its chunks, and then its end', async () => {
    const { control, read } = open();
    control.enqueue('a');
    control.enqueue('b');
    control.close();
    expect([await read(), await read(), await read(), await read()]).toEqual([[false, 'a'], [false, 'b'], [true, undefined], [true, undefined]]);
    expect(await outcome((async () => control.enqueue('c'))())).toMatch(/^failed: TypeError/);
    expect(await outcome((async () => control.close())())).toMatch(/^failed: TypeError/);
  });

  test('is awaited', async () => {
    const { control, read } = open();
    const first = read();
    control.enqueue('a');
    expect(await first).toEqual([false, 'a']);
    const end = read();
    control.close();
    expect(await end).toEqual([true, undefined]);
  });

  test('that fails has no more chunks', async () => {
    const { control, read } = open();
    control.enqueue('a');
    control.error('broken');
    control.error('again');
    expect([await read(), await read()]).toEqual(['failed: broken', 'failed: broken']);
    const other = open();
    const first = other.read();
    other.control.error('broken');
    expect(await first).toBe('failed: broken');
  });
});

test('answers', async () => {
  const answer = Response.json({ a: [1] }, { status: 409, headers: { 'Retry-After': '7' } });
  expect([answer.status, answer.ok, answer.headers.get('retry-after'), answer.headers.get('Date'), await answer.json()]).toEqual([409, false, '7', null, { a: [1] }]);
  const empty = new Response(null, { status: 204 });
  expect([empty.status, empty.ok, empty.body]).toEqual([204, true, null]);
  expect(new Response('').status).toBe(200);
  expect(await outcome(new Response('').json())).toMatch(/^failed: SyntaxError/);
  const body = new ReadableStream<Uint8Array>({ start: () => {} });
  expect(new Response(body).body).toBe(body);
});

test('what is aborted is aborted once', () => {
  const abort = new AbortController();
  let calls = 0;
  const wrong = (): void => void (calls += 10);
  abort.signal.addEventListener('abort', () => void calls++);
  abort.signal.addEventListener('abort', wrong);
  abort.signal.removeEventListener('abort', wrong);
  expect(abort.signal.aborted).toBe(false);
  abort.abort();
  abort.abort();
  expect([abort.signal.aborted, calls]).toEqual([true, 1]);
  const error = new DOMException('why', 'AbortError');
  expect([error.name, error.message, error instanceof Error]).toEqual(['AbortError', 'why', true]);
});

describe('time', () => {
  afterEach(() => void vi.useRealTimers());

  test('passes where it is advanced, and timers fire in its order', async () => {
    vi.useFakeTimers();
    const begin = Date.now();
    const fired: string[] = [];
    const fire = (name: string): void => void fired.push(`${name} ${Date.now() - begin} ${new Date().getTime() - begin}`);
    setTimeout(() => fire('b'), 20);
    setTimeout(() => fire('c'), 20);
    setTimeout(() => { fire('a'); void Promise.resolve().then(() => setTimeout(() => fire('within'), 5)); }, 10);
    clearTimeout(setTimeout(() => fire('cleared'), 10));
    clearTimeout(undefined);
    const each = setInterval(() => { fire('each'); if (fired.length > 5) clearInterval(each); }, 9);
    setTimeout(() => fire('later'), 101);
    await vi.advanceTimersByTimeAsync(0);
    expect(fired).toEqual([]);
    await vi.advanceTimersByTimeAsync(100);
    expect(fired).toEqual(['each 9 9', 'a 10 10', 'within 15 15', 'each 18 18', 'b 20 20', 'c 20 20', 'each 27 27']);
    await vi.advanceTimersByTimeAsync(1);
    expect([fired.length, fired[7], Date.now() - begin]).toEqual([8, 'later 101 101', 101]);
    vi.useFakeTimers();
  });

  test('does not pass before it is faked', async () => {
    expect(await outcome((async () => vi.advanceTimersByTimeAsync(1))())).toMatch(/^failed: Error/);
  });
});

test('stubs are removed', () => {
  const was = globalThis.TextEncoder;
  vi.stubGlobal('TextEncoder', 1);
  vi.stubGlobal('TextEncoder', 2);
  vi.stubGlobal('isOnlyHere', 3);
  expect([globalThis.TextEncoder, (globalThis as Record<string, unknown>)['isOnlyHere']]).toEqual([2, 3]);
  vi.unstubAllGlobals();
  expect([globalThis.TextEncoder === was, 'isOnlyHere' in globalThis]).toEqual([true, false]);
});
