// Comments on lines of a diff: which are selected, what is written of them, and those that wait to be sent.

import { useSignal } from '@preact/signals';
import type { HTMLAttributes } from 'preact';
import { useRef } from 'preact/hooks';
import { plural } from '../lib/format';
import { plainText, revealed } from '../lib/plaintext';
import { type Comment, type Comments, ends, maxComment, pick, placeOf, quoteOf } from './comments';
import type { DiffLine } from './unified';

/** Where comments on a diff go: they are of a run, and the diff has a name of its own in it. */
export interface Review { comments: Comments; diff: string }

/** The lines of a diff, of which one or a range is selected: by pressing them, or by keys. */
export function usePick(review: Review | undefined, lines: readonly DiffLine[], name: string) {
  const list = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const at = useSignal(0); // the line that keys act on
  if (!review) return undefined;
  const { comments, diff } = review;
  const picked = comments.picked.value?.diff === diff ? comments.picked.value : undefined;
  const [first, last] = picked ? ends(picked) : [-1, -2];
  const id = (i: number): string => `diff-${diff}-${i}`;
  const can = (i: number): boolean => ['add', 'del', 'same'].includes(lines[i]?.kind ?? '');
  const choose = (i: number, extend: boolean): void => {
    if (!can(i)) return;
    at.value = i;
    comments.picked.value = pick(comments.picked.peek(), diff, i, extend);
  };
  const step = (by: 1 | -1, extend: boolean): void => {
    let i = at.peek() + by;
    while (lines[i] && !can(i)) i += by;
    if (!lines[i]) return;
    if (extend && !picked) choose(at.peek(), true);
    if (extend) choose(i, true);
    at.value = i;
    document.getElementById(id(i))?.scrollIntoView({ block: 'nearest', inline: 'start' });
  };
  const keys = (e: KeyboardEvent): void => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') step(e.key === 'ArrowDown' ? 1 : -1, e.shiftKey);
    else if (e.key === ' ') choose(at.peek(), e.shiftKey);
    else if (e.key === 'Enter') {
      if (!picked) choose(at.peek(), true);
      requestAnimationFrame(() => field.current?.focus());
    } else if (e.key === 'Escape' && picked) comments.picked.value = undefined;
    else return;
    e.preventDefault();
  };
  const listed: HTMLAttributes<HTMLDivElement> = {
    ref: list, role: 'listbox', tabIndex: 0, 'aria-label': `Lines of ${plainText(name)}`, 'aria-multiselectable': true, 'aria-activedescendant': lines[at.value] && id(at.value), onKeyDown: keys,
  };
  const option = (i: number): HTMLAttributes<HTMLDivElement> & Record<`data-${string}`, unknown> => ({
    id: id(i), role: 'option', 'aria-selected': i >= first && i <= last, 'aria-disabled': !can(i) || undefined, 'data-at': i === at.value || undefined,
    onClick: (e) => { if (getSelection()?.isCollapsed !== false) choose(i, e.shiftKey); },
  });
  return { listed, option, form: picked && <Write comments={comments} lines={lines.slice(first, last + 1).filter((_, i) => can(first + i))} name={name} field={field} back={() => list.current?.focus()} /> };
}

function Write({ comments, lines, name, field, back }: {
  comments: Comments; lines: readonly DiffLine[]; name: string; field: { current: HTMLTextAreaElement | null }; back: () => void;
}) {
  const failure = useSignal('');
  const place = placeOf(name, lines);
  const id = 'comment-text';
  const add = (e?: Event): void => {
    e?.preventDefault();
    const text = comments.text.peek().trim();
    failure.value = '';
    if (!text) return field.current?.focus();
    if (!comments.add({ place, quote: quoteOf(lines), text })) return void (failure.value = 'There are too many comments: send those that wait first.');
    back();
  };
  const leave = (): void => {
    comments.picked.value = undefined;
    back();
  };
  return (
    <form class="comment" onSubmit={add}>
      {failure.value && <p class="notice" data-tone="bad" role="alert">{failure.value}</p>}
      <label for={id}>Comment on <span class="mono">{place}</span> <span class="faint">({plural(lines.length, 'line')})</span></label>
      <textarea
        id={id} ref={field} rows={2} dir="auto" maxLength={maxComment} value={comments.text.value} onInput={(e) => (comments.text.value = e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.isComposing) return;
          if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) add(e);
          if (e.key === 'Escape') { e.preventDefault(); back(); }
        }}
      />
      <div class="composer-foot">
        <span class="faint small">{lines.length === 1 && 'Another line makes it a range.'}</span>
        <button type="button" class="button" onClick={leave}>Leave</button>
        <button class="button primary">Add comment</button>
      </div>
    </form>
  );
}

/** The comments that wait, and the button that sends them as one message. */
export function Collected({ comments, off, send }: { comments: Comments; off: true | undefined; send: (all: readonly Comment[]) => void }) {
  const all = comments.list.value;
  const open = useSignal(false);
  const said = plural(all.length, 'comment');
  return (
    <div class="queue" hidden={all.length === 0}>
      <p class="queue-head">
        <button type="button" class="button quiet" aria-expanded={open.value} title="Shows what they say" onClick={() => (open.value = !open.value)}><span role="status">{all.length > 0 && `${said} on the changes`}</span></button>
        <button type="button" class="button" aria-disabled={off} onClick={() => send(all)}>Send {said}</button>
      </p>
      {open.value && (
        <ol>
          {all.map((c, i) => (
            <li key={i}>
              <p class="queue-text" dir="auto"><span class="mono faint">{revealed(c.place)}</span> {revealed(c.text)}</p>
              <button type="button" class="button quiet" aria-label={`Remove comment ${i + 1}`} aria-disabled={off} onClick={() => { if (!off) comments.drop([c]); }}>Remove</button>
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}
