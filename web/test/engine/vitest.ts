// What the unit tests use of vitest, for the bundle that units.ts describes. A matcher that is not here is a
// TypeError; one that is here throws for values that it does not know, rather than passing them.
// test/matchers.test.ts shows that each fails when it should, here and in vitest.

type Body = () => unknown;
interface Scope { path: string[]; before: Body[]; after: Body[] }
interface Unit { name: string; run: () => Promise<void> }

let file = '';
let units: Unit[] = [];
let scopes: Scope[] = [];
let running = ''; // the name of the test
let snapshots = 0; // that it compared

/** Loads a test file, and returns its tests. */
export async function collect(path: string, load: () => Promise<unknown>): Promise<Unit[]> {
  [file, units, scopes] = [path, [], [{ path: [], before: [], after: [] }]];
  await load();
  return units;
}

const inner = (): Scope => scopes[scopes.length - 1]!;

function add(title: string, body: Body): void {
  const within = [...scopes];
  const name = [...inner().path, title].join(' > ');
  const run = async (): Promise<void> => {
    [running, snapshots] = [name, 0];
    try {
      for (const scope of within) for (const each of scope.before) await each();
      await body();
    } finally {
      for (const scope of within.reverse()) for (const each of scope.after) await each();
    }
  };
  units.push({ name, run });
}

/** The title of one case of `each`: its values in place of %s, %j and $key. */
function titleOf(title: string, values: unknown[]): string {
  let n = 0;
  return title.replace(/%[sj]|\$(\w+)/g, (what, key: string) =>
    what === '%s' ? String(values[n++]) : what === '%j' ? show(values[n++]) : String((values[0] as Record<string, unknown>)[key]));
}

export const test = Object.assign((title: string, body: Body) => add(title, body), {
  each: (cases: unknown[]) => (title: string, body: (...values: unknown[]) => unknown) => {
    for (const each of cases) {
      const values = Array.isArray(each) ? each : [each];
      add(titleOf(title, values), () => body(...values));
    }
  },
});
export const it = test;

export function describe(title: string, body: () => void): void {
  scopes.push({ path: [...inner().path, title], before: [], after: [] });
  body();
  scopes.pop();
}

export const beforeEach = (body: Body): void => void inner().before.push(body);
export const afterEach = (body: Body): void => void inner().after.push(body);

function show(value: unknown): string {
  if (typeof value === 'function' || typeof value === 'symbol' || typeof value === 'bigint') return String(value);
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(value);
  try {
    const json = JSON.stringify(value) ?? 'undefined';
    return json.length > 500 ? `${json.slice(0, 500)}…` : json;
  } catch {
    return Object.prototype.toString.call(value); // it contains itself
  }
}

type Plain = Record<string, unknown>;

/** Whether a value is a list or a plain object. Of others it is not known what makes them equal. */
function composite(value: unknown): value is Plain {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && !Array.isArray(value)) throw new TypeError(`cannot compare ${Object.prototype.toString.call(value)}`);
  if (Object.getOwnPropertySymbols(value).length > 0) throw new TypeError('cannot compare symbols');
  return true;
}

/** The first difference, or "". Keys that are undefined are absent; a subset lacks keys of what was got. */
function difference(got: unknown, want: unknown, subset: boolean, at = ''): string {
  if (Object.is(got, want)) return '';
  const differ = (why = ''): string => `${at && `at ${at.slice(1)}: `}got ${show(got)}, want ${show(want)}${why}`;
  if (!composite(want) || !composite(got) || Array.isArray(got) !== Array.isArray(want)) return differ();
  for (const key of new Set([...Object.keys(want), ...(subset ? [] : Object.keys(got))])) {
    if (subset && !(key in got)) return differ(`: it has no ${key}`);
    const found = difference(got[key], want[key], subset, `${at}.${key}`);
    if (found) return found;
  }
  return Array.isArray(got) && got.length !== want['length'] ? differ(`: ${got.length} elements, want ${show(want['length'])}`) : '';
}

/** The first difference to the snapshot that vitest wrote: a list of texts. */
function snapshotDifference(got: unknown): string {
  if (!Array.isArray(got) || !got.every((each) => typeof each === 'string')) throw new TypeError('snapshots are lists of texts');
  const exports: Record<string, string> = {};
  const path = file.replace(/(.*\/)/, '$1__snapshots__/');
  new Function('exports', host.read(`${path}.snap`))(exports);
  const name = `${running} ${++snapshots}`;
  if (exports[name] === undefined) throw new Error(`no snapshot ${name}: \`npm test\` writes it`);
  const text = got.length > 0 ? `\n[\n${got.map((each) => `  "${each}",\n`).join('')}]\n` : '[]';
  return difference(text.split('\n'), exports[name].split('\n'), false);
}

function number(value: unknown): number {
  if (typeof value !== 'number') throw new TypeError(`${show(value)} is not a number`);
  return value;
}

function text(value: unknown): string {
  if (typeof value !== 'string') throw new TypeError(`${show(value)} is not a text`);
  return value;
}

