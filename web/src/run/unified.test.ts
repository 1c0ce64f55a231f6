import { expect, it } from 'vitest';
import { diffLines, patchFiles } from './unified';

const show = (text: string): string[] => diffLines(text).map((l) => `${l.before || '-'} ${l.after || '-'} ${l.kind} ${l.text}`);

it('the lines of a new file have numbers', () => {
  expect(diffLines('+a\n+b\n', true).map((l) => l.after)).toEqual([1, 2]);
  expect(diffLines('--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+a\n', true)).toEqual(diffLines('@@ -0,0 +1 @@\n+a\n'));
});

it('a hunk has line numbers', () => {
  expect(show('--- a/x\n+++ b/x\n@@ -10,3 +10,3 @@ func f() {\n one\n-two\n+deux\n+--- x\n three\n\\ No newline at end of file')).toEqual([
    '- - hunk @@ -10,3 +10,3 @@ func f() {', '10 10 same one', '11 - del two', '- 11 add deux', '- 12 add --- x', '12 13 same three',
    '- - info \\ No newline at end of file',
  ]);
});

it('a diff without hunks has none', () => {
  expect(show('-two\n+deux\n')).toEqual(['- - del two', '- - add deux']);
});

it('a header of opencode is left out', () => {
  expect(show('Index: /a.txt\n=====\n--- /a.txt\n+++ /a.txt\n@@ -1 +1 @@\n-a\n+b\n').slice(1)).toEqual(['1 - del a', '- 1 add b']);
});

it('a patch has files', () => {
  const patch = 'diff --git a/x.go b/x.go\nindex 1..2 100644\n--- a/x.go\n+++ b/x.go\n@@ -1 +1 @@\n-diff --git a/no b/no\n+b\n' +
    'diff --git a/old name b/new name\nsimilarity index 90%\nrename from old name\nrename to new name\n' +
    'diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n' +
    'diff --git a/p.png b/p.png\nnew file mode 100644\nBinary files /dev/null and b/p.png differ\n';
  expect(patchFiles(patch).map((f) => [f.path, f.from, f.lines.length])).toEqual([['x.go', '', 3], ['new name', 'old name', 0], ['gone', '', 2], ['p.png', '', 1]]);
  expect(patchFiles('')).toEqual([]);
});

it('a name that git quotes is the one of the file', () => {
  const named = (a: string, b: string, more = ''): string[] => patchFiles(`diff --git ${a} ${b}\n${more || `--- ${a}\n+++ ${b}\n`}@@ -1 +1 @@\n-x\n+y\n`).flatMap((f) => [f.from, f.path]);
  expect(named('"a/caf\\303\\251.txt"', '"b/caf\\303\\251.txt"')).toEqual(['', 'café.txt']);
  expect(named('"a/a\\tb \\"c\\\\\\n\\001"', '"b/a\\tb \\"c\\\\\\n\\001"')).toEqual(['', 'a\tb "c\\\n\u0001']);
  expect(named('a/with space.txt', 'b/with space.txt', '--- a/with space.txt\t\n+++ b/with space.txt\t\n')).toEqual(['', 'with space.txt']);
  expect(named('a/old', '"b/\\347\\214\\253"', 'similarity index 90%\nrename from old\nrename to "\\347\\214\\253"\n')).toEqual(['old', '猫']);
  expect(named('"a/\\347\\214\\253"', '"b/\\347\\214\\253"', 'new file mode 100644\nBinary files differ\n')).toEqual(['', '猫']);
});
