// The state of the view of one run: its record, its timeline, its stream.

import { computed, effect, signal } from '@preact/signals';
import { allowed, api, ApiError, type Diff, type Run } from '../lib/api';
import { ended } from '../lib/format';
import { openStream, type Message, type Stream } from '../lib/stream';
import { markSeen, visible } from '../overview/seen';
import { updates } from '../overview/store';
import type { Prompt } from './again';
import { type DetailItem, type EventItem, fromDetail, fromEvent, type Item } from './items';
import { forgetDraft } from './messages';
import { Timeline } from './model';

const frame = 100; // ms between two changes of what is shown
const settle = 400; // ms between a change of a run and the request for its record
const again = 3_000; // ms until a run that could not be read is asked for again
const poll = 15_000; // ms between requests for the record of a run that works, should the overview's stream be away

/** Whether a failure says nothing of the run: linesman does not answer, or cannot. */
const unsure = (e: ApiError): boolean => e.status === 0 || e.status >= 500;

export class RunView {
  readonly run = signal<Run | undefined>(undefined);
  readonly failure = signal<ApiError | undefined>(undefined);
  /** What the timeline is made from, once it is known. */
  readonly feed = signal<'events' | 'detail' | undefined>(undefined);
  /** RAW has lost the beginning of the run: the events are shown instead of its details. */
  readonly expired = signal(false);
  readonly stream = signal<Stream | undefined>(undefined);
  /** Counts the changes of the timeline, at most ten a second. */
  readonly version = signal(0);
  readonly diff = signal<Diff | ApiError | undefined>(undefined);
  readonly busy = signal(false); // a collapsed part is loading
  readonly prompt = signal<Prompt>('loading');
  timeline = new Timeline();

  /** All that has happened so far is here, or is on its way without a pause. */
  readonly arrived = computed(() => this.version.value > 0 && (this.timeline.size > 0 || this.stream.value?.state.value === 'ended'));

  private timer: ReturnType<typeof setTimeout> | undefined;
  private refresher: ReturnType<typeof setTimeout> | undefined;
  private retrier: ReturnType<typeof setTimeout> | undefined;
  // Requests for the record have numbers, and the answer to a later one is newer. A row of the stream has none: its seq
  // tells whether it is newer than the record. Where RAW was recreated, seq begins at 1 again.
  private asked = 0;
  private answered = 0; // the latest request with an answer
  private streamed = 0; // the latest request when a row came
  private openings = 0; // only the latest one counts
  private readonly abort = new AbortController();
  private readonly closers: (() => void)[] = [];

  constructor(readonly id: string) {}

  start(): () => void {
    const update = (before: Run | undefined, after: Run | undefined): void => {
      if (!after && before?.run === this.id) return void this.refresh();
      if (after?.run !== this.id) return;
      const known = this.run.peek();
      if (known && after.seq >= known.seq) {
        this.streamed = this.asked;
        this.run.value = { ...known, ...after };
      }
      this.refreshSoon(settle);
    };
    updates.add(update);
    const timer = setInterval(() => {
      const run = this.run.peek();
      if (document.visibilityState === 'visible' && (!run || !ended(run))) void this.refresh();
    }, poll);
    this.closers.push(() => updates.delete(update), () => clearInterval(timer));
    this.closers.push(effect(() => {
      const run = this.run.value;
      if (run?.unseen && ended(run) && visible.value) void markSeen([this.id]);
    }));
    void this.open();
    return () => this.close();
  }

  close(): void {
    this.abort.abort();
    clearTimeout(this.timer);
    clearTimeout(this.refresher);
    clearTimeout(this.retrier);
    for (const close of this.closers) close();
    this.stream.peek()?.close();
  }

  /** Loads the run and opens its feed; also after a failure. */
  async open(): Promise<void> {
    clearTimeout(this.retrier);
    const opening = ++this.openings;
    const over = (): boolean => this.abort.signal.aborted || opening !== this.openings;
    if (!(await this.refresh(true)) || over()) return;
    this.failure.value = undefined;
    this.stream.peek()?.close(); // its items are not of the new timeline
    this.reset();
    const details = allowed('raw') && (await this.hasDetails());
    if (over()) return;
    this.feed.value = details ? 'detail' : 'events';
    const path = `/v1/runs/${encodeURIComponent(this.id)}/detail`;
    const stream = openStream({
      url: this.feed.value === 'detail' ? path : `/v1/events?run=${encodeURIComponent(this.id)}`,
      onMessages: (batch) => this.take(batch),
      onReset: () => this.reset(),
      hidden: 'pause',
    });
    this.stream.value = stream;
    this.closers.push(effect(() => {
      const state = stream.state.value;
      if (state === 'ended') {
        this.bump();
        this.refreshSoon(0);
      }
      if (state === 'live' && this.feed.peek() === 'detail' && this.prompt.peek() === 'loading') {
        void this.hasDetails().then((has) => void (has || this.open()));
      }
    }));
  }

