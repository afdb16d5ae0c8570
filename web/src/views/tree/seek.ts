// Children by their name, looked for by the replica: a parent may have more of them than are ever loaded.

import type { Socket } from '../../api/socket';
import type { ChildEntry } from '../../api/types';
import { nameOf } from '../../format/path';

export const SEEK_MS = 250; // After the last letter of a filter.
const REQUESTS_MAX = 20; // Of one time; each looks at up to 10,000 children.

export interface Part {
  entries: ChildEntry[];
  /** There may be more behind this path. */
  after: string | undefined;
}

/** About `enough` children like `name`, in the order of their names, behind `after`. */
export async function seekChildren(
  socket: Pick<Socket, 'read'>,
  path: string,
  name: string,
  enough: number,
  after?: string,
): Promise<Part> {
  const part: Part = { entries: [], after };
  const members = { path, name, ignoreCase: true, depth: 1, with: 'stat', limit: enough };
  for (let asked = 0; asked < REQUESTS_MAX; asked += 1) {
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
    if (!part.after || part.entries.length >= enough) {
      break;
    }
  }
  return part;
}
