import { useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { allowed } from '../lib/api';
import { plural } from '../lib/format';
import { useKeys } from '../lib/keys';
import { plainText } from '../lib/plaintext';
import { params, runPath } from '../lib/router';
import { runs, synced } from '../overview/store';
import { headOf, questionsOf } from './ask';
import { QuestionCard, QuestionLine } from './card';
import './questions.css';
import { inbox, unread, waiting, type Entry } from './store';

/** The questions of all runs, or of one: the oldest is open, the others are lines. Nothing if there are none. */
export function Inbox({ run, link }: { run?: string; link?: boolean }) {
  if (!allowed('answer')) return <NotAllowed run={run} />;
  return <Questions run={run} link={link ? params.value.get('q') ?? '' : ''} />;
}

function Questions({ run, link }: { run?: string; link: string }) {
  const entries = inbox.value.filter((e) => !run || e.run === run);
  const open = entries.filter((e) => !e.closed);
  const selected = useSignal('');
  const wanted = useSignal(link); // the id in the address
  const box = useRef<HTMLElement>(null); // the open question
  const had = useRef(false); // the focus was on a question
  const gone = useSignal('');
  const away = useSignal(false); // it is not on the screen

  const shown = open.find((e) => e.key === selected.value) ?? open.find((e) => e.question);
  useLayoutEffect(() => {
    if (shown) selected.value = shown.key; // one that is older comes below it
  }, [shown?.key]);

  const focus = (): void => {
    const card = box.current;
    card?.scrollIntoView({ block: card.offsetHeight < innerHeight * 0.7 ? 'nearest' : 'start' });
    card?.focus({ preventScroll: true });
  };
  const select = (e: Entry): void => {
    selected.value = e.key;
    requestAnimationFrame(focus);
  };

  // A link to a question shows it, once.
  useEffect(() => void (wanted.value = link), [link]);
  useEffect(() => {
    if (!wanted.value || !synced.value) return;
    const entry = entries.find((e) => e.id === wanted.value);
    if (entry?.question && !entry.closed) select(entry);
    else if (!entry) gone.value = wanted.value;
    else return;
    wanted.value = '';
  });

  // The focus of a question that goes away is at the next one.
  useLayoutEffect(() => {
    if (!had.current || document.activeElement !== document.body) return;
    had.current = Boolean(box.current);
    box.current?.focus({ preventScroll: true });
  });

  const left = ({ currentTarget, target }: { currentTarget: EventTarget | null; target: EventTarget | null }): void => {
    requestAnimationFrame(() => { // what was removed with the focus has not been left
      if ((target as Node).isConnected) had.current = (currentTarget as Node | null)?.contains(document.activeElement) ?? false;
    });
  };

  useKeys('Questions', [
    {
      keys: ['q'], text: 'Go to the question, or to the next one', run: () => {
        if (!shown) return false;
        const inside = box.current?.contains(document.activeElement) ?? false;
        return select(inside ? open[(open.indexOf(shown) + 1) % open.length]! : shown);
      },
    },
    { keys: ['a'], text: 'Allow the question that has the focus, once', run: () => false },
    { keys: ['d'], text: 'Deny or decline the question that has the focus', run: () => false },
  ]);

  useEffect(() => {
    if (!run || !shown || !box.current) return void (away.value = false);
    const observer = new IntersectionObserver(([e]) => void (away.value = !e!.isIntersecting));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, [shown?.key, Boolean(shown?.question)]);

  const newest = open.findLast((e) => e.question)?.question;
  return (
    <>
      <p class="visually-hidden" role="status">{newest && `${headOf(newest)}: ${plainText(newest.runTitle || newest.run)}`}</p>
      {(entries.length > 0 || gone.value) && (
        <section class="inbox" aria-label="Questions" onFocusIn={() => (had.current = true)} onFocusOut={left}>
          {open.length > 0 && <h2 class={run && open.length === 1 ? 'visually-hidden' : ''}>{open.length === 1 ? 'A question waits for your answer' : `${open.length} questions wait for your answer`}</h2>}
          {gone.value && <p class="notice question-closed" data-tone="idle" role="status">Question {plainText(gone.value)} is not open any more. The timeline shows what became of it.</p>}
          <ol class="questions">
            {entries.map((e) => (
              <li key={e.key}>
                {e.closed ? <ClosedQuestion entry={e} here={Boolean(run)} />
                  : !e.question ? <div class="question panel unread" aria-busy={!unread.value}>{unread.value ? <p class="notice" data-tone="bad">The question cannot be read: {unread.value}. It is asked for again.</p> : <p class="skeleton" />}</div>
                    : e === shown ? <QuestionCard entry={e} q={e.question} here={Boolean(run)} box={box} />
                      : <QuestionLine q={e.question} onOpen={() => select(e)} />}
              </li>
            ))}
          </ol>
        </section>
      )}
      {away.value && <div class="asks"><button class="button" onClick={focus}>{open.length === 1 ? 'A question waits' : `${open.length} questions wait`} ↑</button></div>}
    </>
  );
}

function ClosedQuestion({ entry, here }: { entry: Entry; here: boolean }) {
  const { text, tone } = entry.closed!;
  return (
    <p class="notice question-closed" data-tone={tone} role={tone === 'bad' ? 'alert' : 'status'}>
      <span class="state">{text}</span>{!here && <> <a href={runPath(entry.run)}>{plainText(entry.question?.runTitle || entry.run)}</a></>}
    </p>
  );
}

/** What a session sees that may not answer. */
function NotAllowed({ run }: { run?: string }) {
  const row = run ? runs.get(run) : undefined;
  const n = row ? questionsOf(row).length : run ? 0 : waiting.value;
  void waiting.value;
  if (n === 0) return null;
  return (
    <section class="inbox" aria-label="Questions">
      <p class="notice" data-tone="needs" role="status">{plural(n, 'question waits', 'questions wait')} for an answer. This login may not answer: it lacks the scope <code>answer</code>.</p>
    </section>
  );
}
