// A change of the members: what is asked of the server, and what the ensemble risks by it. Without DOM.

import { type Signal, signal } from '@preact/signals';
import { ApiError } from '../../../api/error';
import type { Http, HttpRequest } from '../../../api/http';
import { requestKey } from '../../../api/key';
import type { Ensemble, Member, MembersChanged } from '../../../api/types';
import { answers } from '../../overview/health';

export type Action = 'add' | 'promote' | 'demote' | 'move' | 'replace' | 'remove';

/** What a member has, as the form shows it. */
export interface Texts {
  /** host:port for replicas, and for clients; '': not known. */
  peer: string;
  client: string;
  zone: string;
}

/** What the user wants, as typed. */
export interface Wish extends Texts {
  action: Action;
  /** The member that is changed; of `add` there is none yet. */
  id: number;
  /** Of `add` and `replace`: the one that comes. */
  other: string;
  autoPromote: boolean;
  /** Although no failure will be tolerated. */
  force: boolean;
  /** What the member had when the dialog was opened. */
  had: Texts;
}

export type Field = 'other' | keyof Texts;

export type Fault = 'bad_id' | 'bad_peer' | 'bad_client' | 'bad_zone' | 'unchanged';

const ID_MAX = 65_535;
const PORT_MAX = 65_535;
const PEER_MAX = 261; // Bytes, as the contract has them.
const CLIENT_MAX = 255;
const ZONE_MAX = 63;
const VERSION = '0x';

export const NO_TEXTS: Texts = { peer: '', client: '', zone: '' };

export function newWish(action: Action, id: number, had: Texts = NO_TEXTS): Wish {
  return { action, id, other: '', autoPromote: false, force: false, ...had, had };
}

export function textsOf({ peer, client, zone }: Member): Texts {
  return { peer, client: client ? new URL(client).host : '', zone: zone ?? '' };
}

/** Whether the form has fields; the other actions need none. */
export function hasFields({ action }: Wish): boolean {
  return action === 'add' || action === 'move';
}

// ---- What is wrong with the fields ----

/** 0: it is none. */
export function idOf(text: string): number {
  const id = /^\d{1,5}$/.test(text.trim()) ? Number(text) : 0;
  return id <= ID_MAX ? id : 0;
}

function isAddress(text: string, max: number): boolean {
  const port = Number(/^[!-~]+:(\d{1,5})$/.exec(text)?.[1] ?? 0);
  return text.length <= max && port >= 1 && port <= PORT_MAX;
}

/** Only what needs no server to see. */
export function faultsOf(wish: Wish): Partial<Record<Field, Fault>> {
  const { action, had, peer, client, zone } = wish;
  const faults: Partial<Record<Field, Fault>> = {};
  if (!hasFields(wish)) {
    return faults;
  }
  if (action === 'add' && idOf(wish.other) === 0) {
    faults.other = 'bad_id';
  }
  if (!isAddress(peer, PEER_MAX) && !(action === 'move' && peer === had.peer)) {
    faults.peer = 'bad_peer';
  }
  if (client !== '' && !isAddress(client, CLIENT_MAX)) {
    faults.client = 'bad_client';
  }
  if (zone.length > ZONE_MAX || !/^[!-~]*$/.test(zone)) {
    faults.zone = 'bad_zone';
  }
  if (action === 'move' && peer === had.peer && client === had.client && zone === had.zone) {
    faults.peer = 'unchanged';
  }
  return faults;
}

// ---- What is sent ----

interface Request {
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  /** undefined: options go into the query. */
  body?: Record<string, unknown>;
}

interface Options {
  dryRun?: true;
  force?: true;
  minTolerance?: number;
}

const MEMBERS = '/ensemble/v1/members';

function added({ other, peer, client, zone, autoPromote }: Wish): Request {
  const body = {
    id: idOf(other),
    peer,
    ...(client ? { client } : {}),
    ...(zone ? { zone } : {}),
    ...(autoPromote ? { autoPromote } : {}),
  };
  return { method: 'POST', path: MEMBERS, body };
}

