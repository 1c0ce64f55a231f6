import { describe, expect, it } from 'vitest';
import { fromDetail } from './items';
import { Timeline } from './model';
import { Positions } from './positions';
import { recording } from './recording';
import type { Row } from './rows';
import { countParts, type Part, rowAt, Selection } from './select';

async function rows(agent: string, name: string): Promise<Row[]> {
  const t = new Timeline();
  t.add((await recording(agent, name)).details.map((d) => fromDetail(d)!));
  return t.rows();
}

const kinds = (list: readonly Row[]): string => list.map((r) => r.kind).join(' ');
const none = new Set<Part>();

describe('rows', () => {
  it('are selected by part', async () => {
    const all = await rows('claude', 'tools');
    const select = new Selection();
    expect(select.select(all, none, '')).toEqual(all);
    expect(kinds(select.select(all, new Set<Part>(['status', 'tools']), ''))).toBe('prompt turn text text text end');
    expect(countParts(all)).toEqual({ text: 3, reasoning: 1, tools: 7, plan: 0, errors: 0, status: 2 });
  });

  it('are found by their words, also those of outputs and diffs', async () => {
    const all = await rows('claude', 'tools');
    const found = (text: string): string[] => new Selection().select(all, none, text).filter((r) => r.kind !== 'turn').map((r) => r.at);
    expect(found('OOPS')).toEqual(['7.1']);
    expect(found('deux')).toEqual(['15.1']);
    expect(found('exit 3')).toEqual(['7.1']);
    expect(found('no such words')).toEqual([]);
    expect(new Selection().select(all, none, 'no such words')).toEqual([]);
  });

  it('are found again after they changed', async () => {
    const all = await rows('codex', 'plan');
    const text = all.find((r) => r.kind === 'text')!;
    const select = new Selection();
    expect(select.select(all, none, 'later words')).toEqual([]);
    if (text.kind === 'text') text.parts.push(' later words');
    text.rev++;
    expect(select.select(all, none, 'later words')).toContain(text);
  });

  it('are at the position of a link, or before it', async () => {
    const all = await rows('claude', 'tools');
    expect(rowAt(all, '7.1')?.at).toBe('7.1');
    expect(rowAt(all, '9.1')?.at).toBe('8.1'); // the result belongs to a call above
    expect(rowAt(all, 'end')?.kind).toBe('end');
    expect(rowAt(all, '999.1')?.at).toBe('19.1');
    expect(rowAt(all, 'x')).toBeUndefined();
    expect(rowAt(all, '<script>')).toBeUndefined();
  });
});

describe('positions', () => {
  const list = Array.from({ length: 100 }, (_, i) => ({ kind: 'call', key: `i${i}` }) as Row);

  it('are those of measured heights, and of estimates of the others', () => {
    const p = new Positions();
    p.set(list);
    expect(p.height).toBe(3000);
    expect(p.measure('i1', 130)).toBe(true);
    expect(p.measure('i1', 130.2)).toBe(false);
    expect(p.measure('i1', 0)).toBe(false); // not on the screen
    p.set(list);
    expect([p.top(1), p.top(2), p.height]).toEqual([30, 160, 3100]);
    expect([p.at(0), p.at(29), p.at(30), p.at(159), p.at(160), p.at(99_999), p.at(-5)]).toEqual([0, 0, 1, 1, 2, 99, 0]);
    expect(p.between(100, 200)).toEqual([1, 4]);
  });

  it('of no rows are none', () => {
    const p = new Positions();
    p.set([]);
    expect([p.height, p.top(3), p.at(10), p.between(0, 100)]).toEqual([0, 0, 0, [0, 0]]);
  });
});
