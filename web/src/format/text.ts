// Text of strangers: what cannot be seen, or would change the order of what is seen, is shown as what
// it is.

export const HIDDEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const LINES = /[\t\n]/g;

const HIDDEN_FEW = 16; // So many are shown as what they are, in however short a text.
const HIDDEN_SHARE = 10; // One of so many characters, or it is no text to people.
const HIDDEN_MAX = 2_000; // So many can be made visible without a browser standing still.

/** Whether all that is hidden can be shown as what it is. */
export function isFewHidden(text: string): boolean {
  return hiddenIn(text) <= HIDDEN_MAX;
}

/** Whether people would call it text. */
export function isReadable(text: string): boolean {
  const hidden = hiddenIn(text);
  const most = Math.max(HIDDEN_FEW, Math.min(HIDDEN_MAX, text.length / HIDDEN_SHARE));
  return !text.includes('\0') && hidden <= most;
}

function hiddenIn(text: string): number {
  return text.replaceAll('\r\n', '\n').match(HIDDEN)?.length ?? 0;
}

/** Whether some of it is written from right to left. */
export function hasRightToLeft(text: string): boolean {
  return /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\ud802\ud803\ud83a\ud83b]/.test(text);
}

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
