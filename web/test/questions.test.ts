import { beforeEach, expect, test, vi } from 'vitest';
import { ApiError, session, type Question, type Run } from '../src/lib/api';
import { agents } from '../src/lib/agents';
import { revealed } from '../src/lib/plaintext';
import { questionPath } from '../src/lib/router';
import { questionMessage } from '../src/overview/notify';
import { apply, begin, runs, synced } from '../src/overview/store';
import { actOf, buttonName, byAge, choicesOf, dueText, headOf, indentJSON, keyChoice, permits, type Press, questionsOf, refusal, resultText, settled, wantedOf } from '../src/questions/ask';
import { boundsText, contentOf, fieldsOf, initialOf, textField, type Field } from '../src/questions/form';
import { arrivals, close, follow, inbox, unread, waiting, typedOf } from '../src/questions/store';
import { conversationWords } from '../src/run/conversation';

agents.value = [{ kind: 'codex', short: 'codex', name: 'Codex' }];
const at = Date.parse('2026-11-23T12:00:00.000Z');
const run = (id: string, questions?: string[]): Run => ({ run: id, agent: 'codex', state: questions ? 'input-required' : 'working', seq: 1, questions });
const options = [{ id: 'y', name: 'Yes', kind: 'allow_once' }, { id: 'ya', name: 'Always', kind: 'allow_always' }, { id: 'n', name: 'No', kind: 'reject_once' }];
const question = (more: Partial<Question> = {}): Question => ({ run: 'T-1', id: 'q1', kind: 'permission', agentName: 'codex', runTitle: 'Fix it', tool: 'execute', command: 'rm -rf /', askedAt: '2026-11-23T11:00:00.000Z', options, ...more });

test('questions are ordered by age, those that are not read yet come last', () => {
  const entries = [
    { run: 'b', id: 'q10' }, { run: 'b', id: 'q9' }, { run: 'b', id: 'q1', question: question({ askedAt: '2026-11-23T11:00:02.000Z' }) },
    { run: 'c', id: 'q2', question: question() }, { run: 'a', id: 'q2', question: question() }, { run: 'a', id: 'q1', question: question() },
  ];
  expect(entries.sort(byAge).map((e) => `${e.run}/${e.id}`)).toEqual(['a/q1', 'a/q2', 'c/q2', 'b/q1', 'b/q9', 'b/q10']);
  expect([...wantedOf([run('a', ['q1', 'q2']), run('b'), run('c', [])]).keys()]).toEqual(['a/q1', 'a/q2']);
});

test('what an agent asks for is told by the kind of the tool, never by its words', () => {
  expect([headOf(question()), headOf(question({ tool: 'constructor' })), headOf(question({ kind: 'form', agentName: undefined }))])
    .toEqual(['Codex asks to run a command', 'Codex asks to use a tool', ' asks you something']);
  expect(actOf({ kind: 'permission', tool: null })).toBe('use a tool');
  const told = questionMessage(question({ title: 'secret', workingDir: '/srv/shop' }));
  expect(told).toEqual({ title: 'Fix it: run a command?', body: 'Codex waits for your answer · /srv/shop' });
  expect(questionPath('T-1', 'q3')).toBe('/runs/T-1?q=q3');
});

test('options that deny come first, those that last are apart, and one can always deny', () => {
  const kinds = (q: Question): unknown => [choicesOf(q).once.map((o) => o.id), choicesOf(q).lasting.map((o) => o.id)];
  expect(kinds(question())).toEqual([['n', 'y'], ['ya']]);
  expect(kinds(question({ options: [{ id: 'x', name: 'X', kind: 'odd' }] }))).toEqual([['deny'], ['x']]);
  expect(kinds(question({ options: undefined }))).toEqual([['deny'], []]);
  expect([...options, { id: 'x', name: '', kind: 'odd' }].map(permits)).toEqual([true, true, false, true]);
  expect(buttonName({ id: 'x', name: '', kind: 'constructor' })).toEqual({ text: 'another answer of the agent', whole: true });
  expect(buttonName({ id: 'x', name: 'a\u202eb\n c', kind: 'allow_once' })).toEqual({ text: 'a⟨U+202E⟩b c', whole: true });
  expect(buttonName({ id: 'x', name: 'w'.repeat(500), kind: 'allow_once' }).whole).toBe(false);
});

