// Which rows of a timeline are shown. Pure.

import { type Detail, plain } from './items';
import type { Row } from './rows';

export const parts = ['text', 'reasoning', 'tools', 'plan', 'errors', 'status'] as const;
export type Part = (typeof parts)[number];

/** The part that a row belongs to; null: it is always shown. */
export function partOf(row: Row): Part | null {
  switch (row.kind) {
    case 'text': return row.channel === 'reasoning' ? 'reasoning' : 'text';
    case 'prompt': return 'text';
    case 'call': return 'tools';
    case 'plan': return 'plan';
    case 'error': return 'errors';
    case 'note': return row.quiet ? 'status' : null;
    default: return null;
  }
}

/** The words of a row that a search looks in. */
export function wordsOf(row: Row): string {
  switch (row.kind) {
    case 'text': return row.parts.join('');
    case 'call': return `${row.name} ${row.item} ${row.status} ${row.exit === null ? '' : `exit ${row.exit}`} ${words(row.detail)}`;
    case 'plan': return row.steps?.map((s) => s.text).join('\n') ?? '';
    case 'prompt': return plain(row.text);
    case 'error': return row.message;
    case 'note': return `${row.message} ${plain(row.detail ?? undefined)}`;
    case 'end': return `${row.error} ${row.finalText} ${words(row.detail)}`;
    default: return '';
  }
}

function words(d: Detail | null): string {
  if (!d) return '';
  const files = d.files?.map((f) => `${f.path}\n${plain(f.diff)}`).join('\n') ?? '';
  return [d.command, d.prompt, d.text, d.arguments, d.output, d.result, d.stderr].map(plain).join('\n') + files;
}

/** Selects rows by part and by a search; turns without rows of their own are left out. */
export class Selection {
  private cache = new WeakMap<Row, { rev: number; words: string }>();

  select(rows: readonly Row[], hidden: ReadonlySet<Part>, search: string): Row[] {
    const want = search.trim().toLowerCase();
    const found: Row[] = [];
    if (!want) this.cache = new WeakMap();
    for (const row of rows) {
      const part = partOf(row);
      if (part && hidden.has(part)) continue;
      if (want && row.kind !== 'gap' && row.kind !== 'turn' && !this.words(row).includes(want)) continue;
      if (row.kind === 'turn' && found.at(-1)?.kind === 'turn' && (want || hidden.size > 1)) found.pop();
      found.push(row);
    }
    if (want && found.at(-1)?.kind === 'turn') found.pop();
    return found;
  }

  private words(row: Row): string {
    let known = this.cache.get(row);
    if (known?.rev !== row.rev) {
      known = { rev: row.rev, words: wordsOf(row).toLowerCase() };
      this.cache.set(row, known);
    }
    return known.words;
  }
}

/** How many rows each part has. */
export function countParts(rows: readonly Row[]): Record<Part, number> {
  const n: Record<Part, number> = { text: 0, reasoning: 0, tools: 0, plan: 0, errors: 0, status: 0 };
  for (const row of rows) {
    const part = partOf(row);
    if (part) n[part]++;
  }
  return n;
}

/** The row at a position of a link, or the last one before it. */
export function rowAt(rows: readonly Row[], at: string): Row | undefined {
  const exact = rows.find((r) => r.at === at);
  if (exact || !/^\d+\.\d+$/.test(at)) return exact;
  const [line, part] = numbers(at);
  let last: Row | undefined;
  for (const r of rows) {
    if (!/^[1-9]/.test(r.at)) continue;
    const [l, p] = numbers(r.at);
    if (l > line || (l === line && p > part)) break;
    last = r;
  }
  return last;
}

function numbers(at: string): [number, number] {
  const [a = 0, b = 0] = at.split('.').map(Number);
  return [a, b];
}
