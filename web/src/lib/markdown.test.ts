import { describe, expect, it } from 'vitest';
import { size } from '../../test/size';
import attacks from './attacks.json';
import { markdownHTML, maxMarkdown } from './markdown';
import { plainText } from './plaintext';

interface Attack { name: string; text?: string; prefix?: string; repeat?: [string, number]; suffix?: string }

function textOf(a: Attack): string {
  return a.text ?? (a.prefix ?? '') + a.repeat![0].repeat(a.repeat![1]) + (a.suffix ?? '');
}

// All that the first filter may print. An attribute value has neither quotes nor angle brackets.
const value = '[^"<>]*';
const link = `<a href="https?://${value}" title="https?://${value}" target="_blank" rel="noopener noreferrer nofollow">`;
const tag = new RegExp(`^(?:</?(?:p|em|strong|s|code|pre|ul|ol|li|blockquote|h2|table|thead|tbody|tr|th|td)>|<br>|<hr>|<ol start="\\d{1,9}">|</a>|${link})`, 'i');

/** Returns the first piece of HTML that is neither text nor one of those tags. */
function foreign(html: string): string | null {
  for (let at = html.indexOf('<'); at >= 0; at = html.indexOf('<', at + 1)) {
    const piece = html.slice(at, at + 4096);
    if (!tag.test(piece)) return piece.slice(0, 80);
  }
  return null;
}

describe('attacks', () => {
  it.each(attacks as unknown as Attack[])('$name', (attack) => {
    const html = markdownHTML(textOf(attack).slice(0, size(maxMarkdown)));
    expect(foreign(html)).toBeNull();
    // eslint-disable-next-line no-control-regex
    expect(html).not.toMatch(/[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/);
  });

  it('are at least 60', () => expect(attacks.length).toBeGreaterThanOrEqual(60));

  it('the check finds what is foreign', () => {
    for (const bad of ['<script>', '<p class="x">', '<a href="javascript:1">', '<img src="https://x">', '<ol start="1" onclick="x">']) {
      expect(foreign(`<p>x</p>${bad}`)).not.toBeNull();
    }
  });
});

describe('markdown', () => {
  it('is rendered', () => {
    expect(markdownHTML('# A\n\n**b** `c` [d](https://d.test)\n\n- e\n\n```go\nf\n```')).toBe(
      '<h2>A</h2>\n<p><strong>b</strong> <code>c</code> ' +
      '<a href="https://d.test" title="https://d.test" target="_blank" rel="noopener noreferrer nofollow">d</a></p>\n' +
      '<ul>\n<li>e</li>\n</ul>\n<pre><code>f\n</code></pre>\n');
  });

  it('makes links of http and https only', () => {
    expect(markdownHTML('see https://a.test/b, www.b.test, c@d.test, ftp://e.test')).toMatch(
      /^<p>see <a href="https:\/\/a\.test\/b"[^>]*>https:\/\/a\.test\/b<\/a>, www\.b\.test, c@d\.test, ftp:\/\/e\.test<\/p>\n$/);
    expect(markdownHTML('[x](mailto:a@b.test)')).toBe('<p>[x](mailto:a@b.test)</p>\n');
  });

  it('shows images as links', () => {
    expect(markdownHTML('![alt](https://a.test/p.png)')).toMatch(/^<p><a href="https:\/\/a\.test\/p\.png"[^>]*>alt<\/a><\/p>\n$/);
    expect(markdownHTML('[![alt](https://a.test/p.png)](https://b.test)')).toMatch(/^<p><a href="https:\/\/b\.test"[^>]*>alt<\/a><\/p>\n$/);
  });
});

describe('plain text', () => {
  it.each([
    ['red', '\x1b[31mred\x1b[0m'],
    ['link', '\x1b]8;;https://a.test\x1b\\link\x1b]8;;\x07'],
    ['a‹U+202E›b', 'a\u202eb'],
    ['a␀␇b\tc\nd', 'a\0\x07b\tc\r\nd'],
    ['ab', 'a\u200bb'],
    ['😀 ok é', '😀 ok é'],
    ['‹U+D800›x', '\ud800x'],
    ['‹U+E0041›', '\u{e0041}'],
    ['👩‍💻', '👩‍💻'],
  ])('%s', (want, text) => expect(plainText(text)).toBe(want));

  // Each of these begins an escape sequence that has no end: to look for one from each start takes too long.
  it.each(['\x9d', '\x90', '\x9e', '\x9d[a'])('a megabyte of %j', (begin) => {
    expect(plainText(begin.repeat(size(1e6) / begin.length))).toContain('‹');
  });
});
