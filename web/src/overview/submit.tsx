import { effect, signal, useSignal } from '@preact/signals';
import { type ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { agentName, canBeLive } from '../lib/agents';
import { allowed, api, ApiError, newKey, type Mode, type Worker } from '../lib/api';
import { modeName, plural, wordFor } from '../lib/format';
import { plainText } from '../lib/plaintext';
import { navigate, runPath } from '../lib/router';
import { Dialog } from '../ui/dialog';
import { toast } from '../ui/toast';
import { put, runs, updates } from './store';
import { blank, forbidden, request, type Draft } from './task';

export const submitting = signal(false);

// What was typed stays until it was submitted, also if the dialog is closed.
const draft = signal<Draft>(blank);

// One key for one content: a request that is repeated, after an answer that was lost, queues no second task.
let key = newKey();
effect(() => {
  void draft.value;
  key = newKey();
});

const modes: { mode: Mode; hint: string }[] = [
  { mode: 'read-only', hint: 'It changes nothing.' },
  { mode: 'workspace-write', hint: 'It may change files below the directory.' },
  { mode: 'danger-full-access', hint: 'No sandbox. Only workers that allow it accept this.' },
];

/** Opens the form with a task, in place of what was typed before. */
export function newTask(task: Partial<Draft>): void {
  draft.value = { ...blank, ...task };
  submitting.value = true;
}

export function Submit() {
  return submitting.value && allowed('submit') ? <Form /> : null;
}

function Form() {
  const workers = useSignal<Worker[] | undefined>(undefined);
  const errors = useSignal<Record<string, string>>({});
  const failure = useSignal('');
  const busy = useSignal(false);
  const more = useSignal(draft.value.model !== '' || draft.value.timeout !== '' || draft.value.skipGit || draft.value.policy !== '' || !draft.value.ask);
  const form = useRef<HTMLFormElement>(null);
  const close = (): void => void (submitting.value = false);
  const d = draft.value;
  const live = canBeLive(d.agent);
  const places = useMemo(() => directories(workers.value), [workers.value]);

  useEffect(() => {
    const abort = new AbortController();
    api.workers(abort.signal).then((answer) => (workers.value = answer.workers), () => (workers.value = []));
    form.current?.querySelector('textarea')?.focus();
    return () => abort.abort();
  }, []);

  const set = (values: Partial<Draft>): void => {
    draft.value = { ...draft.value, ...values };
    const left = { ...errors.value };
    for (const field of Object.keys(values)) delete left[field === 'timeout' ? 'timeoutSec' : field];
    errors.value = left;
  };

  const submit = async (e?: Event): Promise<void> => {
    e?.preventDefault();
    if (busy.value) return;
    const { task, errors: wrong } = request(draft.value);
    errors.value = wrong;
    failure.value = '';
    if (Object.keys(wrong).length === 0) {
      busy.value = true;
      try {
        const run = await api.submit(task, key);
        put(run);
        watch(run.run);
        draft.value = { ...blank, agent: d.agent, workingDir: d.workingDir, live: d.live, keep: d.keep };
        close();
        return navigate(runPath(run.run));
      } catch (e) {
        explain(e);
      } finally {
        busy.value = false;
      }
    }
    requestAnimationFrame(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus());
  };

  const explain = (e: unknown): void => {
    if (!(e instanceof ApiError)) return void (failure.value = String(e));
    const known = ['task', 'agent', 'mode', 'confirm', 'workingDir', 'title', 'labels', 'model', 'timeoutSec', 'skipGitRepoCheck', 'policy'];
    const found = Object.fromEntries(known.map((field) => [field, e.of(field)]).filter(([, text]) => text)) as Record<string, string>;
    errors.value = found;
    if (found['model'] || found['timeoutSec'] || found['skipGitRepoCheck'] || found['policy']) more.value = true;
    const other = e.issues.filter((issue) => !known.some((field) => issue.field === field || issue.field.startsWith(field + '.') || issue.field.startsWith(field + '[')));
    if (Object.keys(found).length === 0 || other.length > 0) failure.value = other.map((i) => `${i.field}: ${i.problem}`).join('; ') || e.message;
  };

  return (
    <Dialog title="New task" onClose={close}>
      <form
        ref={form} class="dialog-body" noValidate onSubmit={(e) => void submit(e)}
        onKeyDown={(e) => { if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) void submit(e); }}
      >
        {failure.value && <p class="notice" data-tone="bad" role="alert">{failure.value}</p>}
        <Field name="task" label="What is to be done" error={errors.value['task']}>
          {(props) => <textarea {...props} rows={6} value={d.task} onInput={(e) => set({ task: e.currentTarget.value })} />}
        </Field>
        <div class="two">
          <Field name="agent" label="Agent" error={errors.value['agent']} hint={slots(workers.value, d.agent)}>
            {(props) => (
              <select {...props} value={d.agent} onChange={(e) => set({ agent: e.currentTarget.value })}>
                {agentsOf(workers.value, d.agent).map(([kind, text]) => <option key={kind} value={kind}>{text}</option>)}
              </select>
            )}
          </Field>
          <Field name="workingDir" label="Directory" error={errors.value['workingDir']} hint={rootsHint(workers.value)}>
            {(props) => (
              <>
                <input {...props} class="mono" value={d.workingDir} list="directories" placeholder="/srv/shop" autocomplete="off" spellcheck={false} onInput={(e) => set({ workingDir: e.currentTarget.value })} />
                <datalist id="directories">{places.map((dir) => <option key={dir} value={dir} />)}</datalist>
              </>
            )}
          </Field>
        </div>
        <fieldset class="modes" aria-describedby={errors.value['mode'] ? 'mode-error' : undefined}>
          <legend>The agent may</legend>
          {modes.map(({ mode, hint }) => (
            <label key={mode}>
              <input type="radio" name="mode" value={mode} checked={d.mode === mode} disabled={forbidden(workers.value, mode)} onChange={() => set({ mode, confirm: false })} aria-invalid={Boolean(errors.value['mode']) && d.mode === mode} />
              <span>{modeName(mode)} <span class="faint">{forbidden(workers.value, mode) ? 'No worker allows it: see the setting work.danger.' : hint}</span></span>
            </label>
          ))}
          {errors.value['mode'] && <p class="error" id="mode-error" role="alert">{errors.value['mode']}</p>}
          {d.mode !== 'read-only' && (
            <label class="confirm">
              <input type="checkbox" checked={d.confirm} aria-invalid={Boolean(errors.value['confirm'])} aria-describedby="confirm-error" onChange={(e) => set({ confirm: e.currentTarget.checked })} />
              <span>{d.mode === 'workspace-write' ? 'Yes, it may change files' : 'Yes, it may do anything that the worker’s user may do'}</span>
            </label>
          )}
          {errors.value['confirm'] && <p class="error" id="confirm-error" role="alert">{errors.value['confirm']}</p>}
        </fieldset>
        {live && (
          <fieldset class="modes">
            <legend>Conversation</legend>
            <label><input type="checkbox" checked={d.live} onChange={(e) => set({ live: e.currentTarget.checked })} /> <span>Live <span class="faint">It asks for what it may not do, and waits for your answer.</span></span></label>
            {d.live && <label><input type="checkbox" checked={d.keep} onChange={(e) => set({ keep: e.currentTarget.checked })} /> <span>Keep open <span class="faint">After its first turn it takes further messages, until you end it.</span></span></label>}
          </fieldset>
        )}
        <div class="two">
          <Field name="title" label="Title" error={errors.value['title']} hint="Empty: the first line of the text.">
            {(props) => <input {...props} maxLength={120} value={d.title} onInput={(e) => set({ title: e.currentTarget.value })} />}
          </Field>
          <Field name="labels" label="Labels" error={errors.value['labels']}>
            {(props) => <input {...props} value={d.labels} placeholder='team=shop note="two words"' autocomplete="off" spellcheck={false} onInput={(e) => set({ labels: e.currentTarget.value })} />}
          </Field>
        </div>
        {more.value ? (
          <div class="two">
            <Field name="model" label="Model" error={errors.value['model']} hint="Empty: the agent’s own.">
              {(props) => <input {...props} value={d.model} autocomplete="off" spellcheck={false} onInput={(e) => set({ model: e.currentTarget.value })} />}
            </Field>
            <Field name="timeoutSec" label={live && d.live && d.keep ? 'Time limit of a turn' : 'Time limit'} error={errors.value['timeoutSec']}>
              {(props) => <input {...props} value={d.timeout} placeholder="30m" autocomplete="off" onInput={(e) => set({ timeout: e.currentTarget.value })} />}
            </Field>
            <label class="check"><input type="checkbox" checked={d.skipGit} onChange={(e) => set({ skipGit: e.currentTarget.checked })} /> Allow a directory outside of a git repository</label>
            {live && d.live && (
              <>
                <label class="check"><input type="checkbox" checked={!d.ask} onChange={(e) => set({ ask: !e.currentTarget.checked })} /> Ask nobody: what it may not do is denied</label>
                <Field name="policy" wide label="Rules" error={errors.value['policy']} hint="One a line, such as “deny execute: git push”. They only narrow those of the worker.">
                  {(props) => <textarea {...props} class="mono" rows={2} spellcheck={false} value={d.policy} onInput={(e) => set({ policy: e.currentTarget.value })} />}
                </Field>
              </>
            )}
          </div>
        ) : <p><button type="button" class="link" onClick={() => (more.value = true)}>Model, time limit and more</button></p>}
        <div class="dialog-foot">
          <span class="faint small wide-only"><kbd>Ctrl</kbd> <kbd>Enter</kbd></span>
          <button type="button" class="button" onClick={close}>Close</button>
          <button class="button primary" disabled={busy.value}>{busy.value ? 'Queueing…' : 'Queue the task'}</button>
        </div>
      </form>
    </Dialog>
  );
}

