// What can be done with a run: cancel it, continue its thread, compare it, save its output.

import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { agentName, forks } from '../lib/agents';
import { api, explained, type Mode, type Run } from '../lib/api';
import { modeName, when } from '../lib/format';
import { now } from '../lib/clock';
import { plainText } from '../lib/plaintext';
import { navigate, runPath, withPath } from '../lib/router';
import { stateOf } from '../overview/row';
import { wrongTask } from '../overview/task';
import { Dialog } from '../ui/dialog';
import { toast } from '../ui/toast';
import { draftOf } from './messages';
import { nextTask } from './next';

export function CancelDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const reason = useSignal('');
  const busy = useSignal(false);
  const failure = useSignal('');
  const cancel = async (e: Event): Promise<void> => {
    e.preventDefault();
    busy.value = true;
    try {
      await api.cancel(run.run, reason.value.trim() || undefined);
      toast(run.state === 'queued' ? 'Cancelled' : 'Cancelling the run');
      onClose();
    } catch (e) {
      failure.value = explained(e);
      busy.value = false;
    }
  };
  return (
    <Dialog title={run.state === 'queued' ? 'Remove this task from the queue?' : 'End this run?'} onClose={onClose}>
      <form class="dialog-body" onSubmit={(e) => void cancel(e)}>
        {failure.value && <p class="notice" data-tone="bad" role="alert">{failure.value}</p>}
        <p>{run.state === 'queued' ? 'It has not started.' : `${agentName(run.agent)} and its commands are terminated. Its changes to files are kept.`}</p>
        <div class="field">
          <label for="cancel-reason">Reason</label>
          <input id="cancel-reason" maxLength={1024} value={reason.value} placeholder="For the log; may be empty" onInput={(e) => (reason.value = e.currentTarget.value)} />
        </div>
        <div class="dialog-foot">
          <button type="button" class="button" autofocus onClick={onClose}>Keep it</button>
          <button class="button danger primary" disabled={busy.value}>{busy.value ? 'Ending…' : run.state === 'queued' ? 'Remove' : 'End the run'}</button>
        </div>
      </form>
    </Dialog>
  );
}

const modes: Mode[] = ['read-only', 'workspace-write', 'danger-full-access'];

export function ResumeDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const draft = useMemo(() => draftOf(run.run), [run.run]);
  const task = draft.next;
  const mode = useSignal<Mode>(run.mode ?? 'read-only'); // that of the run
  const confirmed = useSignal(false);
  const busy = useSignal(false);
  const failure = useSignal('');
  const submit = async (e?: Event, copy = false): Promise<void> => {
    e?.preventDefault();
    if (busy.value) return;
    const writes = mode.value !== 'read-only';
    const wrong = wrongTask(task.value);
    if (wrong) return void (failure.value = `${wrong}.`);
    if (writes && !confirmed.value) return void (failure.value = 'Confirm that the agent may write.');
    const body = nextTask(run, task.value, mode.value, copy);
    const key = draft.key('next', body); // an answer that was lost queues no second turn
    busy.value = true;
    try {
      const next = await (copy ? api.submit(body, key) : api.resume(run.run, body, key));
      draft.done('next', body);
      task.value = '';
      onClose();
      navigate(runPath(next.run));
    } catch (e) {
      failure.value = explained(e);
      busy.value = false;
    }
  };
  return (
    <Dialog title="Continue the thread" onClose={onClose}>
      <form class="dialog-body" onSubmit={(e) => void submit(e)} onKeyDown={(e) => { if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) void submit(e); }}>
        {failure.value && <p class="notice" data-tone="bad" role="alert">{failure.value}</p>}
        <p class="muted">A new run of {agentName(run.agent)} continues where this one ended, in the same directory.{forks(run.agent) && ' As a copy, it leaves the thread as it is.'}</p>
        <div class="field">
          <label for="resume-task">What is to be done next</label>
          <textarea id="resume-task" autofocus rows={6} value={task.value} onInput={(e) => (task.value = e.currentTarget.value)} />
        </div>
        <div class="field">
          <label for="resume-mode">What it may do</label>
          <select id="resume-mode" aria-describedby="resume-mode-note" value={mode.value} onChange={(e) => { mode.value = e.currentTarget.value as Mode; confirmed.value = false; }}>
            {modes.map((m) => <option key={m} value={m}>{modeName(m)}</option>)}
          </select>
          <p class="hint" id="resume-mode-note">{run.mode ? `The run had: ${modeName(run.mode)}.` : 'What the run might do is not recorded.'}</p>
        </div>
        {mode.value !== 'read-only' && (
          <label class="check confirm"><input type="checkbox" checked={confirmed.value} onChange={(e) => (confirmed.value = e.currentTarget.checked)} /> <span>Yes, it may {mode.value === 'workspace-write' ? 'change files' : 'do anything that the worker’s user may do'}</span></label>
        )}
        <div class="dialog-foot">
          <span class="faint small wide-only"><kbd>Ctrl</kbd> <kbd>Enter</kbd></span>
          <button type="button" class="button" onClick={onClose}>Close</button>
          {forks(run.agent) && <button type="button" class="button" disabled={busy.value} onClick={() => void submit(undefined, true)}>Continue as a copy</button>}
          <button class="button primary" disabled={busy.value}>{busy.value ? 'Queueing…' : 'Continue'}</button>
        </div>
      </form>
    </Dialog>
  );
}

