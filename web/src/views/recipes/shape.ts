// What a directory is, by the names of its znodes: those of docs/recipes and of `zabra lock` and the
// like, and what libraries of ZooKeeper call theirs. Pure.

import type { ChildEntry, Stat } from '../../api/types';
import { isEphemeral } from '../../format/kind';
import { nameOf, parentOf } from '../../format/path';
import { visibleName } from '../../format/text';

export const KINDS = [
  'lock',
  'rwlock',
  'election',
  'semaphore',
  'group',
  'barrier',
  'queue',
  'counter',
] as const;

export type Kind = (typeof KINDS)[number];

/** Directories within a recipe's directory. */
export const INNER = ['line', 'leases', 'members'] as const;

export type Inner = (typeof INNER)[number];

/** Where the command line puts what is named without a path. */
export const FOLDERS: Record<string, Kind> = {
  '/locks': 'lock',
  '/election': 'election',
  '/semaphores': 'semaphore',
  '/groups': 'group',
  '/barriers': 'barrier',
  '/queues': 'queue',
  '/counters': 'counter',
};

/** A directory as it was read. */
export interface Directory {
  path: string;
  stat: Stat;
  /** Its data, when that is short text. */
  text: string | undefined;
  children: ChildEntry[];
}

type Role = 'candidate' | 'item' | 'lease' | 'lock' | 'reader' | 'writer';

/** Names before the number, as zabra's recipes, Curator and kazoo have them. */
const ROLES: [RegExp, Role][] = [
  [/(^|-)(read-|__READ__)$|__rlock__$/, 'reader'],
  [/(^|-)(write-|__WRIT__)$/, 'writer'],
  [/(^|-)(candidate-|latch-|n_)$/, 'candidate'],
  [/(^|-)lease-$/, 'lease'],
  [/(^|-)(item-|queue-|qn-|entry-)$/, 'item'],
  [/(^|-)lock-$|__lock__$/, 'lock'],
];

/** A znode that stands in a line: its number decides, whatever stands before it. */
export interface Place {
  name: string;
  number: number;
  role: Role;
  stat: Stat | undefined;
}

const NUMBERED = /^(.*?)(\d{10})$/s;

/** undefined: it has no number, so it stands in no line. */
export function placeOf({ name, stat }: ChildEntry): Place | undefined {
  const [, before, digits] = NUMBERED.exec(name) ?? [];
  if (before === undefined || digits === undefined) {
    return undefined;
  }
  const other = stat && !isEphemeral(stat) ? 'item' : 'lock';
  const role = ROLES.find(([pattern]) => pattern.test(before))?.[1] ?? other;
  return { name, number: Number(digits), role, stat };
}

/** In the order in which they came. */
export function placesOf(children: ChildEntry[]): Place[] {
  return children
    .flatMap((child) => placeOf(child) ?? [])
    .sort((a, b) => a.number - b.number || (a.name < b.name ? -1 : 1));
}

/** undefined: nothing that is known. */
export function guess({ path, stat, text, children }: Directory): Kind | undefined {
  if (children.length === 0) {
    return guessEmpty(path, stat, text);
  }
  const among = (names: string[]) => children.every(({ name }) => names.includes(name));
  if (among(['leases', 'line', 'locks'])) {
    return 'semaphore';
  }
  if (among(['members', 'ready'])) {
    return 'barrier';
  }
  return byPlaces(placesOf(children)) ?? (children.every(isMember) ? 'group' : undefined);
}

function byPlaces(places: Place[]): Kind | undefined {
  const has = (role: Role) => places.some((place) => place.role === role);
  if (has('reader') || has('writer')) {
    return 'rwlock';
  }
  if (has('candidate')) {
    return 'election';
  }
  if (has('lease')) {
    return 'semaphore';
  }
  return has('lock') ? 'lock' : has('item') ? 'queue' : undefined;
}

function isMember({ stat }: ChildEntry): boolean {
  return stat !== undefined && isEphemeral(stat);
}

/** Recipes whose queue is empty, or that never have children: detected by their path. */
function guessEmpty(path: string, stat: Stat, text: string | undefined): Kind | undefined {
  const folder = FOLDERS[parentOf(path)];
  if (folder) {
    return folder;
  }
  if (text !== undefined && /^-?\d{1,19}$/.test(text)) {
    return 'counter';
  }
  return isEphemeral(stat) ? 'lock' : undefined;
}

// ---- Holders and waiters ----

export interface Standing {
  place: Place;
  holds: boolean;
  /** Whose end lets it look again. */
  waitsFor: Place | undefined;
}

/** A lock or an election: one holds, each other waits for the one just before it. With readers and
 * writers: all readers before the first writer hold, later ones wait for the last writer before. */
export function standings(places: Place[]): Standing[] {
  let writer: Place | undefined; // The last one so far.
  return places.map((place, at) => {
    const shares = place.role === 'reader';
    const waitsFor = shares ? writer : places[at - 1];
    writer = shares ? writer : place;
    return { place, holds: waitsFor === undefined, waitsFor };
  });
}

/** Readers that came one after the other stand side by side. */
export function sideBySide(all: Standing[]): Standing[][] {
  const steps: Standing[][] = [];
  for (const one of all) {
    const last = steps.at(-1);
    const shares = one.place.role === 'reader' && last?.[0]?.place.role === 'reader';
    if (last && shares && last[0]?.waitsFor === one.waitsFor) {
      last.push(one);
    } else {
      steps.push([one]);
    }
  }
  return steps;
}

/** A lease of a session that still stands in the line is one that it waits for. */
export function leasesOf(leases: Place[], line: Place[]): { held: Place[]; asked: Place[] } {
  const waiting = new Set(line.map(({ stat }) => stat?.ephemeralOwner));
  const held = leases.filter(({ stat }) => !waiting.has(stat?.ephemeralOwner));
  return { held, asked: leases.filter((lease) => !held.includes(lease)) };
}

const LABEL_MAX = 64;

/** What it calls itself, where it says so in one short line, or else the name of its znode. */
export function labelOf(path: string, text: string | undefined): string {
  const line = text?.trim();
  const short = line && line.length <= LABEL_MAX && !/[\n{]/.test(line);
  return visibleName(short ? line : nameOf(path));
}