function Field({ name, wide, label, error, hint, children }: {
  name: string; wide?: boolean; label: string; error?: string; hint?: string;
  children: (props: { id: string; name: string; 'aria-invalid': boolean; 'aria-describedby': string }) => ComponentChildren;
}) {
  const id = `task-${name}`;
  return (
    <div class={wide ? 'field whole' : 'field'}>
      <label for={id}>{label}</label>
      {children({ id, name, 'aria-invalid': Boolean(error), 'aria-describedby': `${id}-note` })}
      <p class={error ? 'error' : 'hint'} id={`${id}-note`} role={error ? 'alert' : undefined}>{error ? error[0]!.toUpperCase() + error.slice(1) : hint}</p>
    </div>
  );
}

/** Agents that a worker can start, and what is selected. */
function agentsOf(workers: Worker[] | undefined, selected: string): [string, string][] {
  const kinds = new Map<string, string>();
  for (const worker of workers ?? []) for (const kind of worker.agents) kinds.set(kind, wordFor(worker.agentVersions ?? {}, kind, kinds.get(kind) ?? ''));
  const list = [...kinds].sort(([a], [b]) => (a < b ? -1 : 1)).map(([kind, version]): [string, string] => [kind, version ? `${agentName(kind)} ${plainText(version)}` : agentName(kind)]);
  if (selected && !kinds.has(selected)) list.push([selected, agentName(selected)]);
  return [['', workers === undefined ? 'Loading…' : 'Default (Codex)'], ...list];
}

