// Which znodes of a file are there already: of its first lines, for a list that people can look at.
// The replica reports the outcome of all of them.

import type { Socket } from '../../api/socket';
import { childOf } from '../../format/path';

const LINES = 500; // That many are looked at, in one request,
const BYTES = 1 << 20; // of so much of the file.
const SHOWN = 20;

export interface Existing {
  paths: string[];
  found: number;
  looked: number;
}

/** Paths of the lines of a file's beginning. Lines that are none are for the replica to refuse. */
export function pathsOf(top: string, text: string, whole: boolean): string[] {
  const lines = text.split('\n');
  return (whole ? lines : lines.slice(0, -1)).slice(0, LINES).flatMap((line) => {
    try {
      const { path, export: head } = JSON.parse(line);
      const isZnode = typeof path === 'string' && head === undefined;
      return isZnode ? [path === '' ? top : childOf(top, path)] : [];
    } catch {
      return [];
    }
  });
}

export async function existingOf(socket: Socket, top: string, file: Blob): Promise<Existing> {
  const paths = pathsOf(top, await file.slice(0, BYTES).text(), file.size <= BYTES);
  if (paths.length === 0) {
    return { paths: [], found: 0, looked: 0 };
  }
  const ops = paths.map((path) => ({ op: 'exists', path }));
  const { results } = await socket.read('multi', { ops });
  const found = paths.filter((_, at) => {
    const one = results[at];
    return one?.ok && one.exists === true;
  });
  return { paths: found.slice(0, SHOWN), found: found.length, looked: paths.length };
}
