import { type Detail, type DetailText, type Envelope, type FileChange, type Item, noTokens, plain, type PlanStep, type ToolFacet, type Tokens } from './items';
import { conversationWords } from './conversation';
import type { Base, CallRow, EndRow, Row, Summary, TextRow, TurnRow } from './rows';

// The fold makes rows of items: pure, one item at a time, in order.

interface Call {
  id: string;
  row: CallRow | null; // null: it began before the rows
  name: string;
  item: string;
  start: number;
  depth: number;
  agent: boolean;
  ended: boolean;
}

/** What the fold must know of the items before the next one. It is small. */
export interface State {
  turn: number;
  open: boolean;
  since: number;
  label: TurnRow['label'];
  usage: Tokens; // of the thread so far, for agents that print totals
  calls: Call[]; // the running ones, oldest first
  done: Map<string, Call>; // the last ended ones: a call may have a second result
  direct: boolean; // nothing but calls since a sub-agent began
  plan: PlanStep[];
  task: Detail['prompt'] | null; // of a detail, until a turn starts
}

export function newState(base: Tokens = noTokens): State {
  return { turn: 0, open: false, since: 0, label: 'Turn', usage: base, calls: [], done: new Map(), direct: false, plan: [], task: null };
}

export function cloneState(s: State): State {
  const copy = (c: Call): Call => ({ ...c, row: null });
  return { ...s, usage: { ...s.usage }, calls: s.calls.map(copy), done: new Map([...s.done].map(([id, c]) => [id, copy(c)])) };
}

export const maxFiles = 500; // of a summary
const maxTests = 200;
const maxCalls = 64; // running ones, and ended ones, that a state knows
const maxGroup = 64;
const maxText = 512 * 1024; // characters of a row; the next part is in a row of its own
const pieceBytes = 65536; // events contain longer texts in pieces of about this size
const testCommand =
  /(^|[\s;&|(])(go test|cargo (test|nextest)|pytest|py\.test|tox|npm (run )?test|(npx |pnpm |yarn )?(vitest|jest|mocha|playwright test)|make (test|check)|mvn (test|verify)|gradlew? test|rspec|phpunit|dotnet test|ctest|mix test|bazel test)(?=$|[\s;&|)])/;

// Words of the contract for events, whose reader does not see the stderr. The owner does.
const redacted = / ?\((?:[a-z]+ )?redacted[^)]*\)/g;
const faultText = (message: string): string => inside(message.replace(redacted, ''));

/** The message in an error that is JSON, as of some providers; any other text as it is. */
function inside(message: string): string {
  if (!message.startsWith('{')) return message;
  try {
    const e = JSON.parse(message) as Record<string, unknown>;
    const text = [(e['error'] as Record<string, unknown> | undefined)?.['message'], e['message'], e['detail'], e['error']].find((v) => typeof v === 'string' && v !== '');
    return text === undefined ? message : inside(text as string);
  } catch {
    return message; // cut off, or none
  }
}

const quietNote = /^(system (?!api_|compact)|thread started|init$|user message|token count|message completed|cost$|todo list)/;
const retrying = /^(Reconnecting|Retrying)\b/;

/** Makes rows of items. `sum` gets what is new; null if the items were counted before. */
export class Fold {
  readonly rows: Row[] = [];
  private turnRow: TurnRow | null = null;

  constructor(
    readonly state: State,
    public sum: Summary | null,
  ) {}

  push(item: Item): void {
    const sum = this.sum;
    if (sum) {
      sum.items++;
      sum.firstTime ||= item.time;
      sum.lastTime = Math.max(sum.lastTime, item.time);
    }
    if (item.kind !== 'tool_call') this.state.direct = false;
    switch (item.kind) {
      case 'text_output': this.text(item); break;
      case 'tool_call': this.call(item, true); break;
      case 'tool_result': this.call(item, false); break;
      case 'error': this.error(item); break;
      case 'completion': this.completion(item); break;
      case 'detail': this.extra(item); break;
      case 'unknown': this.note(item, 'a line of an unknown type', true); break;
      default: this.status(item);
    }
    const detail = item.detail;
    if (detail?.plan) this.plan(item, detail.plan, detail.moreSteps ?? 0);
  }

  private base(item: Item): Base {
    return { key: `i${item.ord}`, at: item.at, time: item.time, rev: 0, depth: 0 };
  }

  // Turns.

