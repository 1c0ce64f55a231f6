import type { Changed, Terms } from '../lib/api';

// Items are what a run consists of: its events, or with the scope `raw` its details, which
// contain the events. A timeline is made from one of the two feeds, never from both: their
// positions cannot be compared, and after RAW has lost the beginning of a run they count
// lines differently.

export type Kind =
  | 'text_output'
  | 'tool_call'
  | 'tool_result'
  | 'status'
  | 'error'
  | 'unknown'
  | 'completion'
  | 'detail';

/** A text of a detail, cut in the middle or at its end. */
export interface DetailText {
  head: string;
  tail?: string;
  omittedBytes?: number;
}

export interface FileChange {
  path: string;
  kind: 'added' | 'modified' | 'deleted';
  added?: number;
  removed?: number;
  diff?: DetailText;
}

export interface PlanStep {
  text: string;
  state: 'pending' | 'active' | 'done';
}

/** What an event omits; see "Details" in docs/events.md. */
export interface Detail {
  prompt?: DetailText;
  live?: Terms;
  command?: DetailText;
  tool?: string;
  server?: string;
  arguments?: DetailText;
  output?: DetailText;
  result?: DetailText;
  stderr?: DetailText;
  exitCode?: number;
  files?: FileChange[];
  moreFiles?: number;
  plan?: PlanStep[];
  moreSteps?: number;
  text?: DetailText;
  changed?: Changed;
}

export interface ToolFacet {
  backend_item_id?: string | null;
  thread_id?: string | null;
  turn_id?: string | null;
  kind: string;
  phase: string;
  status: string;
  exit_code?: number | null;
  bytes?: { stdout: number; stderr: number; diff: number; result: number };
  tool_name?: string | null;
  tool_use_id?: string | null;
}

/** A question of a live run: who decided it and how, and by when somebody has to. */
export interface QuestionFacet {
  id: string;
  kind?: string;
  tool?: string | null;
  outcome?: string;
  by?: string | null;
  /** Unix milliseconds; null: never. */
  due?: number | null;
}

interface Facet {
  tool?: ToolFacet;
  question?: QuestionFacet;
  asked?: QuestionFacet;
  answer?: QuestionFacet;
  total_cost_usd?: number;
  cost?: number;
}

/** The envelope of an event, or the body of a completion. */
export interface Envelope {
  agent_kind: string;
  kind?: string;
  channel?: string | null;
  text?: string | null;
  message?: string | null;
  data?: Facet | null;
  status?: { success?: boolean | null; code?: number | null; signal?: number | null } | null;
  final_text?: string | null;
  error?: { kind: string; message: string } | null;
}

/** Tokens that an event counts; `input` contains the cached ones. */
export interface Tokens {
  input: number;
  cached: number;
  output: number;
}

/** What an event means, in the same form for all agents. */
export interface Meaning {
  /** What the tool of a call does: `command`, `file_change`, `read`, `web`, `mcp`, `agent`, `plan`, `other`. */
  class?: string;
  /** The tool runs a sub-agent to its end. */
  subagent?: true;
  /** The text is a piece of a message. */
  piece?: true;
  /** `thread`: of the thread so far. */
  tokens?: Tokens & { thread?: true };
}

/** An event of `GET /v1/events`. */
export interface EventItem extends Meaning {
  seq: number;
  kind: Kind;
  time?: string;
  line?: number;
  part?: number;
  event: Envelope;
}

/** An item of `GET /v1/runs/{id}/detail`. */
export interface DetailItem extends Meaning {
  pos: string;
  line: number;
  part: number;
  time: string;
  kind: Kind;
  event?: Envelope;
  detail?: Detail;
}

/** One event or detail, with its place in the run. */
export interface Item {
  /** Orders the items of a feed, and identifies them. */
  ord: number;
  /** The position to resume after: the `after` of a page, the `Last-Event-ID` of a stream. */
  cursor: string;
  /** The position in a link, LINE.PART or "end": the same in both feeds. */
  at: string;
  kind: Kind;
  /** Unix milliseconds, 0 if unknown. */
  time: number;
  line: number;
  part: number;
  event: Envelope | null;
  detail: Detail | null;
  meaning: Meaning;
  /** About the memory that it takes, in bytes. */
  weight: number;
}

const itemsOfEntry = 1 << 20; // more than one entry of RAW has

export function fromEvent(e: EventItem): Item {
  return item(e.seq, String(e.seq), e, e.event, null);
}

/** Returns null if the position is not one that linesman writes. */
export function fromDetail(d: DetailItem): Item | null {
  const m = /^(\d{1,10})\.(\d{1,7})(\.end)?$/.exec(d.pos);
  if (!m) return null;
  return item(Number(m[1]) * itemsOfEntry + Number(m[2]), d.pos, d, d.event ?? null, d.detail ?? null);
}

interface Placed extends Meaning {
  kind: Kind;
  time?: string;
  line?: number;
  part?: number;
}

function item(ord: number, cursor: string, p: Placed, event: Envelope | null, detail: Detail | null): Item {
  const line = p.line ?? 0;
  const part = p.part ?? 1;
  return {
    ord,
    cursor,
    at: p.kind === 'completion' ? 'end' : `${line}.${part}`,
    kind: p.kind,
    time: p.time ? Date.parse(p.time) || 0 : 0,
    line,
    part,
    event,
    detail,
    meaning: { class: p.class, subagent: p.subagent, piece: p.piece, tokens: p.tokens },
    weight: 256 + weigh(event) + weigh(detail),
  };
}

function weigh(value: unknown): number {
  if (typeof value === 'string') return 2 * value.length;
  if (typeof value !== 'object' || value === null) return 8;
  let sum = 16;
  for (const part of Object.values(value)) sum += 16 + weigh(part);
  return sum;
}

export const noTokens: Tokens = { input: 0, cached: 0, output: 0 };

/** Joins a cut text for search and for one-line titles. */
export function plain(t: DetailText | undefined): string {
  return t ? t.head + (t.tail ? `\n…\n${t.tail}` : '') : '';
}
