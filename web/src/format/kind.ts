// What kind of znode it is.

import type { Stat } from '../api/types';

export function isEphemeral({ ephemeralOwner }: Pick<Stat, 'ephemeralOwner'>): boolean {
  return ephemeralOwner !== '0x0';
}

/** Ten digits at the end are how sequential names look; nothing else tells. */
export function isSequential(name: string): boolean {
  return /\d{10}$/.test(name);
}
