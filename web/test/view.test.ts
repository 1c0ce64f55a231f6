import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { session, type Run } from '../src/lib/api';
import { runs, updates } from '../src/overview/store';
import { draftOf } from '../src/run/messages';
import { RunView } from '../src/run/view';

// A server with one run: what it answers for each path, in order; the last answer stays. `null`: no answer.

type Answer = { status?: number; body: unknown } | null;
let answers: Record<string, (Answer | Promise<Answer>)[]>;
let streams: ReadableStreamDefaultController<Uint8Array>[];

const record = (seq: number, more: Partial<Run> = {}): Answer => ({ body: { run: 'T-1', agent: 'codex', state: 'working', seq, ...more } });
const details = (prompt?: object): Answer => ({ body: { items: [{ detail: { prompt } }] } });
const settle = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);
const live = async (): Promise<void> => {
  streams.at(-1)!.enqueue(new TextEncoder().encode(': hello\n\n'));
  await settle();
};

beforeEach(() => {
  vi.useFakeTimers();
  session.value = { scopes: ['read', 'raw'], name: '', version: '1' };
  runs.clear();
  [answers, streams] = [{}, []];
  vi.stubGlobal('addEventListener', () => {});
  vi.stubGlobal('removeEventListener', () => {});
  vi.stubGlobal('document', { visibilityState: 'visible', addEventListener: () => {}, removeEventListener: () => {} });
  vi.stubGlobal('fetch', async (url: string, init: RequestInit) => {
    if ((init.headers as Record<string, string>)['Accept'] === 'text/event-stream') {
      return new Response(new ReadableStream<Uint8Array>({ start: (c) => void streams.push(c) }));
    }
    const of = answers[url.replace(/\?.*/, '')] ?? [];
    const answer = await (of.length > 1 ? of.shift() : of[0]);
    if (!answer) throw new TypeError('refused');
    return Response.json(answer.body, { status: answer.status ?? 200 });
  });
});

afterEach(() => {
  updates.clear();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const of = '/v1/runs/T-1';

test('the newest answer counts, whatever its number: RAW may have been recreated', async () => {
  const view = new RunView('T-1');
  answers[of] = [record(100), record(3, { state: 'completed' })];
  await view.refresh();
  await view.refresh();
  expect([view.run.value?.seq, view.run.value?.state]).toEqual([3, 'completed']);
});

test('an answer that is overtaken by a later one, or by a row of the stream, does not count', async () => {
  const view = new RunView('T-1');
  let late = (_: Answer): void => {};
  const first = new Promise<Answer>((done) => (late = done));
  answers[of] = [record(1), first, record(5)];
  answers[`${of}/detail`] = [details()];
  const close = view.start();
  await settle();
  const slow = view.refresh();
  await view.refresh();
  late(record(4));
  await slow;
  expect(view.run.value?.seq).toBe(5);
  const second = new Promise<Answer>((done) => (late = done));
  answers[of] = [second, record(8)];
  const another = view.refresh();
  for (const update of updates) update(undefined, { run: 'T-1', agent: 'codex', state: 'completed', seq: 7 });
  late(record(6));
  await another;
  expect(view.run.value?.seq).toBe(7);
  close();
});

test('details that could not be asked for are details, and the prompt is asked for again', async () => {
  const view = new RunView('T-1');
  answers[of] = [record(1)];
  answers[`${of}/detail`] = [null, details({ text: 'Do it.' })];
  const close = view.start();
  await settle();
  expect([view.feed.value, view.prompt.value]).toEqual(['detail', 'loading']);
  await live();
  expect(view.prompt.value).toEqual({ text: 'Do it.', live: undefined });
  close();
});

test('a feed that is opened again has nothing of the one before', async () => {
  const view = new RunView('T-1');
  let late = (_: Answer): void => {};
  answers[of] = [record(1)];
  answers[`${of}/detail`] = [details(), new Promise<Answer>((done) => (late = done)), details()];
  const close = view.start();
  await settle();
  const [before] = streams;
  const slow = view.open();
  await settle();
  before!.enqueue(new TextEncoder().encode(`data: ${JSON.stringify({ pos: '1.1', line: 1, part: 1, time: '', kind: 'status' })}\n\n`));
  await settle();
  expect(view.timeline.size).toBe(0);
  await view.open(); // a second time, meanwhile
  late({ body: { items: [], omitted: 'expired' } });
  await slow;
  await settle();
  expect([view.feed.value, view.expired.value, streams.length, view.stream.value?.state.value]).toEqual(['detail', false, 2, 'connecting']);
  close();
});

test('of a run that was removed nothing stays that was typed for it', async () => {
  const view = new RunView('T-1');
  answers[of] = [record(1), { status: 404, body: {} }];
  await view.refresh();
  draftOf('T-1').text.value = 'typed';
  await view.refresh();
  expect(draftOf('T-1').text.value).toBe('');
});

test('a run that is there again is followed again', async () => {
  const view = new RunView('T-1');
  answers[of] = [record(1), { status: 404, body: {} }, record(1)];
  answers[`${of}/detail`] = [details()];
  const close = view.start();
  await settle();
  await live();
  await view.refresh();
  expect([view.failure.value?.status, view.run.value, streams.length]).toEqual([404, undefined, 1]);
  await view.refresh();
  await settle();
  expect([view.failure.value, view.run.value?.seq, streams.length]).toEqual([undefined, 1, 2]);
  close();
});
