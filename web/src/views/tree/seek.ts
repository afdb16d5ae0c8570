// Children by their name, looked for by the replica: a parent may have more of them than are ever loaded.

import type { Socket } from '../../api/socket';
import type { ChildEntry } from '../../api/types';
import { compareNames, nameOf } from '../../format/path';

export const SEEK_MS = 250; // After the last letter of a filter.
export const PART_MS = 1_000; // Time after which a search leaves the rest to the next one.
const LIMIT = 500; // Children that one request finds; it looks at up to 10,000.

export interface Part {
  entries: ChildEntry[];
  /** There may be more behind this path; undefined: all children were looked at. */
  after: string | undefined;
}

interface Extent {
  /** It ends when so many were found ... */
  enough?: number;
  /** ... or when it is behind this path. */
  until?: string | undefined;
  /** It begins behind this path; undefined: at the first child. */
  after?: string | undefined;
}

/** Children like `name`, in the order of their names: as many as PART_MS suffices for. */
export async function seekChildren(
  socket: Pick<Socket, 'read'>,
  path: string,
  name: string,
  { enough = Number.POSITIVE_INFINITY, until, after }: Extent,
): Promise<Part> {
  const part: Part = { entries: [], after };
  const limit = Math.min(enough, LIMIT);
  const members = { path, name, ignoreCase: true, depth: 1, with: 'stat', limit } as const;
  const end = Date.now() + PART_MS;
  do {
    const reply = await socket.read('search', {
      ...members,
      ...(part.after ? { after: part.after } : {}),
    });
    for (const { path: one, ...more } of reply.nodes) {
      if (one !== path) {
        part.entries.push({ name: nameOf(one), ...more });
      }
    }
    part.after = reply.more ? reply.after : undefined;
  } while (
    part.after &&
    part.entries.length < enough &&
    !(until && reaches(path, part.after, until)) &&
    Date.now() < end
  );
  return part;
}

/** Whether a search that stands at `at` has looked at the child `until`, too. */
export function reaches(path: string, at: string, until: string): boolean {
  return compareNames(childAt(path, at), childAt(path, until)) >= 0;
}

/** `entries` with those behind `from` as they are now, as far as `part` goes. */
export function renewed(
  entries: ChildEntry[],
  path: string,
  from: string | undefined,
  part: Part,
): ChildEntry[] {
  const first = from ? childAt(path, from) : '';
  const last = part.after ? childAt(path, part.after) : undefined;
  return [
    ...entries.filter(({ name }) => compareNames(name, first) <= 0),
    ...part.entries,
    ...entries.filter(({ name }) => last !== undefined && compareNames(name, last) > 0),
  ];
}

/** A search begins at the parent itself, before all of its children. */
function childAt(path: string, at: string): string {
  return at === path ? '' : nameOf(at);
}
