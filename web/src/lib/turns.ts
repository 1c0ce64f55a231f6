// Connections that the tabs of a browser share. It has six to a server without TLS, for all tabs: streams that take them
// all would let no request through.
//
//   const leave = await turn(signal, over)    waits for one of four; over() asks for it back, every two seconds while others
//                                             wait: call leave()
//   patience(n)                               how long to keep one in which nothing arrives, after n such turns in a row
//
// Without Web Locks, as on an address that is not secure, nobody waits.

const shared = 4; // beside that of the tab that notifies: one is left for requests
export const turnTime = 2_000; // ms that a stream has its connection while others wait

/** 2 s, 4 s and so on to 30 s: the server may look for long in a long log. Then 2 s again: perhaps there is nothing. */
export const patience = (n: number): number => Math.min(30_000, turnTime * 2 ** (n % 5));

const nameOf = (n: number): string => `linesman.stream.${n}`;

export async function turn(signal: AbortSignal, over: () => void): Promise<() => void> {
  const locks = typeof navigator === 'undefined' ? undefined : navigator.locks;
  const all = await locks?.query().catch(() => undefined); // a browser may forbid it
  if (!locks || !all) return () => {};
  const { held = [], pending = [] } = all;
  const load = Array.from({ length: shared }, (_, n) => [...held, ...pending].filter((lock) => lock.name === nameOf(n)).length);
  const name = nameOf(load.indexOf(Math.min(...load)));
  return new Promise((have) => {
    locks.request(name, { signal }, () => new Promise<void>((leave) => {
      const look = setInterval(() => void locks.query().then(({ pending = [] }) => pending.some((lock) => lock.name === name) && over(), () => {}), turnTime);
      have(() => {
        clearInterval(look);
        leave();
      });
    })).catch(() => have(() => {}));
  });
}
