// Server-sent events over fetch: an EventSource cannot see the status of an answer.
//
//   const stream = openStream({
//     url: '/v1/runs/X/events',
//     onMessages: (batch) => …,   every message once, in order, in the batches in which they arrive
//     onOpen: (lost) => …,        a connection was made, from the beginning or resumed; lost: there was none for a while, not
//                                 only between two turns of lib/turns
//     onReset: () => …,           the server's stream was recreated (409): forget all; it begins again
//     hidden: 'pause',            close it when the tab is hidden for 20 s, and do not open it in one that was not shown yet
//                                 (connections are few: see lib/turns)
//   });
//   stream.state.value            connecting | live | stale | disconnected | ended | failed
//   stream.error.value            the last error; with `failed` it is final (403, 404, …)
//   stream.retryAt.value          with `disconnected`: when it tries again (ms since 1970)
//   stream.retry()                try now
//   stream.restart()              begin again, without the id: the server sends all that it begins with
//   stream.close()
//
// It resumes after the last id that it received (Last-Event-ID), so no message is lost or repeated.
// The server sends a comment every 15 s: after 40 s without a byte the stream is `stale` and it
// reconnects. Waits between attempts grow from 0.5 s to 20 s, until a message arrives or a connection lasts 15 s, and end when
// the browser is online again or the tab is shown. A 204 means that the stream has ended. A 401 signs out (lib/api).

import { signal, type Signal } from '@preact/signals';
import { ApiError, problem, session } from './api';
import { setServerTime } from './clock';
import { patience, turn, turnTime } from './turns';

export type StreamState = 'connecting' | 'live' | 'stale' | 'disconnected' | 'ended' | 'failed';

export interface Message { id: string; event: string; data: string }

export interface StreamOptions {
  url: string;
  onMessages: (batch: Message[]) => void;
  onOpen?: (lost: boolean) => void;
  onReset?: () => void;
  lastEventId?: string;
  hidden?: 'pause' | 'keep' | (() => 'pause' | 'keep'); // keep
}

export interface Stream {
  state: Signal<StreamState>;
  error: Signal<ApiError | undefined>;
  retryAt: Signal<number>;
  /** When bytes last arrived, in ms since 1970; 0: never. */
  heardAt: () => number;
  retry: () => void;
  restart: () => void;
  close: () => void;
}

export const staleAfter = 40_000;
export const pauseAfter = 20_000;
const steady = 15_000; // ms for which a connection without a message must have lasted to be one that works

/** Milliseconds to wait before attempt n (from 1) with a random number below 1. */
export function backoff(n: number, random: number): number {
  return Math.min(20_000, 500 * 2 ** (n - 1)) * (0.75 + random / 4);
}