const mismatch = (passed: boolean, got: unknown, how: string, want?: unknown): string =>
  passed ? '' : `got ${show(got)}, want ${how}${want === undefined ? '' : ` ${show(want)}`}`;

// Each returns what is wrong, or "".
const matchers = {
  toBe: (got: unknown, want: unknown) => mismatch(Object.is(got, want), got, 'the same as', want),
  toEqual: (got: unknown, want: unknown) => difference(got, want, false),
  toMatchObject: (got: unknown, want: unknown) => {
    if (!composite(want)) throw new TypeError(`${show(want)} is not an object`);
    return difference(got, want, true);
  },
  toMatchSnapshot: snapshotDifference,
  toBeDefined: (got: unknown) => mismatch(got !== undefined, got, 'a value'),
  toBeUndefined: (got: unknown) => mismatch(got === undefined, got, 'undefined'),
  toBeNull: (got: unknown) => mismatch(got === null, got, 'null'),
  toBeNaN: (got: unknown) => mismatch(Number.isNaN(got), got, 'NaN'),
  toBeTruthy: (got: unknown) => mismatch(Boolean(got), got, 'a true value'),
  toBeGreaterThan: (got: unknown, want: unknown) => mismatch(number(got) > number(want), got, 'more than', want),
  toBeGreaterThanOrEqual: (got: unknown, want: unknown) => mismatch(number(got) >= number(want), got, 'at least', want),
  toBeLessThan: (got: unknown, want: unknown) => mismatch(number(got) < number(want), got, 'less than', want),
  toBeLessThanOrEqual: (got: unknown, want: unknown) => mismatch(number(got) <= number(want), got, 'at most', want),
  toHaveLength: (got: unknown, want: unknown) => mismatch(number((got as ArrayLike<unknown>).length) === number(want), got, 'a length of', want),
  toContain: (got: unknown, want: unknown) =>
    mismatch(Array.isArray(got) ? got.indexOf(want) >= 0 : text(got).indexOf(text(want)) >= 0, got, 'one that contains', want),
  toMatch: (got: unknown, want: unknown) =>
    want instanceof RegExp ? mismatch(text(got).search(want) >= 0, got, 'a match of', want.source) : mismatch(text(got).indexOf(text(want)) >= 0, got, 'one that contains', want),
};

type Matchers = Record<string, (want?: unknown) => void>;

export const expect = Object.assign(
  (got: unknown, about?: string): Matchers & { not: Matchers } => {
    const bind = (not: boolean): Matchers => Object.fromEntries(Object.entries(matchers).map(([name, match]) => [name, (want?: unknown) => {
      if (not && name === 'toMatchSnapshot') throw new TypeError('a snapshot cannot be excluded');
      const wrong = match(got, want);
      if (Boolean(wrong) === not) return;
      throw new Error(`${about ? `${about}: ` : ''}${not ? 'not.' : ''}${name}: ${wrong || `got ${show(got)}`}`);
    }]));
    return Object.assign(bind(false) as Matchers & { not: Matchers }, { not: bind(true) });
  },
  { fail: (message: string): never => { throw new Error(message); } },
);

// Only the test advances this clock.
interface Timer { id: number; at: number; interval: number | undefined; run: () => void }

let now = Date.now();
let faked = false;
let timers: Timer[] = [];
let lastTimer = 0;

function start(run: () => void, delay = 0, repeat = false): number {
  timers.push({ id: ++lastTimer, at: now + Math.max(repeat ? 1 : 0, delay), interval: repeat ? Math.max(1, delay) : undefined, run });
  return lastTimer;
}

function stop(id?: number): void {
  timers = timers.filter((timer) => timer.id !== id);
}

function setTime(ms: number): void {
  now = ms;
  host.setTime(ms);
}

Object.assign(globalThis, {
  setTimeout: start, clearTimeout: stop, setInterval: (run: () => void, delay: number) => start(run, delay, true), clearInterval: stop,
});

const stubbed = new Map<string, PropertyDescriptor | undefined>();

export const vi = {
  useFakeTimers: (): void => void ([faked, timers] = [true, []]),
  useRealTimers: (): void => void ([faked, timers] = [false, []]),

  async advanceTimersByTimeAsync(ms: number): Promise<void> {
    if (!faked) throw new Error('timers are not faked');
    const end = now + ms;
    for (;;) {
      await new Promise<void>((settled) => host.later(settled));
      const next = timers.filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at || a.id - b.id)[0];
      if (!next) return setTime(end);
      setTime(Math.max(now, next.at));
      if (next.interval === undefined) stop(next.id);
      else next.at += next.interval;
      next.run();
    }
  },

  stubGlobal(name: string, value: unknown): void {
    if (!stubbed.has(name)) stubbed.set(name, Object.getOwnPropertyDescriptor(globalThis, name));
    Object.defineProperty(globalThis, name, { value, configurable: true, enumerable: true, writable: true });
  },

  unstubAllGlobals(): void {
    for (const [name, was] of stubbed) {
      if (was) Object.defineProperty(globalThis, name, was);
      else Reflect.deleteProperty(globalThis, name);
    }
    stubbed.clear();
  },
};
