// Short messages at the lower edge: toast('Marked as seen'); toast('…', { href, link: 'Open' }).

import { signal } from '@preact/signals';

interface Toast { text: string; href?: string; link?: string; tone?: 'bad' | 'ok'; sticky?: boolean }

const current = signal<Toast | undefined>(undefined);
let timer: ReturnType<typeof setTimeout> | undefined;

export function toast(text: string, more: Omit<Toast, 'text'> = {}): void {
  clearTimeout(timer);
  current.value = { text, ...more };
  if (!more.sticky) timer = setTimeout(clearToast, 6000);
}

export function clearToast(): void {
  clearTimeout(timer);
  current.value = undefined;
}

export function Toasts() {
  const t = current.value;
  return (
    <div class="toasts" role="status" aria-live="polite">
      {t && (
        <p class="toast" data-tone={t.tone}>
          <span>{t.text}</span>
          {t.href && <a href={t.href} onClick={clearToast}>{t.link}</a>}
          <button class="button quiet icon" aria-label="Close" onClick={clearToast}>×</button>
        </p>
      )}
    </div>
  );
}
