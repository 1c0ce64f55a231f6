// Markdown of agents, which is hostile: it becomes elements here and nowhere else, after two
// filters. markdown-it escapes all HTML and makes links of http and https only; DOMPurify then
// keeps a small list of elements and attributes. Images are links: nothing is loaded.
//
//   setMarkdown(element, text)    replaces the children of an element
//
// src/lib/attacks.json is what both filters are tested with, here and in a real browser.

import MarkdownIt from 'markdown-it';
import DOMPurify from 'dompurify';
import { plainText } from './plaintext';

/** Characters that are read as Markdown; the rest is shown as it is. */
export const maxMarkdown = 100_000;

const md = new MarkdownIt({ html: false, linkify: true, typographer: false, breaks: false, maxNesting: 24 });
md.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
for (const scheme of ['ftp:', 'mailto:', '//']) md.linkify.add(scheme, null);
md.validateLink = (url) => web.test(url);

const web = /^https?:\/\/[^\s/\\]/i;

md.core.ruler.push('linesman', (state) => {
  for (const block of state.tokens) {
    if (block.type === 'heading_open' || block.type === 'heading_close') block.tag = 'h2'; // one level, that of turns: no heading before it may be on the screen
    if (block.type === 'th_open' || block.type === 'td_open') block.attrs = null; // style attributes
    if (block.type === 'fence') block.info = '';
    if (!block.children) continue;
    let links = 0;
    for (const token of block.children) {
      if (token.type === 'link_open') {
        links++;
        const href = String(token.attrGet('href') ?? '');
        token.attrs = attributes(href);
      } else if (token.type === 'link_close') {
        links--;
      } else if (token.type === 'image') {
        token.meta = { inLink: links > 0 };
      } else if (token.type === 'text') {
        token.content = plainText(token.content); // of entities
      }
    }
  }
});

// The title is where the link leads, whatever its text says.
function attributes(href: string): [string, string][] {
  return [['href', href], ['title', href], ['target', '_blank'], ['rel', 'noopener noreferrer nofollow']];
}

md.renderer.rules['image'] = (tokens, i) => {
  const token = tokens[i]!;
  const escape = md.utils.escapeHtml;
  const src = String(token.attrGet('src') ?? '');
  const text = escape(token.content || src);
  if ((token.meta as { inLink: boolean } | null)?.inLink || !web.test(src)) return text;
  return `<a ${attributes(src).map(([k, v]) => `${k}="${escape(v)}"`).join(' ')}>${text}</a>`;
};

/** The first filter: Markdown as HTML. Not to be inserted anywhere; exported for its tests. */
export function markdownHTML(text: string): string {
  return md.render(plainText(text));
}

const allowed = {
  ALLOWED_TAGS: [
    'p', 'br', 'em', 'strong', 's', 'code', 'pre', 'a', 'ul', 'ol', 'li', 'blockquote', 'h2', 'hr',
    'table', 'thead', 'tbody', 'tr', 'th', 'td', '#text',
  ],
  ALLOWED_ATTR: ['href', 'title', 'target', 'rel', 'start'],
  ALLOWED_URI_REGEXP: web,
  ADD_URI_SAFE_ATTR: ['title', 'target', 'rel', 'start'], // they are no addresses
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOW_UNKNOWN_PROTOCOLS: false,
  SANITIZE_NAMED_PROPS: true,
  KEEP_CONTENT: false,
  RETURN_DOM_FRAGMENT: true as const,
};

/** Replaces the children of an element with a text in Markdown. */
export function setMarkdown(element: Element, text: string): void {
  if (!DOMPurify.isSupported) {
    element.textContent = plainText(text);
    return;
  }
  const fragment = DOMPurify.sanitize(markdownHTML(text.slice(0, maxMarkdown)), allowed);
  if (text.length > maxMarkdown) {
    const rest = document.createElement('pre');
    rest.textContent = plainText(text.slice(maxMarkdown));
    fragment.append(rest);
  }
  element.replaceChildren(fragment);
}
