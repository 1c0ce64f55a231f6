import { useSignal } from '@preact/signals';
import { type RefObject } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { agentName } from '../lib/agents';
import { api, ApiError, session, type Answer, type Question, type QuestionFile, type QuestionOption } from '../lib/api';
import { now } from '../lib/clock';
import { age, shortPath } from '../lib/format';
import { typingIn } from '../lib/keys';
import { plainText, revealed } from '../lib/plaintext';
import { runPath } from '../lib/router';
import { Delta, DiffText } from '../run/diff';
import { diffLines } from '../run/unified';
import { actOf, buttonName, choicesOf, dueText, headOf, indentJSON, keyChoice, kindName, permits, refusal, resultText, settled } from './ask';
import { contentOf, fieldsOf, initialOf, textField } from './form';
import { FormFields } from './fields';
import { close, movedAt, typedOf, type Entry } from './store';
import { WholeRequest } from './whole';

const armed = 10_000; // ms for which a second press confirms

/** What is being done with a question. */
interface Work { sending?: string; problem?: string; again?: Answer }

/** A question in full, with what answers it. */
export function QuestionCard({ entry, q, here, box }: { entry: Entry; q: Question; here: boolean; box: RefObject<HTMLElement | null> }) {
  const work = useSignal<Work>({});
  const sure = useSignal(''); // the id of the option that waits for its second press
  const whole = useSignal(!q.cut);
  const fields = useMemo(() => (q.kind === 'form' ? fieldsOf(q.fields) : q.kind === 'text' ? textField : []), [q]);
  const values = useMemo(() => typedOf(entry.key, typeof fields === 'string' ? new Map() : initialOf(fields)), [entry.key]);
  const errors = useSignal<ReadonlyMap<string, string>>(new Map());
  const appeared = useMemo(() => performance.now(), []);
  const focusedAt = useRef(0);
  const sureAt = useRef(0);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);

  const { once, lasting } = choicesOf(q);
  const shown = (): number => performance.now() - Math.max(appeared, movedAt()); // in its place, in ms
  const id = `question-${entry.run}-${entry.id}`;
  const busy = work.value.sending !== undefined;

  const send = async (answer: Answer, what: string): Promise<void> => {
    if (work.peek().sending !== undefined) return;
    work.value = { sending: what };
    try {
      const body = q.cut && whole.peek() ? { ...answer, digest: q.digest } : answer;
      const done = await api.answer(q.run, q.id, body);
      close(entry, { text: resultText(done, session.peek()?.name ?? ''), tone: 'ok' });
    } catch (e) {
      const r = refusal(e instanceof ApiError ? e : new ApiError(-1, 'UNKNOWN', String(e)), q);
      if (r.gone) close(entry, { text: r.text, tone: 'bad' });
      else work.value = { problem: r.text, again: r.unsure ? answer : undefined };
    }
  };

  const choose = (o: QuestionOption): void => {
    if (permits(o) && !whole.peek()) return;
    void send({ option: o.id }, o.id);
  };
  // A press is for what was here before it, not for what has just come under the finger.
  const press = (o: QuestionOption) => (): void => {
    if (shown() >= settled) choose(o);
  };
  const pressLasting = (o: QuestionOption) => (): void => {
    if (shown() < settled) return;
    if (sure.peek() === o.id) {
      if (performance.now() - sureAt.current >= settled) choose(o);
      return;
    }
    sure.value = o.id;
    sureAt.current = performance.now();
    clearTimeout(timer.current);
    timer.current = setTimeout(() => (sure.value = ''), armed);
  };
  const submit = (e: Event): void => {
    e.preventDefault();
    if (typeof fields === 'string' || shown() < settled) return;
    const made = contentOf(fields, values.peek());
    errors.value = made.errors;
    if (made.errors.size > 0) {
      const at = fields.findIndex((f) => made.errors.has(f.name));
      requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`[id="${id}-${at}"], [name="${id}-${at}"]`)?.focus());
      return;
    }
    void send(q.kind === 'text' ? { text: String(made.content['text']) } : { content: made.content }, 'submit');
  };
  const key = (e: KeyboardEvent): void => {
    if (e.defaultPrevented) return;
    const option = keyChoice(e, q, { typing: typingIn(e), shown: Math.min(shown(), performance.now() - focusedAt.current) });
    if (!option) {
      if (/^[ad]$/.test(e.key) && !typingIn(e) && !e.ctrlKey && !e.metaKey && !e.altKey) e.preventDefault(); // they mean nothing else here
      return;
    }
    e.preventDefault();
    choose(option);
  };
  const focused = (e: FocusEvent): void => {
    if (!box.current?.contains(e.relatedTarget as Node | null)) focusedAt.current = performance.now();
  };

  return (
    <article class="question panel" ref={box} tabIndex={-1} aria-labelledby={`${id}-head`} aria-busy={busy} onKeyDown={key} onFocusIn={focused}>
      <div class="question-main">
        <Head q={q} id={id} here={here} />
        {q.cut && <WholeRequest q={q} whole={whole} />}
        {q.kind === 'text' && <p class="question-text" dir="auto">{revealed(q.prompt ?? '')}</p>}
        {q.kind === 'permission' && <Request q={q} />}
        {q.kind === 'form' && typeof fields === 'string' && <p class="notice" data-tone="needs">This can only be declined or cancelled here: {fields}.</p>}
        {q.kind !== 'permission' && typeof fields !== 'string' && (
          <form class="question-form" id={`${id}-form`} onSubmit={submit} noValidate><FormFields id={id} fields={fields} values={values} errors={errors.value} /></form>
        )}
        {q.kind === 'permission' && <LongNames options={q.options ?? []} />}
      </div>
      <div class="question-side">
        {lasting.length > 0 && (
          <div class="question-lasting" role="group" aria-labelledby={`${id}-lasting`}>
            <p id={`${id}-lasting`} class="small muted">For the rest of the session or longer: changes the agent’s own settings</p>
            {lasting.map((o) => (
              <button key={o.id} class="button answer" data-armed={sure.value === o.id || undefined} aria-disabled={busy || (permits(o) && !whole.value) || undefined} onClick={pressLasting(o)}>
                <Name option={o} />
                {sure.value === o.id && <span class="confirm-hint" role="status">Press again to confirm</span>}
              </button>
            ))}
          </div>
        )}
        <div class="question-foot">
          {work.value.problem && (
            <p class="notice" data-tone="bad" role="alert">
              {work.value.problem} {work.value.again && <button class="link" onClick={() => void send(work.peek().again!, 'again')}>Send it again</button>}
            </p>
          )}
          <Due q={q} />
          {!whole.value && q.digest && <p class="small muted">To allow it, open the whole request first.</p>}
          {q.kind !== 'permission' ? (
            <div class="answers" data-of={q.kind}>
              {q.kind === 'form' && ['cancel', 'decline'].map((option) => (
                <button key={option} class="button answer" disabled={busy} onClick={press({ id: option, kind: 'reject_once', name: option })}>{option === 'cancel' ? 'Cancel' : <>Decline <kbd aria-hidden="true">d</kbd></>}</button>
              ))}
              {typeof fields !== 'string' && <button class="button answer primary" form={`${id}-form`} disabled={busy || !whole.value}>{work.value.sending === 'submit' ? 'Sending…' : q.kind === 'text' ? 'Send' : 'Submit'}</button>}
            </div>
          ) : (
            <div class="answers" data-of={once.length === 2 && once.every((o) => buttonName(o).text.length <= 24) ? 'two' : 'many'}>
              {once.map((o) => (
                <button key={o.id} class={`button answer${o.kind === 'allow_once' ? ' primary' : ''}`} disabled={busy || (permits(o) && !whole.value)} title={permits(o) && !whole.value ? 'Open the whole request first' : undefined} onClick={press(o)}>
                  {work.value.sending === o.id ? <span class="answer-name">Sending…</span> : <Name option={o} />}
                  {once.filter((other) => other.kind === o.kind).length === 1 && <kbd aria-hidden="true">{o.kind === 'allow_once' ? 'a' : 'd'}</kbd>}
                </button>
              ))}
            </div>
          )}
        </div>
      </div>
    </article>
  );
}

