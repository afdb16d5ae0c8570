// Bookmarked znodes, stored in this browser.

import { signal } from '@preact/signals';
import { remember, remembered } from '../../app/settings';

const NAME = 'bookmarks';
const MAX = 50;

function isPath(value: unknown): value is string {
  return typeof value === 'string' && value.startsWith('/');
}

function stored(): string[] {
  const found = remembered(NAME);
  return Array.isArray(found) ? found.filter(isPath).slice(0, MAX) : [];
}

/** The last one that was added comes first. */
export const bookmarks = signal<string[]>(stored());

export function toggleBookmark(path: string): void {
  const others = bookmarks.peek().filter((one) => one !== path);
  const known = others.length < bookmarks.peek().length;
  bookmarks.value = known ? others : [path, ...others].slice(0, MAX);
  remember(NAME, bookmarks.value);
}
