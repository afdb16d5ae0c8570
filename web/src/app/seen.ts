// Whether the page is visible.

import type { Seen } from '../api/looks';

export const page: Seen = {
  isSeen: () => !document.hidden,
  follow: (act) => {
    document.addEventListener('visibilitychange', act);
    return () => document.removeEventListener('visibilitychange', act);
  },
};