/** Only what differs: the rest stays, also where this page knows another address than the ensemble. */
function moved({ id, had, peer, client, zone }: Wish): Request {
  const body = {
    ...(peer !== had.peer ? { peer } : {}),
    ...(client !== had.client ? { client } : {}),
    ...(zone !== had.zone ? { zone } : {}),
  };
  return { method: 'PUT', path: `${MEMBERS}/${id}`, body };
}

function requestOf(wish: Wish): Request {
  const { action, id, other } = wish;
  const path = `${MEMBERS}/${id}`;
  switch (action) {
    case 'add':
      return added(wish);
    case 'move':
      return moved(wish);
    case 'promote':
      return { method: 'PUT', path, body: { role: 'voter' } };
    case 'demote':
      return { method: 'PUT', path, body: { role: 'observer' } };
    case 'replace':
      return { method: 'PATCH', path: MEMBERS, body: { remove: [id], promote: [idOf(other)] } };
    case 'remove':
      return { method: 'DELETE', path };
  }
}

/** Whether it may change what the ensemble tolerates. */
function changesVoters({ action }: Wish): boolean {
  return action !== 'add' && action !== 'move';
}

export interface Sent {
  method: string;
  path: string;
  request: HttpRequest;
}

function sentOf(wish: Wish, options: Options, headers: Record<string, string>): Sent {
  const { method, path, body } = requestOf(wish);
  if (!body) {
    return { method, path, request: { query: { ...options }, headers } };
  }
  return {
    method,
    path,
    request: {
      headers: { ...headers, 'Content-Type': 'application/json' },
      body: JSON.stringify({ ...body, ...options }),
    },
  };
}

/** The leader judges it, and changes nothing. */
export function trialOf(wish: Wish): Sent {
  return sentOf(wish, { dryRun: true, ...(wish.force ? { force: true } : {}) }, {});
}

export function etagOf(version: string): string {
  return `"m${version.slice(VERSION.length)}"`;
}

/** The change that was judged, of the members that it was judged with. It is refused if fewer failures
 * would be tolerated than the user was shown. */
export function changeOf(wish: Wish, { previous, tolerance }: MembersChanged, key: string): Sent {
  const options: Options = changesVoters(wish)
    ? {
        ...(wish.force ? { force: true } : {}),
        ...(tolerance.after >= 0 ? { minTolerance: tolerance.after } : {}),
      }
    : {};
  return sentOf(wish, options, { 'If-Match': etagOf(previous), 'Idempotency-Key': key });
}

// ---- What it risks ----

export interface Risk {
  level: 'good' | 'info' | 'warn' | 'bad';
  /** Key of its sentence in texts.ts. */
  text:
    | 'risk_add'
    | 'risk_alone'
    | 'risk_auto'
    | 'risk_away'
    | 'risk_demote'
    | 'risk_disk'
    | 'risk_even'
    | 'risk_fewer'
    | 'risk_home'
    | 'risk_leader'
    | 'risk_more'
    | 'risk_move'
    | 'risk_move_voter'
    | 'risk_one'
    | 'risk_one_still'
    | 'risk_promote'
    | 'risk_same'
    | 'risk_serves'
    | 'risk_unheard';
  values: Record<string, string | number>;
}

export function votersIn(members: { role: string }[]): number {
  return members.filter(({ role }) => role === 'voter').length;
}

/** What it means for the failures that the ensemble survives. */
function toleranceRisk(voters: number, { before, after }: MembersChanged['tolerance']): Risk {
  const values = { before: Math.max(0, before), after: Math.max(0, after) };
  if (voters === 1) {
    return { level: 'bad', text: 'risk_alone', values };
  }
  if (after <= 0) {
    return { level: 'bad', text: before > 0 ? 'risk_one' : 'risk_one_still', values };
  }
  if (after < before) {
    return { level: 'warn', text: 'risk_fewer', values };
  }
  return { level: 'good', text: after > before ? 'risk_more' : 'risk_same', values };
}