test('a key answers only the question that was there, and nothing while one types', () => {
  const press = (key: string, more: Partial<Press> = {}): Press => ({ key, ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, repeat: false, isComposing: false, ...more });
  const now = { typing: false, shown: settled };
  const key = (p: Press, q = question(), how = now): unknown => keyChoice(p, q, how)?.id;
  expect([key(press('a')), key(press('d')), key(press('x')), key(press('Enter'))]).toEqual(['y', 'n', undefined, undefined]);
  for (const more of [{ ctrlKey: true }, { metaKey: true }, { altKey: true }, { shiftKey: true }, { repeat: true }, { isComposing: true }]) expect(key(press('a', more))).toBeUndefined();
  expect([key(press('a'), question(), { typing: true, shown: 9999 }), key(press('a'), question(), { typing: false, shown: settled - 1 })]).toEqual([undefined, undefined]);
  const two = question({ options: [...options, { id: 'y2', name: 'Yes, elsewhere', kind: 'allow_once' }] });
  expect([key(press('a'), two), key(press('d'), two)]).toEqual([undefined, 'n']);
  const lasting = question({ options: [{ id: 'ya', name: 'Always', kind: 'allow_always' }] });
  expect([key(press('a'), lasting), key(press('d'), lasting)]).toEqual([undefined, 'deny']);
  const form = question({ kind: 'form', options: undefined });
  expect([key(press('a'), form), key(press('d'), form)]).toEqual([undefined, 'decline']);
});

test('what a program asks takes a text', () => {
  const row = { ...run('e'), agent: 'external', state: 'input-required' } as Run;
  expect([questionsOf(row), questionsOf({ ...row, state: 'completed' }), questionsOf({ ...row, agent: 'codex' }), questionsOf(run('a', ['q2']))]).toEqual([['q1'], [], [], ['q2']]);
  const q = question({ kind: 'text', agentName: 'writer', prompt: 'Which?', options: undefined });
  expect([headOf(q), actOf(q)]).toEqual(['A program asks you something', 'ask you something']);
  expect(contentOf(textField, new Map([['text', ' yes ']])).content).toEqual({ text: ' yes ' });
  expect(contentOf(textField, initialOf(textField)).errors.get('text')).toBe('is required');
  expect(refusal(new ApiError(409, 'ENDED', 'it has ended'), q)).toMatchObject({ gone: true });
});

test('when nobody answers', () => {
  const due = (s: number, more = {}): unknown => dueText(question({ dueAt: new Date(at + s * 1000).toISOString(), ...more }), at).text;
  expect([due(3240), due(61), due(86_400), due(-1)]).toEqual(['Denied in 54 min unless answered', 'Denied in 61 s unless answered', 'Denied in 24 h unless answered', 'Denied: nobody has answered in time']);
  expect([due(300, { kind: 'form' }), due(0, { dueAt: undefined })]).toEqual(['Cancelled in 5 min unless answered', 'Waits until it is answered']);
});

test('what came of an answer', () => {
  const answered = { run: 'T-1', state: 'working' as const, outcome: 'allow', by: 'phone', delivered: true };
  expect([resultText(answered, 'phone'), resultText({ ...answered, by: 'owner', outcome: 'deny' }, ''), resultText({ ...answered, delivered: false }, 'other')])
    .toEqual(['Allowed by you', 'Denied by you', 'Allowed by phone. The agent gets the answer when its worker is back']);
  const conflict = refusal(new ApiError(409, 'CONFLICT', 'question q1 is answered: the answer was n, by alice over rest'), question());
  expect(conflict).toEqual({ text: 'Your answer does not count: question q1 is answered: the answer was “No”, by alice over rest.', gone: true, unsure: false });
  for (const status of [0, 503]) expect(refusal(new ApiError(status, 'X', 'away'), question())).toMatchObject({ gone: false, unsure: true });
  expect(refusal(new ApiError(403, 'FORBIDDEN', 'no'), question())).toMatchObject({ gone: false, unsure: false });
});

