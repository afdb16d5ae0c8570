// The health of what the page shows, decided in one place: from how the connection is, what the serving
// replica said last, and how long ago. Header, banners, buttons and the overview all follow it.

import type { Link } from '../api/socket';
import type { Ensemble, Member, Status } from '../api/types';

export type Condition =
  /** Fresh, and writes are done. */
  | 'live'
  /** Fresh, but the serving replica refuses writes of its clients. */
  | 'read_only'
  /** The serving replica is late with its answers, behind its leader, or electing one. */
  | 'stale'
  /** No majority of the voters, or no leader for long: no write can be done. */
  | 'no_quorum'
  /** The connection is lost; another replica is being tried. */
  | 'reconnecting'
  /** No replica answers. */
  | 'offline';

export const LAG_MS = 1_000; // A leader sends several heartbeats a second.
export const LATE_MS = 2_500; // The serving replica is asked once a second.
const ELECTION_MS = 5_000; // A leader is elected sooner, where it can be.
const HEARD_MS = 30_000; // What was said of the majority holds so long, while none says otherwise.

/** What the serving replica said, and when. */
export interface Look {
  status: Status;
  ensemble: Ensemble;
  /** On the clock of `Known.now`. */
  at: number;
}

export interface Known {
  link: Link;
  /** Id of the replica at the other end; undefined: there is none now. */
  server: number | undefined;
  look: Look | undefined;
  /** When a replica was last connected. */
  heard: number;
  now: number;
}

/** Whether the answering replica counts its vote now. */
export function isVoting({ role, connected, votes, state }: Member): boolean {
  return role === 'voter' && connected === true && votes === true && state !== 'silent';
}

export interface Votes {
  voters: number;
  voting: number;
  quorum: number;
}

export function votesOf({ members }: Ensemble): Votes {
  const voters = members.filter(({ role }) => role === 'voter').length;
  const voting = members.filter(isVoting).length;
  return { voters, voting, quorum: Math.floor(voters / 2) + 1 };
}

/** Whether the replica that has said so is no member of an ensemble yet: it waits to be added. */
export function isOutside({ members }: Ensemble): boolean {
  return members.length === 0;
}

function hasQuorum({ ensemble, status }: Look): boolean {
  const { voting, quorum } = votesOf(ensemble);
  const electing = ensemble.leader === 0 && status.lag_ms <= ELECTION_MS;
  return voting >= quorum && (ensemble.leader !== 0 || electing);
}

export type Lateness =
  /** It does not answer. */
  | 'answer'
  /** It knows of no leader. */
  | 'election'
  /** It is not in step with its leader. */
  | 'step'
  /** It has not heard from its leader. */
  | 'leader';

/** Why `stale`; undefined: it is not. */
export function lateness({ look, now }: Known): Lateness | undefined {
  if (!look || now - look.at > LATE_MS) {
    return 'answer';
  }
  if (look.ensemble.leader === 0) {
    return 'election';
  }
  if (!look.status.serving) {
    return 'step';
  }
  return look.status.lag_ms > LAG_MS ? 'leader' : undefined;
}

export function conditionOf(known: Known): Condition {
  const { link, server, look, heard, now } = known;
  const quorum = !look || hasQuorum(look);
  if (link !== 'live') {
    if (look && !quorum && now - Math.max(heard, look.at) < HEARD_MS) {
      return 'no_quorum'; // Without one, replicas close connections soon: the page goes round.
    }
    return link === 'offline' ? 'offline' : 'reconnecting';
  }
  if (!look || (server !== undefined && look.status.id !== server)) {
    return 'reconnecting'; // What is known was said by another replica.
  }
  if (!quorum) {
    return 'no_quorum';
  }
  if (lateness(known)) {
    return 'stale';
  }
  return look.status.read_only ? 'read_only' : 'live';
}
