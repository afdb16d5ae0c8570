// Text of strangers: what cannot be seen, or would change the order of what is seen, is shown as what
// it is.

const HIDDEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const LINES = /[\t\n]/g;

function codeOf(char: string): string {
  return `\u2039${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}\u203a`;
}

/** For several lines: tabs and line ends stay. */
export function visibleText(text: string): string {
  return text.replace(HIDDEN, codeOf);
}

/** For one line: a name, a path. */
export function visibleName(text: string): string {
  return visibleText(text).replace(LINES, codeOf);
}
