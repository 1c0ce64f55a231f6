// A menu that a button opens: a press outside of it, or Escape, closes it.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';

/** The state of a menu, and the element that contains it and its button, which is the first one there. */
export function useMenu() {
  const open = useSignal(false);
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const outside = (e: Event): void => {
      if (open.value && !ref.current?.contains(e.target as Node)) open.value = false;
    };
    const escape = (e: KeyboardEvent): void => {
      if (e.key !== 'Escape' || !open.value) return;
      open.value = false;
      e.preventDefault();
      ref.current?.querySelector('button')?.focus();
    };
    document.addEventListener('pointerdown', outside);
    document.addEventListener('focusin', outside);
    document.addEventListener('keydown', escape, true);
    return () => {
      document.removeEventListener('pointerdown', outside);
      document.removeEventListener('focusin', outside);
      document.removeEventListener('keydown', escape, true);
    };
  }, []);
  return { open, ref };
}