  private turn(item: Item): TurnRow {
    const s = this.state;
    if (!s.open) {
      s.open = true;
      s.turn++;
      s.since = item.time;
      s.label = 'Turn';
      if (this.sum) this.sum.turns = s.turn;
    }
    if (!this.turnRow) {
      this.turnRow = {
        ...this.base(item), key: `t${s.turn}`, at: '', time: s.since, kind: 'turn', n: s.turn, label: s.label, end: 0,
        state: 'running', tokens: null, calls: 0, errors: 0,
      };
      this.rows.push(this.turnRow);
    }
    return this.turnRow;
  }

  private beginTurn(item: Item, label: TurnRow['label']): void {
    this.endTurn(item, 'unknown'); // of one that did not report its end
    const row = this.turn(item);
    this.state.label = row.label = label;
  }

  private endTurn(item: Item, state: TurnRow['state']): void {
    if (!this.state.open) return;
    const row = this.turn(item);
    row.end = item.time;
    row.state = state;
    row.rev++;
    this.state.open = false;
    this.turnRow = null;
  }

  private usage(item: Item, e: Envelope): void {
    const used = item.meaning.tokens;
    if (!used) return;
    let t: Tokens = used;
    if (used.thread) {
      const before = this.state.usage;
      this.state.usage = t;
      const grown = t.input >= before.input && t.output >= before.output;
      if (grown) {
        t = { input: t.input - before.input, cached: Math.max(0, t.cached - before.cached), output: t.output - before.output };
      }
    }
    const cost = e.data?.total_cost_usd ?? e.data?.cost ?? 0;
    if (this.sum) {
      add(this.sum.tokens, t);
      if (e.data?.total_cost_usd !== undefined) this.sum.costUsd = cost;
      else this.sum.costUsd += cost;
    }
    if (t.input + t.output === 0) return;
    const row = this.turn(item);
    row.tokens ??= { ...noTokens };
    add(row.tokens, t);
    row.rev++;
  }

  // What the agent prints.

  private text(item: Item): void {
    const e = item.event;
    const text = e?.text ?? '';
    const channel = e?.channel === 'reasoning' || e?.channel === 'subagent' ? e.channel : 'assistant';
    this.turn(item);
    const last = this.rows[this.rows.length - 1];
    if (last?.kind === 'text' && last.channel === channel && last.length < maxText && continues(last, item)) {
      last.parts.push(text);
      last.length += text.length;
      last.rev++;
      return;
    }
    if (this.sum) this.sum.texts++;
    const depth = channel === 'subagent' ? this.nesting() || 1 : 0;
    this.rows.push({ ...this.base(item), kind: 'text', channel, parts: [text], length: text.length, depth });
  }

  private status(item: Item): void {
    const e = item.event;
    if (!e) return;
    const message = e.message ?? '';
    if (message === 'turn started') this.beginTurn(item, 'Turn');
    else if (message === 'step started') this.beginTurn(item, 'Step');
    this.usage(item, e);
    const prompt = item.detail?.prompt;
    if (prompt && !(message === 'turn started' && same(this.state.task, prompt))) this.prompt(item, prompt);
    if (message === 'turn started') this.state.task = null;
    switch (message) {
      case 'turn completed': case 'step finished': this.endTurn(item, 'completed'); return;
      case 'turn failed': this.endTurn(item, 'failed'); return;
      case 'turn aborted': case 'turn cancelled': this.endTurn(item, 'aborted'); return;
      case 'turn started': case 'step started': return;
    }
    if (message.startsWith('result ')) {
      this.endTurn(item, message === 'result success' ? 'completed' : 'failed');
      return;
    }
    if (message.startsWith('todo list') && !item.detail?.plan) {
      this.rows.push({ ...this.base(item), kind: 'plan', steps: null, more: 0, news: [] });
      return;
    }
    if (!prompt && !item.detail?.plan) this.note(item, conversationWords(e) ?? (message || 'status'), message === '' || quietNote.test(message));
  }

  private note(item: Item, message: string, quiet: boolean): void {
    const detail = item.detail?.text ?? null;
    this.rows.push({ ...this.base(item), kind: 'note', message, detail, quiet, depth: this.nesting() });
  }

  private error(item: Item): void {
    const e = item.event;
    const message = faultText(e?.message ?? 'error');
    const turn = this.state.open ? this.turn(item) : null;
    const last = this.rows[this.rows.length - 1];
    if (last?.kind === 'error' && last.message === message) {
      last.times++;
      last.rev++;
    } else {
      this.rows.push({ ...this.base(item), kind: 'error', message, times: 1, retry: retrying.test(message) });
      if (turn) turn.errors++;
      if (this.sum) this.sum.errors++;
    }
    if (!e || !item.meaning.tokens) return;
    this.usage(item, e); // the error that ends a turn
    this.endTurn(item, 'failed');
  }

