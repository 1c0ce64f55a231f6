// Runs, from the stream of GET /v1/runs: the open ones and the newest of those that have ended, `synced`, and then changes.
// A stream that does not resume has them again, so those that it lacks are gone. Older ones come in pages, when they are
// wanted: at the end of the list, for another order, or those that a search or a filter selects. The stream is open as long as
// the session, on every page, for the badge and the notifications. It begins again once many runs have ended: a tab that is open
// for days has not all of them.
//
//   runs                  by id; the objects are replaced, never changed
//   changed.value         counts changes, at most four a second
//   synced.value          whether all runs have arrived once
//   left(query)           whether the server has older runs of a query that are not here
//   loadOlder(query)      loads the next page of them
//   updates.add(f)        f(before, after) for each change after that; before is undefined for a new run, after for one that is gone
//                         from here: removed, or not among those that the stream began with again

import { batch, computed, effect, signal, untracked } from '@preact/signals';
import { agents } from '../lib/agents';
import { api, query, session, type Run, type RunQuery } from '../lib/api';
import { now, serverNow } from '../lib/clock';
import { ended } from '../lib/format';
import { openStream, type Message, type Stream } from '../lib/stream';

export const runs = new Map<string, Run>();
export const changed = signal(0);
export const synced = signal(false);
/** How often all that a connection begins with has arrived. */
export const arrivedAll = signal(0);
/** The last page could not be read. */
export const olderFailed = signal(false);
export const stream = signal<Stream | undefined>(undefined);
/** Another version than that of this page serves now; "": no. */
export const newVersion = signal('');
/** Whether all runs are wanted, for a search or an order of all: none is left to the server then. */
export const keepAll = signal(false);
/** Whether this tab is the one that notifies, and that stays connected while it is hidden. */
export const leader = signal(false);

/** Whether the runs are as they are now: not while the server does not answer. */
export const fresh = computed(() => {
  const s = stream.value;
  return !s || s.state.value === 'live' || (s.state.value === 'connecting' && !s.error.value);
});

/** The time that ages in the list refer to: now, or when the server was last heard. */
export const asOf = computed(() => (fresh.value ? now.value : Math.min(now.peek(), (stream.peek()?.heardAt() || Infinity) + serverNow() - Date.now())));

export type Update = (before: Run | undefined, after: Run | undefined) => void;
export const updates = new Set<Update>();

const interval = 250; // ms between two changes of the list

let timer: ReturnType<typeof setTimeout> | undefined;
let lastBump = 0;
let connection = 0; // counts streams that began
const arrived = new Set<string>(); // the runs of this connection, until all have arrived

let passed = 0; // runs that have ended since the stream began
const most = 2_000; // of these: the stream begins again then, and the older ones are left to the server

const recent = 100; // ended runs that the stream begins with
const page = 100; // runs, the most that a page has
const loading = new Map<string, Promise<readonly Run[]>>(); // by the text of a query
const told = new Set<string>(); // the runs that the stream has sent or removed while a page was on its way

const all: RunQuery = { order: 'changed' };
/** The next page of each query that was begun, by its text; '': all runs of the query are here. */
const cursors = signal<ReadonlyMap<string, string>>(new Map());

function turn(q: RunQuery, cursor: string): void {
  cursors.value = new Map(cursors.peek()).set(query({ ...q }), cursor);
}

/** Whether older runs of a query are not here yet. */
export function left(q: RunQuery | undefined): boolean {
  if (!q || !cursors.value.get(query({ ...all }))) return false;
  return cursors.value.get(query({ ...q })) !== '';
}

/** Loads the next page of older runs of a query, one at a time, and returns its runs. */
export function loadOlder(q: RunQuery): Promise<readonly Run[]> {
  const text = query({ ...q });
  let one = loading.get(text);
  if (!one) loading.set(text, (one = next(q, text).finally(() => loading.delete(text))));
  return one;
}

