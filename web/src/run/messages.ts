// Messages of a live run that is kept: what waits, what is typed, and the keys that let each request be carried out once. Pure.

import { signal } from '@preact/signals';
import { type ApiError, explained, newKey, type Run } from '../lib/api';
import { ended, plural, waitsForMessage } from '../lib/format';
import { revealed } from '../lib/plaintext';
import { type Comment, Comments, messageOf } from './comments';

export const takesMessages = (run: Run): boolean => run.conversation !== undefined && !ended(run) && !run.cancelRequested;

/** The number of the turn that runs; 0: none, also while the agent starts again for a message. */
export function turnOf(run: Run): number {
  const turn = run.conversation?.turn ?? 0;
  const { completed = 0, failed = 0 } = run.turns ?? {};
  return waitsForMessage(run) || completed + failed >= turn ? 0 : turn;
}

/** What came of the last turn of a run that is between two. */
export function lastTurn(run: Run): string {
  const c = run.conversation;
  return c?.last_turn ? `turn ${c.turn} ${c.last_turn === 'completed' ? 'completed' : 'was not completed'}` : '';
}

/** What waits, and for what; "": nothing does. */
export function queueText(run: Run): string {
  const c = run.conversation;
  if (!c?.waiting) return '';
  if (c.held) return `${plural(c.waiting, 'message is', 'messages are')} held: turn ${c.turn} was not completed`;
  return `${plural(c.waiting, 'message waits', 'messages wait')} ${turnOf(run) ? `for the end of turn ${c.turn}` : 'for the agent'}`;
}

/** Why a request was refused. */
export function refusedText(e: ApiError): string {
  if (e.status === 0 || e.status >= 500) return 'No reply: it is not known whether linesman has it. It is safe to try again: nothing is sent twice.';
  return `Refused: ${revealed(explained(e))}.`;
}

const maxKeys = 64;

/** The key of a request, and whether it was to be now: with the other choice it would be another request. */
interface Keyed { key: string; now: boolean }

/** What is typed for a run. It stays until it was accepted, also if another page is shown meanwhile. */
export class Draft {
  readonly text = signal('');
  /** What a run that continues the thread is to do. */
  readonly next = signal('');
  /** The id of the message that is changed; "": it is a new one. */
  readonly editing = signal('');
  private aside = ''; // what was typed before the edit
  private readonly requests = new Map<string, Keyed>();

  readonly comments: Comments;

  constructor(private readonly make = newKey, run = '') {
    this.comments = new Comments(run);
    if (this.comments.sentKey) this.requests.set(JSON.stringify(commentsOf(this.comments.list.peek())), { key: this.comments.sentKey, now: false });
  }

  /** The key of a request: the same one for the same content until `done`. */
  key(...content: unknown[]): string {
    return this.request(content).key;
  }

  /** How a request is sent: as it was sent first, for the same content until `done`. */
  request(content: unknown[], now = false): Keyed {
    const of = JSON.stringify(content);
    const known = this.requests.get(of);
    if (known) return known;
    const first = { key: this.make(), now };
    this.requests.set(of, first);
    if (this.requests.size > maxKeys) this.requests.delete(this.requests.keys().next().value!);
    return first;
  }

  done(...content: unknown[]): void {
    this.requests.delete(JSON.stringify(content));
  }

  /** What is typed. With an empty field nothing is left to repeat: the same words later are another message. */
  type(text: string): void {
    this.text.value = text;
    if (text.trim() || this.editing.peek()) return; // a draft is aside
    for (const of of this.requests.keys()) if (of.startsWith('["send",')) this.requests.delete(of);
  }

  edit(message: string, text: string): void {
    if (!this.editing.peek()) this.aside = this.text.peek();
    this.editing.value = message;
    this.text.value = text;
  }

  /** The message that is changed does not wait any more: its text becomes a new one. */
  renew(): void {
    this.editing.value = '';
  }

  /** What was typed is accepted, or given up. */
  clear(): void {
    this.editing.value = '';
    this.type(this.aside);
    this.aside = '';
  }
}

/** The content of the request that sends comments. */
export const commentsOf = (comments: readonly Comment[]): [string, string] => ['comments', messageOf(comments)];

const maxDrafts = 64;
const drafts = new Map<string, Draft>();

/** The draft of a run. */
export function draftOf(run: string): Draft {
  const draft = drafts.get(run) ?? new Draft(newKey, run);
  drafts.delete(run);
  drafts.set(run, draft); // the newest one is the last
  if (drafts.size > maxDrafts) drafts.delete(drafts.keys().next().value!);
  return draft;
}

/** Nothing that was typed for a run stays. */
export function forgetDraft(run: string): void {
  const { comments } = drafts.get(run) ?? new Draft(newKey, run);
  comments.drop(comments.list.peek());
  drafts.delete(run);
}