test('JSON is shown over lines, with all of its characters', () => {
  expect(indentJSON('{"a":[1, -2e3,{}],"b":"x\\"{,}:","a":[]}')).toBe('{\n  "a": [\n    1,\n    -2e3,\n    {}\n  ],\n  "b": "x\\"{,}:",\n  "a": []\n}');
  for (const text of ['{"cut":"of', ']]}', '"', '{"é😀":"\\u202e"}', '[['.repeat(500)]) expect(indentJSON(text).replace(/\s/g, '')).toBe(text.replace(': ', ':'));
});

test('no character of a question is unseen', () => {
  expect(revealed('a\tb\nc d\u3000e é😀')).toBe('a\tb\nc d\u3000e é😀');
  for (const c of ['\0', '\x1b', '\x7f', '\xa0', '\xad', '\u061c', '\u180e', '\u200b', '\u200d', '\u202e', '\u2028', '\u2066', '\ue000', '\ufeff', '\u{e0041}', '\u{f0000}', '\ud800'])
    expect(revealed(c)).toBe(`⟨U+${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}⟩`);
  expect(revealed('\x1b[31mred')).toBe('⟨U+001B⟩[31mred');
});

const schema = {
  type: 'object', required: ['db', 'n'],
  properties: {
    db: { oneOf: [{ const: 'pg', title: 'Postgres' }, { const: 'lite' }], title: 'Database' }, n: { type: 'integer', minimum: 0, maximum: 5, default: 2 }, f: { type: 'number' },
    s: { type: 'string', minLength: 2, maxLength: 4 }, b: { type: 'boolean', default: true }, e: { type: 'string', enum: ['x', 'y'], default: 'y' },
  },
};

test('a form is made from its schema', () => {
  const fields = fieldsOf(schema) as Field[];
  expect(fields.map((f) => [f.name, f.title, f.kind, f.required, f.initial, boundsText(f)])).toEqual([
    ['db', 'Database', 'choice', true, '', ''], ['n', 'n', 'integer', true, '2', '0 to 5'], ['f', 'f', 'number', false, '', ''],
    ['s', 's', 'text', false, '', '2 to 4 characters'], ['b', 'b', 'boolean', false, 'true', ''], ['e', 'e', 'choice', false, '1', ''],
  ]);
  expect(fields[0]!.choices).toEqual([{ value: 'pg', name: 'Postgres', about: '' }, { value: 'lite', name: 'lite', about: '' }]);
  const with_ = (...more: [string, string][]): unknown => {
    const { content, errors } = contentOf(fields, new Map([...initialOf(fields), ...more]));
    return [content, Object.fromEntries(errors)];
  };
  expect(with_()).toEqual([{ n: 2, b: true, e: 'y' }, { db: 'is required' }]);
  expect(with_(['db', '1'], ['f', '-1.5e3'], ['s', '😀😀'], ['b', '']))
    .toEqual([{ db: 'lite', n: 2, f: -1500, s: '😀😀', b: false, e: 'y' }, {}]);
  expect(with_(['db', '0'], ['n', '6'], ['f', 'x'], ['s', 'abcde'])).toEqual([{ db: 'pg', b: true, e: 'y' }, { n: 'must be at most 5', f: 'must be a number', s: 'must be at most 4 characters' }]);
  expect(with_(['db', '0'], ['n', '1.5'], ['s', 'a'])).toEqual([{ db: 'pg', b: true, e: 'y' }, { n: 'must be a whole number', s: 'must be at least 2 characters' }]);
});

