// Is the ensemble well: one sentence, and what to look at. Only from what a replica tells.

import type { Ensemble, Member, Status } from '../../api/types';

export type Level = 'good' | 'warn' | 'bad';

export interface Warning {
  level: 'warn' | 'bad';
  /** Key of its sentence in texts.ts. */
  text:
    | 'warn_no_leader'
    | 'warn_quorum'
    | 'warn_unreachable'
    | 'warn_refused'
    | 'warn_lag'
    | 'warn_not_serving'
    | 'warn_draining'
    | 'warn_even'
    | 'warn_no_client';
  values: Record<string, string | number>;
  /** The page of docs/ that says what to do. */
  docs: string;
}

export interface Health {
  level: Level;
  voters: number;
  voting: number;
  quorum: number;
  warnings: Warning[];
}

const LAG_MS = 1_000; // A leader is heard several times a second.

/** Counted among those that decide; the one that answers, too. */
function isVoting(member: Member): boolean {
  return member.role === 'voter' && member.connected === true && member.votes === true;
}

function memberWarnings({ id, connected, refused, client }: Member): Warning[] {
  const warnings: Warning[] = [];
  if (refused) {
    warnings.push({
      level: 'bad',
      text: 'warn_refused',
      values: { id, why: refused },
      docs: 'operating',
    });
  } else if (connected !== true) {
    warnings.push({ level: 'warn', text: 'warn_unreachable', values: { id }, docs: 'operating' });
  } else if (!client) {
    warnings.push({ level: 'warn', text: 'warn_no_client', values: { id }, docs: 'configuration' });
  }
  return warnings;
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
    warnings.push({ level: 'warn', text: 'warn_lag', values: { id, ms: lag }, docs: 'guarantees' });
  }
  return warnings;
}

export function healthOf(ensemble: Ensemble, status: Status): Health {
  const voters = ensemble.members.filter(({ role }) => role === 'voter').length;
  const voting = ensemble.members.filter(isVoting).length;
  const quorum = Math.floor(voters / 2) + 1;
  const warnings = [...statusWarnings(status), ...ensemble.members.flatMap(memberWarnings)];
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