  private extra(item: Item): void {
    const d = item.detail;
    if (d?.prompt) {
      this.state.task = d.prompt;
      this.prompt(item, d.prompt);
    } else if (d?.text) this.note(item, '', false);
    else if (d && !d.plan) this.note(item, 'detail', true);
  }

  private prompt(item: Item, text: NonNullable<Detail['prompt']>): void {
    const working = this.agents();
    if (working.some((c) => c.row?.detail?.prompt?.head === text.head)) return; // the call has it
    this.rows.push({ ...this.base(item), kind: 'prompt', text, depth: this.nesting() });
  }

  private plan(item: Item, steps: PlanStep[], more: number): void {
    if (this.sum) this.sum.plan = { steps, more };
    const before = this.state.plan;
    const news = steps.flatMap((s, i) => (before[i]?.text === s.text && before[i].state === s.state ? [] : [i]));
    if (news.length === 0 && before.length === steps.length) return;
    this.state.plan = steps;
    this.rows.push({ ...this.base(item), key: `p${item.ord}`, kind: 'plan', steps, more, news });
  }

  private completion(item: Item): void {
    const e = item.event;
    const success = e?.status?.success ?? null;
    for (const c of this.state.calls) {
      if (!c.row) continue;
      c.row.status = 'unfinished';
      c.row.rev++;
    }
    this.endTurn(item, e?.error || success === false ? 'failed' : 'unknown');
    const final = e?.final_text ?? '';
    const row: EndRow = {
      ...this.base(item), kind: 'end', success, code: e?.status?.code ?? null, signal: e?.status?.signal ?? null,
      error: faultText(e?.error?.message ?? ''), finalText: this.shown(final) ? '' : final, detail: item.detail,
    };
    this.rows.push(row);
    if (this.sum) this.sum.end = row;
  }

  /** Reports whether the last text of the agent is or begins with a text. */
  private shown(final: string): boolean {
    for (let i = this.rows.length - 1; i >= 0; i--) {
      const row = this.rows[i];
      if (row?.kind === 'text' && row.channel === 'assistant') {
        return row.parts.join('').slice(0, 1024).trim().startsWith(final.slice(0, 512).trim());
      }
    }
    return final === '';
  }

  // Calls.

  private agents(): Call[] {
    return this.state.calls.filter((c) => c.agent);
  }

  /** How deep an item is: events do not name the sub-agent, so it is one that works now. */
  private nesting(): number {
    const working = this.agents();
    const last = working[working.length - 1];
    return last && !this.state.direct ? last.depth + 1 : 0;
  }

  private call(item: Item, starts: boolean): void {
    const f = item.event?.data?.tool;
    if (!f) {
      this.note(item, starts ? 'tool call without data' : 'tool result without data', true);
      return;
    }
    const id = f.tool_use_id ?? f.backend_item_id ?? `i${item.ord}`;
    const known = this.known(id);
    if (starts && known) this.update(known, item, f);
    else if (starts) this.start(item, f, id);
    else this.result(item, f, id, known);
  }

  private known(id: string): Call | undefined {
    return this.state.calls.findLast((c) => c.id === id) ?? this.state.done.get(id);
  }

  private start(item: Item, f: ToolFacet, id: string): void {
    const turn = this.turn(item);
    turn.calls++;
    turn.rev++;
    if (this.sum) this.sum.calls++;
    const depth = this.nesting();
    const working = this.agents();
    const name = f.tool_name || f.kind;
    const agent = item.meaning.subagent ?? false;
    const row = this.row(item, f, id, depth);
    row.start = item.time;
    row.parent = depth > 0 && working.length === 1 ? (working[0]?.id ?? null) : null;
    this.rows.push(row);
    const call: Call = { id, row, name, item: f.kind, start: item.time, depth, agent, ended: false };
    this.join(row, depth);
    this.remember(call);
    if (agent) this.state.direct = true;
  }

  private row(item: Item, f: ToolFacet, id: string, depth: number): CallRow {
    const row: CallRow = {
      ...this.base(item), kind: 'call', id, name: f.tool_name || f.kind, item: f.kind, start: 0, end: 0,
      status: 'running', exit: null, bytes: { stdout: 0, stderr: 0, diff: 0, result: 0 }, detail: item.detail,
      agent: item.meaning.subagent ?? false, test: isTest(item.detail), parent: null, lane: 0, depth,
      group: { start: item.time, end: item.time, members: [] },
    };
    row.group.members.push(row);
    return row;
  }

