import { cloneState, Fold, newState, type State } from './fold';
import type { Item, Tokens } from './items';
import { newSummary, type Row, type Summary } from './rows';

/** Items of a chunk, and their memory: what is collapsed and loaded again together. */
export const chunkItems = 1000;
const chunkWeight = 4 << 20;
/** Items that are loaded at most, and the memory that they take at most, in bytes (estimated). */
export const maxItems = 10_000;
export const maxWeight = 48 << 20;

interface Chunk {
  first: number; // ord
  last: number;
  line: number; // of its first item
  after: string; // cursor of the item before it
  count: number;
  weight: number; // of its items, 0 if collapsed
  items: Item[] | null; // null: collapsed
  state: State; // before its first item
}

/**
 * A run as rows. Items come in any order, repeatedly, after gaps; each counts once. To add
 * the newest item costs the same whether the run has ten items or a million.
 *
 * Memory is bounded: at most [maxItems] items of about [maxWeight] bytes are loaded. The
 * chunks farthest from what is read collapse to one row, and keep only a cursor and the
 * state before them (about 1 kB for 1000 items); the newest chunk stays. A caller loads them
 * again: it calls [open], and gives the items after the returned cursor to [add].
 */
export class Timeline {
  private chunks: Chunk[] = [];
  private tail: Fold;
  private tailLast = 0; // ord of the last item that the tail has folded
  private cache: Row[] | null = null;
  private dirty = false;
  private loaded = 0;
  private weight = 0;
  private base: Tokens | undefined;
  private sum = newSummary();
  /** The chunk that is being read: it and its neighbours stay. -1: the newest. */
  focus = -1;
  /** Counts the changes. */
  version = 0;
  /** The newest line of the output. */
  lastLine = 0;
  private last = ''; // cursor of the newest item
  private shown = 0; // rows of the tail that are in the cache

  /** `base` are the tokens of the thread before the run, for agents that print totals. */
  constructor(base?: Tokens) {
    this.base = base;
    this.tail = new Fold(newState(base), this.sum);
  }

  /** The position to resume after, "" for a new timeline. */
  get cursor(): string {
    return this.last;
  }

  /** What is known of the whole run, loaded or not. */
  get summary(): Summary {
    if (this.dirty) this.rebuild();
    return this.sum;
  }

  /** The number of items that are known, loaded or not. */
  get size(): number {
    let n = 0;
    for (const c of this.chunks) n += c.count;
    return n;
  }

  get collapsed(): number {
    let n = 0;
    for (const c of this.chunks) if (!c.items) n += c.count;
    return n;
  }

  get loadedItems(): number {
    return this.loaded;
  }

  get loadedWeight(): number {
    return this.weight;
  }

  /** Adds items, and reports whether any was new. */
  add(items: Iterable<Item>): boolean {
    const before = this.version;
    for (const item of items) {
      if (item.ord > this.tailLast) this.append(item);
      else this.insert(item);
    }
    if (this.loaded > maxItems || this.weight > maxWeight) this.collapse();
    return this.version !== before;
  }

  private append(item: Item): void {
    let chunk = this.chunks[this.chunks.length - 1];
    if (!chunk || chunk.count >= chunkItems || chunk.weight >= chunkWeight) {
      chunk = {
        first: item.ord, last: item.ord, line: item.line || this.lastLine, after: this.last, count: 0, weight: 0,
        items: [], state: cloneState(this.tail.state),
      };
      this.chunks.push(chunk);
    }
    chunk.count++;
    chunk.last = item.ord;
    chunk.line ||= item.line;
    this.tailLast = item.ord;
    this.last = item.cursor;
    this.lastLine = Math.max(this.lastLine, item.line);
    this.tail.push(item);
    this.keep(chunk, item, chunk.items!.length);
    this.version++;
  }

  private keep(chunk: Chunk, item: Item, at: number): void {
    if (at === chunk.items!.length) chunk.items!.push(item);
    else chunk.items!.splice(at, 0, item);
    chunk.weight += item.weight;
    this.loaded++;
    this.weight += item.weight;
  }

  private insert(item: Item): void {
    const i = Math.max(0, search(this.chunks, (c) => c.first > item.ord) - 1);
    const chunk = this.chunks[i];
    if (!chunk?.items) return; // collapsed: it has the item, or loads it
    const at = search(chunk.items, (x) => x.ord >= item.ord);
    if (chunk.items[at]?.ord === item.ord) return;
    this.keep(chunk, item, at);
    chunk.first = Math.min(chunk.first, item.ord);
    chunk.count = Math.max(chunk.count, chunk.items.length);
    this.dirty = true;
    this.version++;
  }

  /**
   * Marks a collapsed chunk as loading, and returns where it begins and ends: the caller
   * adds the items after `after`, up to the one whose ord is `last`. Null: it is loaded.
   */
  open(index: number): { after: string; last: number; count: number } | null {
    const chunk = this.chunks[index];
    if (!chunk || chunk.items) return null;
    chunk.items = [];
    this.focus = index;
    this.dirty = true;
    this.version++;
    return { after: chunk.after, last: chunk.last, count: chunk.count };
  }

