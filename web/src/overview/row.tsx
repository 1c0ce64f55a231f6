import { type Signal } from '@preact/signals';
import { agentName } from '../lib/agents';
import { type Run } from '../lib/api';
import { age, changedText, cost, count, doing, duration, elapsed, ended, full, labelsOf, lost, needsYou, phase, plural, shortPath, stateName, tokens, waitsForMessage, when, wordFor, yourTurn } from '../lib/format';
import { plainText } from '../lib/plaintext';
import { runPath } from '../lib/router';
import type { Form } from './list';
import { asOf } from './store';

const tones: Record<Run['state'], string> = { queued: 'idle', working: 'busy', 'input-required': 'needs', completed: 'ok', failed: 'bad', timeout: 'bad', cancelled: 'idle' };

const reasons: Record<string, string> = {
  spawn: 'could not be started', lost: 'its worker was lost', spool: 'wrote too much', signal: 'ended by a signal', 'exit status': 'exited with an error',
  'turn failed': 'the turn failed', silent: 'wrote nothing', 'no terminal event': 'ended during a turn', 'needs agent': 'needs an answer',
  idle: 'was silent for too long', hard: 'took too long',
};

/** State and tone of a run, for people. */
export function stateOf(run: Run): { text: string; tone: string; hollow: boolean } {
  if (lost(run)) return { text: 'lost', tone: 'lost', hollow: !ended(run) };
  if (run.cancelRequested && !ended(run)) return { text: 'cancelling', tone: 'idle', hollow: false };
  if (waitsForMessage(run)) return { text: 'idle', tone: 'ok', hollow: false };
  if (needsYou(run)) return { text: stateName('input-required'), tone: 'needs', hollow: false };
  if (yourTurn(run)) return { text: 'your turn', tone: 'ok', hollow: false };
  return { text: stateName(run.state), tone: tones[run.state] ?? 'idle', hollow: run.state === 'queued' || run.state === 'cancelled' };
}

/** What a run does, waits for, or ended with; `detail` is the command, path or text, or what to try after a failure. */
export function lineOf(run: Run, at: number): { text: string; detail: string } {
  const detail = detailOf(run);
  if (run.workerLost && !ended(run)) return { text: `its worker is silent, ${age(run.activeAt, at)}`, detail };
  switch (run.state) {
    case 'queued': return { text: run.position ? `waiting, ${count(run.position)} ahead of it` : 'waiting for a worker', detail: '' };
    case 'input-required': if (waitsForMessage(run)) return { text: 'waits for a message', detail: '' };
      return { text: doing(run, at) || `waiting for an answer${run.activeAt ? `, ${age(run.activeAt, at)}` : ''}`, detail };
    case 'working': return { text: doing(run, at) || quiet(run, at), detail };
    default: return { text: run.cause ?? run.answer ?? wordFor(reasons, run.reason, run.reason), detail: run.hint ?? '' };
  }
}

/** What is known of a working run that does not say what it does. */
function quiet(run: Run, at: number): string {
  if (!run.activeAt) return 'starting';
  return at - Date.parse(run.activeAt) < 5_000 ? 'working' : `no output for ${age(run.activeAt, at)}`;
}

/** The command, path or question: what `activity` adds to what the run does. */
function detailOf(run: Run): string {
  const phase = run.doing?.phase;
  if (!run.activity || (phase && phase !== 'running' && !phase.startsWith('waiting'))) return ''; // of an earlier call
  if (run.doing?.tool && run.activity.endsWith(` ${run.doing.tool}`)) return '';
  return run.activity.replace(/^Running /, '');
}

/** The two texts of `lineOf`, as they can be shown. */
function shownOf(run: Run, at: number): [string, string] {
  const { text, detail } = lineOf(run, at);
  return [plainText(text), plainText(detail)];
}

