import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { plainText } from '../lib/plaintext';
import { count } from '../lib/format';
import './diff.css';
import { type DiffLine, diffLines } from './unified';

const firstLines = 400;

/** A unified diff with line numbers. All of it is text. */
export function DiffText({ text, lines, name }: { text?: string; lines?: DiffLine[]; name: string }) {
  const all = useMemo(() => lines ?? diffLines(text ?? ''), [text, lines]);
  const whole = useSignal(false);
  const shown = whole.value ? all : all.slice(0, firstLines);
  const numbered = all.some((l) => l.before > 0 || l.after > 0);
  return (
    <div class="diff mono" role="group" tabIndex={0} aria-label={`Changes of ${name}`} data-numbered={numbered || undefined}>
      <div class="diff-lines">
        {shown.map((l, i) => (
          <div key={i} class={`dl dl-${l.kind}`}>
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
}

export function Delta({ added, removed }: { added?: number; removed?: number }) {
  if (added === undefined && removed === undefined) return null;
  return (
    <span class="delta num">
      <span class="add"><span class="visually-hidden">added </span>+{added ?? 0}</span> <span class="del"><span class="visually-hidden">removed </span>−{removed ?? 0}</span>
    </span>
  );
}
