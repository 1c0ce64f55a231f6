import { useSignal, type Signal } from '@preact/signals';
import { type RefObject } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { count } from '../lib/format';
import { arrive } from '../lib/router';
import { Layout } from './layout';
import { RunRow } from './row';
import type { Section, Sort, View } from './select';
import { fresh } from './store';

/** What the keyboard does with the list. */
export interface ListHandle {
  move: (by: number) => void;
  page: (by: number) => void;
  top: () => void;
}

/** Widths at which a row changes its form. */
export type Form = 'huge' | 'wide' | 'medium' | 'narrow';

const sectionNames: Record<Section, string> = { needs: 'Needs you', may: 'May need you', lost: 'Lost', turn: 'Your turn', running: 'Running', queued: 'Queued', new: 'Ended, not seen', earlier: 'Earlier' };

const columns: { sort?: Sort; name: string; class: string; title?: string }[] = [
  { sort: 'state', name: 'State', class: 'c-state' },
  { sort: 'title', name: 'Title', class: 'c-title' },
  { name: 'Doing, or outcome', class: 'c-doing' },
  { name: 'Plan', class: 'c-plan', title: 'Steps of the agent’s own plan' },
  { sort: 'directory', name: 'Directory', class: 'c-dir' },
  { sort: 'agent', name: 'Agent', class: 'c-agent' },
  { name: 'Model', class: 'c-model' },
  { name: 'Worker', class: 'c-worker' },
  { sort: 'tokens', name: 'Tokens', class: 'c-tokens' },
  { sort: 'elapsed', name: 'Elapsed', class: 'c-elapsed' },
  { sort: 'started', name: 'Started', class: 'c-started' },
  { sort: 'active', name: 'Active', class: 'c-active', title: 'Time since the last output, or the end' },
];

const step = 8; // rows: the list is rendered again when it was scrolled so far

// Where the list was when it was left, while this page lives.
let kept = 0;