test('several are chosen of a list', () => {
  const items = { anyOf: [{ const: 'a', title: 'A' }, { const: 'b', title: 'B', description: 'bee' }, { const: 'c', title: 'C' }] };
  const fields = fieldsOf({
    properties: {
      two: { type: 'array', title: 'Two', items, minItems: 1, maxItems: 2, default: ['c', 'z', 'a'] }, any: { type: 'array', items: { type: 'string', enum: ['x', 'y'] }, minItems: 0 },
      none: { type: 'array', items, minItems: null }, one: { type: 'string', enum: null, oneOf: null, title: null },
    },
    required: ['two', 'none'],
  }) as Field[];
  expect(fields.map((f) => [f.title, f.kind, f.choices.length, f.initial, boundsText(f)])).toEqual([
    ['Two', 'choices', 3, '0,2', '1 to 2 of these'], ['any', 'choices', 2, '', ''], ['none', 'choices', 3, '', ''], ['one', 'text', 0, '', ''],
  ]);
  const with_ = (...more: [string, string][]): unknown => {
    const { content, errors } = contentOf(fields, new Map([...initialOf(fields), ...more]));
    return [content, Object.fromEntries(errors)];
  };
  expect(with_()).toEqual([{ two: ['a', 'c'], none: [] }, {}]);
  expect(with_(['two', '1'], ['any', '0,1'], ['none', '2'])).toEqual([{ two: ['b'], any: ['x', 'y'], none: ['c'] }, {}]);
  expect(with_(['two', ''])).toEqual([{ none: [] }, { two: 'is required' }]);
  expect(with_(['two', '0,1,2'])).toEqual([{ none: [] }, { two: 'must have at most 2' }]);
});

test('a form that cannot be shown can only be declined', () => {
  const why = (s: unknown): boolean => typeof fieldsOf(s) === 'string';
  for (const bad of [undefined, null, [], 'x', { type: 'array' }, { properties: [] }, { properties: { a: { type: 'array' } } }, { properties: { a: { type: 'array', items: { type: 'string' } } } }, { properties: { a: { type: 'array', items: { enum: [[]] } } } }, { properties: { a: { type: ['string', 'null'] } } }, { properties: { a: true } },
    { properties: { a: { $ref: '#' } } }, { properties: { a: { enum: [] } } }, { properties: { a: { enum: [{}] } } }, { properties: { a: { oneOf: [{ type: 'string' }] } } }, { required: ['a'] }]) expect(why(bad)).toBe(true);
  expect([why({}), why({ type: 'object', properties: {} })]).toEqual([false, false]);
  expect(fieldsOf({ properties: { 'a\u202e': { type: 'object' } } })).toBe('its field “a⟨U+202E⟩” is of a kind that this page does not know');
});

test('names of fields are names, whatever they are', () => {
  const hostile = JSON.parse('{"properties":{"__proto__":{"type":"string","title":"\\u202ex"},"constructor":{"type":"number"}},"required":["__proto__"]}') as unknown;
  const fields = fieldsOf(hostile) as Field[];
  expect(fields.map((f) => [f.name, f.title, f.required])).toEqual([['__proto__', '⟨U+202E⟩x', true], ['constructor', 'constructor', false]]);
  expect(JSON.stringify(contentOf(fields, new Map([['__proto__', 'v'], ['constructor', '1']])).content)).toBe('{"__proto__":"v","constructor":1}');
});

test('events of questions are told in words', () => {
  const words = (message: string, data: object): unknown => conversationWords({ agent_kind: 'codex', message, data });
  expect(words('permission asked', { question: { id: 'q1', kind: 'permission', tool: 'edit' } })).toBe('The agent asks to edit files: q1');
  expect(words('people asked', { asked: { id: 'q1', kind: 'permission', due: null } })).toBe('People are asked: q1, without a limit');
  expect(words('people asked', { asked: { id: 'q1', kind: 'form', due: at } })).toMatch(/^People are asked: q1, cancelled at \d\d:\d\d:\d\d unless answered$/);
  expect(['person', 'policy', 'timeout', 'cancel', null, 'constructor'].map((by) => words('answered', { answer: { id: 'q1', outcome: 'deny', by } })))
    .toEqual(['Denied by a person: q1', 'Denied by the policy: q1', 'Denied, nobody answered in time: q1', 'Denied, the turn was cancelled: q1', 'Denied: q1', 'Denied: q1']);
  expect(words('question withdrawn', { answer: { id: 'q2', outcome: 'cancelled', by: 'agent' } })).toBe('Withdrawn by the agent: q2');
  expect([words('answered', {}), words('turn started', {})]).toEqual([undefined, undefined]);
});

// The store, with a server.

let asked: string[] = [];
let served: Question[] = [];
let status = 200;

