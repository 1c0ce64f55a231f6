// REST of linesman, with the session cookie of this browser.
//
//   await api.run(id)                     one run, with its record
//   await api.submit({ task: '…' }, key)  queue a task
//   session.value                         undefined: not known yet, null: signed out
//   allowed('submit')                     whether the session has a scope
//
// Every failure is an ApiError. `status` 0 is a request without an answer: the network, or a server
// that is not running. A 401 sets `session` to null, which shows the sign-in page.
// The types are those of openapi.json; fields that are marked optional are absent if unknown.

import { signal } from '@preact/signals';
import { setServerTime } from './clock';

export type State = 'queued' | 'working' | 'input-required' | 'completed' | 'failed' | 'cancelled' | 'timeout';
export type Scope = 'read' | 'submit' | 'raw' | 'metrics';
export type Mode = 'read-only' | 'workspace-write' | 'danger-full-access';
export type Phase =
  | 'starting' | 'thinking' | 'running' | 'writing' | 'retrying' | 'rate-limited' | 'compacting'
  | 'waiting-for-agent' | 'waiting-for-answer' | 'your-turn' | 'running-or-waiting';
/** RFC 3339 in UTC with milliseconds. */
export type Time = string;

export interface Session { scopes: Scope[]; name: string; version: string }

/** A run. Lists have the fields up to `seq`; the others are those of the run's record. */
export interface Run {
  run: string;
  agent: string;
  state: State;
  title?: string;
  unseen?: boolean;
  source?: string;
  threadId?: string;
  workingDir?: string;
  worker?: string;
  queue?: string;
  position?: number;
  workerLost?: boolean;
  cancelRequested?: boolean;
  reason?: string;
  continues?: string;
  continuedBy?: string;
  queuedAt?: Time;
  startedAt?: Time;
  activeAt?: Time;
  endedAt?: Time;
  progress?: { completedSteps: number; totalSteps: number };
  activity?: string;
  doing?: { phase: Phase; tool?: string; attempt?: number; of?: number; nextAt?: Time; since?: Time };
  tokens?: { input: number; output: number };
  model?: string;
  mode?: Mode;
  agentVersion?: string;
  times?: 'written' | 'captured';
  changed?: Changed;
  /** Of a run that has ended: the first line of its answer; why it failed, and what to try; its tests and cost. */
  answer?: string;
  cause?: string;
  hint?: string;
  tests?: { passed: number; failed: number };
  costUsd?: number;
  labels?: Record<string, string>;
  seq: number;

  summary?: string;
  exit?: { reason: string; code?: number; signal?: number; spawn?: string; why?: string };
  turns?: { completed: number; failed: number };
  lines?: number;
  stdoutBytes?: number;
  stderrBytes?: number;
  events?: Record<string, number>;
  droppedEvents?: number;
  unknownLines?: number;
  drift?: unknown;
  malformedLines?: number;
  gaps?: number;
  toolCalls?: number;
  openCalls?: { id: string; kind: string; name?: string; at: Time }[];
  usage?: RunUsage;
  threadUsage?: Usage;
  threadCostUsd?: number;
  models?: (Usage & { name: string; costUsd?: number })[];
  fileOperations?: { modified: string[]; added: string[]; deleted: string[]; unlisted?: number; linesChanged?: number };
  changes?: { files: number; added: number; removed: number; reason?: string };
  testResults?: { passed: number; failed: number; skipped: number; failedTests: string[] | null };
  errorContext?: {
    message: string; type?: string; failedFiles: string[] | null;
    locations: { file: string; line?: number; column?: number }[] | null; suggestions: string[] | null;
  };
  finalText?: string;
  finalTextBytes?: number;
  cloud?: { id?: string; url?: string; environment?: string; status?: string; attempts?: number; applied?: boolean };
}

/** How many files a run changed, and which are counted: those that differ in its directory, those that its tools report, or those of a cloud task. */
export interface Changed { files: number; in: 'directory' | 'tools' | 'cloud'; added?: number; removed?: number }

/** What a run has used: `own` without its sub-agents. `partial`: at least; `earlier`: at most. */
export interface RunUsage { own?: Usage; subagents?: Usage; total?: Usage; partial?: boolean; earlier?: boolean }

export interface Usage {
  inputTokens: number; cachedInputTokens: number; cacheWriteInputTokens: number; outputTokens: number; reasoningOutputTokens: number;
}

/** An agent that tasks can name. */
export interface Agent { kind: string; short: string; name: string }

export interface Worker {
  id: string; name: string; version?: string; queue: string; slots: number; busy: number; agents: string[]; lastSeenAt: Time;
  agentVersions?: Record<string, string>;
  roots?: string[]; modes?: Mode[]; // absent: unknown
}

/** An event of EVENTS; `event` is the envelope. */
export interface Event {
  seq: number; kind: string; run?: string; agent?: string; time?: Time; line?: number; part?: number; event: Record<string, unknown>;
}

export interface DetailText { head: string; tail?: string; omittedBytes?: number }

export interface DetailItem {
  pos: string; line: number; part: number; time: Time; kind: string; event?: Record<string, unknown>;
  detail?: {
    prompt?: DetailText; command?: DetailText; tool?: string; server?: string; arguments?: DetailText; output?: DetailText;
    result?: DetailText; stderr?: DetailText; exitCode?: number; text?: DetailText;
    files?: { path: string; kind: 'added' | 'modified' | 'deleted'; added?: number; removed?: number; diff?: DetailText }[]; moreFiles?: number;
    plan?: { text: string; state: 'pending' | 'active' | 'done' }[]; moreSteps?: number;
  };
}

