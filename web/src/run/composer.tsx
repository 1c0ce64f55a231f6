import { useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { agentName } from '../lib/agents';
import { allowed, api, ApiError, type Message, type Run, type Sent } from '../lib/api';
import { plural } from '../lib/format';
import { useKeys } from '../lib/keys';
import { revealed } from '../lib/plaintext';
import { questionsOf } from '../questions/ask';
import { toast } from '../ui/toast';
import { Collected } from './comment';
import type { Comment } from './comments';
import './composer.css';
import { commentsOf, draftOf, queueText, refusedText, turnOf } from './messages';
import type { RunView } from './view';

/** What waits for a turn of a live run that is kept, and the field for the next message. */
export function Composer({ view, run }: { view: RunView; run: Run }) {
  const c = run.conversation!;
  const draft = useMemo(() => draftOf(run.run), [run.run]);
  const queue = useSignal<Message[]>([]);
  const busy = useSignal(''); // what is being done
  const failure = useSignal('');
  const sure = useSignal(false); // End was pressed once
  const box = useRef<HTMLElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const { text, editing } = draft;
  const turn = turnOf(run);
  const raw = allowed('raw');
  const asks = questionsOf(run).length > 0; // the answers are within reach in its place

  useLayoutEffect(() => { // what sticks above it must know its height
    const root = box.current!.parentElement!;
    const measure = (): void => root.style.setProperty('--composer', asks ? '0px' : `${box.current?.offsetHeight ?? 0}px`);
    const observer = new ResizeObserver(measure);
    observer.observe(box.current!);
    measure();
    return () => {
      observer.disconnect();
      root.style.removeProperty('--composer');
    };
  }, [asks]);
  useLayoutEffect(() => {
    const f = field.current!;
    f.style.height = 'auto';
    f.style.height = `${f.scrollHeight + f.offsetHeight - f.clientHeight}px`;
  }, [text.value]);

  const load = async (): Promise<void> => {
    if (!raw) return;
    try {
      queue.value = (await api.messages(run.run)).messages;
    } catch { /* their number is known, and the next change reads them again */ }
  };
  useEffect(() => void (c.waiting > 0 ? void load() : (queue.value = [])), [c.waiting, c.turn, c.held, raw]);
  useEffect(() => void (sure.value = false), [c.waiting]);

  /** Carries out one request at a time; whether it succeeded. */
  const act = async (what: string, request: () => Promise<Sent>): Promise<ApiError | undefined | false> => {
    if (busy.peek()) return false;
    busy.value = what;
    failure.value = '';
    let wrong: ApiError | undefined;
    try {
      const sent = await request();
      if (sent.delivered === false && what !== 'remove') toast('The agent gets it when its worker is back');
    } catch (e) {
      wrong = e instanceof ApiError ? e : new ApiError(-1, 'UNKNOWN', String(e));
      failure.value = refusedText(wrong);
    }
    await Promise.all([view.refresh(), load()]);
    busy.value = '';
    return wrong;
  };
  /** The same with a key, which stays that of this content until it is known what became of it. */
  const once = async (content: unknown[], request: (key: string, now: boolean) => Promise<Sent>, now = false): Promise<ApiError | undefined | false> => {
    const wrong = await act(String(content[0]), () => {
      const first = draft.request(content, now);
      return request(first.key, first.now);
    });
    if (wrong === undefined || (wrong && wrong.status >= 400 && wrong.status < 500)) draft.done(...content);
    return wrong;
  };

  const submit = async (now: boolean): Promise<void> => {
    const [typed, message] = [text.peek(), editing.peek()];
    if (!typed.trim()) {
      failure.value = 'Write a message.';
      return field.current?.focus();
    }
    const wrong = await once(['send', message, typed], (key, first) =>
      message ? api.editMessage(run.run, message, typed, key) : api.sendMessage(run.run, typed, first, key), now);
    if (wrong === undefined) draft.clear();
    else if (wrong && message && wrong.code === 'CONFLICT') {
      draft.renew();
      failure.value += ' Your text is here as a new message.';
    }
  };
  const review = async (all: readonly Comment[]): Promise<void> => {
    const content = commentsOf(all);
    const wrong = await once(content, (key) => {
      draft.comments.sending(key);
      return api.sendMessage(run.run, content[1], false, key);
    });
    if (wrong === undefined) draft.comments.drop(all);
  };
  const edit = async (m: Message): Promise<void> => {
    await load(); // somebody else may have changed it
    const newest = queue.peek().find((each) => each.message === m.message);
    if (!newest) return;
    draft.edit(newest.message, newest.text);
    field.current?.focus();
  };
  const remove = async (m: Message): Promise<void> => {
    if ((await act('remove', () => api.removeMessage(run.run, m.message))) !== undefined) return;
    if (editing.peek() === m.message) draft.renew();
    field.current?.focus({ preventScroll: true });
  };
  const end = async (): Promise<void> => {
    if (c.waiting > 0 && !sure.peek()) return void (sure.value = true);
    if ((await once(['end'], (key) => api.end(run.run, key))) === undefined && turn) toast('The run ends after its turn');
  };

  useKeys('Messages', [{ keys: ['m'], text: 'Write a message', run: () => field.current?.focus() }]);
  const off = busy.value !== '' || undefined;
  const id = `message-${run.run}`;
  const waits = queueText(run);
  const at = queue.value.findIndex((m) => m.message === editing.value);

  return (
    <section class="composer" ref={box} aria-label="Messages" data-asks={asks || undefined} aria-busy={busy.value !== ''}>
      <div class="queue" hidden={!waits}>
        <p class="queue-head"><span role="status" class="state" data-tone={c.held ? 'needs' : 'busy'}>{waits}</span>
          {c.held && <button class="button" aria-disabled={off} onClick={() => void once(['release'], (key) => api.release(run.run, key))}>Release</button>}
        </p>
        {c.waiting > 0 && !raw && <p class="faint small">Their texts need the scope <code>raw</code>.</p>}
        {c.waiting > 0 && raw && (
          <ol>
            {queue.value.map((m, i) => (
              <li key={m.message} data-editing={m.message === editing.value || undefined}>
                <p class="queue-text" dir="auto">{revealed(m.text)}</p>
                <button class="button quiet" aria-label={`Edit message ${i + 1}`} aria-disabled={off} onClick={() => void edit(m)}>Edit</button>
                <button class="button quiet" aria-label={`Remove message ${i + 1}`} aria-disabled={off} onClick={() => void remove(m)}>Remove</button>
              </li>
            ))}
          </ol>
        )}
      </div>
      <Collected comments={draft.comments} off={off} send={(all) => void review(all)} />
      {failure.value && <p class="notice" data-tone="bad" role="alert" id={`${id}-failure`}>{failure.value}</p>}
      {editing.value && <p class="small muted" role="status">You edit {at >= 0 ? `message ${at + 1}` : 'a message that waited'}. <button class="link" onClick={() => draft.clear()}>Leave it as it is</button></p>}
      <form onSubmit={(e) => { e.preventDefault(); void submit(false); }}>
        <label class="visually-hidden" for={id}>Message to {agentName(run.agent)}</label>
        <textarea
          id={id} ref={field} rows={1} dir="auto" value={text.value} readOnly={busy.value === 'send'} aria-describedby={failure.value ? `${id}-failure` : undefined}
          placeholder={turn ? `A message for after turn ${turn}` : c.asleep && c.waiting === 0 ? 'The next message wakes the agent' : 'The next message'}
          onInput={(e) => { draft.type(e.currentTarget.value); failure.value = ''; }}
          onKeyDown={(e) => {
            if (e.isComposing) return;
            if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) { e.preventDefault(); void submit(false); }
            if (e.key === 'Escape') { e.preventDefault(); if (editing.peek()) draft.clear(); else e.currentTarget.blur(); }
          }}
        />
        <div class="composer-foot">
          {turn > 0 && <button type="button" class="button" aria-disabled={off} onClick={() => void once(['stop', turn], (key) => api.cancelTurn(run.run, turn, key))}>Cancel turn {turn}</button>}
          <button type="button" class="button danger" aria-disabled={off} title="The run ends after its turn" onClick={() => void end()}>{sure.value ? `End without ${plural(c.waiting, 'message')}` : 'End'}</button>
          <span class="space faint small"><span class="wide-only"><kbd>Ctrl</kbd> <kbd>Enter</kbd></span></span>
          {turn > 0 && !editing.value && <button type="button" class="button" aria-disabled={off} title={`Cancels turn ${turn} for this message`} onClick={() => void submit(true)}>Send now</button>}
          <button class="button primary" aria-disabled={off}>{busy.value === 'send' ? 'Sending…' : editing.value ? 'Save' : 'Send'}</button>
        </div>
      </form>
    </section>
  );
}
