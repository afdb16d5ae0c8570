// Is the ensemble well: one sentence, and what to look at. Only from what a replica tells.

import type { Ensemble, Member, Status } from '../../api/types';
import { isOutside, LAG_MS, votesOf } from '../../app/condition';
import { duration } from '../../format/time';

export type Level = 'good' | 'warn' | 'bad';

export interface Warning {
  level: 'warn' | 'bad';
  /** Key of its sentence in texts.ts. */
  text:
    | 'warn_no_leader'
    | 'warn_quorum'
    | 'warn_unreachable'
    | 'warn_silent'
    | 'warn_joining'
    | 'warn_disk'
    | 'warn_sync'
    | 'warn_behind'
    | 'warn_versions'
    | 'warn_refused'
    | 'warn_duplicate'
    | 'warn_lag'
    | 'warn_not_serving'
    | 'warn_draining'
    | 'warn_even'
    | 'warn_no_client';
  values: Record<string, string | number>;
  /** The page of docs/ that says what to do. */
  docs: string;
  /** And its section. */
  section?: string;
}

export interface Health {
  level: Level;
  voters: number;
  voting: number;
  quorum: number;
  warnings: Warning[];
}

const HEARD_MS = 2_500; // Replicas report twice a second or more; a process that stands still does not.
const SLOW_SYNC_MS = 50; // Half of the syncs: single slow ones are nothing to worry about.

/** Whether what is known of it is of now. */
export function answers({ connected, state }: Member): boolean {
  return connected === true && state !== 'silent';
}

/** Follows a leader, or is it. What an old leader was is not what it is now. */
function isInStep({ state }: Member): boolean {
  return state === undefined || ['leader', 'follower', 'observer'].includes(state);
}

/** Why nothing can be said of it now. */
function absence({ id, connected, refused, heard_ms: heard }: Member): Warning {
  if (refused) {
    return {
      level: 'bad',
      text: 'warn_refused',
      values: { id, why: refused },
      docs: 'operating',
      section: 'Replicas do not find each other',
    };
  }
  return connected === true
    ? {
        level: 'warn',
        text: 'warn_silent',
        values: { id, time: duration(heard ?? 0) },
        docs: 'operating',
        section: 'Health',
      }
    : {
        level: 'warn',
        text: 'warn_unreachable',
        values: { id },
        docs: 'operating',
        section: 'A replica was killed',
      };
}

/** Two processes with its id: what else is said of it may be of the one or the other. */
function duplicate({ id, duplicate: why }: Member): Warning[] {
  const section = 'Two processes with one id';
  return why
    ? [{ level: 'bad', text: 'warn_duplicate', values: { id, why }, docs: 'operating', section }]
    : [];
}

function memberWarnings(member: Member, seenBy: number): Warning[] {
  const { id, client, disk_low: low, lag_ms: lag = 0, log_sync_p50_ms: sync } = member;
  const warnings: Warning[] = duplicate(member);
  if (member.refused || !answers(member) || (member.heard_ms ?? 0) > HEARD_MS) {
    return [...warnings, absence(member)];
  }
  if (!isInStep(member) && id !== seenBy) {
    const section = 'Health';
    warnings.push({
      level: 'warn',
      text: 'warn_joining',
      values: { id },
      docs: 'operating',
      section,
    });
  }
  if (low) {
    const section = 'A disk is full';
    warnings.push({ level: 'bad', text: 'warn_disk', values: { id }, docs: 'operating', section });
  }
  if (lag > LAG_MS && id !== seenBy) {
    const values = { id, time: duration(lag) };
    warnings.push({ level: 'warn', text: 'warn_behind', values, docs: 'guarantees' });
  }
  if (typeof sync === 'number' && sync > SLOW_SYNC_MS) {
    const values = { id, time: duration(sync) };
    const section = 'Disks';
    warnings.push({ level: 'warn', text: 'warn_sync', values, docs: 'operating', section });
  }
  if (!client) {
    warnings.push({
      level: 'warn',
      text: 'warn_no_client',
      values: { id },
      docs: 'configuration',
    });
  }
  return warnings;
}

/** In the middle of an upgrade, and only then. */
function versionWarnings({ members }: Ensemble): Warning[] {
  const versions = new Set(members.flatMap(({ version }) => (version ? [version] : [])));
  const values = { versions: [...versions].sort().join(', ') };
  const section = 'Upgrading';
  return versions.size > 1
    ? [{ level: 'warn', text: 'warn_versions', values, docs: 'operating', section }]
    : [];
}

function statusWarnings(status: Status): Warning[] {
  const { id, serving, draining, lag_ms: lag, reason } = status;
  const warnings: Warning[] = [];
  if (draining) {
    warnings.push({ level: 'warn', text: 'warn_draining', values: { id }, docs: 'operating' });
  } else if (!serving) {
    warnings.push({
      level: 'bad',
      text: 'warn_not_serving',
      values: { id, why: reason },
      docs: 'operating',
    });
  }
  if (lag > LAG_MS) {
    const values = { id, time: duration(lag) };
    warnings.push({ level: 'warn', text: 'warn_lag', values, docs: 'guarantees' });
  }
  return warnings;
}

/** Of a replica that waits to be added there is nothing else to say. */
function outsideWarnings({ id, reason }: Status): Warning[] {
  const section = 'Adding a replica';
  const values = { id, why: reason };
  return [{ level: 'bad', text: 'warn_not_serving', values, docs: 'operating', section }];
}

export function healthOf(ensemble: Ensemble, status: Status): Health {
  const { voters, voting, quorum } = votesOf(ensemble);
  if (isOutside(ensemble)) {
    return { level: 'bad', voters, voting, quorum, warnings: outsideWarnings(status) };
  }
  const warnings = [
    ...statusWarnings(status),
    ...ensemble.members.flatMap((one) => memberWarnings(one, ensemble.seen_by)),
    ...versionWarnings(ensemble),
  ];
  if (ensemble.leader === 0) {
    warnings.unshift({ level: 'bad', text: 'warn_no_leader', values: {}, docs: 'operating' });
  } else if (voting === quorum && voters > 1) {
    warnings.push({
      level: 'warn',
      text: 'warn_quorum',
      values: { voting, voters },
      docs: 'operating',
    });
  }
  if (voters % 2 === 0) {
    warnings.push({
      level: 'warn',
      text: 'warn_even',
      values: { voters, fewer: voters - 1 },
      docs: 'operating',
    });
  }
  const bad = warnings.some((one) => one.level === 'bad') || voting < quorum;
  return {
    level: bad ? 'bad' : warnings.length > 0 ? 'warn' : 'good',
    voters,
    voting,
    quorum,
    warnings,
  };
}
