// All runs, from the stream of GET /v1/runs. The stream is open as long as the session, on every page, for the badge
// and the notifications.
//
//   runs                  by id; the objects are replaced, never changed
//   changed.value         counts changes, at most four a second
//   synced.value          whether all runs have arrived once
//   updates.add(f)        f(before, after) for each change after that; before is undefined for a new run

import { effect, signal } from '@preact/signals';
import { api, session, type Run } from '../lib/api';
import { openStream, type Message, type Stream } from '../lib/stream';

export const runs = new Map<string, Run>();
export const changed = signal(0);
export const synced = signal(false);
export const stream = signal<Stream | undefined>(undefined);
/** Another version than that of this page serves now; "": no. */
export const newVersion = signal('');
/** Whether this tab is the one that notifies, and that stays connected while it is hidden. */
export const leader = signal(false);

export type Update = (before: Run | undefined, after: Run | undefined) => void;
export const updates = new Set<Update>();

const interval = 250; // ms between two changes of the list

let timer: ReturnType<typeof setTimeout> | undefined;
let lastBump = 0;
let sweep: Set<string> | undefined; // the runs of a new snapshot, while it arrives

function bump(): void {
  timer ??= setTimeout(() => {
    timer = undefined;
    lastBump = Date.now();
    changed.value++;
  }, Math.max(0, lastBump + interval - Date.now()));
}

/** Sets what an answer to a request says of a run, before the stream does. */
export function put(run: Run): void {
  const before = runs.get(run.run);
  if (before && before.seq > run.seq) return;
  runs.set(run.run, run);
  bump();
}

export function apply(batch: Message[]): void {
  for (const { event, data } of batch) {
    if (event === 'synced') {
      if (sweep) for (const id of runs.keys()) if (!sweep.has(id)) runs.delete(id);
      sweep = undefined;
      synced.value = true;
      continue;
    }
    if (event !== 'run' && event !== 'gone') continue;
    const run = JSON.parse(data) as Run;
    const before = runs.get(run.run);
    if (event === 'gone') runs.delete(run.run);
    else {
      runs.set(run.run, run);
      sweep?.add(run.run);
    }
    if (synced.value && !sweep) for (const update of updates) update(before, event === 'gone' ? undefined : run);
  }
  bump();
}

function open(): void {
  runs.clear();
  synced.value = false;
  sweep = undefined;
  changed.value++;
  const opened = openStream({
    url: '/v1/runs',
    onMessages: apply,
    onReset: () => (sweep = new Set()),
    hidden: () => (leader.value ? 'keep' : 'pause'),
  });
  stream.value = opened;
  let lost = false;
  effect(() => {
    const state = opened.state.value;
    if (state === 'disconnected') lost = true;
    if (state === 'live' && lost) {
      lost = false;
      void checkVersion();
    }
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
