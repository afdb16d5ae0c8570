// One replica: what it says of itself, or that it says nothing.

import type { ComponentChildren } from 'preact';
import type { Ensemble, Member } from '../../api/types';
import { counterOf, epochOf } from '../../api/zxid';
import { urlOf } from '../../app/router';
import { duration } from '../../format/time';
import { epochCounter } from '../../format/zxid';
import { locale } from '../../i18n';
import { Button } from '../../ui/button';
import { Copy } from '../../ui/copy';
import { Icon } from '../../ui/icon';
import { answers } from '../overview/health';
import { say as sayRole } from '../overview/texts';
import type { What } from './change/dialog';
import type { Action } from './change/model';
import { say as sayChange } from './change/texts';
import { configuredAs, whyNoChange } from './members';
import { say } from './texts';

const LAMPS: Partial<Record<string, string>> = {
  leader: 'good',
  follower: 'good',
  observer: 'good',
  joining: 'warn',
  looking: 'warn',
};

const IN_STEP = ['leader', 'follower', 'observer'];

/** What may be done with one, by its role. */
const ACTIONS: Record<Member['role'], Action[]> = {
  voter: ['demote', 'move', 'replace', 'remove'],
  observer: ['promote', 'move', 'remove'],
  'empty-seat': ['move', 'replace', 'remove'],
};

/** Transactions between the leader and `zxid`; undefined where that is unknown. */
export function behind(zxid: string, leader: string | undefined): number | undefined {
  if (!leader || epochOf(zxid) !== epochOf(leader)) {
    return undefined;
  }
  return Math.max(0, counterOf(leader) - counterOf(zxid));
}

interface Props {
  member: Member;
  /** What the leader has come to. */
  newest: string | undefined;
  leads: boolean;
  serves: boolean;
  all: Ensemble;
  onChange: (what: What) => void;
}

export function MemberCard({ member, newest, leads, serves, all, onChange }: Props) {
  const { id, state = 'unknown', state_ms: since, heard_ms: heard } = member;
  const here = answers(member);
  return (
    <section
      class={here ? 'panel replica' : 'panel replica away'}
      aria-labelledby={`replica-${id}`}
      data-state={state}
    >
      <header>
        <h2 id={`replica-${id}`}>{say('member', { id })}</h2>
        {leads && <span class="chip">{say('leads')}</span>}
        {serves && <span class="chip">{say('serves')}</span>}
        <span class="spacer" />
        {here && member.client && (
          <a href={urlOf('metrics', '/', { replica: String(id) })}>{say('metrics')}</a>
        )}
      </header>
      <p class="replica-state">
        <span class={`dot ${LAMPS[state] ?? 'bad'}`}>{sayRole(`state_${state}`)}</span>
        {here && since !== undefined && (
          <span class="hint">{say('since', { age: duration(since) })}</span>
        )}
        {member.draining && here && <span class="chip warn">{say('draining')}</span>}
      </p>
      {!here && <Absence member={member} />}
      {!here && heard !== undefined && <p class="hint replica-last">{say('last_known')}</p>}
      <Facts member={member} newest={here && !leads ? newest : undefined} seenBy={all.seen_by} />
      <Actions member={member} reason={whyNoChange(all)} onChange={onChange} />
    </section>
  );
}

interface ActionsProps {
  member: Member;
  /** Why none of them can be done. */
  reason: string | undefined;
  onChange: (what: What) => void;
}

function Actions({ member: { id, role }, reason, onChange }: ActionsProps) {
  return (
    <footer class="replica-actions" role="group" aria-label={say('change', { id })}>
      {ACTIONS[role].map((action) => (
        <Button
          key={action}
          kind={action === 'remove' ? 'danger' : 'plain'}
          reason={reason}
          onClick={() => onChange({ action, id })}
        >
          {sayChange(`action_${action}`)}
        </Button>
      ))}
    </footer>
  );
}

function Absence({ member: { state, heard_ms: heard } }: { member: Member }) {
  const kind = state === 'silent' ? 'silent' : 'unreachable';
  return (
    <p class="replica-absence">
      <Icon name="warning" />
      {heard === undefined ? say(`${kind}_never`) : say(kind, { age: duration(heard) })}
    </p>
  );
}

function Row({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Address({ address }: { address: string }) {
  return (
    <span class="inline">
      <code title={address}>{address}</code>
      <Copy text={address} />
    </span>
  );
}

/** What it said may be older than what the leader did: a little behind says nothing. */
function ZxidValue({
  zxid,
  newest,
  heard,
}: {
  zxid: string;
  newest: string | undefined;
  heard: number;
}) {
  const count = behind(zxid, newest);
  return (
    <>
      <code title={zxid}>{epochCounter(zxid)}</code>{' '}
      {count !== undefined && (
        <span class="hint">
          {count === 0 ? say('even') : say('behind', { count, age: duration(heard) })}
        </span>
      )}
    </>
  );
}

const ms = (value: number) =>
  `${value.toLocaleString(locale(), { maximumFractionDigits: value < 10 ? 1 : 0 })} ms`;

function inStep(member: Member): string {
  if (!answers(member)) {
    return say('in_step_unknown');
  }
  return say(IN_STEP.includes(member.state ?? '') ? 'in_step_yes' : 'in_step_no');
}

function syncOf({ log_sync_p50_ms: half, log_sync_p99_ms: most }: Member): string {
  return typeof half === 'number' && typeof most === 'number'
    ? say('sync_value', { half: ms(half), most: ms(most) })
    : say('sync_none');
}

function Facts({
  member,
  newest,
  seenBy,
}: {
  member: Member;
  newest: string | undefined;
  seenBy: number;
}) {
  const { zxid, epoch, lag_ms: lag, heard_ms: heard, uptime_ms: up, version, client } = member;
  const self = member.id === seenBy;
  return (
    <dl class="replica-facts">
      <Row title={say('configured')}>{configuredAs(member)}</Row>
      <Row title={say('in_step')}>{inStep(member)}</Row>
      {zxid && (
        <Row title={say('zxid')}>
          <ZxidValue zxid={zxid} newest={newest} heard={heard ?? 0} />
        </Row>
      )}
      {epoch !== undefined && <Row title={say('epoch')}>{epoch.toLocaleString(locale())}</Row>}
      {lag !== undefined && <Row title={say('lag')}>{say('ago', { age: duration(lag) })}</Row>}
      {lag !== undefined && <Row title={say('sync')}>{syncOf(member)}</Row>}
      {member.disk_low !== undefined && (
        <Row title={say('disk')}>
          {member.disk_low ? <span class="dot bad">{say('disk_low')}</span> : say('disk_ok')}
        </Row>
      )}
      <Row title={say('heard')}>
        {self
          ? say('heard_now')
          : heard === undefined
            ? say('heard_never', { id: seenBy })
            : say('ago', { age: duration(heard) })}
      </Row>
      {up !== undefined && <Row title={say('uptime')}>{duration(up)}</Row>}
      {version && <Row title={say('version')}>{version}</Row>}
      <Row title={say('for_clients')}>
        {client ? <Address address={new URL(client).host} /> : say('no_client')}
      </Row>
      <Row title={say('for_peers')}>
        <Address address={member.peer} />
      </Row>
      {member.zone && <Row title={say('zone')}>{member.zone}</Row>}
      {member.sealed && (
        <Row title={say('sealed')}>
          {member.sealed === 'no' ? (
            <span class="dot warn">{say('sealed_no')}</span>
          ) : (
            say(`sealed_${member.sealed}`)
          )}
        </Row>
      )}
    </dl>
  );
}
