import { computed, signal, useComputed } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { count } from '../lib/format';
import { useKeys } from '../lib/keys';
import { now, serverNow } from '../lib/clock';
import { navigate, params, runPath, setParams, withPath } from '../lib/router';
import { usePageTitle } from '../lib/title';
import { SearchIcon } from '../ui/icons';
import { Inbox } from '../questions';
import { Problem } from '../ui/problem';
import { clearToast, toast } from '../ui/toast';
import { Empty, Loading, NothingFound } from './empty';
import { List, type ListHandle } from './list';
import { markAllSeen, markSeen } from './seen';
import { filters, olderOf, select, sorts, type Filter, type Selection, type Sort } from './select';
import { changed, keepAll, left, loadAll, loadOlder, olderFailed, runs, stream, synced } from './store';

const names: Record<Filter, string> = { all: 'All', needs: 'Needs you', may: 'May need you', turn: 'Your turn', running: 'Running', queued: 'Queued', new: 'Ended, not seen', failed: 'Failed', lost: 'Lost' };
const sortNames: Record<Sort, string> = {
  need: 'By need', started: 'Newest', active: 'Last active', elapsed: 'Longest', tokens: 'Tokens', state: 'State', title: 'Title', directory: 'Directory', agent: 'Agent',
};

const selection = computed<Selection>(() => {
  const p = params.value;
  const show = p.get('show') as Filter;
  const by = (p.get('sort') ?? 'need').replace(/^-/, '') as Sort;
  return {
    filter: filters.includes(show) ? show : 'all', search: p.get('q') ?? '',
    sort: sorts.includes(by) ? by : 'need', reverse: (p.get('sort') ?? '').startsWith('-'),
  };
});

const view = computed(() => {
  void changed.value;
  const found = select(runs.values(), selection.value, serverNow());
  if (found.moves) void now.value; // look again in a second
  return found;
});

/** Whether the order of what is shown needs all of it, not only the newest: it is loaded then. */
const needsAll = computed(() => selection.value.reverse || !['need', 'active', 'started'].includes(selection.value.sort));

/** What of older runs may be shown, once the search is typed. */
const older = signal(olderOf(selection.peek()));

const typing = 200; // ms after a key until the server is asked

/** The run that the keyboard is at; "" none. It is kept while another page is open. */
const at = signal('');
/** The first of two runs to compare. */
const marked = signal('');

