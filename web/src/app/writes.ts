// Whether writes can be done at all now, whatever the rights: from the one health of the page.

import { condition, readOnly } from './cluster';
import { say } from './texts';

/** Why the serving replica would not do any write; undefined: as far as the page knows it would. A late
 * replica is no reason: a write waits for it, or is asked again with its key. */
export function whyNoWrites(): string | undefined {
  switch (condition.value) {
    case 'no_quorum':
      return say('no_writes_quorum');
    case 'offline':
      return say('no_writes_offline');
    default:
      return readOnly.value ? say('no_writes_read_only') : undefined;
  }
}
