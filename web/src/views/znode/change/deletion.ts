// What is to be deleted: counted beforehand, then deleted as it was counted, all or nothing. Knows no
// page.

import { requestKey } from '../../../api/key';
import type { Socket } from '../../../api/socket';
import type { Reply, Stat } from '../../../api/types';
import { ancestorsOf } from '../../../format/path';

/** One that was chosen; its stat as it was seen. */
export interface Chosen {
  path: string;
  stat: Stat;
}

export interface Counted extends Chosen {
  /** With all below it, and itself. */
  count: number;
}

export const MANY = 10; // To delete this many, the user types their number.
const NO_NAME = '/'; // Holds no name, so a search finds nothing and only counts.
const PAGES_MAX = 1_000; // Of one count.

/** Those that do not go with another one anyway. */
export function topmost<One extends { path: string }>(all: One[]): One[] {
  const paths = new Set(all.map(({ path }) => path));
  const above = (path: string) => ancestorsOf(path).slice(0, -1);
  return all.filter(({ path }) => !above(path).some((one) => paths.has(one)));
}

/** Stops counting above `max`: so many cannot be deleted at once. */
export async function count(
  socket: Pick<Socket, 'read'>,
  chosen: Chosen[],
  max: number,
): Promise<Counted[]> {
  const counted: Counted[] = [];
  let all = 0;
  for (const one of topmost(chosen)) {
    const below = await countBelow(socket, one, max - all);
    counted.push({ ...one, count: below });
    all += below;
  }
  return counted;
}

async function countBelow(
  socket: Pick<Socket, 'read'>,
  { path, stat }: Chosen,
  max: number,
): Promise<number> {
  let looked = stat.numChildren === 0 ? 1 : 0;
  let after: string | undefined;
  for (let page = 0; stat.numChildren > 0 && looked <= max && page < PAGES_MAX; page += 1) {
    const members = { path, name: NO_NAME, ...(after ? { after } : {}) };
    const reply = await socket.read('search', members);
    looked += reply.looked;
    after = reply.more ? reply.after : undefined;
    if (after === undefined) {
      break;
    }
  }
  return looked;
}

export function total(counted: Counted[]): number {
  return counted.reduce((sum, { count: one }) => sum + one, 0);
}

/** The operations of one transaction. What has changed since, or has more below it now, stops it. */
export function deletesOf(counted: Counted[]): object[] {
  return counted.map(({ path, stat, count: max }) => ({
    op: 'delete',
    path,
    version: stat.version,
    czxid: stat.czxid,
    ...(max > 1 ? { recursive: true, max } : {}),
  }));
}

export class Deletion {
  private readonly socket: Pick<Socket, 'write'>;
  private readonly counted: Counted[];
  private readonly key = requestKey(); // Asked again it is the same deletion.

  constructor(socket: Pick<Socket, 'write'>, counted: Counted[]) {
    this.socket = socket;
    this.counted = counted;
  }

  async run(): Promise<void> {
    await this.socket.write<Reply>('multi', { ops: deletesOf(this.counted), key: this.key });
  }
}
