// What can be gone to from the palette, and what of it fits what was typed. Pure.

export interface Item {
  /** Tells it from the others. */
  key: string;
  text: string;
  /** What kind of thing it is. */
  kind: string;
  act: () => void;
}

export const SHOWN = 12;

/** Those that hold each of the words. */
export function fitting(items: Item[], typed: string): Item[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  return items.filter(({ text, kind }) => {
    const all = `${text} ${kind}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
}

/** A path that is typed: whose children it may be one of, and how the name begins. */
export function typedPath(typed: string): { parent: string; start: string } | undefined {
  if (!typed.startsWith('/')) {
    return undefined;
  }
  const names = typed.split('/');
  const start = names.pop() ?? '';
  return { parent: `/${names.filter((name) => name !== '').join('/')}`, start };
}