/** Chooses the run that is shown beside this one. */
export function CompareDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const list = useSignal<Run[] | undefined>(undefined);
  const text = useSignal('');
  useEffect(() => {
    const abort = new AbortController();
    api.runs({ limit: 100 }, abort.signal).then((page) => (list.value = page.runs), () => (list.value = []));
    return () => abort.abort();
  }, []);
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const near = (r: Run): number => Number(r.threadId !== undefined && r.threadId === run.threadId) * 2 + Number(r.workingDir !== undefined && r.workingDir === run.workingDir);
  const found = (list.value ?? []).filter((r) => r.run !== run.run && words.every((w) => `${r.title} ${r.run} ${r.agent} ${r.workingDir}`.toLowerCase().includes(w)));
  found.sort((a, b) => near(b) - near(a));
  return (
    <Dialog title="Show beside another run" onClose={onClose}>
      <div class="dialog-body">
        <div class="field">
          <label for="compare-search">Title, directory, agent or id</label>
          <input id="compare-search" autofocus value={text.value} autocomplete="off" spellcheck={false} onInput={(e) => (text.value = e.currentTarget.value)} />
        </div>
        <ul class="choices" aria-busy={list.value === undefined}>
          {found.slice(0, 30).map((r) => {
            const s = stateOf(r);
            return (
              <li key={r.run}>
                <a href={withPath(run.run, r.run)} onClick={onClose}>
                  <span class="cut">{plainText(r.title ?? r.run)}</span>
                  <span class="small" data-tone={s.tone}><span class="state" data-hollow={s.hollow || undefined}>{s.text}</span></span>
                  <span class="small muted cut">{agentName(r.agent)} · {when(r.startedAt ?? r.queuedAt, now.peek())}</span>
                </a>
              </li>
            );
          })}
        </ul>
        {list.value && found.length === 0 && <p class="muted">No matching runs.</p>}
      </div>
    </Dialog>
  );
}

const maxSaved = 512 << 20; // bytes

/** Saves all events of a run as JSON lines. */
export async function saveEvents(id: string): Promise<void> {
  await saving(`${id}.events.jsonl`, 'application/jsonl', async (add) => {
    for (let after = 0; ;) {
      const page = await api.events(id, { after, limit: 1000 });
      if (!add(page.events.map((e) => JSON.stringify(e) + '\n').join('')) || page.done || page.next === after) return;
      after = page.next;
    }
  });
}

/** Saves what an agent wrote on stdout or stderr. */
export async function saveOutput(id: string, stream: 'stdout' | 'stderr'): Promise<void> {
  await saving(`${id}.${stream}`, 'application/octet-stream', async (add) => {
    for (let offset = 0; ;) {
      const answer = await api.output(id, stream, offset, 1 << 20);
      const body = await answer.arrayBuffer();
      if (body.byteLength === 0 || !add(body)) return;
      offset = Number(answer.headers.get('X-Linesman-Offset') ?? offset) + body.byteLength;
    }
  });
}

async function saving(name: string, type: string, fill: (add: (part: BlobPart) => boolean) => Promise<void>): Promise<void> {
  let parts: BlobPart[] = [];
  let size = 0;
  try {
    await fill((part) => {
      parts.push(part);
      size += typeof part === 'string' ? part.length : (part as ArrayBuffer).byteLength;
      return size < maxSaved;
    });
  } catch (e) {
    return toast(`Could not be saved: ${explained(e)}`, { tone: 'bad' });
  }
  if (size === 0) return toast('There is nothing to save yet');
  const url = URL.createObjectURL(new Blob(parts, { type }));
  parts = [];
  const a = document.createElement('a');
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  if (size >= maxSaved) toast('Only the first 512 MB were saved', { tone: 'bad' });
}
