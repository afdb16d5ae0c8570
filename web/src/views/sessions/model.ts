// Sessions as they are listed: which are shown, in which order, and when each would end.

import type { ApiError } from '../../api/error';
import type { ListedSession, Sessions } from '../../api/types';
import { isNewer } from '../../api/zxid';

export const PAGE = 1_000; // Sessions of one request, as many as a replica gives.
export const LOADED_MAX = 20; // Pages that are kept.
export const SHOWN_MAX = 300; // Rows of the table.

export const SORTS = ['opened', 'left', 'heard', 'ephemerals'] as const;

export type Sort = (typeof SORTS)[number];

export interface Listing {
  sessions: ListedSession[];
  more: boolean;
  /** Some replica has told when each was heard of. */
  hearsAll: boolean;
  /** By this browser's clock. */
  at: number;
}

export type AskPage = (
  query: Record<string, string | number>,
  leader: boolean,
) => Promise<Sessions>;

/** Asks the leader first, which alone knows the last contact of each session; then the serving replica. */
function asker(ask: AskPage): (query: Record<string, string | number>) => Promise<Sessions> {
  let leader = true;
  return (query) =>
    ask(query, leader).catch((error: ApiError) => {
      if (!leader) {
        throw error;
      }
      leader = false;
      return ask(query, false);
    });
}

/** `pages` of them. */
export async function listSessions(ask: AskPage, pages: number): Promise<Listing> {
  const askPage = asker(ask);
  const all: ListedSession[] = [];
  let hearsAll = true;
  let after: string | undefined;
  for (let page = 0; page < pages; page += 1) {
    const part = await askPage({ view: 'list', limit: PAGE, ...(after ? { after } : {}) });
    all.push(...part.sessions);
    hearsAll &&= part.hears_all;
    after = part.more ? part.after : undefined;
    if (!after) {
      break;
    }
  }
  return { sessions: all, more: after !== undefined, hearsAll, at: Date.now() };
}

/** The previous id: lists continue after one. */
function before(id: string): string | undefined {
  return /^0x[0-9a-f]{1,16}$/.test(id) && id !== '0x0'
    ? `0x${(BigInt(id) - 1n).toString(16)}`
    : undefined;
}

/** The one of that id alone, or none. */
export async function findSession(ask: AskPage, id: string): Promise<Listing> {
  const after = before(id);
  const { sessions, hears_all: hearsAll } = after
    ? await asker(ask)({ view: 'list', limit: 1, after })
    : { sessions: [], hears_all: true };
  const found = sessions.filter(({ session }) => session === id);
  return { sessions: found, more: false, hearsAll, at: Date.now() };
}

/** Milliseconds until it ends if nothing more is heard; undefined: that is not known here. */
export function timeLeft(session: ListedSession, at: number, now: number): number | undefined {
  const { heard_ms: heard, timeout_ms: timeout } = session;
  return heard === undefined ? undefined : Math.max(0, timeout - heard - (now - at));
}

const FAR = Number.MAX_SAFE_INTEGER;

const orders: Record<Sort, (a: ListedSession, b: ListedSession) => number> = {
  opened: (a, b) => (isNewer(a.session, b.session) ? -1 : 1),
  left: (a, b) => leftOf(a) - leftOf(b),
  heard: (a, b) => (b.heard_ms ?? FAR) - (a.heard_ms ?? FAR),
  ephemerals: (a, b) => b.ephemerals - a.ephemerals,
};

function leftOf({ heard_ms: heard, timeout_ms: timeout }: ListedSession): number {
  return heard === undefined ? FAR : timeout - heard;
}

export function arrange(sessions: ListedSession[], filter: string, sort: Sort): ListedSession[] {
  const wanted = filter.trim().toLowerCase();
  return sessions
    .filter(({ session, address, identity = '' }) =>
      [session, address, identity].some((text) => text.toLowerCase().includes(wanted)),
    )
    .sort(orders[sort]);
}
