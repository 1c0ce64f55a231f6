import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { session } from '../src/lib/api';
import { backoff, openStream, Parser, pauseAfter, staleAfter, type Message, type Stream } from '../src/lib/stream';
import { turnTime } from '../src/lib/turns';

const whole = 'id: 1\nevent: run\ndata: {"a":1}\n\n: comment\n\nid: 2\nevent: run\ndata: two\ndata: lines\n\nevent: synced\ndata: {}\n\n';

test('events are the same wherever the text is cut', () => {
  const want = new Parser().push(whole);
  expect(want).toEqual([
    { id: '1', event: 'run', data: '{"a":1}' }, { id: '2', event: 'run', data: 'two\nlines' }, { id: '2', event: 'synced', data: '{}' },
  ]);
  for (let cut = 0; cut <= whole.length; cut++) {
    const parser = new Parser();
    expect([...parser.push(whole.slice(0, cut)), ...parser.push(whole.slice(cut))]).toEqual(want);
  }
  expect(new Parser().push(whole.replaceAll('\n', '\r\n'))).toEqual(want);
});

test('an unfinished event does not count for its id', () => {
  const parser = new Parser();
  parser.push('id: 1\ndata: a\n\nid: 2\ndata: b\n');
  expect(parser.lastId).toBe('1');
});

test('waits grow to twenty seconds', () => {
  expect([1, 2, 3, 6, 7, 50].map((n) => backoff(n, 1))).toEqual([500, 1000, 2000, 16_000, 20_000, 20_000]);
  expect(backoff(1, 0)).toBe(375);
});

// A browser with one server: each connection is a controller of its body.

interface Connection { url: string; headers: Record<string, string>; send: (text: string) => void; end: () => void; aborted: () => boolean }
let connections: Connection[];
let answers: (() => Response | Promise<Response>)[]; // in place of streams, first
let visible: DocumentVisibilityState;
let listeners: Map<string, Set<() => void>>;
let open: Stream[];

const on = (name: string, f: () => void): void => void (listeners.get(name) ?? listeners.set(name, new Set()).get(name)!).add(f);
const off = (name: string, f: () => void): void => void listeners.get(name)?.delete(f);
const emit = (name: string): void => listeners.get(name)?.forEach((f) => f());
const settle = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);

beforeEach(() => {
  vi.useFakeTimers();
  connections = [];
  answers = [];
  visible = 'visible';
  listeners = new Map();
  open = [];
  session.value = { scopes: ['read'], name: 'x', version: 'v' };
  vi.stubGlobal('addEventListener', on);
  vi.stubGlobal('removeEventListener', off);
  vi.stubGlobal('document', { get visibilityState() { return visible; }, addEventListener: on, removeEventListener: off });
  vi.stubGlobal('fetch', async (url: string, init: RequestInit) => {
    const answer = answers.shift();
    if (answer) return answer();
    let body: ReadableStreamDefaultController<Uint8Array>;
    const stream = new ReadableStream<Uint8Array>({ start: (c) => void (body = c) });
    init.signal!.addEventListener('abort', () => body.error(new DOMException('', 'AbortError')));
    connections.push({
      url, headers: init.headers as Record<string, string>, send: (text) => body.enqueue(new TextEncoder().encode(text)), end: () => body.close(),
      aborted: () => init.signal!.aborted,
    });
    return new Response(stream);
  });
});

