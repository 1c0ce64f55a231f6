import { type Signal } from '@preact/signals';
import { type ComponentChildren, type VNode } from 'preact';
import { type Run, type RunUsage } from '../lib/api';
import { bytes, changedText, cost, count, ended, full, modeName, plural, tokens } from '../lib/format';
import { plainText } from '../lib/plaintext';
import { Delta } from './diff';
import { Path, Steps, within } from './row';
import type { Summary } from './rows';

/** What came of the run, and what is known of it. */
export function Aside({ run, sum, goTo, tab }: { run: Run; sum: Summary; goTo: (at: string) => void; tab: Signal<string> }) {
  const files = [...sum.files.values()];
  const t = run.testResults;
  return (
    <aside class="run-aside" aria-label="About this run">
      {sum.plan && (
        <Section title="Plan" note={`${sum.plan.steps.filter((s) => s.state === 'done').length}/${sum.plan.steps.length + sum.plan.more}`}>
          <Steps steps={sum.plan.steps} more={sum.plan.more} />
        </Section>
      )}
      {!sum.plan && run.progress && <Section title="Plan" note={`${run.progress.completedSteps}/${run.progress.totalSteps}`}><p class="faint">{plainText(run.activity || 'Its steps need the scope raw.')}</p></Section>}
      {(run.changed || files.length > 0) && (
        <Section title="Files" note={<Delta added={run.changed?.added} removed={run.changed?.removed} />}>
          {run.changed && <p>{run.changed.in === 'directory' && run.changed.files > 0 && ended(run) ? <button class="link" onClick={() => (tab.value = 'changes')}>{changedText(run.changed)}</button> : changedText(run.changed)}</p>}
          {files.length > 0 && (
            <>
              {run.changed?.in === 'directory' && <h3>Edited by its tools</h3>}
              <ul class="files">
                {files.slice(0, 100).map((f) => (
                  <li key={f.path}>
                    <button class="file-link" title={plainText(f.path)} onClick={() => goTo(f.at)}>
                      <span class="mono cut path">{'\u200e' + plainText(within(f.path, run.workingDir ?? ''))}</span><Delta added={f.added} removed={f.removed} />
                    </button>
                  </li>
                ))}
              </ul>
              {files.length + sum.moreFiles > 100 && <p class="faint small">and more</p>}
            </>
          )}
        </Section>
      )}
      {(t || sum.tests.length > 0) && (
        <Section title="Tests" note={t && <span class="num">{t.failed > 0 && <span class="del">{count(t.failed)} failed </span>}<span>{count(t.passed)} passed</span></span>}>
          {t?.failedTests?.length ? <ul class="small mono">{t.failedTests.slice(0, 20).map((name, i) => <li key={i} class="cut del">{plainText(name)}</li>)}</ul> : null}
          <ul class="files">
            {sum.tests.slice(-8).map((x, i) => (
              <li key={i}><button class="file-link" onClick={() => goTo(x.at)}><span class="mono cut">{plainText(x.command)}</span><span class={x.ok ? 'faint' : 'del'}>{x.ok ? 'passed' : 'failed'}</span></button></li>
            ))}
          </ul>
        </Section>
      )}
      <Section title="Counts">
        <Facts of={[
          ['Turns', sum.turns], ['Calls', sum.failedCalls ? `${count(sum.calls)}, ${count(sum.failedCalls)} failed` : sum.calls], ['Errors', sum.errors], ['Events', sum.items],
          ...used(run.usage),
          ['Cost', run.costUsd ? cost(run.costUsd) : undefined],
        ]} />
      </Section>
      <Section title="Details">
        <Facts of={[
          ['Run', run.run], ['Mode', run.mode && modeName(run.mode)], ['Thread', run.threadId], ['Directory', run.workingDir && <Path of={run.workingDir} />, run.workingDir], ['Source', run.source], ['Worker', run.worker], ['Queue', run.queue],
          ['Queued', run.queuedAt && full(run.queuedAt)], ['Started', run.startedAt && full(run.startedAt)], ['Ended', run.endedAt && full(run.endedAt)],
          ['Exit', run.exit && (run.exit.code !== undefined ? `code ${run.exit.code}` : run.exit.signal ? `signal ${run.exit.signal}` : run.exit.reason === 'eof' ? 'end of input' : run.exit.reason)],
          ['stdout', run.stdoutBytes !== undefined ? `${bytes(run.stdoutBytes)}, ${plural(run.lines ?? 0, 'line')}` : undefined], ['stderr', run.stderrBytes ? bytes(run.stderrBytes) : undefined],
          ['Unknown lines', run.unknownLines || undefined], ['Malformed lines', run.malformedLines || undefined], ['Dropped data', run.droppedEvents || undefined],
        ]} />
      </Section>
    </aside>
  );
}

function Section({ title, note, children }: { title: string; note?: ComponentChildren; children: ComponentChildren }) {
  return <section><h2>{title}{note !== undefined && <span class="faint num">{note}</span>}</h2>{children}</section>;
}

/** What the run has used with its sub-agents, and they alone. */
function used(usage?: RunUsage): [string, string | undefined][] {
  const { total, subagents } = usage ?? {};
  if (!total) return [];
  const bound = usage!.partial ? 'at least ' : usage!.earlier ? 'at most ' : '';
  return [
    ['Tokens in', bound + tokens(total.inputTokens)], ['of them cached', tokens(total.cachedInputTokens)], ['Tokens out', bound + tokens(total.outputTokens)],
    ['Sub-agents', subagents && `${tokens(subagents.inputTokens)} in, ${tokens(subagents.outputTokens)} out`],
  ];
}

/** Names with values; with a third text where the value is an element. */
function Facts({ of }: { of: [name: string, value: string | number | VNode | undefined, text?: string][] }) {
  return (
    <dl class="fact-list num">
      {of.filter(([, v]) => v !== undefined && v !== '').map(([k, v, text]) => <div key={k}><dt>{k}</dt><dd title={plainText(text ?? String(v))}>{typeof v === 'number' ? count(v) : typeof v === 'string' ? plainText(v) : v}</dd></div>)}
    </dl>
  );
}
