// Paths of the page. Links are plain <a href>: a click on one that names a path of the page navigates
// without loading, unless a modifier key is held or it has a target or download.
//
//   route.value                   { name: 'overview' | 'run' | 'with' | 'unknown', … }
//   params.value                  the query (URLSearchParams)
//   navigate('/runs/X')           a new entry in the history; { replace: true } for none
//   setParams({ q: 'x' })         changes the query in place; undefined or '' removes a value
//   arrive(heading)               the focus of a page that a link has opened: it went away with the link
//   runPath(id), withPath(a, b), questionPath(id, 'q1')
//
// The hash is left to the pages (`hash.value`).

import { computed, signal } from '@preact/signals';

export type Route =
  | { name: 'overview' }
  | { name: 'run'; id: string }
  | { name: 'with'; left: string; right: string }
  | { name: 'unknown'; path: string };

const runId = /^[A-Za-z0-9_-]{1,64}$/;

export function parse(path: string): Route {
  const names = path.split('/').slice(1).map(decode);
  if (names.length > 1 && names.at(-1) === '') names.pop();
  const [first, id = '', word, other = ''] = names;
  if (first === '' && names.length === 1) return { name: 'overview' };
  if (first === 'runs' && runId.test(id)) {
    if (names.length === 2) return { name: 'run', id };
    if (names.length === 4 && word === 'with' && runId.test(other)) return { name: 'with', left: id, right: other };
  }
  return { name: 'unknown', path };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const runPath = (id: string): string => `/runs/${encodeURIComponent(id)}`;
export const withPath = (left: string, right: string): string => `${runPath(left)}/with/${encodeURIComponent(right)}`;
export const questionPath = (id: string, question: string): string => `${runPath(id)}?q=${encodeURIComponent(question)}`;

const here = signal(typeof location === 'undefined' ? '/' : location.pathname + location.search + location.hash);
const url = computed(() => new URL(here.value, 'http://x'));
const path = computed(() => url.value.pathname);
const search = computed(() => url.value.search);

export const route = computed<Route>(() => parse(path.value));
export const params = computed(() => new URLSearchParams(search.value));
export const hash = computed(() => url.value.hash);

let moved = false; // another page than the first was opened

/** Gives the focus to an element of a page that has just opened, if it went away with the link. */
export function arrive(element: HTMLElement | null | undefined): void {
  if (moved && document.activeElement === document.body) element?.focus({ preventScroll: true });
}

const changed = (): void => {
  moved = true;
  here.value = location.pathname + location.search + location.hash;
};

export function navigate(to: string, { replace = false } = {}): void {
  if (to === here.value) return;
  try {
    if (replace) history.replaceState(history.state, '', to);
    else history.pushState({ inside: true }, '', to);
  } catch { /* browsers limit how often: the address is right after the next change */ }
  moved ||= !replace;
  here.value = to;
}

export function setParams(values: Record<string, string | undefined>): void {
  const next = new URLSearchParams(params.value);
  for (const [key, value] of Object.entries(values)) {
    if (value) next.set(key, value);
    else next.delete(key);
  }
  const text = next.toString();
  navigate(path.value + (text && '?' + text) + hash.value, { replace: true });
}

/** Goes back to where this page was left from, or to `otherwise` if the visit began here. */
export function back(otherwise: string): void {
  if ((history.state as { inside?: boolean } | null)?.inside) history.back();
  else navigate(otherwise);
}

export function startRouter(): void {
  history.scrollRestoration = 'manual';
  addEventListener('popstate', changed);
  addEventListener('hashchange', changed);
  document.addEventListener('click', (click) => {
    const link = (click.target as Element | null)?.closest?.('a[href]') as HTMLAnchorElement | null;
    if (!link || click.defaultPrevented || click.button !== 0 || click.metaKey || click.ctrlKey || click.shiftKey || click.altKey) return;
    if (link.target || link.hasAttribute('download') || link.origin !== location.origin || parse(link.pathname).name === 'unknown') return;
    click.preventDefault();
    navigate(link.pathname + link.search + link.hash);
  });
}
