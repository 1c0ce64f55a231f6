import { describe, expect, it } from 'vitest';
import type { DetailText, EventItem, Item } from './items';
import { fromDetail, fromEvent, plain } from './items';
import { maxItems, maxWeight, Timeline } from './model';
import { completion, recording } from './recording';
import type { Row } from './rows';

function lines(rows: readonly Row[]): string[] {
  const t0 = Date.UTC(2026, 0, 1);
  const sec = (t: number): string => (t ? String((t - t0) / 1000) : '?');
  return rows.map((r) => {
    const pad = '  '.repeat(r.depth);
    const tokens = r.kind === 'turn' && r.tokens ? ` ${r.tokens.input}/${r.tokens.cached}/${r.tokens.output}` : '';
    switch (r.kind) {
      case 'turn': return `${r.label} ${r.n} ${r.state}${tokens}${r.calls ? ` calls=${r.calls}` : ''}${r.errors ? ` errors=${r.errors}` : ''}`;
      case 'text': return `${pad}${r.channel}: ${r.parts.join('').slice(0, 40).replaceAll('\n', '⏎')}`;
      case 'call': {
        const what = plain(r.detail?.command) || r.detail?.files?.map((f) => `${f.kind} ${f.path}`).join(' ') || '';
        const beside = r.group.members.length > 1 ? ` lane=${r.lane}/${r.group.members.length}` : '';
        return `${pad}${r.name} ${sec(r.start)}-${sec(r.end)} ${r.status}${r.exit === null ? '' : ` exit=${r.exit}`}${beside}${r.parent ? ` of=${r.parent}` : ''} ${what}`.trimEnd();
      }
      case 'plan': return `plan ${r.steps ? r.steps.map((s) => s.state[0]).join('') : '?'}`;
      case 'prompt': return `${pad}prompt: ${r.text?.head.slice(0, 40)}`;
      case 'error': return `error ×${r.times}: ${r.message.slice(0, 40)}`;
      case 'note': return `${pad}note${r.quiet ? ' (quiet)' : ''}: ${r.message || plain(r.detail ?? undefined)}`;
      case 'end': return `end success=${r.success} code=${r.code} ${r.error}${r.finalText.slice(0, 40)}`.trimEnd();
      case 'gap': return `gap ${r.from}-${r.to} ${r.count}`;
    }
  });
}

async function details(agent: string, name: string): Promise<Item[]> {
  return (await recording(agent, name)).details.map((d) => fromDetail(d)!);
}

function show(items: Item[]): string[] {
  const t = new Timeline();
  t.add(items);
  return lines(t.rows());
}

describe('recordings', () => {
  it.each([
    ['codex', 'shell-parallel'], ['codex', 'plan'], ['codex', 'failed'], ['codex', 'http-429'], ['codex', 'patch-fail'],
    ['claude', 'tools'], ['claude', 'subagent'], ['claude', 'http-529'], ['claude', 'sigint'],
    ['gemini', 'tools'], ['gemini', 'long-message'], ['gemini', 'max-turns'],
    ['opencode', 'todo'], ['opencode', 'subagent'], ['opencode', 'edit'],
  ])('%s %s', async (agent, name) => {
    expect(show(await details(agent, name))).toMatchSnapshot();
  });

  it('have the same rows without details, but for what only details have', async () => {
    const r = (await recording('claude', 'tools'));
    expect(show(r.events.map(fromEvent)).filter((l) => !l.startsWith('prompt'))).toMatchSnapshot();
  });
});

const all = ['codex/shell-parallel', 'codex/plan', 'codex/patch', 'claude/tools', 'claude/subagent', 'claude/http-529', 'gemini/edit', 'opencode/todo', 'opencode/tools'];

