import { useSignal, type Signal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { allowed, type Run } from '../lib/api';
import { changedText, count, ended, needsYou, plural, yourTurn } from '../lib/format';
import { useKeys, type Shortcut } from '../lib/keys';
import { plainText } from '../lib/plaintext';
import { navigate, params, runPath, setParams } from '../lib/router';
import { usePageTitle } from '../lib/title';
import { SearchIcon } from '../ui/icons';
import { fresh } from '../overview/store';
import { Inbox } from '../questions';
import { questionsOf } from '../questions/ask';
import { toast } from '../ui/toast';
import { CancelDialog, CompareDialog, ResumeDialog } from './actions';
import { again } from './again';
import { Aside } from './aside';
import { Changes, Nothing } from './changes';
import { Composer } from './composer';
import { type Action, Notices, RunHeader } from './header';
import { List, type ListHandle } from './list';
import { draftOf, takesMessages } from './messages';
import { opens, type Shown, startOf } from './row';
import type { Row } from './rows';
import './run.css';
import { countParts, type Part, parts, rowAt, Selection } from './select';
import { RunView } from './view';

export function RunPage({ id }: { id: string }) {
  return <Pane id={id} as="main" />;
}

/** Two runs side by side; on a narrow screen one of them at a time. */
export function SideBySide({ left, right }: { left: string; right: string }) {
  const shown = useSignal<'left' | 'right'>('left');
  usePageTitle('Two runs');
  return (
    <main class="both" data-shown={shown.value}>
      <fieldset class="segments both-tabs">
        <legend>Run</legend>
        {(['left', 'right'] as const).map((side) => (
          <label key={side}><input type="radio" name="side" checked={shown.value === side} onChange={() => (shown.value = side)} /><span>{side === 'left' ? 'First' : 'Second'}</span></label>
        ))}
      </fieldset>
      <Pane id={left} as="section" side="left" />
      <Pane id={right} as="section" side="right" />
    </main>
  );
}

const wideScreen = matchMedia('(min-width: 1100px)');

function useWide(): boolean {
  const wide = useSignal(wideScreen.matches);
  useEffect(() => {
    const change = (): void => void (wide.value = wideScreen.matches);
    wideScreen.addEventListener('change', change);
    return () => wideScreen.removeEventListener('change', change);
  }, []);
  return wide.value;
}

function Pane({ id, as: Root, side }: { id: string; as: 'main' | 'section'; side?: 'left' | 'right' }) {
  const view = useMemo(() => new RunView(id), [id]);
  useEffect(() => view.start(), [view]);
  const scroller = useRef<HTMLElement>(null);
  const run = view.run.value;
  const e = view.failure.value;
  const class_ = `run${side ? ` run-side run-${side}` : ' page'}`;
  const name = run ? plainText(run.title ?? run.run) : id;
  const Title = side ? null : PageTitle;
  return (
    <Root class={class_} ref={scroller as never} aria-busy={!run && !e} aria-label={side ? `Run: ${name}` : undefined}>
      {Title && <Title name={name} />}
      {e && !run && e.status === 404 && <Nothing title="There is no such run" text={`No run has the id ${id}, or it was removed.`} page={!side} />}
      {e && !run && e.status !== 404 && <Nothing title="The run cannot be read" text={`${e.message}.`} action={() => void view.open()} page={!side} />}
      {!e && !run && <Loading />}
      {run && <Loaded view={view} run={run} scroller={scroller} side={side} />}
    </Root>
  );
}

function PageTitle({ name }: { name: string }) {
  usePageTitle(name);
  return null;
}

function Loading() {
  return (
    <div class="run-loading" aria-hidden="true">
      <p class="skeleton" style={{ width: '40%', height: '20px' }} /><p class="skeleton" style={{ width: '65%' }} />
      {[90, 75, 82, 60, 88, 70].map((w, i) => <p key={i} class="skeleton" style={{ width: `${w}%` }} />)}
    </div>
  );
}

type Scroller = { current: HTMLElement | null };

function Loaded({ view, run, scroller, side }: { view: RunView; run: Run; scroller: Scroller; side?: 'left' | 'right' }) {
  const action = useSignal<Action | ''>('');
  const tab = useSignal(side ? 'timeline' : params.peek().get('view') === 'changes' ? 'changes' : 'timeline');
  const wide = useWide() && !side;
  const list = useRef<ListHandle | null>(null);
  const wanted = useSignal(side ? '' : params.value.get('at') ?? '');
  const close = (): void => void (action.value = '');
  void view.version.value;
  const sum = view.timeline.summary;
  const at = params.value.get('at') ?? '';
  useEffect(() => {
    if (!side && at) wanted.value = at;
  }, [at]);
  useEffect(() => {
    if (!side) setParams({ view: tab.value === 'changes' ? 'changes' : undefined });
  }, [tab.value]);
  const goTo = (at: string): void => {
    tab.value = 'timeline';
    wanted.value = at;
  };
  const about = <Aside run={run} sum={sum} goTo={goTo} tab={tab} />;
  return (
    <>
      <RunHeader run={run} action={action} again={again(run, view.prompt.value, allowed('raw'))} small={Boolean(side)} />
      <Notices view={view} run={run} />
      <Inbox run={run.run} link={!side} />
      {!wide && <details class="about"><summary>About this run<span class="faint num"> · {plural(sum.calls, 'call')}{run.changed && `, ${changedText(run.changed)}`}{sum.errors > 0 && `, ${plural(sum.errors, 'error')}`}</span></summary>{about}</details>}
      <div class="run-body">
        <div class="run-main"><Timeline view={view} run={run} scroller={scroller} tab={tab} wanted={wanted} list={list} action={action} main={!side} /></div>
        {wide && about}
      </div>
      {!side && takesMessages(run) && allowed('submit') && <Composer view={view} run={run} />}
      {action.value === 'cancel' && <CancelDialog run={run} onClose={close} />}
      {action.value === 'resume' && <ResumeDialog run={run} onClose={close} />}
      {action.value === 'compare' && <CompareDialog run={run} onClose={close} />}
    </>
  );
}

const partNames: Record<Part, string> = { text: 'Text', reasoning: 'Reasoning', tools: 'Tools', plan: 'Plan', errors: 'Errors', status: 'Status' };

function Timeline({ view, run, scroller, tab, wanted, list, action, main }: {
  view: RunView; run: Run; scroller: Scroller; tab: Signal<string>; wanted: Signal<string>; list: { current: ListHandle | null }; action: Signal<Action | ''>; main: boolean;
}) {
  const over = ended(run);
  const hidden = useSignal<ReadonlySet<Part>>(new Set<Part>(['status']));
  const search = useSignal('');
  const follow = useSignal((run.state === 'working' || run.state === 'queued') && !wanted.peek());
  const active = useSignal('');
  const marked = useSignal('');
  const open = useSignal<ReadonlyMap<string, boolean>>(new Map());
  const left = useRef(0); // items when the reader left the end
  const field = useRef<HTMLInputElement>(null);
  const selection = useMemo(() => new Selection(), []);
  const version = view.version.value;
  const timeline = view.timeline;
  const all = timeline.rows();
  const rows = useMemo(() => selection.select(all, hidden.value, search.value), [all, all.length, version, hidden.value, search.value]);
  const counts = useMemo(() => countParts(all), [all, all.length, version]);
  const start = startOf(run) || timeline.summary.firstTime;

  const talks = main && takesMessages(run) && allowed('submit');
  const comments = useMemo(() => (talks ? draftOf(run.run).comments : undefined), [run.run, talks]);
  const shown = useMemo<Shown>(() => ({
    id: run.run, agent: run.agent, start, dir: run.workingDir ?? '', details: view.feed.value === 'detail', open, busy: view.busy, comments,
    toggle: (key) => {
      const row = timeline.rows().find((r) => r.key === key);
      const long = row?.kind === 'text' && row.length > 2400;
      const now = open.value.get(key) ?? (row ? opens(row) && !long : false);
      open.value = new Map(open.value).set(key, !now);
    },
    load: (chunk) => void view.load(chunk),
  }), [run.run, run.agent, run.workingDir, start, view.feed.value, timeline, comments]);

  // The newest thing of a run that asks is its question, above: the page follows it, and goes on when it is answered.
  const asks = questionsOf(run).length > 0 && allowed('answer');
  const paused = useRef(false);
  useEffect(() => {
    if (asks && follow.value) {
      paused.current = true;
      list.current?.toStart();
    } else if (!asks && paused.current) {
      paused.current = false;
      follow.value = !over;
    }
  }, [asks]);

  if (follow.value || left.current === 0) left.current = timeline.size;
  const fresh = timeline.size - left.current;

  useEffect(() => resolve(view, rows, wanted, (row) => {
    if (partHidden(row, rows)) {
      search.value = '';
      hidden.value = new Set();
    }
    open.value = new Map(open.value).set(row.key, true);
    marked.value = active.value = row.key;
    requestAnimationFrame(() => list.current?.reveal(row.key));
  }), [version, wanted.value]);

  useEffect(() => {
    const i = rows.findIndex((r) => r.key === active.value);
    const ord = Number(/^[ip](\d+)$/.exec(active.value)?.[1] ?? 0);
    if (follow.value) timeline.focus = -1;
    else if (i >= 0 && ord) timeline.focus = timeline.chunkOf(ord);
  }, [active.value, follow.value, version]);

  const step = (by: (row: Row, i: number) => boolean, back = false): void => {
    if (tab.value !== 'timeline' || rows.length === 0) return;
    const at = rows.findIndex((r) => r.key === active.value);
    const range = back ? rows.slice(0, Math.max(0, at)).reverse() : rows.slice(at + 1);
    const next = range.find(by);
    if (!next) return;
    active.value = next.key;
    list.current?.reveal(next.key, true);
  };
  const current = (): Row | undefined => rows.find((r) => r.key === active.value);
  const wrong = (r: Row): boolean => r.kind === 'error' || (r.kind === 'call' && r.status === 'failed');
  const toEnd = (): void => {
    const last = timeline.lastChunk;
    if (last >= 0) timeline.focus = -1;
    list.current?.toEnd();
  };
  const keys: Shortcut[] = [
    { keys: ['j'], text: 'Next event', run: () => step(() => true) },
    { keys: ['k'], text: 'Previous event', run: () => step(() => true, true) },
    { keys: [']'], text: 'Next turn', run: () => step((r) => r.kind === 'turn') },
    { keys: ['['], text: 'Previous turn', run: () => step((r) => r.kind === 'turn', true) },
    { keys: ['e'], text: 'Next error or failed call', run: () => step(wrong) },
    { keys: ['Shift+E'], text: 'Previous error or failed call', run: () => step(wrong, true) },
    { keys: ['Enter', 'o'], text: 'Open or close', run: () => { const r = current(); return r ? shown.toggle(r.key) : false; } },
    { keys: ['/'], text: 'Search in the run', run: () => field.current?.select() },
    { keys: ['Escape'], text: '', typing: true, run: () => { if (!search.value && document.activeElement !== field.current) return false; search.value = ''; field.current?.blur(); return undefined; } },
    { keys: ['f', 'End'], text: 'Jump to the newest', run: toEnd },
    { keys: ['g g', 'Home'], text: 'Jump to the beginning', run: () => list.current?.toStart() },
    { keys: ['y'], text: 'Copy a link to the event', run: () => copyLink(run.run, current()) },
    { keys: ['d'], text: 'Timeline or changes', run: () => void (tab.value = tab.value === 'changes' ? 'timeline' : 'changes') },
    { keys: ['r'], text: 'Continue the thread', run: () => (over && run.threadId && allowed('submit') ? void (action.value = 'resume') : false) },
    { keys: ['x'], text: 'Cancel', run: () => (!over && run.source !== 'session' && allowed('submit') ? void (action.value = 'cancel') : false) },
    { keys: ['w'], text: 'Show beside another run', run: () => void (action.value = 'compare') },
    { keys: ['u'], text: 'Back to the overview', run: () => navigate('/') },
  ];
  useKeys('Run', main ? keys : []);

  return (
    <>
      <div class="run-bar" role="toolbar" aria-label="Timeline">
        <fieldset class="segments run-tabs">
          <legend>View</legend>
          {['timeline', 'changes'].map((t) => <label key={t}><input type="radio" name={`view-${run.run}`} checked={tab.value === t} onChange={() => (tab.value = t)} /><span>{t === 'timeline' ? 'Timeline' : 'Changes'}</span></label>)}
        </fieldset>
        {tab.value === 'timeline' && (
          <>
            <div class="parts" role="group" aria-label="Shown parts">
              {parts.filter((p) => counts[p] > 0).map((p) => (
                <button key={p} class="part" aria-pressed={!hidden.value.has(p)} title={`${plural(counts[p], 'row')} of this kind ${hidden.value.has(p) ? 'are hidden: show them' : 'are shown: hide them'}`} onClick={() => {
                  const next = new Set(hidden.value);
                  if (!next.delete(p)) next.add(p);
                  hidden.value = next;
                }}>{partNames[p]} <span class="num faint">{count(counts[p])}{hidden.value.has(p) && ' hidden'}</span></button>
              ))}
            </div>
            <label class="find"><SearchIcon /><span class="visually-hidden">Search in the run</span>
              <input ref={field} type="search" placeholder="Search" value={search.value} onInput={(e) => (search.value = e.currentTarget.value)}
                onKeyDown={(e) => { if (e.key === 'Enter') { e.preventDefault(); step((r) => r.kind !== 'turn' && r.kind !== 'gap', e.shiftKey); } }} />
            </label>
          </>
        )}
      </div>
      {tab.value === 'changes' ? <Changes view={view} run={run} comments={comments} /> : (
        <>
          {search.value && <p class="found muted num" role="status">{plural(rows.filter((r) => r.kind !== 'turn' && r.kind !== 'gap').length, 'match', 'matches')}{timeline.collapsed > 0 && `; ${plural(timeline.collapsed, 'collapsed event')} not searched`}</p>}
          <List rows={rows} version={version} scroller={scroller} active={active} marked={marked} follow={follow} works={!over && !asks} shown={shown} handle={list} label="Timeline" />
          {rows.length === 0 && <Empty view={view} run={run} searched={search.value !== '' || all.length > 0} />}
          {!over && rows.length > 0 && <Working run={run} />}
          {!over && !asks && !follow.value && timeline.size > 0 && (
            <div class="newest"><button class="button" onClick={toEnd}>↓ {fresh > 0 ? plural(fresh, 'new event') : 'Jump to newest'}</button></div>
          )}
        </>
      )}
    </>
  );
}

function partHidden(row: Row, rows: readonly Row[]): boolean {
  return !rows.some((r) => r.key === row.key);
}

/** Finds the row of a position once it is there; loads it if it is collapsed. */
function resolve(view: RunView, shown: readonly Row[], wanted: Signal<string>, found: (row: Row) => void): void {
  const at = wanted.peek();
  if (!at) return;
  const done = view.stream.value?.state.value === 'ended';
  const [line = 0] = at.split('.').map(Number);
  const timeline = view.timeline;
  if (at !== 'end' && line > timeline.lastLine && !done) return;
  const chunk = at === 'end' ? timeline.lastChunk : Math.max(0, timeline.chunkOfLine(line));
  if (chunk < 0) return;
  if (!timeline.isLoaded(chunk)) return void view.load(chunk);
  const row = shown.find((r) => r.at === at) ?? rowAt(timeline.rows(), at);
  if (!row && !done) return;
  wanted.value = '';
  if (row) found(row);
  else toast('The event of this link was not found: it may have expired');
}

function copyLink(id: string, row: Row | undefined): void {
  if (!row?.at) return;
  const url = `${location.origin}${runPath(id)}?at=${row.at}`;
  navigator.clipboard?.writeText(url).then(() => toast('Link copied'), () => setParams({ at: row.at }));
}

function Working({ run }: { run: Run }) {
  if (run.state !== 'working' || run.workerLost || !fresh.value) return null;
  if (yourTurn(run)) return <p class="working faint">Your turn.</p>;
  return <p class="working faint"><span class="pulse" aria-hidden="true" />{needsYou(run) ? 'Waiting for an answer…' : run.doing?.phase === 'thinking' ? 'Thinking…' : 'Working…'}</p>;
}

function Empty({ view, run, searched }: { view: RunView; run: Run; searched: boolean }) {
  if (searched && view.arrived.value) return <Nothing title="No matching events" text="Show more parts of the run, or change the search." />;
  const stream = view.stream.value?.state.value;
  if (stream === 'failed' || stream === 'disconnected') return null; // a notice tells it
  if (!ended(run)) {
    if (run.state === 'queued') return <Nothing title="Queued" text="Its timeline begins when a worker starts the agent." />;
    return view.arrived.value || stream === 'live' ? <Nothing title="No output yet" text="The timeline begins with the agent’s first line." /> : <Loading />;
  }
  if (!view.arrived.value && stream !== 'ended') return <Loading />;
  if ((run.lines ?? 0) === 0) return <Nothing title="No output" text="The agent wrote nothing." />;
  return <Nothing title="The events have expired" text="What is still known is under “About this run”, or at the right." />;
}
