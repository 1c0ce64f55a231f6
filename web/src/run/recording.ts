// Recordings of real agents for tests: the golden files of the Go packages, which contain the
// events and the details of each recording in test/corpus, and what the events mean.

import { golden } from './golden';
import type { Detail, DetailItem, Envelope, EventItem, Kind, Meaning } from './items';

export interface Recording { events: EventItem[]; details: DetailItem[] }

/** Reads a recording. Line n was printed n seconds after the start. */
export async function recording(agent: string, name: string): Promise<Recording> {
  const path = `../../../agent/${agent}/testdata/golden/${name}`;
  const events = await read<Envelope>(`${path}.golden`);
  const details = new Map((await read<Detail>(`${path}.detail.golden`)).map((d) => [d.pos, d]));
  const meanings = await meaningsOf(agent, name);
  const items: DetailItem[] = [];
  const add = (pos: string, kind: Kind, event?: Envelope, detail?: Detail): void => {
    const [line = 0, part = 0] = pos.split('.').map(Number);
    items.push({ pos: '', line, part, time: at(line), kind, event, detail, ...meanings.get(pos) });
  };
  for (const e of events) {
    add(e.pos, e.kind, e.value, details.get(e.pos)?.value);
    details.delete(e.pos);
  }
  for (const d of details.values()) add(d.pos, 'detail', undefined, d.value);
  const order = (i: DetailItem): number => (i.line > 0 || i.kind === 'detail' ? i.line : Infinity); // the end of the run
  items.sort((a, b) => (order(a) === order(b) ? a.part - b.part : order(a) - order(b)));
  items.forEach((item, i) => (item.pos = `7.${i + 1}`));
  events.sort((a, b) => Number(a.pos.startsWith('0.')) - Number(b.pos.startsWith('0.')));
  const only = events.map((e, i) => ({ ...place(e.pos), seq: 10 + 3 * i, kind: e.kind, event: e.value, ...meanings.get(e.pos) }));
  return { events: only, details: items };
}

const at = (line: number): string => new Date(Date.UTC(2026, 0, 1) + line * 1000).toISOString();

function place(pos: string): { line: number; part: number; time: string } {
  const [line = 0, part = 1] = pos.split('.').map(Number);
  return { line, part, time: at(line) };
}

async function read<T>(path: string): Promise<{ pos: string; kind: Kind; value: T }[]> {
  const text = await golden(path);
  return text.split('\n').filter((line) => /^\d/.test(line)).map((line) => {
    const [pos = '', kind = '', ...rest] = line.split(' ');
    return { pos, kind: kind as Kind, value: JSON.parse(rest.join(' ')) as T };
  });
}

/** What the events of a recording mean, by their positions. */
async function meaningsOf(agent: string, name: string): Promise<Map<string, Meaning>> {
  const lines = (await golden(`../../../agent/${agent}/testdata/meaning.golden`)).split('\n').filter((line) => line.startsWith(`${name} `));
  return new Map(lines.map((line) => {
    const [, pos = '', json = ''] = line.split(' ');
    return [pos, JSON.parse(json) as Meaning];
  }));
}

/** The completion that follows a recording. */
export function completion(n: number, e: Partial<Envelope> = {}): EventItem {
  return { seq: n, kind: 'completion', time: at(1000), event: { agent_kind: 'codex', status: { success: true, code: 0 }, final_text: null, ...e } };
}
