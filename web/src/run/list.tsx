import { effect, useSignal, type Signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { Positions } from './positions';
import { offset, RowView, type Shown } from './row';
import type { Row } from './rows';

/** What the page asks of the list. */
export interface ListHandle {
  /** Brings a row into view; `near` scrolls as little as possible. */
  reveal: (key: string, near?: boolean) => void;
  toEnd: () => void;
  toStart: () => void;
}

/** Whether the row above has the same time: it is shown once. */
function same(above: Row | undefined, row: Row, start: number): boolean {
  return above !== undefined && above.kind !== 'turn' && offset(above.time - start) === offset(row.time - start);
}

function bring(s: HTMLElement, top: number, height: number, near: boolean): void {
  const bar = 56 + (parseFloat(s.style.getPropertyValue('--run-head')) || 0); // pixels that the header and the bar above the list cover
  const below = parseFloat(s.style.getPropertyValue('--composer')) || 0;
  if (!near) s.scrollTop = top - Math.max(bar, Math.min(160, s.clientHeight / 4));
  else if (top < s.scrollTop + bar) s.scrollTop = top - bar;
  else if (top + height > s.scrollTop + s.clientHeight - below) s.scrollTop = Math.min(top - bar, top + height - s.clientHeight + below + 24);
}

/**
 * Rows of different heights, of which only those on the screen are elements. What the reader
 * looks at stays where it is while rows come, grow and go; at the end of a run that works the
 * list follows.
 */
export function List({ rows, version, scroller, active, marked, follow, works, shown, handle, label }: {
  rows: Row[]; version: number; scroller: { current: HTMLElement | null }; active: Signal<string>; marked: Signal<string>; follow: Signal<boolean>; works: boolean;
  shown: Shown; handle: { current: ListHandle | null }; label: string;
}) {
  const box = useRef<HTMLDivElement>(null);
  const positions = useMemo(() => new Positions(), []);
  const view = useSignal({ top: 0, height: 800 });
  const measured = useSignal(0);
  const pending = useRef<{ key: string; near: boolean } | null>(null);
  const anchor = useRef<{ key: string; offset: number } | null>(null);
  const elements = useMemo(() => new Map<Element, string>(), []);

  const latest = useRef(rows);
  latest.current = rows;
  const shownWorks = useRef(false);
  shownWorks.current = works;
  void measured.value;
  useMemo(() => positions.set(rows), [rows, version, rows.length, measured.value]);
  const { top, height } = view.value;
  const [from, to] = positions.between(top - 600, top + height + 600);

  const offsetOfList = (): number => {
    const s = scroller.current;
    return s && box.current ? box.current.getBoundingClientRect().top - s.getBoundingClientRect().top + s.scrollTop : 0;
  };

  const read = (): void => {
    const s = scroller.current;
    if (!s) return;
    if (shownWorks.current && s.scrollHeight - s.clientHeight < 2) follow.value = true; // all of it is on the screen
    const at = s.scrollTop - offsetOfList();
    if (Math.abs(at - view.value.top) > 40 || view.value.height !== s.clientHeight) view.value = { top: at, height: s.clientHeight };
    const i = positions.at(Math.max(0, at));
    const row = latest.current[i];
    anchor.current = row && at > 0 ? { key: row.key, offset: at - positions.top(i) } : null;
  };

  // Rows are measured before they are painted; the one at the upper edge stays where it is.
  const settle = (): void => {
    const s = scroller.current;
    if (!s) return;
    if (pending.current) {
      const i = positions.indexOf(pending.current.key);
      if (i >= 0) bring(s, offsetOfList() + positions.top(i), positions.top(i + 1) - positions.top(i), pending.current.near);
    } else if (follow.value) {
      s.scrollTop = s.scrollHeight;
    } else if (anchor.current) {
      const i = positions.indexOf(anchor.current.key);
      const want = i < 0 ? -1 : offsetOfList() + positions.top(i) + anchor.current.offset;
      if (want >= 0 && Math.abs(want - s.scrollTop) >= 1) s.scrollTop = want;
    }
  };

  const observer = useMemo(() => new ResizeObserver((entries) => {
    let changed = false;
    for (const e of entries) {
      const key = elements.get(e.target);
      if (key !== undefined && e.target.isConnected) changed = positions.measure(key, e.borderBoxSize[0]?.blockSize ?? 0) || changed;
    }
    if (changed) measured.value++;
  }), []);

  useLayoutEffect(() => {
    settle();
    if (pending.current && box.current) {
      const { key } = pending.current;
      const el = [...elements].find(([e, k]) => k === key && e.isConnected)?.[0] as HTMLElement | undefined;
      el?.focus({ preventScroll: true });
      if (el && positions.known(key)) pending.current = null;
    }
    read();
  });

  useEffect(() => {
    const s = scroller.current;
    if (!s) return;
    let last = s.scrollTop;
    const scrolled = (): void => {
      const end = s.scrollHeight - s.scrollTop - s.clientHeight < 32;
      if (s.scrollTop < last - 2 && !end) follow.value = false;
      else if (end && shownWorks.current) follow.value = true;
      last = s.scrollTop;
      read();
    };
    const resized = new ResizeObserver(read);
    const manual = (): void => void (pending.current = null);
    s.addEventListener('scroll', scrolled, { passive: true });
    s.addEventListener('wheel', manual, { passive: true });
    s.addEventListener('touchmove', manual, { passive: true });
    resized.observe(s);
    return () => {
      s.removeEventListener('scroll', scrolled);
      s.removeEventListener('wheel', manual);
      s.removeEventListener('touchmove', manual);
      resized.disconnect();
      observer.disconnect();
    };
  }, []);

  useEffect(() => effect(() => {
    if (follow.value) requestAnimationFrame(settle);
  }), []);

  handle.current = {
    reveal: (key, near = false) => {
      follow.value = false;
      pending.current = { key, near };
      settle();
      read();
      measured.value++;
    },
    toEnd: () => {
      pending.current = null;
      const last = latest.current.at(-1);
      if (shownWorks.current) follow.value = true;
      else if (last) pending.current = { key: last.key, near: true };
      const s = scroller.current;
      if (s) s.scrollTop = s.scrollHeight;
      read();
      measured.value++;
    },
    toStart: () => {
      pending.current = null;
      follow.value = false;
      scroller.current?.scrollTo({ top: 0 });
      read();
    },
  };

  const track = (key: string) => (el: HTMLElement | null): void => {
    if (!el || elements.get(el) === key) return;
    elements.set(el, key);
    observer.observe(el);
  };
  for (const el of elements.keys()) {
    if (!el.isConnected && el.parentNode === null) {
      observer.unobserve(el);
      elements.delete(el);
    }
  }

  const rendered = rows.slice(from, to);
  const stop = (rendered.find((row) => row.key === active.value) ?? rendered[0])?.key; // for Tab
  return (
    <div ref={box} class="timeline" role="feed" aria-label={label} aria-busy={!rows.length} style={{ paddingTop: `${positions.top(from)}px`, paddingBottom: `${Math.max(0, positions.height - positions.top(to))}px` }}>
      {rendered.map((row, i) => (
        <article
          key={row.key} ref={track(row.key)} data-key={row.key} aria-posinset={from + i + 1} aria-setsize={rows.length}
          tabIndex={row.key === stop ? 0 : -1}
          data-active={active.value === row.key || undefined} data-marked={marked.value === row.key || undefined} data-same={same(rows[from + i - 1], row, shown.start) || undefined}
          onFocus={() => (active.value = row.key)}
        >
          <RowView row={row} rev={row.rev} shown={shown} />
        </article>
      ))}
    </div>
  );
}
