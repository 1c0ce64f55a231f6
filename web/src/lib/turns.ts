// Connections that the tabs of a browser share. It has six to a server without TLS, for all tabs: streams that take them
// all would let no request through.
//
//   const leave = await turn(signal, over)    waits for one of four; over() asks for it back, once others wait: call leave()
//
// Without Web Locks, as on an address that is not secure, nobody waits.

const shared = 4; // beside that of the tab that notifies: one is left for requests
export const turnTime = 2_000; // ms that a stream has its connection while others wait

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
