// REST of linesman, with the session cookie of this browser.
//
//   await api.run(id)                     one run, with its record
//   await api.submit({ task: '…' }, key)  queue a task
//   session.value                         undefined: not known yet, null: signed out
//   allowed('submit')                     whether the session has a scope
//
// Every failure is an ApiError. `status` 0 is a request without an answer: the network, or a server that is not running. A
// read fails after a minute without its whole answer. A write has no time limit, since it would not be known whether it was done. A 401 sets `session` to null, which shows the sign-in page.
// The types of schema.ts are those of openapi.json; fields that are marked optional are absent if unknown.

import { signal } from '@preact/signals';
import { setServerTime } from './clock';
import type { Answer, Answered, DetailPage, Diff, Doing, EventPage, Issue, Messages, Questions, Request, Run, RunList, RunRequest, Sent, WorkerList } from './schema';

export type { Agent, Answer, Answered, Changed, DetailItem, DetailText, Diff, Event, Issue, Message, Question, QuestionFile, QuestionOption, Run, RunUsage, Sent, Terms, Time, Usage, Worker } from './schema';

export type State = Run['state'];
export type Mode = NonNullable<Run['mode']>;
export type Phase = Doing['phase'];
export type Task = RunRequest;
export type Scope = 'read' | 'submit' | 'raw' | 'metrics' | 'answer';

export interface Session { scopes: Scope[]; name: string; version: string }

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

/** What went wrong, for people: each field with its problem, else the message. */
export function explained(e: unknown): string {
  if (!(e instanceof ApiError)) return String(e);
  return e.issues.length > 0 ? e.issues.map((i) => `${i.field}: ${i.problem}`).join('; ') : e.message;
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

const patience = 60_000; // ms until all of an answer must be here

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const abort = new AbortController();
  const stop = (): void => abort.abort();
  const timer = setTimeout(stop, patience);
  signal?.addEventListener('abort', stop);
  if (signal?.aborted) stop();
  try {
    return (await (await send(path, { headers: { Accept: 'application/json' }, signal: abort.signal })).json()) as T;
  } catch (e) {
    if (e instanceof ApiError || signal?.aborted) throw e;
    throw new ApiError(0, 'UNREACHABLE', 'linesman does not answer');
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
  }
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

/** Which runs a list has, in which order. */
export interface RunQuery { order?: 'changed'; state?: readonly State[]; unseen?: boolean; word?: readonly string[] }

export const api = {
  session: () => get<Session>('/session'),
  signIn: (token: string) => change<Session>('POST', '/session', { token }),
  signOut: () => change<void>('DELETE', '/session'),

  runs: (filter: RunQuery & { limit?: number; cursor?: string }, signal?: AbortSignal) => get<RunList>('/v1/runs' + query({ ...filter }), signal),
  run: (id: string, signal?: AbortSignal) => get<Run>(of(id), signal),
  /** Waits up to `timeout` seconds for the end of the run. */
  events: (id: string, page: { after?: number; limit?: number } = {}, signal?: AbortSignal) =>
    get<EventPage>(of(id) + '/events' + query(page), signal),
  detail: (id: string, page: { after?: string; last?: number; limit?: number } = {}, signal?: AbortSignal) =>
    get<DetailPage>(of(id) + '/detail' + query(page), signal),
  diff: (id: string, signal?: AbortSignal) => get<Diff>(of(id) + '/diff', signal),
  /** Bytes from `offset` on; `X-Linesman-Offset` and `X-Linesman-Size` are in the headers. */
  output: (id: string, stream: 'stdout' | 'stderr', offset = 0, limit = 65536, signal?: AbortSignal) =>
    send(of(id) + '/output' + query({ stream, offset: String(offset), limit }), { signal }),
  workers: (signal?: AbortSignal) => get<WorkerList>('/v1/workers', signal),

  /** The open questions of all runs or of one, the oldest first, as many as fit into an answer. */
  questions: (run = '') => get<Questions>('/v1/questions' + query({ run })),
  /** A piece of the request of a question, from an offset on. */
  request: (id: string, question: string, offset: number, signal?: AbortSignal) =>
    get<Request>(`${of(id)}/questions/${encodeURIComponent(question)}/request` + query({ offset }), signal),
  /** The first answer counts: the same one again is no error, another one is a CONFLICT. */
  answer: (id: string, question: string, answer: Answer) => change<Answered>('POST', `${of(id)}/questions/${encodeURIComponent(question)}/answer`, answer),

  /** What waits for a turn of a live run that is kept. */
  messages: (id: string, signal?: AbortSignal) => get<Messages>(of(id) + '/messages', signal),
  /** `now` cancels the turn that runs. The same key sends once. */
  sendMessage: (id: string, text: string, now: boolean, key: string) =>
    change<Sent>('POST', of(id) + '/messages', now ? { text, when: 'now' } : { text }, { 'Idempotency-Key': key }),
  editMessage: (id: string, message: string, text: string, key: string) =>
    change<Sent>('PATCH', `${of(id)}/messages/${encodeURIComponent(message)}`, { text }, { 'Idempotency-Key': key }),
  removeMessage: (id: string, message: string) => change<Sent>('DELETE', `${of(id)}/messages/${encodeURIComponent(message)}`),
  release: (id: string, key: string) => change<Sent>('POST', of(id) + '/messages/release', undefined, { 'Idempotency-Key': key }),
  cancelTurn: (id: string, turn: number, key: string) => change<Sent>('POST', of(id) + '/turn/cancel', { turn }, { 'Idempotency-Key': key }),
  end: (id: string, key: string) => change<Sent>('POST', of(id) + '/end', undefined, { 'Idempotency-Key': key }),

  seen: (id: string) => change<void>('PUT', of(id) + '/seen'),
  cancel: (id: string, reason?: string) => change<Run>('POST', of(id) + '/cancel', reason ? { reason } : undefined),
  resume: (id: string, task: Task, key: string) => change<Run>('POST', of(id) + '/resume', task, { 'Idempotency-Key': key }),
  submit: (task: Task, key: string) => change<Run>('POST', '/v1/runs', task, { 'Idempotency-Key': key }),
};

/** A new idempotency key: the same key with the same request is carried out once. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
}