function votersRisks(voters: number, inStep: number): Risk[] {
  const risks: Risk[] = [];
  if (inStep < voters) {
    risks.push({ level: 'warn', text: 'risk_away', values: { away: voters - inStep, voters } });
  }
  if (voters > 1 && voters % 2 === 0) {
    risks.push({ level: 'warn', text: 'risk_even', values: { voters, fewer: voters - 1 } });
  }
  return risks;
}

/** Of the member that leaves. `host`: host:port of the replica that the page was loaded from. */
function leavingRisks({ id }: Wish, { members, seen_by: at }: Ensemble, host: string): Risk[] {
  const member = members.find((one) => one.id === id);
  const values = { id };
  const risks: Risk[] = [{ level: 'warn', text: 'risk_disk', values }];
  if (member && id !== at && !answers(member)) {
    risks.push({ level: 'warn', text: 'risk_unheard', values });
  }
  if (member && textsOf(member).client === host) {
    risks.push({ level: 'warn', text: 'risk_home', values }); // Members refuse pages of others.
  } else if (id === at) {
    risks.push({ level: 'info', text: 'risk_serves', values });
  }
  return risks;
}

/** Of the member that the change takes something from. */
function memberRisks(wish: Wish, all: Ensemble, host: string): Risk[] {
  const { action, id } = wish;
  const { members, leader } = all;
  const leaves = action === 'remove' || action === 'replace';
  const values = { id };
  const risks: Risk[] = [];
  if (id === leader && (leaves || action === 'demote')) {
    risks.push({ level: 'warn', text: 'risk_leader', values });
  }
  if (leaves) {
    risks.push(...leavingRisks(wish, all, host));
  }
  if (action === 'move') {
    const member = members.find((one) => one.id === id);
    const text = member?.role === 'voter' ? 'risk_move_voter' : 'risk_move';
    risks.push({ level: 'warn', text, values });
  }
  if (action === 'demote') {
    risks.push({ level: 'info', text: 'risk_demote', values });
  }
  return risks;
}

/** Of the member that gets something. */
function newcomerRisks({ action, id, other, autoPromote }: Wish, voters: number): Risk[] {
  const values = { voters, majority: Math.floor(voters / 2) + 1 };
  if (action === 'add') {
    const newcomer: Risk = { level: 'info', text: 'risk_add', values: { id: idOf(other) } };
    const auto: Risk = { level: 'warn', text: 'risk_auto', values: { voters: voters + 1 } };
    return autoPromote ? [newcomer, auto] : [newcomer];
  }
  if (action === 'promote' || action === 'replace') {
    const newcomer = action === 'promote' ? id : idOf(other);
    return [{ level: 'info', text: 'risk_promote', values: { id: newcomer, ...values } }];
  }
  return [];
}

/** The first one is what the ensemble tolerates. */
export function risksOf(
  wish: Wish,
  verdict: MembersChanged,
  ensemble: Ensemble,
  host = location.host,
): Risk[] {
  const voters = votersIn(verdict.members);
  return [
    toleranceRisk(voters, verdict.tolerance),
    ...votersRisks(voters, verdict.in_step),
    ...memberRisks(wish, ensemble, host),
    ...newcomerRisks(wish, voters),
  ];
}

/** The user types the id before it is done: the disk of a voter never comes back. */
export function isGrave({ action, id }: Wish, { members }: Ensemble): boolean {
  const leaves = action === 'remove' || action === 'replace';
  return leaves && members.some((one) => one.id === id && one.role !== 'observer');
}

// ---- Whether it is done ----

/** What the members show, where no answer has said it. */
export function isDone(wish: Wish, { members }: Ensemble): boolean {
  const roleOf = (id: number) => members.find((one) => one.id === id)?.role;
  const { action, id, other, had } = wish;
  switch (action) {
    case 'add':
      return roleOf(idOf(other)) !== undefined;
    case 'promote':
      return roleOf(id) === 'voter';
    case 'demote':
      return roleOf(id) === 'observer';
    case 'remove':
      return roleOf(id) === undefined;
    case 'replace':
      return roleOf(id) === undefined && roleOf(idOf(other)) === 'voter';
    case 'move': {
      const member = members.find((one) => one.id === id);
      const now = member ? textsOf(member) : had;
      return (['peer', 'client', 'zone'] as const).every(
        (name) => wish[name] === had[name] || wish[name] === now[name],
      );
    }
  }
}