  /** Puts a row into the group of calls that run beside it. */
  private join(row: CallRow, depth: number): void {
    const beside = this.state.calls.filter((c) => c.row && c.depth === depth).map((c) => c.row!);
    const last = beside[beside.length - 1];
    if (!last || last.group.members.length >= maxGroup) return;
    row.group = last.group;
    row.group.members.push(row);
    row.group.end = Math.max(row.group.end, row.start);
    const taken = new Set(beside.map((r) => r.lane));
    while (taken.has(row.lane)) row.lane++;
    for (const r of row.group.members) r.rev++;
  }

  private remember(call: Call): void {
    const { calls, done } = this.state;
    if (!call.ended) {
      calls.push(call);
      if (calls.length > maxCalls) calls.shift();
      return;
    }
    const at = calls.indexOf(call);
    if (at >= 0) calls.splice(at, 1);
    done.set(call.id, call);
    if (done.size > maxCalls) done.delete(done.keys().next().value!);
  }

  private update(call: Call, item: Item, f: ToolFacet): void {
    if (!call.row) return;
    call.row.detail = merge(call.row.detail, item.detail);
    call.row.name = f.tool_name || call.row.name;
    call.row.rev++;
  }

  private result(item: Item, f: ToolFacet, id: string, known: Call | undefined): void {
    let row = known?.row ?? null;
    if (!row) {
      row = this.row(item, f, id, known?.depth ?? this.nesting());
      row.start = known?.start ?? 0;
      const turn = this.turn(item);
      this.rows.push(row);
      if (!known) {
        turn.calls++;
        turn.rev++;
        if (this.sum) this.sum.calls++;
        this.remember({ id, row, name: row.name, item: f.kind, start: 0, depth: row.depth, agent: row.agent, ended: true });
      }
    } else {
      row.detail = merge(row.detail, item.detail);
    }
    const first = !known?.ended;
    if (known) {
      known.row ??= row;
      known.ended = true;
      this.remember(known);
    }
    finish(row, item, f);
    if (this.sum) this.count(this.sum, row, item, first);
  }

  private count(sum: Summary, row: CallRow, item: Item, first: boolean): void {
    if (row.status === 'failed' && first) sum.failedCalls++;
    if (row.test && first && sum.tests.length < maxTests) {
      sum.tests.push({ command: plain(row.detail?.command), ok: row.status === 'completed', at: row.at });
    }
    if (row.status === 'failed') return;
    sum.moreFiles += item.detail?.moreFiles ?? 0;
    for (const f of item.detail?.files ?? (first ? row.detail?.files : undefined) ?? []) changed(sum, f, row.at);
  }
}

function add(to: Tokens, t: Tokens): void {
  to.input += t.input;
  to.cached += t.cached;
  to.output += t.output;
}

function same(a: Detail['prompt'] | null, b: DetailText): boolean {
  return a?.head === b.head && a.tail === b.tail && a.omittedBytes === b.omittedBytes;
}

/** Reports whether an item is the next piece of a text. */
function continues(last: TextRow, item: Item): boolean {
  if (item.meaning.piece) return true;
  const piece = last.parts[last.parts.length - 1] ?? '';
  return item.part > 1 && piece.length > pieceBytes / 4 && new TextEncoder().encode(piece).length > pieceBytes - 8;
}

function isTest(d: Detail | null): boolean {
  return d?.command !== undefined && testCommand.test(d.command.head);
}

function merge(a: Detail | null, b: Detail | null): Detail | null {
  return a && b ? { ...a, ...b } : (b ?? a);
}

function finish(row: CallRow, item: Item, f: ToolFacet): void {
  row.end = item.time;
  row.status = f.status === 'failed' || f.phase === 'fail' ? 'failed' : f.status === 'running' ? 'running' : 'completed';
  row.exit = f.exit_code ?? item.detail?.exitCode ?? row.exit;
  row.bytes = f.bytes ?? row.bytes;
  row.name = f.tool_name || row.name;
  row.test ||= isTest(item.detail);
  row.group.end = Math.max(row.group.end, row.end);
  for (const r of row.group.members) r.rev++;
}

function changed(sum: Summary, f: FileChange, at: string): void {
  let file = sum.files.get(f.path);
  if (!file) {
    if (sum.files.size >= maxFiles) {
      sum.moreFiles++;
      return;
    }
    file = { path: f.path, kind: f.kind, added: undefined, removed: undefined, edits: 0, at };
    sum.files.set(f.path, file);
  }
  if (file.kind !== 'added' || f.kind === 'deleted') file.kind = f.kind;
  if (f.added !== undefined) file.added = (file.added ?? 0) + f.added;
  if (f.removed !== undefined) file.removed = (file.removed ?? 0) + f.removed;
  file.edits++;
  file.at = at;
}