describe('items', () => {
  it.each(all)('of %s count once, in any order of arrival and repeatedly', async (path) => {
    const [agent = '', name = ''] = path.split('/');
    const items = await details(agent, name);
    const want = show(items);
    const random = generator(7);
    for (let round = 0; round < 20; round++) {
      const shuffled = [...items, ...items].sort(() => random() - 0.5);
      const t = new Timeline();
      for (const item of shuffled) {
        t.add([item]);
        if (random() < 0.3) t.rows(); // a frame is drawn
      }
      expect(lines(t.rows())).toEqual(want);
      expect(t.size).toBe(items.length);
      expect(t.summary.items).toBe(items.length);
    }
  });

  it('after a gap and a reconnection are complete', async () => {
    const items = await details('claude', 'tools');
    const t = new Timeline();
    t.add(items.slice(0, 7));
    t.add(items.slice(12));
    t.rows();
    t.add(items.slice(4, 14));
    expect(lines(t.rows())).toEqual(show(items));
  });

  it('resume after the newest position', async () => {
    const t = new Timeline();
    expect(t.cursor).toBe('');
    t.add((await details('codex', 'plan')).slice(0, 3));
    expect(t.cursor).toBe('7.3');
  });

  it('with positions that linesman does not write are refused', () => {
    for (const pos of ['', '1', '1.', 'x.1', '1.2.3', '1.2.end.', '99999999999999.1', '-1.1', '1e5.1']) {
      expect(fromDetail({ pos, line: 1, part: 1, time: '', kind: 'status' })).toBeNull();
    }
    expect(fromDetail({ pos: '145.1.end', line: 0, part: 1, time: '', kind: 'completion' })?.at).toBe('end');
  });
});

describe('failures', () => {
  it('have no words of the contract about what is left out of events', () => {
    const event = (seq: number, kind: EventItem['kind'], e: Partial<EventItem['event']>): EventItem => ({ seq, kind, time: '2026-01-01T00:00:00.000Z', event: { agent_kind: 'codex', ...e } });
    const t = new Timeline();
    t.add([
      event(1, 'error', { message: 'codex exited non-zero: exit_code=1 (stderr redacted)' }),
      event(2, 'error', { message: 'codex stream parse error (redacted): invalid JSON' }),
      event(3, 'error', { message: '{"type":"error","status":400,"error":{"message":"{\\"detail\\":\\"No such model\\"}"}}' }),
      event(4, 'error', { message: '{"error":null,"x":1' }),
      event(5, 'completion', { status: { success: false, code: 1 }, error: { kind: 'backend', message: 'codex backend error: timeout (details redacted when unsafe)' } }),
    ].map(fromEvent));
    expect(lines(t.rows())).toEqual(['error ×1: codex exited non-zero: exit_code=1', 'error ×1: codex stream parse error: invalid JSON', 'error ×1: No such model', 'error ×1: {"error":null,"x":1', 'end success=false code=1 codex backend error: timeout']);
  });
});

describe('turns', () => {
  it('have differences of the totals of Codex, from the beginning of the thread', async () => {
    const r = (await recording('codex', 'plan')).events;
    const again = r.map((e) => ({ ...e, seq: e.seq + 1000, ...(e.tokens && { tokens: { ...e.tokens, input: 6000, output: 400 } }) }));
    const t = new Timeline({ input: 1800, cached: 0, output: 20 });
    t.add([...r, ...again].map(fromEvent));
    const turns = t.rows().filter((x) => x.kind === 'turn');
    expect(turns.map((x) => x.tokens)).toEqual([{ input: 3000, cached: 4000, output: 300 }, { input: 1200, cached: 0, output: 80 }]);
    expect(t.summary.tokens).toEqual({ input: 4200, cached: 4000, output: 380 });
  });

  it('end with the run, and their calls too', async () => {
    const r = (await recording('codex', 'shell-parallel')).events.slice(0, 6);
    const t = new Timeline();
    t.add(r.map(fromEvent));
    expect(t.rows().filter((x) => x.kind === 'call').map((x) => x.status)).toEqual(['completed', 'running', 'running']);
    t.add([fromEvent(completion(900, { status: { success: false, code: null, signal: 9 }, error: { kind: 'backend', message: 'cancelled' } }))]);
    expect(lines(t.rows()).filter((l) => /^(Turn|end|command)/.test(l))).toEqual([
      'Turn 1 failed calls=3', 'command_execution 3-4 completed exit=0', 'command_execution 5-? unfinished lane=0/2',
      'command_execution 6-? unfinished lane=1/2', 'end success=false code=null cancelled',
    ]);
  });
});

