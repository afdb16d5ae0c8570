// What the page knows beforehand of what the server will refuse. The server decides.

import type { Perm } from '../../../api/types';
import { whyNoWrites } from '../../../app/writes';
import { say } from './texts';

/** Why a write that needs `right` would be refused; undefined: as far as one knows it would not. */
export function reasonFor(right: Perm, perms: Perm[] | undefined): string | undefined {
  return whyNoWrites() ?? (perms && !perms.includes(right) ? say(`no_${right}`) : undefined);
}