afterEach(() => {
  open.forEach((stream) => stream.close());
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

function start(more: Partial<Parameters<typeof openStream>[0]> = {}): { stream: Stream; got: Message[] } {
  const got: Message[] = [];
  const stream = openStream({ url: '/x', onMessages: (batch) => got.push(...batch), ...more });
  open.push(stream);
  return { stream, got };
}

test('a stream that is cut resumes after the last id', async () => {
  const { stream, got } = start();
  await settle();
  expect(stream.state.value).toBe('connecting');
  connections[0]!.send('id: 7\ndata: a\n\nid: 8\nda');
  await settle();
  expect(stream.state.value).toBe('live');
  connections[0]!.end();
  await vi.advanceTimersByTimeAsync(600);
  expect(connections[1]!.headers['Last-Event-ID']).toBe('7');
  connections[1]!.send('id: 8\ndata: b\n\n');
  await settle();
  expect(got.map((m) => m.data)).toEqual(['a', 'b']);
  expect(stream.state.value).toBe('live');
});

test('silence is stale, and connects again', async () => {
  const { stream } = start();
  await settle();
  connections[0]!.send('id: 1\ndata: a\n\n');
  await vi.advanceTimersByTimeAsync(staleAfter - 1000);
  expect(connections).toHaveLength(1);
  connections[0]!.send(': still here\n\n');
  await vi.advanceTimersByTimeAsync(staleAfter - 1000);
  expect(connections).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(2000);
  expect([connections.length, connections[0]!.aborted(), stream.state.value]).toEqual([2, true, 'stale']);
  connections[1]!.send(': hello\n\n');
  await settle();
  expect(stream.state.value).toBe('live');
});

test('a server that does not answer is asked again, and at once when the browser is online', async () => {
  answers = Array.from({ length: 5 }, () => () => { throw new TypeError('refused'); });
  const { stream } = start();
  await settle();
  expect([stream.state.value, stream.error.value?.status]).toEqual(['disconnected', 0]);
  await vi.advanceTimersByTimeAsync(1600);
  expect(answers.length).toBeLessThan(4);
  answers = [];
  emit('online');
  await settle();
  expect(connections).toHaveLength(1);
});

test('a stream that fails after its first bytes is asked for less and less often, and says why', async () => {
  const { stream } = start();
  const fail = async (): Promise<void> => {
    connections.at(-1)!.send('retry: 2000\n\n');
    await settle();
    connections.at(-1)!.end();
    await settle();
  };
  const waits: number[] = [];
  await settle();
  for (let i = 0; i < 8; i++) {
    await fail();
    waits.push(stream.retryAt.value - Date.now());
    if (i > 0) expect([stream.state.value, stream.error.value?.message]).toEqual(['disconnected', 'linesman ends its answers early']);
    await vi.advanceTimersByTimeAsync(waits.at(-1)!);
  }
  expect(waits.slice(-2).every((ms) => ms >= 15_000)).toBe(true);
  await vi.advanceTimersByTimeAsync(15_000); // it has lasted
  await fail();
  expect([stream.state.value, stream.retryAt.value - Date.now() <= 500]).toEqual(['connecting', true]);
  await vi.advanceTimersByTimeAsync(500);
  await fail();
  await vi.advanceTimersByTimeAsync(1000);
  connections.at(-1)!.send('id: 1\ndata: a\n\n');
  await settle();
  await fail(); // and so it is with one that has said something
  expect([stream.state.value, stream.retryAt.value - Date.now() <= 500]).toEqual(['connecting', true]);
});

test('a 409 forgets what was there, and begins again', async () => {
  let reset = 0;
  answers = [() => Response.json({ detail: 'recreated' }, { status: 409 })];
  start({ lastEventId: '99', onReset: () => void reset++ });
  await vi.advanceTimersByTimeAsync(600);
  expect([reset, connections[0]!.headers['Last-Event-ID']]).toEqual([1, undefined]);
});

test('a 204 ends, a 403 fails, a 401 signs out', async () => {
  answers = [() => new Response(null, { status: 204 }), () => Response.json({ code: 'FORBIDDEN', detail: 'scope raw' }, { status: 403 }), () => new Response('', { status: 401 })];
  const done = start().stream;
  await settle();
  const refused = start().stream;
  await settle();
  expect([done.state.value, refused.state.value, refused.error.value?.message]).toEqual(['ended', 'failed', 'scope raw']);
  start();
  await settle();
  expect(session.value).toBeNull();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(connections).toHaveLength(0);
});

test('a hidden tab releases its connection, and resumes', async () => {
  const { stream, got } = start({ hidden: 'pause' });
  await settle();
  connections[0]!.send('id: 5\ndata: a\n\n');
  await settle();
  visible = 'hidden';
  emit('visibilitychange');
  await vi.advanceTimersByTimeAsync(pauseAfter + 60_000);
  expect([connections.length, connections[0]!.aborted()]).toEqual([1, true]);
  visible = 'visible';
  emit('visibilitychange');
  await settle();
  expect(connections[1]!.headers['Last-Event-ID']).toBe('5');
  connections[1]!.send('id: 6\ndata: b\n\n');
  await settle();
  expect([got.length, stream.state.value]).toEqual([2, 'live']);
});

test('a connection says whether there was none for a while: after a pause, silence or a failure', async () => {
  const opened: boolean[] = [];
  const { stream } = start({ hidden: 'pause', onOpen: (lost) => opened.push(lost) });
  await settle();
  visible = 'hidden';
  emit('visibilitychange');
  await vi.advanceTimersByTimeAsync(pauseAfter);
  visible = 'visible';
  emit('visibilitychange');
  await settle();
  expect(opened).toEqual([false, true]);
  await vi.advanceTimersByTimeAsync(staleAfter + 1000);
  expect(opened).toEqual([false, true, true]);
  connections.at(-1)!.end(); // a server that is soon back
  await vi.advanceTimersByTimeAsync(600);
  expect(opened).toEqual([false, true, true, true]);
  stream.restart();
  await settle();
  expect(opened).toEqual([false, true, true, true, false]);
});

test('a stream begins again from its beginning', async () => {
  const { stream, got } = start({ onMessages: (batch) => void (got.push(...batch), got.length === 1 && stream.restart()) });
  await settle();
  connections[0]!.send('id: 7\ndata: a\n\n');
  await settle();
  expect([connections.length, connections[0]!.aborted(), connections[1]!.headers['Last-Event-ID']]).toEqual([2, true, undefined]);
  connections[1]!.send('id: 1\ndata: b\n\n');
  await settle();
  expect([got.length, stream.state.value]).toEqual([2, 'live']);
});

test('a tab that was opened in the background connects when it is shown, or must be kept', async () => {
  visible = 'hidden';
  const { stream } = start({ hidden: 'pause' });
  emit('online');
  await vi.advanceTimersByTimeAsync(60_000);
  expect([connections.length, stream.state.value]).toEqual([0, 'connecting']);
  visible = 'visible';
  emit('visibilitychange');
  await settle();
  expect(connections).toHaveLength(1);
  visible = 'hidden';
  start({ hidden: () => 'keep' });
  start();
  const kept = start({ hidden: 'pause' }).stream;
  await settle();
  expect(connections).toHaveLength(3);
  kept.retry(); // it is to notify from now on
  await settle();
  expect(connections).toHaveLength(4);
});

// The locks that all tabs share: those that are held, by name, each with those that wait for it.
function shareLocks(): Map<string, (() => void)[]> {
  const held = new Map<string, (() => void)[]>();
  const grant = async (name: string, body: () => Promise<void>): Promise<void> => {
    await body();
    const next = held.get(name)!.shift();
    if (next) next();
    else held.delete(name);
  };
  vi.stubGlobal('navigator', {
    locks: {
      query: async () => ({ held: [...held.keys()].map((name) => ({ name })), pending: [...held].flatMap(([name, all]) => all.map(() => ({ name }))) }),
      request: (name: string, { signal }: { signal: AbortSignal }, body: () => Promise<void>): Promise<void> => {
        const waits = held.get(name);
        if (!waits) {
          held.set(name, []);
          return grant(name, body);
        }
        return new Promise((done, fail) => {
          const next = (): void => void grant(name, body).then(done, fail);
          waits.push(next);
          signal.addEventListener('abort', () => {
            if (!waits.includes(next)) return;
            waits.splice(waits.indexOf(next), 1);
            fail(new DOMException('', 'AbortError'));
          });
        });
      },
    },
  });
  return held;
}

test('streams of all tabs take turns with few connections, and lose nothing', async () => {
  const held = shareLocks();
  const live = (): number => connections.filter((c) => !c.aborted()).length;
  const of = (url: string): Connection[] => connections.filter((c) => c.url === url);
  const lost: boolean[] = [];
  for (const url of ['/a', '/b', '/c', '/d', '/e']) {
    start({ url, hidden: 'pause', onOpen: (how) => lost.push(how) });
    await settle();
  }
  start({ url: '/notifies' });
  await settle();
  expect([live(), of('/e').length]).toEqual([5, 0]);
  of('/a')[0]!.send('id: 3\ndata: a\n\n');
  for (let i = 0; i < 4; i++) {
    await vi.advanceTimersByTimeAsync(turnTime);
    expect(live()).toBe(5);
  }
  expect(lost).toEqual(lost.map(() => false));
  expect([of('/a').length > 1, of('/a').at(-1)!.headers['Last-Event-ID'], of('/e').length > 0, of('/notifies').length]).toEqual([true, '3', true, 1]);
  open.forEach((stream) => stream.close());
  await settle();
  expect([live(), held.size]).toEqual([0, 0]);
});

test('a turn goes on until something has arrived, but not for ever', async () => {
  shareLocks();
  const of = (url: string): Connection[] => connections.filter((c) => c.url === url);
  for (const url of ['/quiet', '/b', '/c', '/d', '/e', '/f', '/g']) {
    start({ url, hidden: 'pause' });
    await settle();
  }
  const { got } = start({ url: '/slow', hidden: 'pause' });
  let [last, age]: [Connection | undefined, number] = [undefined, 0];
  const seconds = async (n: number): Promise<void> => {
    for (let i = 0; i < n; i++) {
      await vi.advanceTimersByTimeAsync(1000);
      const slow = of('/slow').at(-1);
      [last, age] = [slow, slow === last ? age + 1 : 0];
      if (age === 5 && slow?.aborted() === false) slow.send('id: 1\ndata: a\n\n'); // what the server needs to find it
    }
  };
  await seconds(60);
  expect(got.length > 0).toBe(true);
  await seconds(600);
  expect([of('/quiet').length > 20, of('/slow').length > 20, got.length > 10]).toEqual([true, true, true]);
});

test('a hidden tab that keeps its stream has it', async () => {
  start({ hidden: () => 'keep' });
  await settle();
  visible = 'hidden';
  emit('visibilitychange');
  await vi.advanceTimersByTimeAsync(pauseAfter + 1000);
  expect(connections[0]!.aborted()).toBe(false);
});

test('a closed stream asks for nothing', async () => {
  const { stream } = start();
  await settle();
  stream.close();
  emit('online');
  await vi.advanceTimersByTimeAsync(60_000);
  expect([connections.length, connections[0]!.aborted()]).toEqual([1, true]);
});
