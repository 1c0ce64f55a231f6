import { expect, test, vi } from 'vitest';
import { ApiError, explained, type Run } from '../src/lib/api';
import { message } from '../src/overview/notify';
import { lineOf, stateOf } from '../src/overview/row';
import { commentsOf, Draft, draftOf, forgetDraft, lastTurn, queueText, refusedText, takesMessages, turnOf } from '../src/run/messages';

const run = (more: Partial<Run> = {}, conversation: Partial<NonNullable<Run['conversation']>> = {}): Run =>
  ({ run: 'T-1', agent: 'codex', state: 'working', seq: 1, conversation: { process: 1, turn: 3, waiting: 0, ...conversation }, ...more });
const idle = run({ state: 'input-required' }, { waits_for: 'message', last_turn: 'completed' });

test('a run between two turns is idle, one that asks is not', () => {
  expect(stateOf(idle).text).toBe('idle');
  expect([lineOf(idle, 0).text, lastTurn(idle), lastTurn(run())]).toEqual(['waits for a message', 'turn 3 completed', '']);
  expect(lastTurn(run({}, { last_turn: 'failed' }))).toBe('turn 3 was not completed');
  expect(message([idle]).body).toMatch(/ waits for a message$/);
  for (const other of [{ questions: ['q1'] }, { reason: 'needs agent' }, { agent: 'external' }]) expect(stateOf({ ...idle, ...other }).text).toBe('needs you');
  expect([turnOf(idle), turnOf(run()), turnOf(run({ state: 'input-required', questions: ['q1'] })), turnOf(run({ conversation: undefined }))]).toEqual([0, 3, 3, 0]);
});

test('a run that wakes for a message is in no turn yet', () => {
  const three = { completed: 2, failed: 1 };
  expect(turnOf(run({ turns: three }, { asleep: true, waiting: 1 }))).toBe(0);
  expect(turnOf(run({ turns: three }, { process: 2 }))).toBe(0); // its agent starts
  expect(queueText(run({ turns: three }, { process: 2, waiting: 1 }))).toBe('1 message waits for the agent');
  expect(turnOf(run({ turns: three }, { process: 2, turn: 4 }))).toBe(4);
});

test('only a run that is kept and goes on takes messages', () => {
  expect([idle, run(), run({ state: 'completed' }), run({ cancelRequested: true }), run({ conversation: undefined })].map(takesMessages)).toEqual([true, true, false, false, false]);
});

test('what waits, and for what', () => {
  const waits = (c: object, of: Partial<Run> = {}): string => queueText(run(of, c));
  expect([waits({}), waits({ waiting: 1 }), waits({ waiting: 2 })]).toEqual(['', '1 message waits for the end of turn 3', '2 messages wait for the end of turn 3']);
  expect(waits({ waiting: 2, held: true }, { state: 'input-required' })).toBe('2 messages are held: turn 3 was not completed');
  expect(waits({ waiting: 1, turn: 0 })).toBe('1 message waits for the agent');
});

test('a request has one key until it succeeded', () => {
  let made = 0;
  const draft = new Draft(() => `key ${++made}`);
  const first = draft.key('send', '', 'go on');
  expect(draft.key('send', '', 'stop')).not.toBe(first);
  draft.key('release');
  expect(draft.key('send', '', 'go on')).toBe(first); // a retry, whatever was done meanwhile
  draft.done('send', '', 'go on');
  expect(draft.key('send', '', 'go on')).not.toBe(first); // the same words once more
});

test('words that are typed again after the field was empty are another message', () => {
  let made = 0;
  const draft = new Draft(() => `key ${++made}`);
  const key = (): string => draft.key('send', '', 'go on');
  const end = draft.key('end');
  draft.type('go on');
  const first = key();
  draft.edit('m1', 'one');
  draft.type('');
  draft.clear();
  expect([draft.text.value, key()]).toEqual(['go on', first]); // its reply was lost: it is typed still
  draft.type(' ');
  expect([key() !== first, draft.key('end')]).toEqual([true, end]);
  const second = key();
  draft.type('go on now');
  draft.clear(); // it was accepted
  expect(key()).not.toBe(second);
});

test('comments have their key also after the page was loaded again, as long as they are the same', () => {
  const kept = new Map<string, string>();
  vi.stubGlobal('sessionStorage', { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) });
  try {
    let made = 0;
    const load = (): Draft => new Draft(() => `key ${++made}`, 'T-2');
    const key = (of: Draft): string => of.key(...commentsOf(of.comments.list.value));
    const draft = load();
    draft.comments.add({ place: 'a.go:1', quote: '> +a', text: 'first' });
    const first = key(draft);
    expect([first, key(load())]).toEqual(['key 1', 'key 2']); // it was not sent
    draft.comments.sending(first);
    expect([key(load()), load().comments.list.value.map((c) => c.text)]).toEqual([first, ['first']]);
    draft.comments.add({ place: 'a.go:2', quote: '> +b', text: 'later' });
    expect([key(draft), key(load())]).toEqual(['key 3', 'key 4']);
    draftOf('T-2').comments.sending('key 4');
    forgetDraft('T-2');
    expect([load().comments.list.value, draftOf('T-2').comments.list.value]).toEqual([[], []]);
  } finally {
    vi.unstubAllGlobals();
  }
});

test('a message is sent again as it was sent first: a key belongs to one request', () => {
  for (const now of [true, false]) {
    let made = 0;
    const draft = new Draft(() => `key ${++made}`);
    const first = draft.request(['send', '', 'stop'], now);
    expect(first).toEqual({ key: 'key 1', now });
    expect(draft.request(['send', '', 'stop'], !now)).toEqual(first);
    draft.done('send', '', 'stop');
    expect(draft.request(['send', '', 'stop'], !now)).toEqual({ key: 'key 2', now: !now });
  }
});

test('an edit takes the place of what was typed until it is over', () => {
  const draft = draftOf('T-1');
  draft.text.value = 'new';
  draft.edit('m1', 'one');
  draft.edit('m2', 'two');
  expect([draft.editing.value, draft.text.value]).toEqual(['m2', 'two']);
  draft.clear();
  expect([draft.editing.value, draftOf('T-1').text.value]).toEqual(['', 'new']);
  draft.edit('m2', 'two');
  draft.renew(); // it was sent meanwhile
  expect([draft.editing.value, draft.text.value]).toEqual(['', 'two']);
  draft.clear();
  expect(draft.text.value).toBe('new');
  for (let i = 0; i < 64; i++) draftOf(`other ${i}`);
  expect(draftOf('T-1').text.value).toBe('');
});

test('why a request was refused', () => {
  for (const status of [0, 503]) expect(refusedText(new ApiError(status, 'X', 'x'))).toMatch(/safe to try again/);
  expect(refusedText(new ApiError(409, 'CONFLICT', 'nothing is held\u202e'))).toBe('Refused: nothing is held⟨U+202E⟩.');
  expect(refusedText(new ApiError(400, 'INVALID', 'no', [{ field: 'text', problem: 'is too long' }]))).toBe('Refused: text: is too long.');
  expect(explained(new Error('odd'))).toBe('Error: odd');
});
