import { useSignal, type Signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { api, ApiError, type Question } from '../lib/api';
import { bytes } from '../lib/format';
import { revealed } from '../lib/plaintext';

/** The whole request of a question, in its pieces. `whole` becomes true when all of it is on the page. */
export function WholeRequest({ q, whole }: { q: Question; whole: Signal<boolean> }) {
  const pieces = useSignal<readonly string[]>([]);
  const progress = useSignal('');
  const failure = useSignal('');
  const abort = useRef<AbortController>(undefined);
  useEffect(() => () => abort.current?.abort(), []);

  const open = async (): Promise<void> => {
    const mine = (abort.current = new AbortController());
    failure.value = '';
    progress.value = 'Reading…';
    try {
      const all: string[] = [];
      for (let at: number | undefined = 0; at !== undefined;) {
        const piece: Awaited<ReturnType<typeof api.request>> = await api.request(q.run, q.id, at, mine.signal);
        if (piece.digest !== q.digest || piece.offset !== at) throw new ApiError(-1, 'UNKNOWN', 'it is not the request of this question');
        all.push(revealed(piece.text));
        at = piece.next;
        if (at !== undefined) progress.value = `Reading: ${bytes(at)} of ${bytes(piece.bytes)}`;
      }
      pieces.value = all;
      whole.value = true;
    } catch (e) {
      if (mine.signal.aborted) return;
      failure.value = e instanceof Error ? e.message : String(e);
    }
    progress.value = '';
  };

  if (whole.value) {
    return (
      <div>
        <p class="block-label">The whole request, as the agent wrote it</p>
        <pre class="wrap whole" tabIndex={0} role="group" aria-label="The whole request">{pieces.value.map((text, i) => <div key={i}>{text}</div>)}</pre>
      </div>
    );
  }
  return (
    <div class="notice stack" data-tone="needs">
      <span>{q.digest ? 'Some of this request is shortened here. Open all of it before you allow it.' : 'This request cannot be shown in full, so that it can only be denied.'}</span>
      {q.digest && <button class="button" disabled={progress.value !== ''} onClick={() => void open()}>{progress.value || 'Open the whole request'}</button>}
      {failure.value && <span role="alert">It could not be read: {failure.value}.</span>}
    </div>
  );
}
