import { useEffect, useMemo } from 'preact/hooks';
import { allowed, ApiError, type Run } from '../lib/api';
import { changedText, ended, plural } from '../lib/format';
import { plainText } from '../lib/plaintext';
import { Delta, DiffText } from './diff';
import { Path } from './row';
import { patchFiles } from './unified';
import type { RunView } from './view';

/** What the run changed in its directory. */
export function Changes({ view, run }: { view: RunView; run: Run }) {
  const over = ended(run);
  const diff = view.diff.value;
  useEffect(() => {
    if (over && allowed('raw') && !view.diff.peek()) void view.loadDiff();
  }, [over]);
  const patches = useMemo(() => (diff && !(diff instanceof ApiError) && diff.patch ? patchFiles(diff.patch) : []), [diff]);
  if (!allowed('raw')) return <Nothing title="Changes need the scope raw" text="Sign in with a token that has it to see what this run changed in its directory." />;
  if (!over) return <Nothing title="The run has not ended" text="Its changes in the directory are listed when it has ended. The timeline shows the changes of each call." />;
  if (!diff) return <div class="changes" aria-busy="true"><p class="skeleton block-skeleton" /><p class="skeleton block-skeleton" /></div>;
  if (diff instanceof ApiError) return <Nothing title="The changes cannot be read" text={diff.message} action={() => { view.diff.value = undefined; void view.loadDiff(); }} />;
  if (diff.reason) return <Nothing title="No changes are known" text={`${sentence(diff.why ?? diff.reason)}.`} />;
  if (diff.files.length === 0) return <Nothing title="Nothing changed" text="The files in the directory are the same as before the run." />;
  return (
    <div class="changes">
      <p class="muted">{changedText({ files: diff.changes?.files ?? diff.files.length, in: 'directory' })} <Delta added={diff.changes?.added} removed={diff.changes?.removed} />{diff.truncated && ' · the patch is incomplete'}</p>
      {diff.files.map((f) => {
        const lines = patches.find((p) => p.path === f.path)?.lines;
        return (
          <details key={f.path} class="file panel" open={(lines?.length ?? 0) < 400}>
            <summary><span class="mono path">{f.from && <><Path of={f.from} /> → </>}<Path of={f.path} /></span> <span class="faint">{f.kind}</span> <Delta added={f.added} removed={f.removed} /></summary>
            {lines?.length ? <DiffText lines={lines} name={f.path} /> : <p class="faint pad">{f.binary ? 'A binary file.' : 'The patch does not contain its lines.'}</p>}
            {f.truncated && <p class="faint pad">Some of its changes are left out.</p>}
          </details>
        );
      })}
      {diff.unlisted ? <p class="muted">{plural(diff.unlisted, 'more file')}</p> : null}
    </div>
  );
}

const sentence = (text: string): string => (text[0]?.toUpperCase() ?? '') + plainText(text).slice(1).replace(/\.$/, '');

/** Why there is nothing to see; `page`: of the whole page. */
export function Nothing({ title, text, action, page }: { title: string; text: string; action?: () => void; page?: boolean }) {
  const Title = page ? 'h1' : 'h2';
  return <div class="empty"><Title>{title}</Title><p>{text}</p>{action && <p><button class="button" onClick={action}>Try again</button></p>}</div>;
}
