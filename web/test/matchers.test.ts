import { expect, test } from 'vitest';

// The matchers of vitest, and those of test/engine, which are in their place in the bundle of all tests.

type Matcher = (want?: unknown) => void;

const matcher = (got: unknown, name: string, not: boolean): Matcher => {
  const all = (not ? expect(got).not : expect(got)) as unknown as Record<string, Matcher>;
  return (want) => all[name]!(want);
};

function passes(f: () => void): boolean {
  try {
    f();
    return true;
  } catch {
    return false;
  }
}

const one = { a: 1 };
const cycle: Record<string, unknown> = {};
cycle['self'] = cycle;

test.each<[string, unknown, unknown, boolean]>([
  ['toBe', one, one, true], ['toBe', 'a', 'a', true], ['toBe', NaN, NaN, true], ['toBe', cycle, cycle, true],
  ['toBe', one, { a: 1 }, false], ['toBe', 0, -0, false], ['toBe', 1, '1', false], ['toBe', null, undefined, false], ['toBe', cycle, one, false],

  ['toEqual', { a: [1, { b: 'c' }] }, { a: [1, { b: 'c' }] }, true], ['toEqual', { a: 1, b: undefined }, one, true],
  ['toEqual', one, { a: 1, b: undefined }, true], ['toEqual', [NaN, null, undefined], [NaN, null, undefined], true], ['toEqual', { b: 1, a: 2 }, { a: 2, b: 1 }, true],
  ['toEqual', one, { a: 2 }, false], ['toEqual', one, { a: '1' }, false], ['toEqual', one, { a: 1, b: 2 }, false], ['toEqual', { a: 1, b: 2 }, one, false],
  ['toEqual', one, { b: 1 }, false], ['toEqual', { a: [1, { b: 'c' }] }, { a: [1, { b: 'd' }] }, false], ['toEqual', [1, 2], [2, 1], false],
  ['toEqual', [1], [1, 2], false], ['toEqual', [1, 2], [1], false], ['toEqual', [1], [1, undefined], false], ['toEqual', [1, undefined], [1], false],
  ['toEqual', [], {}, false], ['toEqual', {}, [], false], ['toEqual', ['a'], { 0: 'a', length: 1 }, false], ['toEqual', [[]], [[[]]], false],
  ['toEqual', null, undefined, false], ['toEqual', { a: null }, {}, false], ['toEqual', {}, null, false], ['toEqual', 0, -0, false],
  ['toEqual', 'ab', ['a', 'b'], false], ['toEqual', '1', 1, false], ['toEqual', true, 1, false],

  ['toMatchObject', { a: 1, b: { c: 2, d: 3 } }, { b: { c: 2 } }, true], ['toMatchObject', [{ a: 1, b: 2 }], [{ a: 1 }], true],
  ['toMatchObject', one, { a: 2 }, false], ['toMatchObject', one, { b: 1 }, false], ['toMatchObject', one, { b: undefined }, false],
  ['toMatchObject', { a: [1, 2] }, { a: [1] }, false], ['toMatchObject', { a: { b: 1 } }, { a: { c: 1 } }, false],
  ['toMatchObject', [one], [one, one], false], ['toMatchObject', { a: 1 }, { a: undefined }, false],

  ['toBeDefined', null, undefined, true], ['toBeDefined', 0, undefined, true], ['toBeDefined', undefined, undefined, false],
  ['toBeUndefined', undefined, undefined, true], ['toBeUndefined', null, undefined, false], ['toBeUndefined', '', undefined, false],
  ['toBeNull', null, undefined, true], ['toBeNull', undefined, undefined, false], ['toBeNull', 0, undefined, false],
  ['toBeNaN', NaN, undefined, true], ['toBeNaN', 1, undefined, false], ['toBeNaN', undefined, undefined, false], ['toBeNaN', 'x', undefined, false],
  ['toBeTruthy', 'a', undefined, true], ['toBeTruthy', {}, undefined, true], ['toBeTruthy', '', undefined, false], ['toBeTruthy', 0, undefined, false], ['toBeTruthy', null, undefined, false],

  ['toBeGreaterThan', 2, 1, true], ['toBeGreaterThan', 1, 1, false], ['toBeGreaterThan', 0, 1, false], ['toBeGreaterThan', NaN, 1, false],
  ['toBeGreaterThanOrEqual', 1, 1, true], ['toBeGreaterThanOrEqual', 0, 1, false], ['toBeGreaterThanOrEqual', NaN, 1, false],
  ['toBeLessThan', 0, 1, true], ['toBeLessThan', 1, 1, false], ['toBeLessThan', 2, 1, false], ['toBeLessThan', NaN, 1, false],
  ['toBeLessThanOrEqual', 1, 1, true], ['toBeLessThanOrEqual', 2, 1, false], ['toBeLessThanOrEqual', NaN, 1, false],

  ['toHaveLength', [1, 2], 2, true], ['toHaveLength', 'ab', 2, true], ['toHaveLength', [], 0, true], ['toHaveLength', [1], 2, false], ['toHaveLength', [], 1, false],

  ['toContain', 'abc', 'bc', true], ['toContain', [1, one], one, true],
  ['toContain', 'abc', 'x', false], ['toContain', [one], { a: 1 }, false], ['toContain', [1], '1', false], ['toContain', [], undefined, false],

  ['toMatch', 'abc', /b/, true], ['toMatch', 'abc', 'bc', true], ['toMatch', 'a.c', 'a.c', true],
  ['toMatch', 'abc', /x/, false], ['toMatch', 'abc', /^b/, false], ['toMatch', 'abc', 'a.c', false],
])('%s of %j and %j: %s', (name, got, want, right) => {
  for (const not of [false, true])
    if (passes(() => matcher(got, name, not)(want)) !== (right !== not)) throw new Error(`${not ? 'not.' : ''}${name} ${right !== not ? 'fails' : 'passes'}`);
});

