import { useSignal, type Signal } from '@preact/signals';
import { Component, Fragment } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { agentName } from '../lib/agents';
import { allowed, type Run } from '../lib/api';
import { bytes, clock, count, duration, fine, full, ms, plural, tokens, wordFor } from '../lib/format';
import { setMarkdown } from '../lib/markdown';
import { plainText } from '../lib/plaintext';
import { runPath } from '../lib/router';
import { asOf } from '../overview/store';
import type { Comments } from './comments';
import { Delta, DiffText } from './diff';
import { type Detail, type DetailText, plain } from './items';
import type { CallRow, EndRow, ErrorRow, GapRow, NoteRow, PlanRow, Row, TextRow, TurnRow } from './rows';

/** What the rows of a timeline share. */
export interface Shown {
  id: string;
  agent: string;
  start: number; // of the run, Unix milliseconds
  dir: string; // of the run: paths below it are shown without it
  details: boolean;
  open: Signal<ReadonlyMap<string, boolean>>; // rows that were opened or closed
  toggle: (key: string) => void;
  load: (chunk: number) => void;
  busy: Signal<boolean>;
  comments?: Comments; // on the diffs of a run that takes messages
}

/** Whether a row is open before anyone has touched it. */
export function opens(row: Row): boolean {
  return row.kind === 'call' ? row.status === 'failed' : row.kind === 'end' || (row.kind === 'text' && row.channel !== 'reasoning');
}

interface RowProps { row: Row; rev: number; shown: Shown }

/** A row. It is drawn again when its `rev` changes: as a copy, so that its parts see a change. */
export class RowView extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    return next.rev !== this.props.rev || next.row !== this.props.row || next.shown !== this.props.shown;
  }
  override render({ row, shown }: RowProps) {
    return <Content row={{ ...row }} shown={shown} />;
  }
}

function Content({ row, shown }: { row: Row; shown: Shown }) {
  switch (row.kind) {
    case 'turn': return <Turn row={row} />;
    case 'text': return <Line row={row} shown={shown} glyph={row.channel === 'reasoning' ? '∴' : '▪'} label={channelName(row, shown.agent)}><Text row={row} shown={shown} /></Line>;
    case 'call': return <Call row={row} shown={shown} />;
    case 'plan': return <Line row={row} shown={shown} glyph="☰" label="Plan"><Plan row={row} shown={shown} /></Line>;
    case 'prompt': return <Line row={row} shown={shown} glyph="›" label="Prompt"><div class="prompt"><Cut text={row.text} wrap /></div></Line>;
    case 'error': return <Fault row={row} shown={shown} />;
    case 'note': return <Note row={row} shown={shown} />;
    case 'end': return <End row={row} shown={shown} />;
    case 'gap': return <Gap row={row} shown={shown} />;
  }
}

function channelName(row: TextRow, agent: string): string {
  return row.channel === 'reasoning' ? 'Reasoning' : row.channel === 'subagent' ? 'Sub-agent' : agentName(agent);
}

