// Text of agents as it can be shown safely: what it does to a terminal or to the order of
// characters is removed or made visible. Pure.
//
//   plainText('\x1b[31mred')    'red'
//   plainText('a\u202eb')       'a‹U+202E›b'
//   revealed('a\u200b\x1bb')     'a⟨U+200B⟩⟨U+001B⟩b': nothing is removed, for what a person is to decide on

// Escape sequences of terminals: CSI, OSC and the like with their end, and other escapes.
// eslint-disable-next-line no-control-regex
const escapes = /(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]{0,4096}(?:\x07|\x1b\\|\x9c)|\x1b[ -/]{0,8}[0-~]/g;
// Control characters but tab and line feed, embeddings, overrides and isolates of text direction, marks of
// direction, invisible separators, tags, and halves of surrogate pairs.
const odd = /\r\n|[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;
const suspicious = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]/;

export function plainText(text: string): string {
  if (!suspicious.test(text)) return text;
  return text.replace(escapes, '').replace(odd, visible);
}

function visible(c: string): string {
  if (c === '\r\n' || c === '\r' || c === '\u2028' || c === '\u2029') return '\n';
  const code = c.codePointAt(0)!;
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return '\u2421';
  if (code === 0xfeff || code === 0x200b) return '';
  return `‹U+${code.toString(16).toUpperCase().padStart(4, '0')}›`;
}

// Characters that show nothing, or move what is around them: of the categories Cc, Cf, Co, Zs, Zl and Zp but line feed, tab,
// space and ideographic space, and halves of surrogate pairs. As ranges: the engine of the unit tests has no \p.
// eslint-disable-next-line no-control-regex
const unseen = /[\0-\x08\x0b-\x1f\x7f-\xa0\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\ue000-\uf8ff\ufeff\ufff9-\ufffb]|[\u{110bd}\u{110cd}\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e007f}\u{f0000}-\u{10ffff}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

/** A text with each character that cannot be seen as its code, as the server shows questions. */
export const revealed = (text: string): string =>
  text.replace(unseen, (c) => `⟨U+${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}⟩`);
