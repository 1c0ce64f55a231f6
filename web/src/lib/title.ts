// The title and the icon of the tab.
//
//   usePageTitle('Fix the tests')    of the page that is shown
//   badge.value = { needs: 1, unseen: 2, failed: true }    what a person has not seen: "(3)", and a dot on the icon

import { effect, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

export interface Badge { needs: number; unseen: number; failed: boolean }

export const badge = signal<Badge>({ needs: 0, unseen: 0, failed: false });

const titles = signal<string[]>([]);

export function usePageTitle(title: string): void {
  useEffect(() => {
    titles.value = [...titles.value, title];
    return () => {
      const last = titles.value.lastIndexOf(title);
      titles.value = titles.value.filter((_, i) => i !== last);
    };
  }, [title]);
}

export function titleText(title: string | undefined, { needs, unseen }: Badge): string {
  const n = needs + unseen;
  return (n > 0 ? `(${n > 99 ? '99+' : n}) ` : '') + (title ? `${title} · linesman` : 'linesman');
}

/** The icon as a data URL, with a dot if there is something to see. */
export function iconURL({ needs, unseen, failed }: Badge): string {
  if (needs + unseen === 0) return '/favicon.svg';
  const colour = needs > 0 ? '#f2b84b' : failed ? '#f0625a' : '#4cc27f';
  return 'data:image/svg+xml,' + encodeURIComponent(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1c2024"/>' +
    '<path d="M8 9h16M8 16h10M8 23h13" stroke="#e8eaed" stroke-width="3" stroke-linecap="round"/>' +
    `<circle cx="24" cy="24" r="8" fill="${colour}" stroke="#1c2024" stroke-width="2"/></svg>`);
}

export function startTitle(): void {
  effect(() => {
    document.title = titleText(titles.value.at(-1), badge.value);
  });
  effect(() => {
    const url = iconURL(badge.value);
    const link = document.querySelector<HTMLLinkElement>('link[rel=icon]');
    if (link && link.getAttribute('href') !== url) link.href = url;
  });
}