// ---- One change ----

export type State =
  /** Not judged, or the form has changed since. */
  | { at: 'open' }
  /** The leader judges it. */
  | { at: 'asking' }
  /** It may be done. */
  | { at: 'judged'; verdict: MembersChanged }
  /** It may not, or the leader could not be asked. */
  | { at: 'refused'; error: ApiError }
  | { at: 'sent'; verdict: MembersChanged }
  /** It was judged to be right, but was not done. */
  | { at: 'failed'; error: ApiError; seen: string }
  /** It may have been done: only the same request is sent again. */
  | { at: 'unknown'; error: ApiError; verdict: MembersChanged }
  | { at: 'done'; verdict: MembersChanged };

/** Reasons of a refusal that end by themselves. */
const PASSING = ['NotInStep', 'UnderWay'];

/** Also of the change itself: a new leader, to which the old one has handed over, has not seen for long
 * that an observer is in step. */
export function passes(state: State): boolean {
  const refused = state.at === 'refused' || state.at === 'failed';
  return refused && PASSING.includes(state.error.problem.reason ?? '');
}

function asError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError({ detail: (error as Error).message });
}

/** Whether it was not done and will not be. After an unknown outcome other refusals are of the repetition
 * alone, but with other members also the first request does nothing any more. */
function isOver({ outcome, code }: ApiError, before: State['at']): boolean {
  return outcome !== 'unknown' && (before !== 'unknown' || code === 'BadVersion');
}

/** From the form to the outcome. All its attempts have one key, so that it is done once. */
export class MemberChange {
  readonly state: Signal<State> = signal<State>({ at: 'open' });
  private readonly http: Pick<Http, 'send'>;
  private readonly ms: () => number;
  private readonly key = requestKey();
  private turn = 0;
  private last: Sent | undefined;

  /** `ms`: after which a replica that does not answer is taken for lost. */
  constructor(http: Pick<Http, 'send'>, ms: () => number) {
    this.http = http;
    this.ms = ms;
  }

  /** The form has changed: what was judged is another change. */
  reopen(): void {
    const { at } = this.state.peek();
    if (at !== 'sent' && at !== 'unknown' && at !== 'done') {
      this.turn += 1;
      this.state.value = { at: 'open' };
    }
  }

  /** `quiet`: what was said stays until the answer is there. */
  async judge(wish: Wish, quiet = false): Promise<void> {
    this.turn += 1;
    const turn = this.turn;
    if (!quiet) {
      this.state.value = { at: 'asking' };
    }
    const next: State = await this.answer(trialOf(wish)).then(
      (verdict) => ({ at: 'judged', verdict }),
      (error) => ({ at: 'refused', error: asError(error) }),
    );
    if (turn === this.turn) {
      this.state.value = next;
    }
  }

  /** Does what was judged; after an unknown outcome sends the same request again. */
  async run(wish: Wish): Promise<void> {
    const before = this.state.peek();
    if (before.at !== 'judged' && before.at !== 'unknown') {
      return;
    }
    const { verdict } = before;
    if (before.at === 'judged') {
      this.last = changeOf(wish, verdict, this.key);
    }
    this.turn += 1;
    this.state.value = { at: 'sent', verdict };
    try {
      this.state.value = { at: 'done', verdict: await this.answer(this.last as Sent) };
    } catch (problem) {
      const error = asError(problem);
      this.state.value = isOver(error, before.at)
        ? { at: 'failed', error, seen: verdict.previous }
        : { at: 'unknown', error, verdict };
    }
  }

  private async answer({ method, path, request }: Sent): Promise<MembersChanged> {
    const signal = AbortSignal.timeout(this.ms());
    const response = await this.http.send(method, path, { ...request, signal });
    return (await response.json()) as MembersChanged;
  }
}
