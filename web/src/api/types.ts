// The objects of the contract by short names. The generated files come from openapi/ when the checks
// run; they hold types only, so a build does without them.

import type { components as Messages } from './asyncapi.gen';
import type { components as Rest } from './openapi.gen';

export type Status = Rest['schemas']['Status'];
export type Ensemble = Rest['schemas']['Ensemble'];
export type Member = Rest['schemas']['Member'];
export type MemberShort = Rest['schemas']['MemberShort'];
export type WaitingReplica = Rest['schemas']['WaitingReplica'];
export type MembersChanged = Rest['schemas']['MembersChanged'];
export type ChangeReason = Rest['schemas']['ChangeReason'];
export type Identity = Rest['schemas']['Identity'];
export type Whoami = Rest['schemas']['Whoami'];
export type MetricsHistory = Rest['schemas']['MetricsHistory'];
export type ListedSession = Rest['schemas']['ListedSession'];
export type Sessions = Rest['schemas']['Sessions'];
export type WatchList = Rest['schemas']['WatchList'];
export type Limits = Rest['schemas']['Limits'];
export type Import = Rest['schemas']['Import'];
export type ExportHead = Rest['schemas']['ExportHead'];
export type ExportEnd = Rest['schemas']['ExportEnd'];
/** `import`: how far it came. `reason` and `config_version`: of a change of the members. */
export type Problem = Rest['schemas']['ProblemBase'] & {
  import?: Import;
  reason?: ChangeReason;
  config_version?: string;
};
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

/** What the caller may do there, where `perms` was asked for. */
export interface PermsReply {
  perms?: Perm[];
}

export interface StatReply extends Reply, PermsReply {
  path: string;
  stat: Stat;
}

export interface DataReply extends StatReply {
  data64?: string;
}

export interface AclReply extends StatReply {
  acl: AclEntry[];
  aversion: number;
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

/** What one read of a multi has given. */
export type ReadResult =
  | {
      ok: true;
      path: string;
      stat: Stat;
      data64?: string;
      /** Of `children`, with `more` when there are others behind these. */
      children?: ChildEntry[];
      more?: boolean;
      /** Of `exists`; false: there is no stat. */
      exists?: boolean;
    }
  | { ok: false; path: string; error: Partial<Problem> };

/** All as of one zxid. */
export interface MultiReply extends Reply {
  results: ReadResult[];
}

export interface SearchReply extends Reply {
  nodes: { path: string; stat?: Stat; hidden?: true }[];
  more: boolean;
  after?: string;
  looked: number;
}

/** Operations that are reads, by their reply. */
export interface Reads {
  children: ChildrenReply;
  get: DataReply;
  stat: StatReply;
  getacl: AclReply;
  /** Of reads alone. */
  multi: MultiReply;
  search: SearchReply;
  status: StatusReply;
  ensemble: EnsembleReply;
  whoami: WhoamiReply;
  ephemerals: Reply & { session: string; ephemerals: string[]; more: boolean; after?: string };
  limits: Reply & { limits: Limits };
}