export function List({ handle, view, at, marked, sort, reverse, onSort, onMarkAll, onLabel, onEnd }: {
  handle: RefObject<ListHandle | null>; view: View; at: Signal<string>; marked: Signal<string>; sort: Sort; reverse: boolean;
  onSort: (sort: Sort) => void; onMarkAll: () => void; onLabel: (label: string) => void; onEnd: () => void;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const size = useSignal({ width: 0, height: 0, row: 36, head: 36, form: 'wide' as Form });
  const first = useSignal(0); // the scroll position, in whole steps
  const anchor = useRef<{ id: string; offset: number }>(undefined);
  const wanted = useRef(false); // the row at the keyboard wants the focus

  const { row, head, height, form } = size.value;
  const columnar = form === 'wide' || form === 'huge';
  const layout = useMemo(() => new Layout(view.groups, row, head), [view, row, head]);

  useLayoutEffect(() => {
    const measure = (): void => {
      const box = scroller.current!;
      const style = getComputedStyle(box);
      const px = (name: string): number => parseFloat(style.getPropertyValue(name));
      const width = box.clientWidth;
      const next: Form = width >= 1900 ? 'huge' : width >= 1080 ? 'wide' : width >= 560 ? 'medium' : 'narrow';
      box.parentElement!.style.setProperty('--scrollbar', `${box.offsetWidth - box.clientWidth}px`);
      size.value = { width, height: box.clientHeight, row: px(`--row-${next === 'huge' ? 'wide' : next}`), head: px('--head'), form: next };
    };
    const observer = new ResizeObserver(measure);
    observer.observe(scroller.current!);
    measure();
    return () => observer.disconnect();
  }, []);

  const remember = (): void => {
    const box = scroller.current!;
    kept = box.scrollTop;
    const index = layout.firstAt(box.scrollTop);
    const run = layout.runAt(index);
    anchor.current = run && box.scrollTop > 0 ? { id: run.run, offset: layout.topOf(index) - box.scrollTop } : undefined;
    const now = Math.floor(box.scrollTop / (row * step));
    if (now !== first.value) first.value = now;
  };

  // Rows come and go above what is on the screen: what is on the screen stays where it is.
  useLayoutEffect(() => {
    const box = scroller.current!;
    if (anchor.current) {
      const index = layout.indexOf(anchor.current.id);
      const top = index < 0 ? -1 : layout.topOf(index) - anchor.current.offset;
      if (top >= 0 && Math.abs(top - box.scrollTop) >= 1) box.scrollTop = top;
    } else if (height && kept && box.scrollTop === 0) box.scrollTop = kept;
    if (height) remember();
  }, [layout, height]);

  const focus = (): void => {
    const link = wanted.current && scroller.current!.querySelector<HTMLElement>(`[data-run="${at.peek()}"] .open`);
    if (!link) return; // it is rendered in a moment
    wanted.current = false;
    link.focus({ preventScroll: true });
  };
  useLayoutEffect(focus);

  // On return the focus is at the row again, or at the heading.
  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      const row = at.peek() && scroller.current?.querySelector<HTMLElement>(`[data-run="${at.peek()}"] .open`);
      arrive(row || document.querySelector<HTMLElement>('h1'));
    });
    return () => cancelAnimationFrame(frame);
  }, []);

  const go = (index: number): void => {
    const box = scroller.current!;
    const to = layout.runAt(Math.min(Math.max(0, index), layout.count - 1));
    if (!to) return;
    const y = layout.topOf(layout.indexOf(to.run));
    if (y < box.scrollTop + head) box.scrollTop = Math.max(0, y - head);
    else if (y + row > box.scrollTop + box.clientHeight) box.scrollTop = y + row - box.clientHeight;
    wanted.current = true;
    at.value = to.run;
    remember();
    focus();
  };

  handle.current = {
    move: (by) => {
      const index = layout.indexOf(at.value);
      if (Number.isFinite(by)) go(index < 0 ? (by > 0 ? layout.firstAt(scroller.current!.scrollTop) : layout.count - 1) : index + by);
      else go(by < 0 ? 0 : layout.count - 1);
    },
    page: (by) => go(Math.max(0, layout.indexOf(at.value)) + by * Math.max(1, Math.floor(height / row) - 1)),
    top: () => {
      kept = 0;
      anchor.current = undefined;
      if (scroller.current) scroller.current.scrollTop = 0;
    },
  };

  // Near the end the next older runs are loaded, before it is on the screen.
  useLayoutEffect(() => {
    if (height && layout.height - first.value * row * step < 3 * height) onEnd();
  });

  const from = (first.value - 1) * row * step - height / 2;
  const { top, parts } = layout.between(from, from + 2 * height + 3 * row * step);
  const rendered = parts.flatMap((part) => part.rows);
  const stop = (rendered.find((run) => run.run === at.value) ?? rendered[0])?.run; // for Tab

  return (
    <div class="runs" data-form={form} data-fresh={fresh.value}>
      {columnar && (
        <div class="columns" role="group" aria-label="Sort">
          {columns.map((c) => (
            <span key={c.class} class={c.class} title={c.title}>
              {c.sort ? (
                <button aria-pressed={sort === c.sort} onClick={() => onSort(c.sort!)}>{c.name}{sort === c.sort && <span aria-hidden="true"> {reverse ? '↑' : '↓'}</span>}</button>
              ) : c.name}
            </span>
          ))}
        </div>
      )}
      <div class="scroller" ref={scroller} onScroll={remember} tabIndex={-1}>
        <div class="lines" style={{ height: `${layout.height}px` }}>
          <div class="lines-shown" style={{ transform: `translateY(${top}px)` }}>
            {parts.map((part) => (
              <section key={part.section ?? 'all'} data-section={part.section} aria-label={part.section ? sectionNames[part.section] : 'Runs'}>
                {part.head && (
                  <div class="section-head">
                    <h2>{sectionNames[part.section!]} <span class="faint num">{count(part.size)}</span></h2>
                    {part.section === 'new' && <button class="link" onClick={onMarkAll}>Mark all as seen</button>}
                  </div>
                )}
                <div role="list">
                  {part.rows.map((run, i) => (
                    <RunRow key={run.run} run={run} place={part.from + i + 1} of={part.size} stop={run.run === stop} form={form} at={at} marked={marked} onLabel={onLabel} />
                  ))}
                </div>
              </section>
            ))}
          </div>
        </div>
      </div>
    </div>
  );
}
