// The theme: that of the system, or the choice of the user, kept in localStorage of this browser.
//
//   theme.value      'system' | 'light' | 'dark'
//   setTheme('dark')
//
// The choice is the attribute data-theme of <html>; styles/base.css has the colours.

import { signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';

const key = 'linesman.theme';

/** localStorage.getItem, or null where a browser forbids it. */
export function recall(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** localStorage.setItem, where a browser allows it; null removes. */
export function remember(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch { /* the choice lasts as long as the page */ }
}

const stored = recall(key);
export const theme = signal<Theme>(stored === 'light' || stored === 'dark' ? stored : 'system');

export function setTheme(choice: Theme): void {
  theme.value = choice;
  remember(key, choice === 'system' ? null : choice);
  applyTheme();
}

export function applyTheme(): void {
  if (theme.value === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme.value;
}
