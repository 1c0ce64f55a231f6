import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { plainText } from '../lib/plaintext';
import { count } from '../lib/format';
import { type Review, usePick } from './comment';
import './diff.css';
import { type DiffLine, diffLines } from './unified';

const firstLines = 400;

/** A unified diff with line numbers. All of it is text. With `review` its lines can be commented on. */
export function DiffText({ text, lines, name, whole: isNew, review }: { text?: string; lines?: DiffLine[]; name: string; whole?: boolean; review?: Review }) {
  const all = useMemo(() => lines ?? diffLines(text ?? '', isNew), [text, lines, isNew]);
  const whole = useSignal(false);
  const shown = whole.value ? all : all.slice(0, firstLines);
  const numbered = all.some((l) => l.before > 0 || l.after > 0);
  const picks = usePick(review, shown, name);
  const diff = (
    <div class="diff mono" role="group" tabIndex={picks ? undefined : 0} aria-label={`Changes of ${plainText(name)}`} data-numbered={numbered || undefined}>
      <div class="diff-lines" {...picks?.listed}>
        {shown.map((l, i) => (
          <div key={i} class={`dl dl-${l.kind}`} {...picks?.option(i)}>
            {numbered && <span class="dn num">{l.before || ''}</span>}
            {numbered && <span class="dn num">{l.after || ''}</span>}
            <span class="ds">{l.kind === 'add' ? '+' : l.kind === 'del' ? '−' : ' '}</span>
            <span class="dt">{plainText(l.text) || ' '}</span>
          </div>
        ))}
      </div>
      {all.length > shown.length && <button class="link more" onClick={() => (whole.value = true)}>Show {count(all.length - shown.length)} more lines</button>}
    </div>
  );
  return picks ? <div class="review">{diff}{picks.form}</div> : diff;
}

export function Delta({ added, removed }: { added?: number; removed?: number }) {
  if (added === undefined && removed === undefined) return null;
  return (
    <span class="delta num">
      <span class="add"><span class="visually-hidden">added </span>+{added ?? 0}</span> <span class="del"><span class="visually-hidden">removed </span>−{removed ?? 0}</span>
    </span>
  );
}
