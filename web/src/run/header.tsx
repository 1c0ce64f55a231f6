import { type Signal } from '@preact/signals';
import { type ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { agentName, takesTasks } from '../lib/agents';
import { allowed, type Run } from '../lib/api';
import { here, now } from '../lib/clock';
import { age, bytes, cost, count, duration, elapsed, ended, full, labelsOf, lost, mayNeedYou, needsYou, shortPath, tokens, waitsForMessage, when } from '../lib/format';
import { plainText } from '../lib/plaintext';
import { arrive, runPath } from '../lib/router';
import { lineOf, stateOf } from '../overview/row';
import { asOf } from '../overview/store';
import { Command } from '../ui/copy';
import { useMenu } from '../ui/menu';
import { newTask } from '../overview/submit';
import { toast } from '../ui/toast';
import { saveEvents, saveOutput } from './actions';
import type { Again } from './again';
import { lastTurn } from './messages';
import { Path } from './row';
import type { RunView } from './view';

export type Action = 'cancel' | 'resume' | 'compare';

/** The title and the state of a run stay on the screen; the facts scroll away. */
export function RunHeader({ run, action, again, small }: { run: Run; action: Signal<Action | ''>; again: Again; small?: boolean }) {
  const state = stateOf(run);
  const labels = labelsOf(run);
  const ref = useRef<HTMLElement>(null);
  useLayoutEffect(() => { // what sticks below it, and what is scrolled to, must know its height
    const box = ref.current!;
    const measure = (): void => box.parentElement?.style.setProperty('--run-head', `${box.offsetHeight}px`);
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    measure();
    return () => observer.disconnect();
  }, []);
  useEffect(() => arrive(ref.current!.querySelector('h1')), []);
  const title = plainText(run.title ?? run.run);
  return (
    <>
      <header class="run-head" ref={ref}>
        <span class="run-state" data-tone={state.tone}><span class="visually-hidden">State: </span><span class="state" data-hollow={state.hollow || undefined}>{state.text}{waitsForMessage(run) && ': waits for a message'}</span></span>
        <h1 dir="auto" title={title} tabIndex={-1}>{small ? <a href={runPath(run.run)}>{title}</a> : title}</h1>
        <Actions run={run} action={action} again={again} small={small} />
      </header>
      <dl class="run-facts">
        <Fact name="What it does"><Doing run={run} /></Fact>
        <Fact name="Agent" title={plainText(run.model ?? '')}>{agentName(run.agent)}{run.agentVersion && <span class="faint"> {plainText(run.agentVersion)}</span>}</Fact>
        {run.model && <Fact name="Model">{plainText(run.model)}</Fact>}
        {run.workingDir && <Fact name="Directory" title={plainText(run.workingDir)}><span class="mono"><Path of={shortPath(run.workingDir)} /></span></Fact>}
        <Elapsed run={run} />
        {run.tokens && <Fact name="Tokens" title={`${count(run.tokens.input)} tokens in, ${count(run.tokens.output)} out`}><span class="num">{tokens(run.tokens.input)} in, {tokens(run.tokens.output)} out</span></Fact>}
        {Boolean(run.costUsd) && <Fact name="Cost"><span class="num">{cost(run.costUsd!)}</span></Fact>}
        {labels.map(([k, v]) => <Fact key={k} name="Label"><span class="chip cut" title={plainText(`${k}=${v}`)}>{plainText(v ? `${k}=${v}` : k)}</span></Fact>)}
        {run.continues && <Fact name="Continues"><a href={runPath(run.continues)}>↰ continues another run</a></Fact>}
        {run.forkedFrom && <Fact name="Thread" title={plainText(run.forkedFrom)}>a copy of another thread</Fact>}
        {run.continuedBy && <Fact name="Continued by"><a href={runPath(run.continuedBy)}>↳ continued by another run</a></Fact>}
      </dl>
    </>
  );
}

function Fact({ name, title, children }: { name: string; title?: string; children: ComponentChildren }) {
  return <div title={title}><dt class="visually-hidden">{name}</dt><dd>{children}</dd></div>;
}

function Doing({ run }: { run: Run }) {
  if (ended(run)) {
    const { text } = lineOf(run, 0);
    return <span class="muted">{text && text !== run.cause && text !== run.answer && `${text}, `}ended <time dateTime={run.endedAt} title={full(run.endedAt)}>{age(run.endedAt, now.value)} ago</time></span>;
  }
  if (waitsForMessage(run)) return <span class="muted">{lastTurn(run)}</span>;
  const { text, detail } = lineOf(run, asOf.value);
  return <span class="muted num">{plainText(text)}{detail && <span class="faint mono"> {plainText(detail).slice(0, 120)}</span>}</span>;
}

function Elapsed({ run }: { run: Run }) {
  const took = elapsed(run, ended(run) ? 0 : asOf.value);
  if (took === undefined) return null;
  const note = run.times === 'captured' ? ' (times of reading the output)' : '';
  return <Fact name="Time" title={`started ${full(run.startedAt)}${run.endedAt ? `, ended ${full(run.endedAt)}` : ''}${note}`}><span class="num">{ended(run) && 'took '}{duration(took)}</span> <span class="faint num">started {when(run.startedAt, now.peek())}</span></Fact>;
}

function Actions({ run, action, again, small }: { run: Run; action: Signal<Action | ''>; again: Again; small?: boolean }) {
  const over = ended(run);
  const resumable = over && run.threadId && !run.continuedBy && takesTasks(run.agent);
  return (
    <div class="run-actions">
      {!small && allowed('submit') && resumable && <button class="button" title="Continue the thread (r)" onClick={() => (action.value = 'resume')}>Continue</button>}
      {!small && over && allowed('submit') && <button class="button" aria-disabled={again.why ? true : undefined} title={again.why ? `It cannot be run again: ${again.why}` : 'A new task like this one'} onClick={() => (again.task ? newTask(again.task) : toast(`It cannot be run again: ${again.why}`))}>Run again</button>}
      {allowed('submit') && !over && run.agent !== 'codex_cloud' && run.source !== 'session' && (
        <button class="button danger" disabled={run.cancelRequested} title="End the run (x)" onClick={() => (action.value = 'cancel')}>{run.cancelRequested ? 'Cancelling' : 'Cancel'}</button>
      )}
      <More run={run} action={action} />
    </div>
  );
}

function More({ run, action }: { run: Run; action: Signal<Action | ''> }) {
  const { open, ref } = useMenu();
  const item = (text: string, run: () => void, note = '') => <button class="menu-item" onClick={() => { open.value = false; run(); }}>{text}{note && <span class="faint num">{note}</span>}</button>;
  const raw = allowed('raw');
  return (
    <div class="menu" ref={ref}>
      <button class="button quiet icon" aria-expanded={open.value} aria-haspopup="true" aria-label="More about this run" onClick={() => (open.value = !open.value)}>
        <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true" fill="currentColor"><path d="M3 6.700a1.300 1.300 0 1 0 0 2.600 1.300 1.300 0 0 0 0-2.600Zm5 0a1.300 1.300 0 1 0 0 2.600 1.300 1.300 0 0 0 0-2.600Zm5 0a1.300 1.300 0 1 0 0 2.600 1.300 1.300 0 0 0 0-2.600Z" /></svg>
      </button>
      {open.value && (
        <div class="menu-body">
          {item('Show beside another run', () => (action.value = 'compare'))}
          {item('Copy the id', () => void navigator.clipboard?.writeText(run.run).catch(() => {}))}
          {item('Save the events as JSONL', () => void saveEvents(run.run))}
          {raw && item('Save stdout', () => void saveOutput(run.run, 'stdout'), run.stdoutBytes === undefined ? '' : bytes(run.stdoutBytes))}
          {raw && run.stderrBytes !== 0 && item('Save stderr', () => void saveOutput(run.run, 'stderr'), run.stderrBytes === undefined ? '' : bytes(run.stderrBytes))}
          {!raw && <p class="faint small menu-note">Raw output needs the scope raw.</p>}
        </div>
      )}
    </div>
  );
}

/** What to try after a failure. */
function Tries({ run }: { run: Run }) {
  const tries = run.errorContext?.suggestions ?? (run.hint ? [run.hint] : []);
  return tries.length > 0 ? <ul class="tries">{tries.map((t) => <li key={t}>{plainText(t)}.</li>)}</ul> : null;
}

/** An age in what is announced: its changes are not. */
const since = (age: string) => <span class="num" aria-hidden="true"> for {age}</span>;

/** What a reader must know before reading on. */
export function Notices({ view, run }: { view: RunView; run: Run }) {
  const stream = view.stream.value;
  const notices: [string, ComponentChildren][] = [];
  switch (stream?.state.value) {
    case 'stale': notices.push(['needs', <>linesman has not answered{since(age(stream.heardAt(), here()))}. Reconnecting.</>]); break;
    case 'disconnected':
      notices.push(['bad', <>Disconnected: {stream.error.value?.message ?? 'linesman does not answer'}. The page continues when the connection is back. <button class="link" onClick={stream.retry}>Try now</button></>]);
      break;
    case 'failed': notices.push(['bad', <>The events cannot be read: {stream.error.value?.message}. <button class="link" onClick={() => void view.open()}>Try again</button></>]); break;
  }
  const external = run.agent === 'external';
  if (run.state === 'input-required' && !run.questions?.length && !waitsForMessage(run) && !(external && allowed('answer'))) {
    notices.push(['needs', (
      <span class="stack">
        <span>It waits for an answer. {external ? 'Give it on a machine of the cluster:' : 'Its program ended and asks to be started again with the answer:'}</span>
        <Command text={external ? `linesman bridge answer ${run.run} "…"` : `linesman run --resume ${run.run} -- …`} />
      </span>
    )]);
  }
  else if (needsYou(run) && run.source === 'session') notices.push(['needs', <>The agent asks a question. Answer it in the terminal of the session.</>]);
  else if (mayNeedYou(run, now.value)) notices.push(['needs', <>A tool runs, or the agent waits for a permission: its log does not tell. With <code>linesman setup sessions</code> it does.</>]);
  if (run.state === 'queued') notices.push(['idle', run.position ? <>{run.position === 1 ? 'One task is' : `${count(run.position)} tasks are`} ahead of it in the queue.</> : <>It is the next in the queue, and starts when a worker has a free slot.</>]);
  if (lost(run)) notices.push(['lost', ended(run) ? <>Its worker was lost, so the result of the run is unknown.</> : <>Its worker has been silent{since(age(run.activeAt, now.value))}. The agent may still be working: its output arrives when the worker is back.</>]);
  if (run.cause && !run.exit?.why && !run.exit?.spawn && !lost(run)) notices.push(['bad', <><strong>{plainText(run.cause)}</strong><Tries run={run} /></>]);
  if (run.exit?.why) notices.push(['bad', <>The worker refused the task: {plainText(run.exit.why)}<Tries run={run} /></>]);
  else if (run.exit?.spawn) notices.push(['bad', <>The agent could not be started: {plainText(run.errorContext?.message ?? run.exit.spawn)}<Tries run={run} /></>]);
  if (view.expired.value) notices.push(['idle', <>The raw log of this run has expired. Its events remain; commands, outputs and diffs of calls are gone.</>]);
  if (!allowed('raw')) notices.push(['idle', <>You see the events of this run. Commands, outputs, diffs and prompts need the scope <code>raw</code>: sign in with a token that has it.</>]);
  if ((run.gaps ?? 0) > 0) notices.push(['needs', <>{run.gaps === 1 ? 'A part' : `${count(run.gaps!)} parts`} of the output could not be stored and {run.gaps === 1 ? 'is' : 'are'} missing.</>]);
  return <div class="notices" role="status">{notices.map(([tone, text], i) => <div key={i} class="notice" data-tone={tone}>{text}</div>)}</div>;
}