  /** Collapses a chunk again that could not be loaded. */
  shut(index: number): void {
    const chunk = this.chunks[index];
    if (!chunk?.items || index === this.chunks.length - 1) return;
    this.drop(chunk);
    this.dirty = true;
    this.version++;
  }

  private drop(chunk: Chunk): void {
    this.loaded -= chunk.items!.length;
    this.weight -= chunk.weight;
    chunk.items = null;
    chunk.weight = 0;
  }

  /** Returns the chunk that contains a line of the output, or -1. */
  chunkOfLine(line: number): number {
    return search(this.chunks, (c) => c.line > line) - 1;
  }

  /** Returns the chunk of an item. */
  chunkOf(ord: number): number {
    return search(this.chunks, (c) => c.first > ord) - 1;
  }

  get lastChunk(): number {
    return this.chunks.length - 1;
  }

  isLoaded(index: number): boolean {
    return !!this.chunks[index]?.items;
  }

  /** Collapses the chunks farthest from the focus and the end, until there is room for another. */
  private collapse(): void {
    const last = this.chunks.length - 1;
    const far = (i: number): number => Math.min(last - i, this.focus < 0 ? last : Math.abs(i - this.focus));
    const others = this.chunks.map((c, i) => ({ c, far: far(i) })).filter((x) => x.c.items && x.far > 0);
    others.sort((a, b) => b.far - a.far);
    for (const { c } of others) {
      if (this.loaded <= maxItems - chunkItems && this.weight <= maxWeight - chunkWeight) break;
      this.drop(c);
    }
    this.dirty = true;
    this.version++;
  }

  /** The rows, and for each collapsed range one of the kind "gap". New ones are added to the list. Do not change it. */
  rows(): Row[] {
    if (this.dirty || !this.cache) this.rebuild();
    const { cache, tail } = this;
    if (cache === tail.rows) return cache;
    while (this.shown < tail.rows.length) cache!.push(tail.rows[this.shown++]!);
    return cache!;
  }

  private gap(from: number, to: number): Row {
    let count = 0;
    for (let i = from; i < to; i++) count += this.chunks[i]!.count;
    return { kind: 'gap', key: `g${from}`, at: '', time: 0, rev: count, depth: 0, from, to, count };
  }

  /** Folds all loaded chunks again, each range of them from the state before it. */
  private rebuild(): void {
    this.dirty = false;
    this.split();
    const whole = this.chunks.every((c) => c.items !== null);
    if (whole) this.sum = newSummary();
    const rows: Row[] = [];
    let i = 0;
    while (i < this.chunks.length) {
      const from = i;
      const loaded = this.chunks[i]!.items !== null;
      while (i < this.chunks.length && (this.chunks[i]!.items !== null) === loaded) i++;
      if (!loaded) rows.push(this.gap(from, i));
      else for (const row of this.refold(from, i, whole ? this.sum : null).rows) rows.push(row);
    }
    this.tail.sum = this.sum;
    this.cache = whole ? this.tail.rows : rows;
    this.shown = this.tail.rows.length;
  }

  private refold(from: number, to: number, sum: Summary | null): Fold {
    const first = this.chunks[from]!;
    const fold = new Fold(from === 0 ? newState(this.base) : cloneState(first.state), sum);
    for (let i = from; i < to; i++) {
      const chunk = this.chunks[i]!;
      if (i > from) chunk.state = cloneState(fold.state);
      for (const item of chunk.items!) fold.push(item);
    }
    if (to === this.chunks.length) this.tail = fold;
    else leave(fold);
    return fold;
  }

  /** Splits chunks that have grown by late items. */
  private split(): void {
    for (let i = 0; i < this.chunks.length; i++) {
      const c = this.chunks[i]!;
      while (c.items && c.items.length > 2 * chunkItems) {
        const rest = c.items.splice(c.items.length - chunkItems);
        const weight = rest.reduce((n, x) => n + x.weight, 0);
        this.chunks.splice(i + 1, 0, {
          first: rest[0]!.ord, last: rest[rest.length - 1]!.ord, line: rest[0]!.line,
          after: c.items[c.items.length - 1]!.cursor, count: rest.length, weight, items: rest, state: c.state,
        });
        c.weight -= weight;
        c.count = c.items.length;
        c.last = c.items[c.items.length - 1]!.ord;
      }
    }
  }
}

/** A region that ends before the end of the run does not show how its open calls end. */
function leave(fold: Fold): void {
  for (const row of fold.rows) if (row.kind === 'call' && row.status === 'running') row.status = 'unknown';
}

/** Returns the first index for which `is` holds; it must hold for all after it. */
function search<T>(list: readonly T[], is: (x: T) => boolean): number {
  let lo = 0;
  let hi = list.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (is(list[mid]!)) hi = mid;
    else lo = mid + 1;
  }
  return lo;
}