export function Overview() {
  usePageTitle('');
  const list = useRef<ListHandle>(null);
  const search = useRef<HTMLInputElement>(null);
  const problem = useComputed(() => (stream.value?.state.value === 'failed' ? stream.value.error.value : undefined));
  const { filter, search: words, sort, reverse } = selection.value;
  const { counts, total, shown } = view.value;

  const wanted = olderOf({ filter, search: words, sort });
  const text = JSON.stringify(wanted);
  useEffect(() => {
    const settle = setTimeout(() => (older.value = wanted), words ? typing : 0);
    return () => clearTimeout(settle);
  }, [text]);
  const asked = JSON.stringify(older.value) === text ? older.value : undefined;
  const more = left(wanted);
  const pending = asked !== undefined && more && !olderFailed.value;
  useEffect(() => {
    if (pending && (needsAll.value || shown === 0)) {
      void loadAll(asked, (page) => older.peek() !== asked || (!needsAll.peek() && select(page, selection.peek(), serverNow()).shown > 0));
    }
  }, [pending, needsAll.value || shown === 0, text]);

  useEffect(() => { // what is loaded for these stays
    keepAll.value = needsAll.value || words !== '';
    return () => void (keepAll.value = false);
  }, [needsAll.value, words]);

  const compare = (id: string): boolean | void => {
    if (!id) return false;
    if (!marked.value || marked.value === id) {
      marked.value = marked.value === id ? '' : id;
      if (marked.value) toast('Press x on another run to see both side by side, Esc to stop.', { sticky: true });
      else clearToast();
      return;
    }
    const first = marked.value;
    marked.value = '';
    clearToast();
    navigate(withPath(first, id));
  };

  const seen = (): boolean | void => {
    const id = at.value;
    if (!runs.get(id)?.unseen) return false;
    list.current?.move(1); // on to the next one: the row of this one moves away
    void markSeen([id]).then((failed) => failed && toast('The run could not be marked', { tone: 'bad' }));
  };

  const move = (by: number) => () => list.current?.move(by);
  useKeys('Overview', [
    { keys: ['j', 'ArrowDown'], text: 'Next run', run: move(1) },
    { keys: ['k', 'ArrowUp'], text: 'Previous run', run: move(-1) },
    { keys: ['PageDown'], text: '', run: () => list.current?.page(1) },
    { keys: ['PageUp'], text: '', run: () => list.current?.page(-1) },
    { keys: ['g g', 'Home'], text: 'First run', run: move(-Infinity) },
    { keys: ['Shift+G', 'End'], text: 'Last run', run: move(Infinity) },
    { keys: ['Enter', 'o'], text: 'Open the run', run: () => (at.value ? navigate(runPath(at.value)) : false) },
    { keys: ['e'], text: 'Mark the run as seen', run: seen },
    { keys: ['x'], text: 'Compare with another run', run: () => compare(at.value) },
    { keys: ['/'], text: 'Search', run: () => search.current?.select() },
    { keys: filters.map((_, i) => String(i + 1)), shown: `1 – ${filters.length}`, text: 'Choose a filter', run: (e) => show(filters[Number(e.key) - 1]!) },
    {
      keys: ['Escape'], text: 'Leave the search, or clear it', typing: true, run: () => {
        if (document.activeElement === search.current) return search.current?.blur();
        if (marked.value) return void compare(marked.value);
        if (words || filter !== 'all') return setParams({ q: undefined, show: undefined });
        return false;
      },
    },
    { keys: ['ArrowDown'], text: '', typing: true, run: () => (document.activeElement === search.current ? list.current?.move(1) : false) },
  ]);

  const show = (f: Filter): void => {
    setParams({ show: f === 'all' ? undefined : f });
    list.current?.top();
  };
  const sortBy = (s: Sort): void => {
    const next = s !== sort ? s : reverse ? 'need' : `-${s}`; // again: reversed, and then by need
    setParams({ sort: next.replace('-need', 'need') === 'need' ? undefined : next });
    list.current?.top();
  };
  const unseen = async (): Promise<void> => {
    const failed = await markAllSeen(words);
    if (failed === undefined) toast('Older runs could not be read: none is marked', { tone: 'bad' });
    else toast(failed ? `${failed} runs could not be marked` : 'All are marked as seen', { tone: failed ? 'bad' : 'ok' });
  };

  if (problem.value) {
    const e = problem.value;
    return <Problem title={e.status === 403 ? 'This token may not read runs' : 'The runs cannot be read'} detail={e.message} action="Try again" onAction={() => location.reload()} />;
  }

  return (
    <main class="overview">
      <h1 class="visually-hidden" tabIndex={-1}>Runs</h1>
      <Inbox />
      <div class="toolbar">
        <nav class="filters" aria-label="Show">
          {filters.map((f) => (
            <a key={f} href={f === 'all' ? '/' : `/?show=${f}`} aria-current={f === filter ? 'true' : undefined} data-tone={tones[f]} data-any={counts[f] > 0} onClick={(e) => {
              if (e.metaKey || e.ctrlKey || e.shiftKey || e.button !== 0) return;
              e.preventDefault();
              show(f);
            }}>
              {names[f]} <span class="num">{synced.value ? count(counts[f]) + (left(olderOf({ filter: f, search: words, sort })) ? '+' : '') : ''}</span>
            </a>
          ))}
        </nav>
        <div class="search">
          <SearchIcon />
          <input
            ref={search} type="search" placeholder="Search" aria-label="Search runs" value={words} autocomplete="off" spellcheck={false}
            title="Words that a run has. Prefixes select where: agent: dir: label: state: worker: model: thread:"
            onInput={(e) => setParams({ q: e.currentTarget.value || undefined })}
          />
          <kbd aria-hidden="true">/</kbd>
        </div>
        <label class="sort">
          <span class="visually-hidden">Sort</span>
          <select value={sort} onChange={(e) => sortBy(e.currentTarget.value as Sort)}>
            {sorts.map((s) => <option key={s} value={s}>{sortNames[s]}</option>)}
          </select>
        </label>
      </div>
      {!synced.value || (shown === 0 && more && !olderFailed.value) ? <Loading /> : total === 0 ? <Empty /> : shown === 0
        ? <NothingFound filter={filter} search={words} onClear={() => setParams({ q: undefined, show: undefined })} />
        : <List handle={list} view={view.value} at={at} marked={marked} sort={sort} reverse={reverse} onSort={sortBy} onMarkAll={() => void unseen()} onEnd={() => pending && void loadOlder(asked)} onLabel={(l) => setParams({ q: `${words} label:${/\s/.test(l) ? `"${l}"` : l}`.trim() })} />}
      {synced.value && asked && more && (
        <p class="older" role="status">
          {olderFailed.value ? 'Older runs could not be loaded. ' : needsAll.value ? `Looking through older runs: ${count(total)} are loaded.` : `The newest ${count(shown)} runs. `}
          {(olderFailed.value || !needsAll.value) && <button class="link" onClick={() => void (needsAll.value ? loadAll(asked) : loadOlder(asked))}>{olderFailed.value ? 'Try again' : 'Load older ones'}</button>}
        </p>
      )}
    </main>
  );
}

const tones: Partial<Record<Filter, string>> = { needs: 'needs', may: 'needs', turn: 'ok', running: 'busy', new: 'ok', failed: 'bad', lost: 'lost' };
