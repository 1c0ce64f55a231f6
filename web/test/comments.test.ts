import { expect, test } from 'vitest';
import { Comments, ends, forgetComments, messageOf, pick, placeOf, quoteOf } from '../src/run/comments';
import { diffLines } from '../src/run/unified';

const store = (kept = new Map<string, string>()) => ({ getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) });
const comment = (text: string) => ({ place: 'a.go:1', quote: '> +a', text });

test('one line is selected, or all up to a second one', () => {
  const one = pick(undefined, 'c1-0', 5);
  expect(one).toEqual({ diff: 'c1-0', from: 5, to: 5 });
  const range = pick(one, 'c1-0', 2)!;
  expect(ends(range)).toEqual([2, 5]);
  expect(pick(range, 'c1-0', 7)).toEqual({ diff: 'c1-0', from: 7, to: 7 });
  expect(pick(range, 'c1-0', 7, true)).toEqual({ diff: 'c1-0', from: 5, to: 7 });
  expect(pick(range, 'c2-0', 1)).toEqual({ diff: 'c2-0', from: 1, to: 1 });
  expect(pick(one, 'c1-0', 5)).toBeUndefined();
});

test('a comment has the numbers after the change, or before it, if there are any', () => {
  const lines = diffLines('@@ -10,4 +12,4 @@\n one\n-two\n+deux\n three\n-four');
  const place = (from: number, to: number): string => placeOf('src/a.go', lines.slice(from, to));
  expect([place(1, 2), place(1, 5), place(2, 3), place(5, 6), placeOf('b\u202e.go', diffLines('+x'))]).toEqual(['src/a.go:12', 'src/a.go:12-14', 'src/a.go:11', 'src/a.go:13', 'b‹U+202E›.go']);
  expect(quoteOf(lines.slice(1, 4))).toBe('>  one\n> -two\n> +deux');
  const long = quoteOf(diffLines(`+${'x'.repeat(300)}\n`.repeat(25))).split('\n');
  expect([long.length, long[0]!.length, long.at(-1)]).toEqual([21, 203, '> … and 5 more']);
});

test('all comments are one message', () => {
  const comments = [{ place: 'a.go:12-14', quote: '> +a\n> +b', text: 'Rename it.' }, { place: 'b.go', quote: '> -c', text: 'Why?\nIt is used.' }];
  expect(messageOf(comments)).toBe('Comments on your changes:\n\na.go:12-14\n> +a\n> +b\n\nRename it.\n\nb.go\n> -c\n\nWhy?\nIt is used.');
});

test('comments stay until they were sent, and are bounded', () => {
  const kept = new Map<string, string>();
  const comments = new Comments('T-1', store(kept));
  comments.picked.value = pick(undefined, 'c1-0', 1);
  comments.text.value = 'typed';
  const first = comment('first');
  expect(comments.add(first)).toBe(true);
  expect([comments.picked.value, comments.text.value]).toEqual([undefined, '']);
  const sent = comments.list.value;
  comments.add(comment('later'));
  expect(new Comments('T-1', store(kept)).list.value.map((c) => c.text)).toEqual(['first', 'later']); // the page was loaded again
  comments.drop(sent);
  expect(new Comments('T-1', store(kept)).list.value.map((c) => c.text)).toEqual(['later']);
  while (comments.add(comment('more')));
  expect(comments.list.value.length).toBe(50);
  comments.drop(comments.list.value);
  comments.text.value = 'kept';
  while (comments.add({ ...first, text: 'x'.repeat(4000) }));
  expect(messageOf(comments.list.value).length).toBeLessThanOrEqual(80_000);
  for (let i = 2; i < 30; i++) new Comments(`T-${i}`, store(kept)).add(first);
  expect(Object.keys(JSON.parse(kept.get('linesman.comments')!) as object).length).toBe(16);
  forgetComments({ removeItem: (key) => void kept.delete(key) });
  expect(kept.size).toBe(0); // signed out
  for (const odd of ['', 'x', 'null', '[]']) expect(new Comments('T-1', store(new Map([['linesman.comments', odd]]))).list.value).toEqual([]);
});
