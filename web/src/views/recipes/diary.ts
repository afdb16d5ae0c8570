// The changes between two pictures of a directory: members that joined and left, and the turn.

import type { ChildEntry } from '../../api/types';
import { childOf } from '../../format/path';
import type { Picture } from './model';
import { placesOf, standings } from './shape';

const NAMED = 3; // Of more only the number is shown.

export interface Entry {
  at: number; // ms since 1970
  came: string[];
  gone: string[];
  /** Told of more than a few instead of all names. */
  cameCount: number;
  goneCount: number;
  /** The new first member. */
  first: string | undefined;
}

/** Znodes that represent a member, by their paths. */
export function listed({ path, children, inner, kind }: Picture): Map<string, ChildEntry> {
  const all = new Map<string, ChildEntry>();
  const add = (folder: string, list: ChildEntry[] = []) => {
    for (const one of list) {
      all.set(childOf(folder, one.name), one);
    }
  };
  if (kind === 'semaphore') {
    add(childOf(path, 'leases'), inner.leases?.children);
    add(childOf(path, 'line'), inner.line?.children);
  } else if (kind === 'barrier') {
    add(childOf(path, 'members'), inner.members?.children);
  } else {
    add(path, children);
  }
  return all;
}

function firstOf({ path, children, kind }: Picture): string | undefined {
  if (kind !== 'lock' && kind !== 'election' && kind !== 'rwlock') {
    return undefined;
  }
  const first = standings(placesOf(children))[0];
  return first && childOf(path, first.place.name);
}

/** undefined: nothing that one would tell. */
export function compare(
  before: Picture,
  after: Picture,
  label: (path: string) => string,
  at = Date.now(),
): Entry | undefined {
  const old = listed(before);
  const now = listed(after);
  // One of that name may have been made again.
  const isNew = ([path, { stat }]: [string, ChildEntry], others: Map<string, ChildEntry>) =>
    !others.has(path) || others.get(path)?.stat?.czxid !== stat?.czxid;
  const came = [...now].filter((one) => isNew(one, old)).map(([path]) => path);
  const gone = [...old].filter((one) => isNew(one, now)).map(([path]) => path);
  const first = firstOf(after);
  const turned = first !== undefined && first !== firstOf(before);
  if (before.kind !== after.kind || (came.length === 0 && gone.length === 0)) {
    return undefined;
  }
  return {
    at,
    came: came.slice(0, NAMED).map(label),
    gone: gone.slice(0, NAMED).map(label),
    cameCount: came.length,
    goneCount: gone.length,
    first: turned ? label(first) : undefined,
  };
}
