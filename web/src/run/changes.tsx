import { useEffect, useMemo } from 'preact/hooks';
import { allowed, ApiError, type Run } from '../lib/api';
import { changedText, ended, plural } from '../lib/format';
import { plainText } from '../lib/plaintext';
import type { Comments } from './comments';
import { Delta, DiffText } from './diff';
import type { FileChange } from './items';
import { Path, within } from './row';
import { patchFiles } from './unified';
import type { RunView } from './view';

/** What the run changed in its directory. */
export function Changes({ view, run, comments }: { view: RunView; run: Run; comments?: Comments }) {
  const over = ended(run);
  const diff = view.diff.value;
  useEffect(() => {
    if (over && allowed('raw') && !view.diff.peek()) void view.loadDiff();
  }, [over]);
  const patches = useMemo(() => (diff && !(diff instanceof ApiError) && diff.patch ? patchFiles(diff.patch) : []), [diff]);
  if (!allowed('raw')) return <Nothing title="Changes need the scope raw" text="Sign in with a token that has it to see what this run changed in its directory." />;
  if (!over) return <SoFar view={view} run={run} comments={comments} />;
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

/** What the calls of a run that works report, by file. */
function SoFar({ view, run, comments }: { view: RunView; run: Run; comments?: Comments }) {
  void view.version.value;
  const files = new Map<string, { key: string; file: FileChange }[]>();
  for (const row of view.timeline.rows()) {
    if (row.kind !== 'call') continue;
    row.detail?.files?.forEach((file, i) => file.diff && files.set(file.path, [...files.get(file.path) ?? [], { key: `${row.key}-${i}`, file }]));
  }
  if (files.size === 0) return <Nothing title="The run has not ended" text="Its changes in the directory are listed when it has ended; those of its tools, when they report them." />;
  const dir = run.workingDir ?? '';
  return (
    <div class="changes">
      <p class="muted">What its tools report so far: commands may have changed more.{comments && ' Press a line, and perhaps a last one, to comment on it.'}</p>
      {[...files].map(([path, all]) => (
        <details key={path} class="file panel" open>
          <summary><span class="mono path"><Path of={within(path, dir)} /></span> {all.length > 1 && <span class="faint">{plural(all.length, 'change')}</span>}</summary>
          {all.map(({ key, file }) => <DiffText key={key} text={file.diff!.head} name={within(path, dir)} whole={file.kind === 'added'} review={comments && { comments, diff: key }} />)}
        </details>
      ))}
    </div>
  );
}

const sentence = (text: string): string => (text[0]?.toUpperCase() ?? '') + plainText(text).slice(1).replace(/\.$/, '');

/** Why there is nothing to see; `page`: of the whole page. */
export function Nothing({ title, text, action, page }: { title: string; text: string; action?: () => void; page?: boolean }) {
  const Title = page ? 'h1' : 'h2';
  return <div class="empty"><Title>{title}</Title><p>{text}</p>{action && <p><button class="button" onClick={action}>Try again</button></p>}</div>;
}
