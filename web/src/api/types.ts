// The objects of the contract by short names. The generated files come from openapi/ when the checks
// run; they hold types only, so a build does without them.

import type { components as Messages } from './asyncapi.gen';
import type { components as Rest } from './openapi.gen';

export type Status = Rest['schemas']['Status'];
export type Ensemble = Rest['schemas']['Ensemble'];
export type Member = Rest['schemas']['Member'];
export type Whoami = Rest['schemas']['Whoami'];
export type MetricsHistory = Rest['schemas']['MetricsHistory'];
export type Limits = Rest['schemas']['Limits'];
export type Problem = Rest['schemas']['ProblemBase'];
export type AclEntry = Rest['schemas']['AclEntry'];
export type Perm = Rest['schemas']['Perm'];
export type Stat = Messages['schemas']['MessageStat'];
export type Hello = Messages['schemas']['Hello'];
export type Change = Messages['schemas']['Change'];
export type WatchKind = Messages['schemas']['WatchKind'];

/** A child in a list `with=stat`: of one that the caller may not read there is only the name. */
export interface ChildEntry {
  name: string;
  stat?: Stat;
  hidden?: true;
}

/** What every reply has. */
export interface Reply {
  id: number;
  ok: true;
  /** The state that it reflects, where it is about the tree. */
  zxid?: string;
}

export interface ChildrenReply extends Reply {
  path: string;
  children: ChildEntry[];
  more: boolean;
  after?: string;
  stat: Stat;
}

export interface DataReply extends Reply {
  path: string;
  data64?: string;
  stat: Stat;
}

export interface AclReply extends Reply {
  path: string;
  acl: AclEntry[];
  stat: Stat;
}

export interface StatusReply extends Reply {
  status: Status;
}

export interface EnsembleReply extends Reply {
  ensemble: Ensemble;
}

export interface WhoamiReply extends Reply {
  whoami: Whoami;
}

/** Operations that are reads, by their reply. */
export interface Reads {
  children: ChildrenReply;
  get: DataReply;
  stat: Reply & { path: string; stat: Stat };
  getacl: AclReply;
  status: StatusReply;
  ensemble: EnsembleReply;
  whoami: WhoamiReply;
  limits: Reply & { limits: Limits };
}