const message = (event: string, data: unknown) => ({ id: '', event, data: JSON.stringify(data) });
const rows = (...all: Run[]): void => {
  begin();
  apply([...all.map((r) => message('run', r)), message('synced', { resumed: false })]);
  follow();
};
const shown = (): unknown => inbox.value.map((e) => [e.key, e.closed?.text ?? (e.question ? 'open' : 'unread')]);
const settle = async (): Promise<void> => {
  for (let i = 0; i < 20; i++) await Promise.resolve();
};

beforeEach(async () => {
  vi.useFakeTimers();
  vi.stubGlobal('performance', { now: () => Date.now() });
  vi.stubGlobal('fetch', (url: string) => {
    asked.push(url);
    return Promise.resolve(new Response(JSON.stringify(status === 200 ? { requests: served } : { detail: 'away' }), { status }));
  });
  session.value = { scopes: ['read', 'answer'], name: '', version: '1' };
  status = 200;
  served = [];
  runs.clear();
  synced.value = false;
  follow();
  await vi.advanceTimersByTimeAsync(60_000);
  asked = [];
  arrivals.clear();
});

test('questions are read when rows name them, and are gone when no row does', async () => {
  const news: string[] = [];
  arrivals.add((q) => news.push(`${q.run}/${q.id}`));
  served = [question()];
  rows(run('T-1', ['q1']), run('T-2'));
  expect([shown(), asked]).toEqual([[['T-1/q1', 'unread']], ['/v1/questions']]);
  await settle();
  expect([shown(), waiting.value, news]).toEqual([[['T-1/q1', 'open']], 1, []]); // it was there before the page
  follow();
  follow();
  expect(asked.length).toBe(1);
  served = [question(), question({ run: 'T-2', id: 'q7', askedAt: '2026-11-23T10:00:00.000Z' })];
  rows(run('T-1', ['q1']), run('T-2', ['q7']));
  await settle();
  expect([shown(), news, asked.length]).toEqual([[['T-2/q7', 'open'], ['T-1/q1', 'open']], ['T-2/q7'], 2]);
  rows(run('T-1'), run('T-2', ['q7']));
  expect([shown(), asked.length]).toEqual([[['T-2/q7', 'open']], 2]);
});

test('one that cannot be read is asked for again, and no longer than it is open', async () => {
  status = 503;
  rows(run('T-1', ['q1']));
  await settle();
  expect([unread.value, asked.length]).toEqual(['away', 1]);
  follow();
  expect(asked.length).toBe(1);
  status = 200;
  served = [question()];
  await vi.advanceTimersByTimeAsync(600);
  expect([unread.value, shown(), asked.length]).toEqual(['', [['T-1/q1', 'open']], 2]);
  served = [];
  rows(run('T-1', ['q2']));
  await settle();
  rows(run('T-1'));
  const before = asked.length;
  await vi.advanceTimersByTimeAsync(60_000);
  expect([shown(), asked.length <= before + 1]).toEqual([[], true]);
});

test('what is typed for a question stays until no row names it', async () => {
  served = [question()];
  rows(run('T-1', ['q1']));
  await settle();
  typedOf('T-1/q1', new Map()).value = new Map([['name', 'typed']]);
  rows(run('T-1', ['q1']), run('T-2'));
  expect(typedOf('T-1/q1', new Map()).value.get('name')).toBe('typed');
  rows(run('T-1'));
  expect(typedOf('T-1/q1', new Map()).value.size).toBe(0);
});

test('an answered question stays closed until its row forgets it', async () => {
  served = [question()];
  rows(run('T-1', ['q1']));
  await settle();
  close(inbox.value[0]!, { text: 'Allowed by you', tone: 'ok' });
  await vi.advanceTimersByTimeAsync(60_000);
  expect([shown(), waiting.value]).toEqual([[['T-1/q1', 'Allowed by you']], 0]);
  rows(run('T-1'));
  expect(shown()).toEqual([]);
});

test('without the scope nothing is read, and one sees that something waits', async () => {
  session.value = { scopes: ['read'], name: 'reader', version: '1' };
  rows(run('T-1', ['q1']));
  await settle();
  expect([shown(), waiting.value, asked]).toEqual([[], 1, []]);
});