export interface Diff {
  run: string; reason?: string; why?: string; changes?: Run['changes']; unlisted?: number; patch?: string; truncated?: boolean;
  files: { path: string; from?: string; kind: string; added: number; removed: number; binary?: boolean; truncated?: boolean }[];
}

export interface Task {
  task: string; agent?: string; mode?: Mode; confirm?: boolean; model?: string; workingDir?: string; title?: string;
  labels?: Record<string, string>; skipGitRepoCheck?: boolean; timeoutSec?: number; idleTimeoutSec?: number;
}

export interface Issue { field: string; problem: string; didYouMean?: string }

/** Problem details of an answer, or a request without one (`status` 0). */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly issues: Issue[] = [],
    readonly run?: string,
    readonly state?: State,
    readonly retryAfter?: number, // seconds
  ) {
    super(message);
  }

  /** The message for a field of a form, or undefined. */
  of(field: string): string | undefined {
    return this.issues.find((issue) => issue.field === field || issue.field.startsWith(field + '.') || issue.field.startsWith(field + '['))?.problem;
  }
}

export const session = signal<Session | null | undefined>(undefined);

export function allowed(scope: Scope): boolean {
  return session.value?.scopes.includes(scope) ?? false;
}

/** Sends a request, and returns its answer with a status below 400. Paths begin with a slash. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, { credentials: 'same-origin', cache: 'no-store', redirect: 'error', ...init });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new ApiError(0, 'UNREACHABLE', 'linesman does not answer');
  }
  setServerTime(answer.headers.get('Date'));
  if (answer.status < 400) return answer;
  const error = await problem(answer);
  if (error.status === 401 && path !== '/session') session.value = null;
  throw error;
}

/** Reads the problem details of an answer. Never throws. */
export async function problem(answer: Response): Promise<ApiError> {
  const retryAfter = Number(answer.headers.get('Retry-After')) || undefined;
  let body: Record<string, unknown> = {};
  try {
    const parsed: unknown = await answer.json();
    if (parsed !== null && typeof parsed === 'object') body = parsed as Record<string, unknown>;
  } catch { /* an answer of a proxy, perhaps: the status has to do */ }
  const text = (v: unknown): string | undefined => (typeof v === 'string' && v !== '' ? v : undefined);
  const message = text(body['detail']) ?? text(body['title']) ?? `HTTP ${answer.status}`;
  let issues = Array.isArray(body['issues']) ? (body['issues'] as Issue[]) : [];
  const field = text(body['field']);
  if (field && !issues.some((issue) => issue.field === field)) issues = [...issues, { field, problem: message }];
  return new ApiError(answer.status, text(body['code']) ?? 'UNKNOWN', message, issues, text(body['run']), text(body['state']) as State, retryAfter);
}

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await send(path, { headers: { Accept: 'application/json' }, signal })).json() as Promise<T>;
}

async function change<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
  const init: RequestInit = { method, headers: { Accept: 'application/json', ...headers } };
  if (body !== undefined) {
    init.headers = { ...init.headers, 'Content-Type': 'application/json' };
    init.body = JSON.stringify(body);
  }
  const answer = await send(path, init);
  return (answer.status === 204 ? undefined : await answer.json().catch(() => undefined)) as T;
}

/** `?a=1&b=2` of the values that are set; a list is repeated. */
export function query(values: Record<string, string | number | boolean | undefined | readonly string[]>): string {
  const params: string[] = [];
  for (const [key, value] of Object.entries(values)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== '' && each !== false) params.push(`${key}=${encodeURIComponent(String(each))}`);
    }
  }
  return params.length > 0 ? '?' + params.join('&') : '';
}

const of = (id: string) => `/v1/runs/${encodeURIComponent(id)}`;

export const api = {
  session: () => get<Session>('/session'),
  signIn: (token: string) => change<Session>('POST', '/session', { token }),
  signOut: () => change<void>('DELETE', '/session'),

  runs: (filter: { order?: 'changed'; limit?: number; cursor?: string }, signal?: AbortSignal) => get<{ runs: Run[]; next?: string }>('/v1/runs' + query(filter), signal),
  run: (id: string, signal?: AbortSignal) => get<Run>(of(id), signal),
  /** Waits up to `timeout` seconds for the end of the run. */
  events: (id: string, page: { after?: number; limit?: number } = {}, signal?: AbortSignal) =>
    get<{ events: Event[]; next: number; done: boolean }>(of(id) + '/events' + query(page), signal),
  detail: (id: string, page: { after?: string; last?: number; limit?: number } = {}, signal?: AbortSignal) =>
    get<{ items: DetailItem[]; next?: string; done: boolean; omitted?: 'expired' }>(of(id) + '/detail' + query(page), signal),
  diff: (id: string, signal?: AbortSignal) => get<Diff>(of(id) + '/diff', signal),
  /** Bytes from `offset` on; `X-Linesman-Offset` and `X-Linesman-Size` are in the headers. */
  output: (id: string, stream: 'stdout' | 'stderr', offset = 0, limit = 65536, signal?: AbortSignal) =>
    send(of(id) + '/output' + query({ stream, offset: String(offset), limit }), { signal }),
  workers: (signal?: AbortSignal) => get<{ workers: Worker[]; agents: Agent[] }>('/v1/workers', signal),

  seen: (id: string) => change<void>('PUT', of(id) + '/seen'),
  cancel: (id: string, reason?: string) => change<Run>('POST', of(id) + '/cancel', reason ? { reason } : undefined),
  resume: (id: string, task: Task, key: string) => change<Run>('POST', of(id) + '/resume', task, { 'Idempotency-Key': key }),
  submit: (task: Task, key: string) => change<Run>('POST', '/v1/runs', task, { 'Idempotency-Key': key }),
};

/** A new idempotency key: the same key with the same request is carried out once. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
}
