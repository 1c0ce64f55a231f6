// Comments on lines of the diffs of a live run that is kept: collected here, and sent as one message. Pure but for
// `load` and `save`, which keep them for as long as the tab is open and nobody signs out.

import { signal } from '@preact/signals';
import { plainText } from '../lib/plaintext';
import type { DiffLine } from './unified';

/** A comment on lines of a file, as it is sent. */
export interface Comment { place: string; quote: string; text: string }

/** Lines that are selected: of which diff, where the selection began, and where it ends. */
export interface Picked { diff: string; from: number; to: number }

export const maxComment = 4000; // characters
const maxComments = 50;
const maxMessage = 80_000; // characters, of at most three bytes each, and six in JSON: the server takes 256 KiB, and 512 KiB as JSON
const maxQuoted = 20; // lines
const maxLine = 200; // characters

/** The first and the last one of the selected lines. */
export const ends = ({ from, to }: Picked): [number, number] => [Math.min(from, to), Math.max(from, to)];

/** The selection after a line was pressed: one line, then all up to a second one; `extend` moves its end. */
export function pick(before: Picked | undefined, diff: string, line: number, extend = false): Picked | undefined {
  if (before?.diff !== diff) return { diff, from: line, to: line };
  const one = before.from === before.to;
  if (extend || (one && line !== before.to)) return { ...before, to: line };
  return one ? undefined : { diff, from: line, to: line };
}

/** A path with the numbers of lines, as far as they are known: those after the change, else those before it. */
export function placeOf(path: string, lines: readonly DiffLine[]): string {
  const numbers = (of: 'before' | 'after'): number[] => lines.map((l) => l[of]).filter((n) => n > 0);
  const all = numbers('after').length > 0 ? numbers('after') : numbers('before');
  const [first, last] = [all[0], all.at(-1)];
  return plainText(path) + (first === undefined ? '' : first === last ? `:${first}` : `:${first}-${last}`);
}

const signs: Record<DiffLine['kind'], string> = { add: '+', del: '-', same: ' ', hunk: '', info: '' };

/** The lines as in a diff, each behind "> "; not more than `maxQuoted` of them. */
export function quoteOf(lines: readonly DiffLine[]): string {
  const quoted = lines.slice(0, maxQuoted).map((l) => {
    const text = signs[l.kind] + plainText(l.text).replaceAll('\n', ' ');
    return `> ${text.length > maxLine ? `${text.slice(0, maxLine)}…` : text}`;
  });
  if (lines.length > maxQuoted) quoted.push(`> … and ${lines.length - maxQuoted} more`);
  return quoted.join('\n');
}

/** The message with all comments. */
export const messageOf = (comments: readonly Comment[]): string =>
  ['Comments on your changes:', ...comments.map((c) => `${c.place}\n${c.quote}\n\n${c.text}`)].join('\n\n');

/** The comments of a run that are not sent, and the one that is being written. */
export class Comments {
  readonly list = signal<readonly Comment[]>([]);
  readonly picked = signal<Picked | undefined>(undefined);
  readonly text = signal('');
  /** The key with which these comments, no more and no less, may have been sent before the page was loaded again; "": they were not. */
  readonly sentKey: string;

  constructor(private readonly run = '', private readonly store: Pick<Storage, 'getItem' | 'setItem'> | undefined = tab()) {
    const all = load(this.store);
    const kept = Object.hasOwn(all, run) ? all[run]! : [];
    this.list.value = 'key' in kept ? kept.list : kept;
    this.sentKey = 'key' in kept ? kept.key : '';
  }

  /** They are being sent. */
  sending(key: string): void {
    save(this.store, this.run, { list: this.list.peek(), key });
  }

  /** Adds a comment, unless there are too many. */
  add(comment: Comment): boolean {
    const next = [...this.list.peek(), comment];
    if (next.length > maxComments || messageOf(next).length > maxMessage) return false;
    this.set(next);
    this.picked.value = undefined;
    this.text.value = '';
    return true;
  }

  /** Those that were sent, or are not wanted, go. */
  drop(gone: readonly Comment[]): void {
    this.set(this.list.peek().filter((c) => !gone.includes(c)));
  }

  private set(list: readonly Comment[]): void {
    this.list.value = list;
    save(this.store, this.run, list);
  }
}

const key = 'linesman.comments';
const maxRuns = 16; // whose comments are kept

/** Removes those of all runs, for somebody who signs out. */
export const forgetComments = (store: Pick<Storage, 'removeItem'> | undefined = tab()): void => store?.removeItem(key);

function tab(): Storage | undefined {
  try {
    return sessionStorage;
  } catch { /* a browser that forbids it: they last as long as the page */ }
  return undefined;
}

type Kept = readonly Comment[] | { list: readonly Comment[]; key: string };

function load(store: Pick<Storage, 'getItem'> | undefined): Record<string, Kept> {
  try {
    return (JSON.parse(store?.getItem(key) ?? '{}') ?? {}) as Record<string, Kept>;
  } catch { /* it is of nobody */ }
  return {};
}

function save(store: Pick<Storage, 'getItem' | 'setItem'> | undefined, run: string, kept: Kept): void {
  const others = Object.entries(load(store)).filter(([of]) => of !== run);
  const all = 'key' in kept || kept.length > 0 ? [...others, [run, kept]] : others;
  try {
    store?.setItem(key, JSON.stringify(Object.fromEntries(all.slice(-maxRuns))));
  } catch { /* it is full */ }
}