describe('the prompt of a live run', () => {
  const item = (line: number, prompt: DetailText, message?: string): Item => fromDetail({
    pos: `${line}.1`, line, part: 1, time: '2026-01-01T00:00:00.000Z', kind: message ? 'status' : 'detail', detail: { prompt },
    ...(message && { event: { agent_kind: 'claude_code', message } }),
  })!;
  const prompts = (...items: Item[]): string[] => show(items).filter((l) => l.startsWith('prompt'));
  const one = { head: 'Say one.' };

  it('is shown once, with the start of the run, and again with a later turn that has it', () => {
    expect(prompts(item(1, one), item(2, { ...one }, 'turn started'))).toEqual(['prompt: Say one.']);
    expect(prompts(item(1, one), item(2, one, 'turn started'), item(3, one, 'turn started'))).toEqual(['prompt: Say one.', 'prompt: Say one.']);
    expect(prompts(item(2, one, 'turn started'))).toEqual(['prompt: Say one.']);
  });

  it('is shown again where it differs', () => {
    expect(prompts(item(1, { ...one, omittedBytes: 7 }), item(2, one, 'turn started'))).toHaveLength(2);
    expect(prompts(item(1, { ...one, tail: 'x' }), item(2, one, 'turn started'))).toHaveLength(2);
  });
});

describe('the summary', () => {
  it('has files, tests, the plan and the end', async () => {
    const t = new Timeline();
    t.add(await details('claude', 'tools'));
    expect([...t.summary.files.values()]).toEqual([{ path: 'new.txt', kind: 'added', added: 3, removed: 1, edits: 2, at: '15.1' }]);
    expect(t.summary).toMatchObject({ calls: 7, failedCalls: 1, texts: 3, errors: 0, turns: 1, end: { success: true } });
    const p = new Timeline();
    p.add(await details('codex', 'plan'));
    expect(p.summary.plan?.steps.map((s) => s.state)).toEqual(['done', 'done']);
    p.add([fromEvent(completion(2 ** 30))]);
    expect(p.summary.end?.code).toBe(0);
  });

  it('recognizes runs of tests', () => {
    const t = new Timeline();
    const command = ['cd x && go test ./...', 'npm test', 'npx vitest run', 'echo go testing', 'cat pytest.ini', 'python -m pytest -q', 'cargo test'];
    t.add(command.map((head, i) => fromDetail({
      pos: `7.${i + 1}`, line: i + 1, part: 1, time: '2026-01-01T00:00:00.000Z', kind: 'tool_result', detail: { command: { head } },
      event: { agent_kind: 'codex', data: { tool: { kind: 'command_execution', phase: 'complete', status: i === 1 ? 'failed' : 'completed', backend_item_id: `item_${i}` } } },
    })!));
    expect(t.summary.tests.map((x) => `${x.command} ${x.ok}`)).toEqual(
      ['cd x && go test ./... true', 'npm test false', 'npx vitest run true', 'python -m pytest -q true', 'cargo test true']);
  });
});

