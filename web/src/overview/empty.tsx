import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Command } from '../ui/copy';
import type { Filter } from './select';

const rows = Array.from({ length: 12 }, (_, i) => i);

/** Rows without content, once the runs take longer than a moment. */
export function Loading() {
  const late = useSignal(false);
  useEffect(() => {
    const timer = setTimeout(() => (late.value = true), 200);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class="loading" role="status" aria-label="Loading the runs">
      {late.value && rows.map((i) => (
        <div class="loading-row" key={i} aria-hidden="true">
          <span class="skeleton" style={{ width: '72px' }} /><span class="skeleton" style={{ width: `${28 + ((i * 17) % 30)}%` }} /><span class="skeleton end" style={{ width: '10%' }} />
        </div>
      ))}
    </div>
  );
}

/** No run at all: how to get one. */
export function Empty() {
  return (
    <div class="empty first-run">
      <h2>No runs yet</h2>
      <p>Start an agent:</p>
      <Command text='linesman run -- codex exec --json "Fix the failing test."' />
      <p>or show the sessions that are already on this machine:</p>
      <Command text="linesman watch-sessions" />
      <p class="faint">Runs appear here as they start.</p>
    </div>
  );
}

const nothing: Record<Filter, string> = {
  all: 'No matching runs', needs: 'No run needs you', may: 'No run may need you', turn: 'No session waits for your next prompt', running: 'Nothing is running', queued: 'The queue is empty', new: 'You have seen all ended runs', failed: 'No run has failed', lost: 'No run is lost',
};

export function NothingFound({ filter, search, onClear }: { filter: Filter; search: string; onClear: () => void }) {
  return (
    <div class="empty">
      <h2>{search ? 'No matching runs' : nothing[filter]}</h2>
      {search && filter !== 'all' && <p>The search is limited to the selected filter.</p>}
      <p><button class="button" onClick={onClear}>Show all runs</button></p>
    </div>
  );
}
