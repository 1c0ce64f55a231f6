import { describe, expect, test } from 'vitest';
import type { Run } from '../src/lib/api';
import { age, bytes, changedText, cost, count, doing, duration, elapsed, fine, labelsOf, lost, plural, shortPath, tokens } from '../src/lib/format';

const at = Date.parse('2026-11-23T12:00:00.000Z');
const ago = (s: number): string => new Date(at - s * 1000).toISOString();
const run = (more: Partial<Run>): Run => ({ run: 'r', agent: 'codex', state: 'working', seq: 1, ...more });

test('durations have at most two units', () => {
  expect([0, 999, 59_999, 60_000, 73_000, 3_600_000, 5_400_000, 90_000_000, -5].map(duration)).toEqual(['0s', '0s', '59s', '1m', '1m 13s', '1h', '1h 30m', '1d 1h', '0s']);
  expect([0, 950, 1000, 9_949, 9_950, 61_000].map(fine)).toEqual(['0ms', '950ms', '1.0s', '9.9s', '9s', '1m 1s']);
});

test('a number of changed files says what it counts', () => {
  expect([undefined, { files: 1, in: 'tools' as const }, { files: 2, in: 'directory' as const, added: 3 }, { files: 0, in: 'directory' as const }].map(changedText))
    .toEqual(['', '1 file changed by its tools', '2 files changed in the directory', '0 files changed in the directory']);
});

test('the trace context of a run is no label for people', () => {
  expect(labelsOf(run({ labels: { a: '1', 'linesman.traceparent': '00-1-2-01', 'linesman.caller': 'ci' } }))).toEqual([['a', '1'], ['linesman.caller', 'ci']]);
});

test('ages have one unit, and a time in the future has none', () => {
  expect([0, 59, 60, 3599, 3600, 86_399, 86_400, -30].map((s) => age(ago(s), at))).toEqual(['0s', '59s', '1m', '59m', '1h', '23h', '1d', '0s']);
  expect(age(undefined, at)).toBe('');
});

test('numbers keep at most three digits, or have separators', () => {
  expect([0, 999, 1000, 12_345, 99_949, 99_950, 999_499, 999_500, 1_500_000].map(tokens)).toEqual(['0', '999', '1k', '12.3k', '99.9k', '100k', '999k', '1M', '1.5M']);
  expect([0, 1500, 2_000_000].map(bytes)).toEqual(['0 B', '1.5 kB', '2 MB']);
  expect([0, 999, 1000, 1234567].map(count)).toEqual(['0', '999', '1,000', '1,234,567']);
  expect([plural(1, 'run'), plural(2, 'run'), plural(0, 'entry', 'entries')]).toEqual(['1 run', '2 runs', '0 entries']);
  expect([0, 0.001, 1.234].map(cost)).toEqual(['$0.00', '<$0.01', '$1.23']);
});

describe('what a run does', () => {
  test('has its age', () => {
    expect(doing(run({ doing: { phase: 'running', tool: 'Bash', since: ago(12) } }), at)).toBe('running a command, 12s');
    expect(doing(run({ doing: { phase: 'running', tool: 'Read', since: ago(3) } }), at)).toBe('running Read, 3s');
    expect(doing(run({ doing: { phase: 'retrying', attempt: 2, of: 5, since: ago(90) } }), at)).toBe('retrying 2/5, 1m');
    expect(doing(run({ doing: { phase: 'thinking' } }), at)).toBe('thinking');
    expect(doing(run({}), at)).toBe('');
  });
  test('a phase of a later version is its name', () => {
    expect(doing(run({ doing: { phase: 'dreaming' as never, since: ago(1) } }), at)).toBe('dreaming, 1s');
  });
});

test('elapsed ends with the run', () => {
  expect(elapsed(run({}), at)).toBeUndefined();
  expect(elapsed(run({ startedAt: ago(10) }), at)).toBe(10_000);
  expect(elapsed(run({ state: 'completed', startedAt: ago(10), endedAt: ago(4) }), at)).toBe(6000);
  expect(elapsed(run({ startedAt: ago(-10) }), at)).toBe(0);
});

test('a run is lost with its worker, or because its exit is unknown', () => {
  expect(lost(run({ workerLost: true }))).toBe(true);
  expect(lost(run({ state: 'failed', reason: 'lost' }))).toBe(true);
  expect(lost(run({ state: 'failed', reason: 'exit status' }))).toBe(false);
});

test('short paths keep the last two names', () => {
  expect(['/', '/srv', '/srv/shop', '/srv/shop/api', '/a/b/c/d/'].map(shortPath)).toEqual(['/', '/srv', '/srv/shop', '…/shop/api', '…/c/d']);
});
