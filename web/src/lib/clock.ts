// The time now, for ages: that of the server, which may differ from that of this machine.
//
//   now.value             ms since 1970; changes every second while the tab is visible
//   here()                the time of this machine, as often
//   setServerTime(date)   from the Date header of an answer; differences below two seconds are none

import { signal } from '@preact/signals';

let ahead = 0;

export const serverNow = (): number => Date.now() + ahead;
export const now = signal(Date.now());

/** The time of this machine, which changes with `now`: for what has happened here. */
export const here = (): number => (void now.value, Date.now());

export function setServerTime(date: string | null): void {
  const at = date ? Date.parse(date) : NaN;
  if (Number.isNaN(at)) return;
  const difference = at + 500 - Date.now(); // the header has whole seconds
  ahead = Math.abs(difference) < 2000 ? 0 : difference;
}

export function startClock(): void {
  const tick = (): void => {
    if (document.visibilityState === 'visible') now.value = serverNow();
  };
  setInterval(tick, 1000);
  document.addEventListener('visibilitychange', tick);
}
