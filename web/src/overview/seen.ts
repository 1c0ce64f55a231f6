// A run is seen once its page was on the screen after it ended.

import { effect, signal } from '@preact/signals';
import { api } from '../lib/api';
import { serverNow } from '../lib/clock';
import { ended } from '../lib/format';
import { route } from '../lib/router';
import { olderOf, select } from './select';
import { changed, loadAll, put, runs } from './store';

/** Whether the tab is shown. */
export const visible = signal(true);
const asked = new Set<string>();

/** Marks runs as seen, a few at a time. Returns how many could not be marked. */
export async function markSeen(ids: string[]): Promise<number> {
  const left = ids.filter((id) => !asked.has(id));
  let failed = 0;
  const work = async (): Promise<void> => {
    for (let id = left.pop(); id !== undefined; id = left.pop()) {
      asked.add(id);
      try {
        await api.seen(id);
        const run = runs.get(id);
        if (run?.unseen) put({ ...run, unseen: false });
      } catch {
        failed++;
      }
      asked.delete(id);
    }
  };
  await Promise.all([work(), work(), work(), work()]);
  return failed;
}

/**
 * Marks all runs as seen that are not, of those that a search shows. Returns how many could not be marked; undefined: the older
 * ones could not be read, and none is marked.
 */
export async function markAllSeen(search: string): Promise<number | undefined> {
  const shown = { filter: 'new', search, sort: 'need', reverse: false } as const;
  const older = olderOf(shown);
  if (older && !(await loadAll(older))) return undefined;
  return markSeen(select(runs.values(), shown, serverNow()).groups.flatMap((group) => group.runs.map((run) => run.run)));
}

export function startSeen(): void {
  visible.value = document.visibilityState === 'visible';
  document.addEventListener('visibilitychange', () => (visible.value = document.visibilityState === 'visible'));
  effect(() => {
    void changed.value;
    const at = route.value;
    if (!visible.value) return;
    const shown = at.name === 'run' ? [at.id] : at.name === 'with' ? [at.left, at.right] : [];
    const unseen = shown.filter((id) => {
      const run = runs.get(id);
      return run !== undefined && run.unseen && ended(run);
    });
    if (unseen.length > 0) void markSeen(unseen);
  });
}
