// Unified diffs as lines with numbers. Pure. The diffs of tools may be without headers of
// hunks: then their lines have no numbers.

export interface DiffLine {
  kind: 'add' | 'del' | 'same' | 'hunk' | 'info';
  text: string;
  /** Numbers of the line before and after, 0: none or unknown. */
  before: number;
  after: number;
}

export interface DiffFile { path: string; from: string; lines: DiffLine[] }

const hunk = /^@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@/;

/** Reads a diff of one file; of a `whole` one, which is new, all lines are counted. */
export function diffLines(text: string, whole = false): DiffLine[] {
  const lines: DiffLine[] = [];
  let before = 0;
  let after = 1;
  let counted = whole && !/^@@ /m.test(text);
  const list = text.split('\n');
  if (list.at(-1) === '') list.pop();
  for (const line of list) {
    const m = hunk.exec(line);
    const body = line.slice(1);
    if (m) {
      before = Number(m[1]);
      after = Number(m[2]);
      counted = true;
      lines.push({ kind: 'hunk', text: line, before: 0, after: 0 });
    } else if (!counted && /^(---|\+\+\+|===|Index: |diff )/.test(line)) {
      continue; // the header of a file is shown beside its name
    } else if (line.startsWith('+')) {
      lines.push({ kind: 'add', text: body, before: 0, after: counted ? after++ : 0 });
    } else if (line.startsWith('-')) {
      lines.push({ kind: 'del', text: body, before: counted ? before++ : 0, after: 0 });
    } else if (line.startsWith(' ') || line === '') {
      lines.push({ kind: 'same', text: body, before: counted ? before++ : 0, after: counted ? after++ : 0 });
    } else {
      lines.push({ kind: 'info', text: line, before: 0, after: 0 });
    }
  }
  return lines;
}

/** Splits a patch of git into its files. */
export function patchFiles(patch: string): DiffFile[] {
  const files: DiffFile[] = [];
  let at = patch.startsWith('diff --git ') ? 0 : patch.indexOf('\ndiff --git ') + 1;
  while (at >= 0 && at < patch.length && patch.startsWith('diff --git ', at)) {
    const next = patch.indexOf('\ndiff --git ', at);
    const text = patch.slice(at, next < 0 ? patch.length : next + 1);
    files.push(fileOf(text));
    if (next < 0) break;
    at = next + 1;
  }
  return files;
}

function fileOf(text: string): DiffFile {
  const body = text.search(/^@@ /m);
  const head = (body < 0 ? text : text.slice(0, body)).split('\n');
  const named = (prefix: string): string => head.find((l) => l.startsWith(prefix))?.slice(prefix.length) ?? '';
  const [, a = '', b = ''] = /^diff --git ("a\/.*?"|a\/.*?) ("b\/.*"|b\/.*)$/.exec(head[0] ?? '') ?? [];
  const path = side(named('+++ ')) || unquote(named('rename to ')) || side(b) || side(named('--- ')) || side(a);
  const lines = body < 0 ? [] : diffLines(text.slice(body));
  if (head.some((l) => l.startsWith('Binary files '))) lines.push({ kind: 'info', text: 'Binary file', before: 0, after: 0 });
  return { path, from: unquote(named('rename from ')), lines };
}

function side(name: string): string {
  return name === '/dev/null' ? '' : unquote(name.replace(/\t.*$/, '')).replace(/^[ab]\//, '');
}

const letters: Record<string, number> = { a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13 };

/** A name as it is. Git quotes one with odd characters: bytes of those that are not ASCII are octal numbers. */
function unquote(name: string): string {
  if (!/^".*"$/.test(name)) return name;
  const bytes = name.slice(1, -1).replace(/\\([0-7]{3}|.)/g, (_, code: string) =>
    String.fromCharCode(code.length === 3 ? parseInt(code, 8) : letters[code] ?? code.charCodeAt(0)));
  return new TextDecoder().decode(Uint8Array.from([...bytes], (c) => c.charCodeAt(0)));
}