export function RunRow({ run, place, of, stop, form, at, marked, onLabel }: {
  run: Run; place: number; of: number; stop: boolean; form: Form; at: Signal<string>; marked: Signal<string>; onLabel: (label: string) => void;
}) {
  const state = stateOf(run);
  const selected = at.value === run.run;
  const labels = labelsOf(run).map(([k, v]): [string, string, string] => [k, v, plainText(v ? `${k}=${v}` : k)]);
  const title = plainText(run.title || phase(run) || run.run);
  const dir = plainText(run.workingDir ?? '');
  return (
    <div
      class="row" role="listitem" aria-posinset={place} aria-setsize={of} data-run={run.run} data-tone={state.tone}
      data-hint={Boolean(run.hint) || undefined} data-selected={selected || undefined} data-marked={marked.value === run.run || undefined} data-unseen={run.unseen || undefined}
    >
      <span class="c-state"><span class="state" data-hollow={state.hollow || undefined}>{state.text}</span></span>
      <span class="c-title">
        <a class="open cut" href={runPath(run.run)} tabIndex={stop ? 0 : -1} onFocus={() => (at.value = run.run)} title={run.title && title}>{title}</a>
        {labels.length > 0 && (
          <span class="labels" title={labels.map(([, , text]) => text).join('\n')}>
            {labels.slice(0, form === 'narrow' ? 1 : 3).map(([k, v, text]) => <button key={k} class="label cut" tabIndex={-1} onClick={() => onLabel(`${k}=${v}`)}>{text}</button>)}
          </span>
        )}
      </span>
      {ended(run) ? <Outcome run={run} /> : (
        <>
          <Doing run={run} />
          <span class="c-plan">{run.progress && <Plan done={run.progress.completedSteps} total={run.progress.totalSteps} />}</span>
        </>
      )}
      <span class="c-dir cut muted" title={dir}>{form === 'huge' ? dir : shortPath(dir)}</span>
      <span class="c-agent cut muted" title={run.agentVersion && plainText(`${agentName(run.agent)} ${run.agentVersion}`)}>{agentName(run.agent)}</span>
      <span class="c-model cut muted" title={plainText(run.model ?? '')}>{plainText(run.model ?? '')}</span>
      <span class="c-worker cut muted" title={run.worker}>{run.worker}</span>
      <span class="c-tokens num muted" title={run.tokens && `${count(run.tokens.input)} in, ${count(run.tokens.output)} out`}>
        {run.tokens && <>{tokens(run.tokens.input + run.tokens.output)}<span class="unit"> tokens</span></>}
      </span>
      <Elapsed run={run} />
      <time class="c-started num muted" dateTime={run.startedAt} title={full(run.startedAt)}>{when(run.startedAt, asOf.peek())}</time>
      <Active run={run} />
    </div>
  );
}

/** What came of a run, in place of what it does and of its plan: its answer, or why it failed and what to try; its files, tests and cost. */
function Outcome({ run }: { run: Run }) {
  const [text, detail] = shownOf(run, 0);
  const { changed, tests, costUsd } = run;
  return (
    <span class="c-outcome">
      <span class="outcome-text" title={detail ? `${text}\n${detail}` : text}>
        <span class="cut">{text}</span>{detail && <span class="cut faint hint"><span class="visually-hidden">Try: </span>{detail}</span>}
      </span>
      <span class="outcome-facts num small muted">
        {changed && changed.files > 0 && <span title={changedText(changed)}>{plural(changed.files, 'file')}</span>}
        {tests && <span title={`${plural(tests.passed, 'test')} passed, ${count(tests.failed)} failed`}>{tests.failed > 0 && <span class="del">✕{count(tests.failed)} </span>}<span aria-hidden={tests.failed > 0 || undefined}>✓{count(tests.passed)}</span></span>}
        {Boolean(costUsd) && <span>{cost(costUsd!)}</span>}
      </span>
    </span>
  );
}

// The parts below change each second, alone.

function Doing({ run }: { run: Run }) {
  const [text, detail] = shownOf(run, asOf.value);
  return <span class="c-doing cut" title={detail || text}>{text && <span class="num">{text}</span>}{detail && <span class="faint mono"> {detail}</span>}</span>;
}

function Elapsed({ run }: { run: Run }) {
  const took = elapsed(run, ended(run) ? 0 : asOf.value);
  return <span class="c-elapsed num muted" title={run.startedAt && `since ${full(run.startedAt)}`}>{took !== undefined && duration(took)}</span>;
}

function Active({ run }: { run: Run }) {
  const last = run.endedAt ?? run.activeAt ?? run.startedAt ?? run.queuedAt;
  return <time class="c-active num faint" dateTime={last} title={full(last)}>{age(last, asOf.value)}</time>;
}

function Plan({ done, total }: { done: number; total: number }) {
  return (
    <span class="plan" title={`${done} of ${total} steps`}>
      <span class="bar" aria-hidden="true"><span style={{ width: `${(100 * Math.min(done, total)) / Math.max(1, total)}%` }} /></span>
      <span class="num small muted">{done}/{total}<span class="visually-hidden"> steps</span></span>
    </span>
  );
}
