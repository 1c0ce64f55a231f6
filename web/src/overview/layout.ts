// Positions of the rows of a virtual list: groups with a heading, rows of one height. Pure.

import type { Run } from '../lib/api';
import type { Group, Section } from './select';

export interface Row { run: Run; index: number } // index: among all runs of the list, from 0
export type Line = { head: Section; count: number } | Row;

export class Layout {
  readonly height: number;
  readonly count: number;
  private readonly tops: number[] = [];
  private readonly firsts: number[] = [];
  private at?: Map<string, number>;

  constructor(readonly groups: readonly Group[], readonly rowHeight: number, readonly headHeight: number) {
    let top = 0;
    let first = 0;
    for (const group of groups) {
      this.tops.push(top);
      this.firsts.push(first);
      top += this.head(group) + group.runs.length * rowHeight;
      first += group.runs.length;
    }
    this.height = top;
    this.count = first;
  }

  private head(group: Group): number {
    return group.section ? this.headHeight : 0;
  }

  private groupOf(values: readonly number[], value: number): number {
    let i = values.length - 1;
    while (i > 0 && values[i]! > value) i--;
    return i;
  }

  /** The index of a run; -1: it is not in the list. */
  indexOf(id: string): number {
    if (!this.at) {
      this.at = new Map();
      let i = 0;
      for (const group of this.groups) for (const run of group.runs) this.at.set(run.run, i++);
    }
    return this.at.get(id) ?? -1;
  }

  runAt(index: number): Run | undefined {
    if (index < 0 || index >= this.count) return undefined;
    const g = this.groupOf(this.firsts, index);
    return this.groups[g]!.runs[index - this.firsts[g]!];
  }

  /** Where the row of a run begins, in pixels. */
  topOf(index: number): number {
    const g = this.groupOf(this.firsts, index);
    const group = this.groups[g];
    return group ? this.tops[g]! + this.head(group) + (index - this.firsts[g]!) * this.rowHeight : 0;
  }

  /** The index of the first run whose row ends below y. */
  firstAt(y: number): number {
    const g = this.groupOf(this.tops, y);
    const group = this.groups[g];
    if (!group) return 0;
    const within = Math.floor((y - this.tops[g]! - this.head(group)) / this.rowHeight);
    return this.firsts[g]! + Math.min(Math.max(0, within), Math.max(0, group.runs.length - 1));
  }

  /** The lines between two heights, whole rows, and where the first of them begins. */
  between(from: number, to: number): { top: number; lines: Line[] } {
    const lines: Line[] = [];
    let top = -1;
    this.groups.forEach((group, g) => {
      const head = this.head(group);
      const begin = this.tops[g]!;
      const rows = begin + head;
      if (begin > to || rows + group.runs.length * this.rowHeight < from) return;
      if (head && rows >= from) {
        if (top < 0) top = begin;
        lines.push({ head: group.section!, count: group.runs.length });
      }
      const first = Math.max(0, Math.floor((from - rows) / this.rowHeight));
      const last = Math.min(group.runs.length, Math.ceil((to - rows) / this.rowHeight));
      for (let i = first; i < last; i++) {
        if (top < 0) top = rows + i * this.rowHeight;
        lines.push({ run: group.runs[i]!, index: this.firsts[g]! + i });
      }
    });
    return { top: Math.max(0, top), lines };
  }
}
