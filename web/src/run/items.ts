import type { Changed } from '../lib/api';

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

interface Facet {
  schema?: string;
  tool?: ToolFacet;
  usage?: Record<string, unknown>;
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

/** An event of `GET /v1/events`. */
export interface EventItem {
  seq: number;
  kind: Kind;
  time?: string;
  line?: number;
  part?: number;
  event: Envelope;
}

/** An item of `GET /v1/runs/{id}/detail`. */
export interface DetailItem {
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

interface Placed {
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
    weight: 256 + weigh(event) + weigh(detail),
  };
}

function weigh(value: unknown): number {
  if (typeof value === 'string') return 2 * value.length;
  if (typeof value !== 'object' || value === null) return 8;
  let sum = 16;
  for (const key in value) sum += 16 + weigh((value as Record<string, unknown>)[key]);
  return sum;
}

/** Tokens, as REST counts them: `input` contains the cached ones. */
export interface Tokens {
  input: number;
  cached: number;
  output: number;
}

export const noTokens: Tokens = { input: 0, cached: 0, output: 0 };

/** Returns the tokens of a usage facet, or null. Those of Codex are of the thread so far. */
export function tokensOf(e: Envelope): { tokens: Tokens; total: boolean } | null {
  const schema = e.data?.schema ?? '';
  const u = e.data?.usage;
  if (!u || !schema.startsWith('backend.')) return null;
  const n = (key: string): number => {
    const v = u[key];
    return typeof v === 'number' && Number.isFinite(v) ? v : 0;
  };
  switch (schema) {
    case 'backend.codex.usage.v1':
      return { tokens: { input: n('input_tokens'), cached: n('cached_input_tokens'), output: n('output_tokens') }, total: true };
    case 'backend.claude_code.usage.v1': {
      const cached = n('cache_read_input_tokens');
      const input = n('input_tokens') + cached + n('cache_creation_input_tokens');
      return { tokens: { input, cached, output: n('output_tokens') }, total: false };
    }
    case 'backend.gemini_cli.usage.v1':
      return { tokens: { input: n('input_tokens'), cached: n('cached'), output: n('output_tokens') }, total: false };
    case 'backend.opencode.usage.v1': {
      const cached = n('cache_read');
      const input = n('input') + cached + n('cache_write');
      return { tokens: { input, cached, output: n('output') + n('reasoning') }, total: false };
    }
    default:
      return null;
  }
}

/** Joins a cut text for search and for one-line titles. */
export function plain(t: DetailText | undefined): string {
  return t ? t.head + (t.tail ? `\n…\n${t.tail}` : '') : '';
}