/** Whether the task would start at once. */
export function slots(workers: Worker[] | undefined, agent: string): string | undefined {
  if (workers === undefined) return undefined;
  const able = workers.filter((w) => w.slots > 0 && (!agent || w.agents.includes(agent)));
  if (able.length === 0) return agent ? `No worker has ${agentName(agent)}. The task would wait.` : 'No worker takes tasks now. The task would wait.';
  const free = able.reduce((sum, w) => sum + Math.max(0, w.slots - w.busy), 0);
  return free > 0 ? `${plural(free, 'free slot')}` : 'No slot is free: the task waits in the queue.';
}

function rootsHint(workers: Worker[] | undefined): string {
  const able = (workers ?? []).filter((w) => w.slots > 0);
  const roots = [...new Set(able.flatMap((w) => w.roots ?? []))];
  if (roots.length === 0 || roots.length > 3 || able.some((w) => !w.roots)) return 'On the worker. Empty: its own directory.';
  return `In or below ${roots.join(', ')}. Empty: the worker’s own directory.`;
}

/** The directories of the newest runs, then those that workers allow. */
function directories(workers: Worker[] | undefined): string[] {
  const newest = [...runs.values()].sort((a, b) => (a.queuedAt ?? a.startedAt ?? '') < (b.queuedAt ?? b.startedAt ?? '') ? 1 : -1);
  const recent = newest.map((run) => run.workingDir).filter((dir) => dir !== undefined).slice(0, 200);
  return [...new Set([...recent, ...(workers ?? []).flatMap((w) => w.roots ?? [])])].slice(0, 20);
}

/** Tells why a worker refused the task, which is known only then. */
function watch(id: string): void {
  const forget = (): void => void updates.delete(see);
  const see = (_: unknown, run: { run: string; state: string; reason?: string } | undefined): void => {
    if (run?.run !== id || run.state === 'queued') return;
    forget();
    if (run.reason !== 'spawn') return;
    api.run(id).then((found) => toast(`The task was refused: ${plainText(found.exit?.why ?? found.errorContext?.message ?? 'it could not be started')}`, { ...(location.pathname === runPath(id) ? {} : { href: runPath(id), link: 'Open' }), tone: 'bad' }), () => {});
  };
  updates.add(see);
  setTimeout(forget, 600_000);
}
