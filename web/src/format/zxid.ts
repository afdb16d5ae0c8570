// zxids as people read them.

import { counterOf, epochOf } from '../api/zxid';

/** "5:18": epoch and counter. */
export function epochCounter(zxid: string): string {
  return `${epochOf(zxid)}:${counterOf(zxid)}`;
}