/** A run of n items: turns of ten calls with texts. */
function* long(n: number, from = 1): Generator<Item> {
  const agent_kind = 'codex';
  for (let i = from; i < from + n; i++) {
    const time = new Date(Date.UTC(2026, 0, 1) + i * 100).toISOString();
    const tool = (phase: string, status: string, id: number) =>
      ({ agent_kind, data: { tool: { kind: 'command_execution', phase, status, exit_code: 0, backend_item_id: `item_${id}`, bytes: { stdout: 1, stderr: 0, diff: 0, result: 0 } } } });
    const base = { seq: i, time, line: i, part: 1 };
    const k = i % 25;
    if (k === 1) yield fromEvent({ ...base, kind: 'status', event: { agent_kind, message: 'turn started' } });
    else if (k === 0) yield fromEvent({ ...base, kind: 'status', event: { agent_kind, message: 'turn completed' }, tokens: { input: i * 10, cached: 0, output: i, thread: true } });
    else if (k % 3 === 0) yield fromEvent({ ...base, kind: 'text_output', event: { agent_kind, channel: 'assistant', text: `Text ${i} `.repeat(20) } });
    else if (k % 3 === 1) yield fromEvent({ ...base, kind: 'tool_call', event: tool('start', 'running', i) });
    else yield fromEvent({ ...base, kind: 'tool_result', event: tool('complete', 'completed', k === 2 ? i : i - 1) });
  }
}

describe('a long run', () => {
  it('is bounded in memory, and its parts are loaded again', () => {
    const t = new Timeline();
    const store: Item[] = [];
    for (const item of long(25_000)) {
      store.push(item);
      t.add([item]);
      if (t.loadedItems > maxItems) expect.fail('more items are loaded');
    }
    expect(t.size).toBe(25_000);
    expect(t.summary).toMatchObject({ items: 25_000, turns: 1000 });
    const rows = t.rows();
    expect(rows[0]).toMatchObject({ kind: 'gap', from: 0 });
    expect(rows.filter((r) => r.kind === 'gap')).toHaveLength(1);

    const i = t.chunkOfLine(5500);
    const want = t.open(i)!;
    expect(want).toMatchObject({ after: '5000', last: 6000, count: 1000 });
    t.add(store.filter((x) => x.ord > 5000 && x.ord <= 6000));
    const again = t.rows();
    expect(again.filter((r) => r.kind === 'gap').map((r) => r.count)).toEqual([5000, 10_000]);
    const turn = again.find((r) => r.kind === 'turn');
    expect(turn).toMatchObject({ n: 201, tokens: { input: 250, output: 25 } });
    expect(again.filter((r) => r.kind === 'call' && r.status !== 'completed').length).toBeLessThanOrEqual(1);
    expect(t.summary.items).toBe(25_000);

    for (const item of long(3000, 25_001)) t.add([item]); // live items while history is read
    expect(t.isLoaded(i)).toBe(true);
    expect(t.size).toBe(28_000);
    const fresh = new Timeline();
    fresh.add([...store, ...long(3000, 25_001)]);
    expect(lines(t.rows()).slice(-300)).toEqual(lines(fresh.rows()).slice(-300));
    expect(t.summary.tokens).toEqual(fresh.summary.tokens);
  }, 60_000);

  it('with large texts is bounded in memory', () => {
    const t = new Timeline();
    for (let i = 1; i <= 3000; i++) {
      t.add([fromEvent({ seq: i, kind: 'text_output', line: i, part: 1, event: { agent_kind: 'codex', channel: 'assistant', text: 'x'.repeat(60_000) } })]);
    }
    expect(t.loadedWeight).toBeLessThanOrEqual(maxWeight);
    expect(t.size).toBe(3000);
  });

  it('takes a new item without folding the others again', () => {
    const t = new Timeline();
    t.add(long(9000));
    const rows = t.rows();
    const first = rows[0];
    const before = rows.length;
    t.add(long(30, 9001));
    expect(t.rows()).toBe(rows); // the same list, longer
    expect(rows[0]).toBe(first);
    expect(rows.length).toBeGreaterThan(before);
  }, 60_000);
});

function generator(seed: number): () => number {
  return () => {
    seed = (seed * 1_664_525 + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
}
