// Keyboard shortcuts of what is on the screen, and their list for the help ("?").
//
//   useKeys('Overview', [{ keys: ['j', 'ArrowDown'], text: 'Next run', run: next }]);
//
// `keys` are values of KeyboardEvent.key, with "Shift+", "Ctrl+" (or Cmd) before; two keys in turn
// are "g o". A shortcut does not fire while the user types in a field (except those with `typing`), while a
// dialog is open (except those registered within it, with `dialog`), or with other modifiers.
// `run` may return false: then the browser does what it does with the key.

import { signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';

export interface Shortcut {
  keys: string[];
  text: string; // for the help; '' is not listed
  shown?: string; // in place of the keys, in the help
  run: (event: KeyboardEvent) => void | boolean;
  typing?: boolean;
  dialog?: boolean;
}

export interface Group { title: string; shortcuts: Shortcut[] }

export const groups = signal<Group[]>([]);

export function useKeys(title: string, shortcuts: Shortcut[]): void {
  const group = useRef<Group>({ title, shortcuts });
  group.current.shortcuts = shortcuts; // those of the newest render, without registering again
  useLayoutEffect(() => { // a key that is pressed once the page is there is one
    const mine = group.current;
    groups.value = [...groups.value, mine];
    return () => {
      groups.value = groups.value.filter((each) => each !== mine);
    };
  }, []);
}

/** The name of a key as shortcuts spell it. Shift is named only where it does not make another character. */
export function nameOf(event: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'shiftKey' | 'altKey'>): string {
  const shift = event.shiftKey && (event.key.length > 1 || /[a-z]/i.test(event.key)) ? 'Shift+' : '';
  const ctrl = event.ctrlKey || event.metaKey ? 'Ctrl+' : '';
  const key = shift && event.key.length === 1 ? event.key.toUpperCase() : event.key;
  return ctrl + (event.altKey ? 'Alt+' : '') + shift + key;
}

/** How a key is shown. */
export function label(key: string): string {
  const names: Record<string, string> = {
    ArrowDown: '↓', ArrowUp: '↑', ArrowLeft: '←', ArrowRight: '→', Escape: 'Esc', ' ': 'Space', PageDown: 'PgDn', PageUp: 'PgUp',
  };
  return key.split('+').map((part) => names[part] ?? part).join('+');
}

const fields = 'input:not([type=checkbox],[type=radio],[type=button]),textarea,select,[contenteditable=true]';

/** Whether the user types in what an event is of. */
export const typingIn = (event: Event): boolean => Boolean((event.target as Element | null)?.matches?.(fields));

let first = ''; // of two keys in turn
let firstAt = 0;

function press(event: KeyboardEvent): void {
  if (event.isComposing || event.defaultPrevented) return;
  const target = event.target as Element | null;
  const typing = typingIn(event);
  const dialog = document.querySelector('dialog[open]') !== null;
  const name = nameOf(event);
  const pair = event.timeStamp - firstAt < 1000 ? `${first} ${name}` : '';
  first = typing ? '' : name;
  firstAt = event.timeStamp;
  for (const { shortcuts } of [...groups.value].reverse()) {
    for (const each of shortcuts) {
      if (typing && !each.typing) continue;
      if (dialog && !each.dialog) continue;
      if (!each.keys.includes(name) && !(pair && each.keys.includes(pair))) continue;
      // Enter and Space belong to a link or button that has the focus.
      if ((name === 'Enter' || name === ' ') && target?.closest('a,button,summary')) continue;
      if (each.run(event) === false) continue;
      first = '';
      event.preventDefault();
      return;
    }
  }
}

export function startKeys(): void {
  document.addEventListener('keydown', press);
}