async function next(q: RunQuery, text: string): Promise<readonly Run[]> {
  if (!untracked(() => left(q))) return [];
  const cursor = cursors.peek().get(text);
  const begun = connection;
  if (loading.size === 0) told.clear();
  try {
    const answer = await api.runs({ ...q, limit: page, cursor });
    if (connection !== begun) return []; // the stream has begun again meanwhile
    for (const run of answer.runs) if (!told.has(run.run)) put(run);
    turn(q, answer.next ?? '');
    olderFailed.value = false;
    return answer.runs;
  } catch {
    olderFailed.value = true;
    return [];
  }
}

/** Loads all older runs of a query, or until the runs of a page are enough; false: that has failed. */
export async function loadAll(q: RunQuery, enough = (_: readonly Run[]): boolean => false): Promise<boolean> {
  olderFailed.value = false;
  while (untracked(() => left(q)) && !olderFailed.peek()) if (enough(await loadOlder(q))) break;
  return !olderFailed.peek();
}

function bump(): void {
  timer ??= setTimeout(show, Math.max(0, lastBump + interval - Date.now()));
}

function show(): void {
  clearTimeout(timer);
  timer = undefined;
  lastBump = Date.now();
  changed.value++;
}

/** Sets what an answer to a request says of a run, before the stream does. */
export function put(run: Run): void {
  const before = runs.get(run.run);
  if (before && before.seq > run.seq) return;
  runs.set(run.run, run);
  bump();
}

export function apply(messages: Message[]): void {
  batch(() => take(messages));
}

function take(messages: Message[]): void {
  const first = !synced.peek();
  for (const { event, data } of messages) {
    if (event === 'synced') {
      const { resumed, next } = JSON.parse(data) as { resumed?: boolean; next?: string };
      if (!resumed) {
        for (const [id, run] of runs) if (!arrived.has(id)) lose(run);
        connection++;
        passed = 0;
        cursors.value = new Map([[query({ ...all }), next ?? '']]);
        olderFailed.value = false;
      }
      arrived.clear();
      synced.value = true;
      arrivedAll.value++;
      continue;
    }
    if (event !== 'run' && event !== 'gone') continue;
    const run = JSON.parse(data) as Run;
    const before = runs.get(run.run);
    if (loading.size > 0) told.add(run.run);
    if (event === 'gone') {
      lose(before ?? run);
      continue;
    }
    runs.set(run.run, run);
    arrived.add(run.run);
    if (!synced.value) continue;
    if (ended(run) && !(before && ended(before))) passed++;
    for (const update of updates) update(before, run);
  }
  if (passed > most && !keepAll.peek()) {
    passed = 0;
    stream.peek()?.restart();
  }
  if (first && synced.peek()) show(); // no moment without runs
  else bump();
}

/** A run was removed, or is too old for a stream that has begun again. */
function lose(run: Run): void {
  runs.delete(run.run);
  if (synced.peek()) for (const update of updates) update(run, undefined);
}

/** A connection was made. */
export function begin(): void {
  arrived.clear();
}

function open(): void {
  runs.clear();
  connection++;
  cursors.value = new Map();
  synced.value = false;
  changed.value++;
  const opened = openStream({
    url: `/v1/runs?recent=${recent}`,
    onMessages: apply,
    onOpen: (lost) => {
      begin();
      if (lost) void checkVersion();
    },
    hidden: () => (leader.value ? 'keep' : 'pause'),
  });
  stream.value = opened;
  effect(() => {
    if (opened.state.value === 'live') api.workers().then((answer) => (agents.value = answer.agents), () => {});
  });
}

async function checkVersion(): Promise<void> {
  const known = session.peek();
  const found = await api.session().catch(() => undefined);
  if (known && found && found.version !== known.version) newVersion.value = found.version;
}

/** Follows the session: signed in, the stream is open. */
export function startStore(): void {
  effect(() => {
    const on = Boolean(session.value);
    if (on && !stream.peek()) open();
    if (!on && stream.peek()) {
      stream.peek()!.close();
      stream.value = undefined;
      runs.clear();
      changed.value++;
    }
  });
  if ('locks' in navigator) {
    void navigator.locks.request('linesman.leader', () => {
      leader.value = true;
      if (document.visibilityState === 'hidden') stream.peek()?.retry();
      return new Promise(() => {}); // until the tab is closed
    });
  } else leader.value = true;
}