export function openStream(options: StreamOptions): Stream {
  const state = signal<StreamState>('connecting');
  const error = signal<ApiError | undefined>(undefined);
  const retryAt = signal(0);
  let lastId = options.lastEventId ?? '';
  let heard = 0;
  let attempts = 0;
  let closed = false;
  let paused = false;
  let lost = false;
  let spoke = false; // a message has arrived in this turn
  let silent = 0; // turns in a row without one
  let abort: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let hiding: ReturnType<typeof setTimeout> | undefined;

  async function connect(): Promise<void> {
    clearTimeout(timer);
    if (closed || paused) return;
    const mine = (abort = new AbortController());
    let stop = (): void => {};
    let leave = stop;
    let since = Infinity; // when it was answered
    let cut = false;
    if (state.value !== 'stale') state.value = 'connecting';
    try {
      let begun = 0;
      spoke = false;
      if (pauses()) {
        leave = await turn(mine.signal, () => {
          if (!spoke && Date.now() - begun < patience(silent) - turnTime / 2) return;
          silent = spoke ? 0 : silent + 1;
          renew(mine);
        });
      }
      if (abort !== mine) return;
      begun = Date.now();
      stop = watchSilence(mine);
      const headers: Record<string, string> = { Accept: 'text/event-stream' };
      if (lastId) headers['Last-Event-ID'] = lastId;
      const answer = await fetch(options.url, { headers, credentials: 'same-origin', cache: 'no-store', redirect: 'error', signal: mine.signal });
      setServerTime(answer.headers.get('Date'));
      if (answer.status === 204) return end('ended');
      if (!answer.ok) return refused(await problem(answer));
      if (!answer.body) throw new TypeError('no body');
      since = heard = Date.now();
      options.onOpen?.(lost);
      lost = false;
      await read(answer.body, mine);
    } catch {
      cut = true;
    } finally {
      stop();
      leave();
    }
    if (abort !== mine) return; // closed, or replaced
    if (Date.now() - since >= steady) works();
    if (cut) error.value = new ApiError(0, 'UNREACHABLE', 'linesman does not answer');
    again();
  }

  function works(): void {
    attempts = 0;
    error.value = undefined;
  }

  async function read(body: ReadableStream<Uint8Array>, mine: AbortController): Promise<void> {
    const parser = new Parser();
    const decoder = new TextDecoder();
    const reader = body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (abort !== mine) return;
      if (done) return;
      heard = Date.now();
      state.value = 'live';
      const batch = parser.push(decoder.decode(value, { stream: true }));
      if (parser.lastId) lastId = parser.lastId;
      if (batch.length === 0) continue; // the server begins each answer with bytes that say nothing
      works();
      spoke = true;
      options.onMessages(batch);
    }
  }

  function refused(e: ApiError): void {
    error.value = e;
    if (e.status === 401) {
      session.value = null;
      return end('failed');
    }
    if (e.status === 409 && lastId) {
      lastId = '';
      options.onReset?.();
      return again();
    }
    if (e.status >= 500 || e.status === 429) return again(e.retryAfter);
    return end('failed');
  }

  function end(how: 'ended' | 'failed'): void {
    state.value = how;
    close();
  }

  function again(seconds = 0): void {
    if (closed) return;
    attempts++;
    lost = true;
    if (attempts > 1) error.value ??= new ApiError(0, 'UNREACHABLE', 'linesman ends its answers early');
    const wait = Math.max(backoff(attempts, Math.random()), seconds * 1000);
    state.value = attempts === 1 && !error.value ? 'connecting' : 'disconnected';
    retryAt.value = Date.now() + wait;
    clearTimeout(timer);
    timer = setTimeout(() => void connect(), wait);
  }

  // Without a byte for so long the connection is dead, whatever the system says of it.
  function watchSilence(mine: AbortController): () => void {
    const begun = Date.now();
    const each = setInterval(() => {
      if (Date.now() - Math.max(heard, begun) < staleAfter) return;
      clearInterval(each);
      if (abort !== mine) return;
      state.value = 'stale';
      lost = true;
      renew(mine);
    }, 1000);
    return () => clearInterval(each);
  }

  /** Leaves a connection for another one. */
  function renew(mine: AbortController): void {
    if (abort !== mine) return;
    abort = undefined;
    mine.abort();
    void connect();
  }

  function restart(): void {
    lastId = '';
    if (abort) renew(abort);
  }

  function retry(): void {
    if (closed || (!paused && (state.value === 'live' || state.value === 'connecting'))) return;
    paused = false;
    abort?.abort();
    abort = undefined;
    void connect();
  }

  const pauses = (): boolean => (typeof options.hidden === 'function' ? options.hidden() : options.hidden) === 'pause';

  function online(): void {
    if (!paused) retry();
  }

  function visibility(): void {
    clearTimeout(hiding);
    if (document.visibilityState === 'visible') {
      retry();
    } else if (options.hidden) {
      hiding = setTimeout(() => {
        if (!pauses()) return;
        paused = lost = true;
        clearTimeout(timer);
        state.value = 'connecting';
        abort?.abort();
        abort = undefined;
      }, pauseAfter);
    }
  }

  function close(): void {
    closed = true;
    clearTimeout(timer);
    clearTimeout(hiding);
    removeEventListener('online', online);
    document.removeEventListener('visibilitychange', visibility);
    const last = abort;
    abort = undefined;
    last?.abort();
  }

  addEventListener('online', online);
  document.addEventListener('visibilitychange', visibility);
  if (document.visibilityState === 'hidden' && pauses()) paused = lost = true; // until it is shown
  else void connect();
  return { state, error, retryAt, heardAt: () => heard, retry, restart, close };
}

/** Parses server-sent events from pieces of text that may end anywhere. */
export class Parser {
  lastId = '';
  private rest = '';
  private id = '';
  private event = '';
  private data: string[] = [];

  push(text: string): Message[] {
    const batch: Message[] = [];
    const lines = (this.rest + text).split('\n');
    this.rest = lines.pop() ?? '';
    for (const raw of lines) {
      const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
      if (line === '') {
        if (this.data.length > 0) {
          this.lastId = this.id;
          batch.push({ id: this.id, event: this.event || 'message', data: this.data.join('\n') });
        }
        this.event = '';
        this.data = [];
        continue;
      }
      const colon = line.indexOf(':');
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
      if (field === 'data') this.data.push(value);
      else if (field === 'event') this.event = value;
      else if (field === 'id') this.id = value;
    }
    return batch;
  }
}