/** Time since the start of the run, as 3:07 or 1:02:03. */
export function offset(millis: number): string {
  const s = Math.max(0, Math.floor(millis / 1000));
  const two = (n: number): string => String(n).padStart(2, '0');
  const h = Math.floor(s / 3600);
  return h > 0 ? `${h}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

function Line({ row, shown, glyph, label, tone, children }: {
  row: Row; shown: Shown; glyph: string; label: string; tone?: string; children: preact.ComponentChildren;
}) {
  return (
    <div class={`line line-${row.kind}`} data-tone={tone} data-depth={Math.min(row.depth, 4) || undefined} data-channel={row.kind === 'text' ? row.channel : undefined}>
      <When row={row} shown={shown} />
      <span class="glyph" aria-hidden="true">{glyph}</span>
      <div class="body"><span class="visually-hidden">{label}: </span>{children}</div>
    </div>
  );
}

/** When it happened, which is the link to it. */
function When({ row, shown }: { row: Row; shown: Shown }) {
  if (!row.at) return <span class="when" />;
  const at = row.time ? new Date(row.time).toISOString() : undefined;
  return (
    <a class="when num" href={`${runPath(shown.id)}?at=${row.at}`} title={`${full(at)} · link to this event`} tabIndex={-1}>
      <span class="visually-hidden">Link to the event at </span>{row.time ? offset(row.time - shown.start) : '·'}
    </a>
  );
}

const turnTone: Record<TurnRow['state'], string> = { running: 'busy', completed: '', failed: 'bad', aborted: 'idle', unknown: 'idle' };
const turnWord: Record<TurnRow['state'], string> = { running: 'running', completed: '', failed: 'failed', aborted: 'aborted', unknown: '' };

function Turn({ row }: { row: TurnRow }) {
  const took = row.end && row.time ? row.end - row.time : 0;
  const facts = [
    took > 0 ? fine(took) : '', row.calls ? plural(row.calls, 'call') : '', row.errors ? plural(row.errors, 'error') : '',
    row.tokens ? `${tokens(row.tokens.input)} in, ${tokens(row.tokens.output)} out` : '',
  ].filter(Boolean);
  return (
    <div class="turn" data-tone={turnTone[row.state] || undefined}>
      <h2>{row.label} {row.n}</h2>
      {turnWord[row.state] && <span class="state small">{turnWord[row.state]}</span>}
      <span class="rule" />
      <span class="facts num small faint" title={row.tokens ? `${count(row.tokens.input)} tokens in, of them ${count(row.tokens.cached)} cached; ${count(row.tokens.output)} out` : undefined}>
        {facts.join(' · ')}
      </span>
    </div>
  );
}

const clampAt = 2400; // characters
const clampLines = 28;

function Text({ row, shown }: { row: TextRow; shown: Shown }) {
  const ref = useRef<HTMLDivElement>(null);
  const text = row.parts.join('');
  const long = text.length > clampAt || lineCount(text) > clampLines;
  const short = row.channel === 'reasoning' && (text.length > 400 || text.split(/\n+/).length > 5);
  const open = shown.open.value.get(row.key) ?? (!long && !short);
  const draw = open || short ? text : text.slice(0, 2 * clampAt);
  useLayoutEffect(() => {
    if (ref.current) setMarkdown(ref.current, draw);
  }, [draw]);
  return (
    <>
      <div ref={ref} class="md" dir="auto" data-clamped={open ? undefined : short ? 'short' : 'long'} />
      {(long || short) && <button class="link more" aria-expanded={open} onClick={() => shown.toggle(row.key)}>{open ? 'Show less' : `Show all ${count(text.length)} characters`}</button>}
    </>
  );
}

/** A path that breaks behind its separators, not within names. */
export function Path({ of }: { of: string }) {
  return <>{plainText(of).split(/(?<=[/\\])/).map((name, i) => <Fragment key={i}>{i > 0 && <wbr />}{name}</Fragment>)}</>;
}

/** A text in Markdown, as elements: see lib/markdown.ts. */
function Markdown({ text }: { text: string }) {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (ref.current) setMarkdown(ref.current, text);
  }, [text]);
  return <div ref={ref} class="md" dir="auto" />;
}

function lineCount(text: string): number {
  let n = 1;
  for (let at = text.indexOf('\n'); at >= 0 && n <= clampLines; at = text.indexOf('\n', at + 1)) n++;
  return n;
}

const kinds: Record<string, string> = {
  command_execution: 'Command', local_shell_call: 'Command', file_change: 'Edit', web_search: 'Web search', web_search_call: 'Web search',
  mcp_tool_call: 'MCP tool', collab_tool_call: 'Sub-agent', tool_use: 'Tool', tool_result: 'Tool', function_call: 'Call', custom_tool_call: 'Call',
  run_shell_command: 'Command', Bash: 'Command', bash: 'Command', shell: 'Command', exec: 'Command',
};

/** The name of a tool, for people. */
export function toolName(row: CallRow): string {
  const name = plainText(row.name);
  return wordFor(kinds, row.name, row.item === 'collab_tool_call' ? `Sub-agent: ${name}` : name);
}

/** What a call is about, in one line; "" if only its owner may know. */
export function subject(d: Detail | null, dir: string): string {
  if (!d) return '';
  if (d.command) return firstLine(d.command.head);
  if (d.files?.length) return within(d.files[0]!.path, dir) + (d.files.length > 1 ? ` and ${d.files.length - 1} more` : '');
  return firstLine(d.text || d.prompt ? plain(d.text ?? d.prompt) : brief(plain(d.arguments)));
}

/** Arguments in one line: the value of a single one, else names and values. */
function brief(text: string): string {
  try {
    const args = Object.entries(JSON.parse(text) as Record<string, unknown>);
    const value = (v: unknown): string => (typeof v === 'string' ? v : question(v) ?? JSON.stringify(v)).replace(/\s+/g, ' ');
    return args.length === 1 ? value(args[0]![1]) : args.map(([k, v]) => `${k}: ${value(v)}`).join(', ');
  } catch {
    return text;
  }
}

/** The first question of a tool that asks its user. */
const question = (v: unknown): string | undefined => {
  const text: unknown = Array.isArray(v) ? v[0]?.question : undefined;
  return typeof text === 'string' ? text : undefined;
};

/** A path as seen from a directory. */
export function within(path: string, dir: string): string {
  return dir && path.startsWith(dir + '/') ? path.slice(dir.length + 1) : path;
}

function firstLine(text: string): string {
  const line = text.trimStart().split('\n', 1)[0] ?? '';
  return line.slice(0, 400);
}

const callTone: Record<CallRow['status'], string | undefined> = { running: 'busy', completed: undefined, failed: 'bad', unfinished: 'idle', unknown: undefined };
const callGlyph: Record<CallRow['status'], string> = { running: '●', completed: '✓', failed: '✕', unfinished: '○', unknown: '·' };
const callWord: Record<CallRow['status'], string> = { running: 'running', completed: 'completed', failed: 'failed', unfinished: 'without a result', unknown: 'its end is not loaded' };

function Call({ row, shown }: { row: CallRow; shown: Shown }) {
  const d = row.detail;
  const about = subject(d, shown.dir);
  const open = shown.open.value.get(row.key) ?? opens(row);
  const size = row.bytes.stdout + row.bytes.stderr || row.bytes.result;
  const files = d?.files ?? [];
  const id = `call-${row.key}`;
  return (
    <div class="line line-call" data-tone={callTone[row.status]} data-depth={Math.min(row.depth, 4) || undefined}>
      <When row={row} shown={shown} />
      <span class="glyph" data-status={row.status} aria-hidden="true">{callGlyph[row.status]}</span>
      <div class="body">
        <button class="call" aria-expanded={open} aria-controls={open ? id : undefined} onClick={() => shown.toggle(row.key)}>
          <span class="tool">{toolName(row)}</span>
          <span class="subject mono cut">{plainText(about)}</span>
          {files.length > 0 && <Delta added={sum(files, 'added')} removed={sum(files, 'removed')} />}
          <span class="visually-hidden">, {callWord[row.status]}</span>
          <span class="call-facts num">
            {row.exit !== null && row.exit !== 0 && <span class="exit">exit {row.exit}</span>}
            {row.status === 'unfinished' && <span>no result</span>}
            <Bar row={row} />
            {size > 0 && <span class="size faint">{bytes(size)}</span>}
            <Took row={row} />
          </span>
        </button>
        {open && <div class="call-body" id={id}><CallBody row={row} shown={shown} /></div>}
      </div>
    </div>
  );
}

function sum(files: NonNullable<Detail['files']>, key: 'added' | 'removed'): number | undefined {
  return files.some((f) => f[key] !== undefined) ? files.reduce((n, f) => n + (f[key] ?? 0), 0) : undefined;
}

function Took({ row }: { row: CallRow }) {
  if (row.status === 'running' && row.start) return <span class="took">{duration(asOf.value - row.start)}</span>;
  return <span class="took">{row.start && row.end > row.start ? fine(row.end - row.start) : ''}</span>;
}

/** Where the call lies among those beside it. */
function Bar({ row }: { row: CallRow }) {
  const g = row.group;
  const end = g.members.some((m) => m.status === 'running') ? Math.max(g.end, asOf.value) : g.end;
  const span = end - g.start;
  if (g.members.length < 2 || span <= 0) return null;
  const left = (100 * Math.max(0, row.start - g.start)) / span;
  const width = Math.max(4, (100 * ((row.end || end) - row.start)) / span);
  return (
    <span class="gantt" data-of={g.members.length} title={`One of ${g.members.length} calls that ran at the same time`}>
      <span style={{ left: `${Math.min(left, 96)}%`, width: `${Math.min(width, 100 - Math.min(left, 96))}%` }} />
    </span>
  );
}

function CallBody({ row, shown }: { row: CallRow; shown: Shown }) {
  const d = row.detail;
  const b = row.bytes;
  const sizes = [b.stdout && `stdout ${bytes(b.stdout)}`, b.stderr && `stderr ${bytes(b.stderr)}`, b.result && `result ${bytes(b.result)}`].filter(Boolean);
  const at = (t: number): string => clock(new Date(t).toISOString());
  return (
    <>
      {d?.command && (d.command.head.length > 80 || d.command.head.trim().includes('\n') || d.command.omittedBytes) && <Block label="Command" text={d.command} wrap />}
      {d?.prompt && <Block label="Prompt" text={d.prompt} wrap />}
      {d?.text && <Block label="Description" text={d.text} wrap />}
      {d?.arguments && <Block label="Arguments" text={pretty(d.arguments)} wrap />}
      {d?.output && <Block label="Output" text={d.output} empty="(empty)" />}
      {d?.result && (row.agent && !d.result.tail ? <section class="block"><p class="block-label">Result</p><Markdown text={d.result.head} /></section> : <Block label="Result" text={d.result} empty="(empty)" />)}
      {d?.stderr && <Block label="stderr" text={d.stderr} />}
      {d?.files?.map((f, i) => (
        <section key={f.path} class="file">
          <p class="block-label"><span class="mono path" title={plainText(f.path)}><Path of={within(f.path, shown.dir)} /></span> <span class="faint">{f.kind}</span> <Delta added={f.added} removed={f.removed} /></p>
          {f.diff && <><DiffText text={f.diff.head} name={within(f.path, shown.dir)} whole={f.kind === 'added'} review={shown.comments && { comments: shown.comments, diff: `${row.key}-${i}` }} />{f.diff.omittedBytes ? <Omitted n={f.diff.omittedBytes} /> : null}</>}
        </section>
      ))}
      {d?.moreFiles ? <p class="faint">{plural(d.moreFiles, 'more file')}</p> : null}
      {!shown.details && <p class="faint">{allowed('raw') ? 'The raw log with commands and outputs has expired.' : 'Commands and outputs need the scope raw.'}</p>}
      <p class="faint small num call-meta">
        {[
          plainText(row.name), row.exit !== null ? `exit ${row.exit}` : callWord[row.status], ...sizes, row.start ? `${at(row.start)} to ${row.end ? at(row.end) : 'now'}` : row.end ? `ended ${at(row.end)}` : '',
        ].filter(Boolean).join(' · ')}
      </p>
    </>
  );
}

function pretty(t: DetailText): DetailText {
  if (t.tail !== undefined || t.omittedBytes) return t;
  try {
    return { head: JSON.stringify(JSON.parse(t.head), null, 2) };
  } catch {
    return t;
  }
}

function Block({ label, text, wrap, empty }: { label: string; text: DetailText; wrap?: boolean; empty?: string }) {
  return <section class="block"><p class="block-label">{label}</p><Cut text={text} wrap={wrap} empty={empty} label={label} /></section>;
}

/** The beginning and the end of a text. */
function Cut({ text, wrap, empty, label }: { text: DetailText | undefined; wrap?: boolean; empty?: string; label?: string }) {
  const whole = useSignal(false);
  if (!text) return null;
  if (!text.head && !text.tail) return <p class="faint">{empty}</p>;
  const lines = text.head.split('\n');
  const cut = !whole.value && !text.tail && lines.length > 60;
  return (
    <>
      <pre class={wrap ? 'wrap' : ''} tabIndex={0} role="group" aria-label={label ?? 'Text'} dir="auto">{plainText(cut ? lines.slice(0, 40).join('\n') : text.head)}</pre>
      {cut && <button class="link more" onClick={() => (whole.value = true)}>Show {count(lines.length - 40)} more lines</button>}
      {text.omittedBytes ? <Omitted n={text.omittedBytes} /> : null}
      {text.tail && <pre class={wrap ? 'wrap' : ''} tabIndex={0} role="group" aria-label={`End of: ${label ?? 'text'}`} dir="auto">{plainText(text.tail)}</pre>}
    </>
  );
}

function Omitted({ n }: { n: number }) {
  return <p class="omitted"><span>{bytes(n)} left out here</span></p>;
}

const stepGlyph = { pending: '○', active: '◐', done: '✓' } as const;

export function Steps({ steps, more, only }: { steps: NonNullable<PlanRow['steps']>; more: number; only?: readonly number[] }) {
  return (
    <ol class="steps">
      {steps.map((s, i) => (!only || only.includes(i)) && (
        <li key={i} data-state={s.state}><span aria-hidden="true">{stepGlyph[s.state]}</span><span><span class="visually-hidden">{s.state}: </span>{plainText(s.text)}</span></li>
      ))}
      {more > 0 && <li class="faint"><span aria-hidden="true" /><span>{plural(more, 'more step')}</span></li>}
    </ol>
  );
}

function Plan({ row, shown }: { row: PlanRow; shown: Shown }) {
  if (!row.steps) return <span class="muted">The plan changed.</span>;
  const done = row.steps.filter((s) => s.state === 'done').length;
  const open = shown.open.value.get(row.key) ?? false;
  const rest = row.steps.length - row.news.length;
  return (
    <>
      <span class="muted num">Plan: {done} of {row.steps.length + row.more} steps done</span>
      {rest > 0 && <> <button class="link small" aria-expanded={open} onClick={() => shown.toggle(row.key)}>{open ? 'changes only' : 'all steps'}</button></>}
      <Steps steps={row.steps} more={open || rest === 0 ? row.more : 0} only={open ? undefined : row.news} />
    </>
  );
}

function Fault({ row, shown }: { row: ErrorRow; shown: Shown }) {
  return (
    <Line row={row} shown={shown} glyph={row.retry ? '↻' : '!'} label="Error" tone={row.retry ? 'needs' : 'bad'}>
      <span class="fault">{plainText(row.message)}</span>{row.times > 1 && <span class="faint num"> ×{row.times}</span>}
    </Line>
  );
}

function Note({ row, shown }: { row: NoteRow; shown: Shown }) {
  return (
    <Line row={row} shown={shown} glyph="·" label="Status">
      <span class="note">{plainText(row.message)}</span>{row.detail && <div class="note-detail"><Markdown text={plain(row.detail)} /></div>}
    </Line>
  );
}

function End({ row, shown }: { row: EndRow; shown: Shown }) {
  const bad = row.error ? row.error !== 'cancelled' : row.success === false;
  const how = row.error || (row.signal ? `ended by signal ${row.signal}` : row.code !== null ? `exited with code ${row.code}` : 'end of input');
  return (
    <Line row={row} shown={shown} glyph="■" label="End" tone={bad ? 'bad' : undefined}>
      <p class={bad ? 'fault' : 'muted'}>End of the run: {plainText(how)}</p>
      {row.detail?.text && <Block label="Reason" text={row.detail.text} wrap />}
      {bad && row.detail?.stderr && <Block label="End of stderr" text={row.detail.stderr} />}
      {row.finalText && <section class="block"><p class="block-label">Last message</p><Markdown text={row.finalText} /></section>}
      {!bad && row.detail?.stderr && <details class="aside-block"><summary class="faint small">End of stderr</summary><Cut text={row.detail.stderr} label="End of stderr" /></details>}
    </Line>
  );
}

function Gap({ row, shown }: { row: GapRow; shown: Shown }) {
  const parts = row.to - row.from;
  const load = (chunk: number, text: string) => <button class="button" disabled={shown.busy.value} onClick={() => shown.load(chunk)}>{text}</button>;
  return (
    <div class="gap" role="group" aria-label="Collapsed events">
      <span class="muted num">{plural(row.count, 'event')} collapsed</span>
      {parts > 1 && load(row.from, 'Load the first 1,000')}
      {load(row.to - 1, parts > 1 ? 'Load the last 1,000' : 'Load them')}
    </div>
  );
}

export function startOf(run: Run): number {
  return ms(run.startedAt ?? run.queuedAt);
}