/** The name that the agent gives to an option, and what linesman knows of it. */
function Name({ option }: { option: QuestionOption }) {
  const { text } = buttonName(option);
  const kind = kindName(option.kind);
  return <span class="answer-name"><bdi>{text}</bdi>{text.toLowerCase() !== kind && option.id !== 'deny' && <small>{kind}</small>}</span>;
}

/** The names that do not fit on a button. */
function LongNames({ options }: { options: readonly QuestionOption[] }) {
  const long = options.filter((o) => !buttonName(o).whole);
  if (long.length === 0) return null;
  return (
    <div>
      <p class="block-label">Options in full</p>
      <ul class="option-names">{long.map((o) => <li key={o.id}><span class="muted">{kindName(o.kind)}: </span><bdi>{revealed(o.name)}</bdi></li>)}</ul>
    </div>
  );
}

function Head({ q, id, here }: { q: Question; id: string; here: boolean }) {
  const title = revealed(q.title ?? '').trim();
  const same = title.replace(/^`([^`]*)`$/, '$1') === revealed(q.command ?? '').trim(); // many agents name a command after itself
  return (
    <header class="question-head">
      <h3 id={`${id}-head`} data-tone="needs"><span class="state">{headOf(q)}</span></h3>
      <p class="question-where">
        {!here && <a href={runPath(q.run)}>{plainText(q.runTitle || q.run)}</a>}
        {!here && q.agentName && q.kind !== 'text' && <span>{agentName(q.agentName)}</span>}
        {q.workingDir && <span class="mono" title={revealed(q.workingDir)}>{revealed(shortPath(q.workingDir))}</span>}
        <Asked q={q} />
      </p>
      {title && !same && <p class="question-title"><bdi>{title}</bdi></p>}
    </header>
  );
}

// The two parts below change each second, alone.

function Asked({ q }: { q: Question }) {
  return <span class="faint num">asked {age(q.askedAt, now.value)} ago</span>;
}

function Due({ q }: { q: Question }) {
  const { text, soon } = dueText(q, now.value);
  return <p class="question-due small num" data-tone={soon ? 'bad' : undefined}>{text}</p>;
}

/** What a tool is to do. */
function Request({ q }: { q: Question }) {
  return (
    <>
      {q.command && <pre class="wrap command-text" tabIndex={0} role="group" aria-label="Command" dir="ltr">{revealed(q.command)}</pre>}
      {q.text && <p class="question-text" dir="auto">{revealed(q.text)}</p>}
      {q.files?.map((f, i) => <File key={i} file={f} dir={q.workingDir ?? ''} />)}
      {q.input && (
        <div>
          <p class="block-label">Input</p>
          <pre class="wrap" tabIndex={0} role="group" aria-label="Input" dir="ltr">{revealed(indentJSON(q.input))}</pre>
        </div>
      )}
    </>
  );
}

const openLines = 40; // of a diff that is open at first

function File({ file, dir }: { file: QuestionFile; dir: string }) {
  const lines = useMemo(() => (file.diff ? diffLines(file.diff) : []), [file]);
  const path = revealed(dir && file.path.startsWith(dir + '/') ? file.path.slice(dir.length + 1) : file.path);
  if (!file.diff) return <p class="question-file"><span class="mono">{path}</span> <span class="faint">no change is told</span></p>;
  const count = (kind: string): number => lines.filter((l) => l.kind === kind).length;
  return (
    <details class="file panel" open={lines.length <= openLines}>
      <summary><span class="mono">{path}</span> <Delta added={count('add')} removed={count('del')} /></summary>
      <DiffText lines={lines} name={path} />
    </details>
  );
}

/** A question that is one of several, in a line. */
export function QuestionLine({ q, onOpen }: { q: Question; onOpen: () => void }) {
  const about = revealed(q.command || q.title || q.prompt || '').replace(/\s+/g, ' ').slice(0, 300);
  return (
    <button class="question-line panel" aria-expanded={false} onClick={onOpen}>
      <span data-tone="needs"><span class="state">{actOf(q)}</span></span>
      <span class={`cut${q.command ? ' mono' : ''}`}>{about}</span>
      <span class="cut muted">{plainText(q.runTitle || q.run)}</span>
      <Asked q={q} />
    </button>
  );
}
