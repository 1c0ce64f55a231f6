// Where the rows of a list begin, in pixels: measured heights, and estimates of the others. Pure.

import type { Row } from './rows';

export class Positions {
  private rows: readonly Row[] = [];
  private tops = new Float64Array(1);
  private count = 0;
  private readonly heights = new Map<string, number>();

  set(rows: readonly Row[]): void {
    this.rows = rows;
    this.count = rows.length;
    if (this.tops.length < rows.length + 1) this.tops = new Float64Array(2 * rows.length + 1);
    let top = 0;
    for (let i = 0; i < rows.length; i++) {
      this.tops[i] = top;
      top += this.heights.get(rows[i]!.key) ?? estimate(rows[i]!);
    }
    this.tops[rows.length] = top;
    if (this.heights.size > 2 * rows.length + 1000) this.prune();
  }

  private prune(): void {
    const keep = new Set(this.rows.map((r) => r.key));
    for (const key of this.heights.keys()) if (!keep.has(key)) this.heights.delete(key);
  }

  /** Notes the height of a row, and reports whether it changed. */
  measure(key: string, height: number): boolean {
    const before = this.heights.get(key);
    if (height === 0 || (before !== undefined && Math.abs(before - height) < 0.5)) return false;
    this.heights.set(key, height);
    return true;
  }

  known(key: string): boolean {
    return this.heights.has(key);
  }

  get height(): number {
    return this.tops[this.count] ?? 0;
  }

  top(index: number): number {
    return this.tops[Math.min(Math.max(0, index), this.count)] ?? 0;
  }

  /** The row at a height. */
  at(y: number): number {
    let lo = 0;
    let hi = this.count - 1;
    while (lo < hi) {
      const mid = (lo + hi + 1) >> 1;
      if (this.tops[mid]! <= y) lo = mid;
      else hi = mid - 1;
    }
    return Math.max(0, lo);
  }

  /** The rows between two heights: the first, and the one after the last. */
  between(from: number, to: number): [number, number] {
    return this.count === 0 ? [0, 0] : [this.at(from), this.at(to) + 1];
  }

  indexOf(key: string): number {
    return this.rows.findIndex((r) => r.key === key);
  }
}

const heights = { turn: 40, call: 30, plan: 60, prompt: 60, error: 30, note: 28, end: 60, gap: 56 } as const;

function estimate(row: Row): number {
  if (row.kind !== 'text') return heights[row.kind];
  return 16 + 20 * Math.min(28, Math.ceil(row.length / 110));
}