test.each<[string, unknown, unknown]>([
  ['toBeOdd', 1, undefined], ['toBeGreaterThan', '2', 1], ['toBeGreaterThanOrEqual', undefined, 1], ['toBeLessThan', null, 1], ['toBeLessThanOrEqual', '0', 1],
  ['toHaveLength', undefined, 0], ['toHaveLength', 7, 0], ['toContain', null, 1], ['toMatch', 1, /1/], ['toMatch', undefined, 'a'],
])('%s of %j and %j fails in either sense', (name, got, want) => {
  for (const not of [false, true])
    if (passes(() => matcher(got, name, not)(want))) throw new Error(`${not ? 'not.' : ''}${name} passes`);
});

test('expect.fail fails, and a message is part of the failure', () => {
  let failure = '';
  try {
    expect(1, 'the number').toBe(2);
  } catch (e) {
    failure = String(e);
  }
  if (!failure.includes('the number')) throw new Error(`got ${failure}`);
  if (passes(() => expect.fail('x'))) throw new Error('expect.fail passes');
});

test('a snapshot is the same', () => {
  expect(['a', 'b "c" `d` \\ ${e}', '']).toMatchSnapshot();
  expect([]).toMatchSnapshot();
  if (passes(() => expect(['b']).not.toMatchSnapshot())) throw new Error('not.toMatchSnapshot passes');
});

test('a snapshot that differs, or that is missing, fails', () => {
  const engine = import.meta.env.MODE === 'units'; // vitest writes snapshots, so it has none that is wrong
  if (passes(() => expect([engine ? 'other' : 'one']).toMatchSnapshot()) === engine) throw new Error(engine ? 'another passes' : 'the same fails');
  if (engine && passes(() => expect(['missing']).toMatchSnapshot())) throw new Error('a missing one passes');
});