  private reset(): void {
    const { usage, threadUsage: thread } = this.run.peek() ?? {};
    const own = usage?.own;
    const base = own && thread && {
      input: Math.max(0, thread.inputTokens - own.inputTokens),
      cached: Math.max(0, thread.cachedInputTokens - own.cachedInputTokens),
      output: Math.max(0, thread.outputTokens - own.outputTokens),
    };
    this.timeline = new Timeline(base);
    const run = this.run.peek();
    if (run && ended(run)) this.timeline.focus = 0; // it is read from its beginning
    this.bump();
  }

  /** Whether the details of the run go back to its beginning. */
  private async hasDetails(): Promise<boolean> {
    const opening = this.openings;
    try {
      const page = await api.detail(this.id, { limit: 1 }, this.abort.signal);
      if (opening !== this.openings) return true; // the feed is being opened again
      this.expired.value = page.omitted === 'expired';
      const [first] = page.items; // the prompt is before the first line
      const { prompt, live } = first?.detail ?? {};
      this.prompt.value = this.expired.value ? 'expired' : prompt ? { ...prompt, live } : 'none';
      return !this.expired.value;
    } catch (e) {
      return e instanceof ApiError && unsure(e); // the stream tries again
    }
  }

  private take(batch: Message[]): void {
    const items: Item[] = [];
    for (const m of batch) {
      const item = this.item(m.data);
      if (item) items.push(item);
    }
    if (!this.timeline.add(items)) return;
    if (items.some((i) => i.kind === 'completion')) this.refreshSoon(0);
    this.bump();
  }

  private item(data: string): Item | null {
    try {
      return this.feed.peek() === 'detail' ? fromDetail(JSON.parse(data) as DetailItem) : fromEvent(JSON.parse(data) as EventItem);
    } catch {
      return null;
    }
  }

  private bump(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.version.value++;
    }, frame);
  }

  private refreshSoon(after: number): void {
    if (after === 0) {
      clearTimeout(this.refresher);
      this.refresher = undefined;
    }
    this.refresher ??= setTimeout(() => {
      this.refresher = undefined;
      void this.refresh();
    }, after);
  }

  /** Reads the record of the run. */
  async refresh(first = false): Promise<boolean> {
    const number = ++this.asked;
    try {
      const run = await api.run(this.id, this.abort.signal);
      const known = this.run.peek();
      if (number < this.answered || (known && number <= this.streamed && run.seq < known.seq)) return true;
      this.answered = number;
      this.run.value = run;
      if (this.failure.peek() && !first) void this.open(); // it was away
      return true;
    } catch (e) {
      const removed = e instanceof ApiError && e.status === 404;
      if (removed) this.forget();
      if ((first || removed) && e instanceof ApiError) {
        this.failure.value = e;
        if (unsure(e)) this.retrier = setTimeout(() => void this.open(), again);
      }
      return false;
    }
  }

  /** Nothing of a run that was removed stays. */
  private forget(): void {
    this.stream.peek()?.close();
    this.run.value = undefined;
    this.diff.value = undefined;
    this.prompt.value = 'none';
    this.timeline = new Timeline();
    forgetDraft(this.id);
  }

  /** Loads a collapsed chunk of the timeline. */
  async load(chunk: number): Promise<void> {
    const timeline = this.timeline;
    const want = timeline.open(chunk);
    if (!want) return;
    this.busy.value = true;
    try {
      let after = want.after;
      for (;;) {
        const items = await this.page(after);
        timeline.add(items);
        const last = items.at(-1);
        if (!last || last.ord >= want.last) break;
        after = last.cursor;
      }
    } catch {
      timeline.shut(chunk); // its button is there again
    } finally {
      this.busy.value = false;
      this.version.value++;
    }
  }

  private async page(after: string): Promise<Item[]> {
    if (this.feed.peek() === 'detail') {
      const { items } = await api.detail(this.id, { after: after || undefined, limit: 1000 }, this.abort.signal);
      return items.map((d) => fromDetail(d as DetailItem)).filter((i) => i !== null);
    }
    const { events } = await api.events(this.id, { after: Number(after) || undefined, limit: 1000 }, this.abort.signal);
    return events.map((e) => fromEvent(e as unknown as EventItem));
  }

  async loadDiff(): Promise<void> {
    try {
      this.diff.value = await api.diff(this.id, this.abort.signal);
    } catch (e) {
      if (e instanceof ApiError) this.diff.value = e;
    }
  }
}
