// The members as a whole: what they tolerate, a change that is under way, replicas that wait, disks that
// are out.

import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import type { Ensemble, MemberShort, WaitingReplica } from '../../api/types';
import { whoami } from '../../app/cluster';
import { identity, loginOpen } from '../../app/identity';
import { whyNoWrites } from '../../app/writes';
import { visibleText } from '../../format/text';
import { duration } from '../../format/time';
import { epochCounter } from '../../format/zxid';
import { locale } from '../../i18n';
import { Button } from '../../ui/button';
import { Copy } from '../../ui/copy';
import { Docs } from '../../ui/docs';
import { Icon } from '../../ui/icon';
import { Table } from '../../ui/table';
import { useNow } from '../../ui/use_now';
import type { What } from './change/dialog';
import { votersIn } from './change/model';
import { say as sayChange } from './change/texts';
import { say } from './texts';

const MEMBERS_LEVEL = 2; // From this feature level on members can be changed.
const SECOND_MS = 1_000;
const ROLES = { voter: 'voter', observer: 'observer', 'empty-seat': 'empty_seat' } as const;

/** "voters: 1, 2, 3; observers: 4" */
export function listOf(members: MemberShort[]): string {
  return (['voter', 'empty-seat', 'observer'] as const)
    .flatMap((kind) => {
      const ids = members.filter(({ role }) => role === kind).map(({ id }) => id);
      return ids.length > 0 ? [say(`all_${ROLES[kind]}`, { ids: ids.join(', ') })] : [];
    })
    .join(say('and'));
}

/** What it is by the configuration, whatever it does now. */
export function configuredAs({ role, joining, votes }: MemberShort & { votes?: boolean }): string {
  if (joining) {
    return say('configured_joining');
  }
  return say(
    role === 'voter' && votes === false ? 'configured_not_yet' : `configured_${ROLES[role]}`,
  );
}

/** Why the members cannot be changed here and now; undefined: as far as the page knows they can. */
export function whyNoChange({ level }: Ensemble): string | undefined {
  if (!whoami.value?.super) {
    return sayChange('only_super');
  }
  return whyNoWrites() ?? (level < MEMBERS_LEVEL ? say('level_low') : undefined);
}

interface Props {
  all: Ensemble;
  onChange: (what: What) => void;
}

export function Members({ all, onChange }: Props) {
  const { list_differs: differs, pending, removed, waiting, seen_by: at } = all;
  return (
    <>
      <section class="panel" aria-labelledby="members">
        <header>
          <h2 id="members">{say('members')}</h2>
          <Button icon="plus" reason={whyNoChange(all)} onClick={() => onChange({ action: 'add' })}>
            {sayChange('title_add')}
          </Button>
        </header>
        {!whoami.value?.super && <OnlySuper />}
        <Facts all={all} />
        {pending && <Pending version={pending.version} members={pending.members} />}
        {differs && (
          <p class="members-note">
            <Icon name="info" />
            <span>{say('list_differs', { id: at, why: visibleText(differs) })}</span>
          </p>
        )}
        {removed.length > 0 && <Removed removed={removed} />}
        <p class="members-docs">
          <Docs page="operating" section="Changing the members" />
        </p>
      </section>
      {waiting.length > 0 && <WaitingPanel all={all} onChange={onChange} />}
    </>
  );
}

function OnlySuper() {
  return (
    <p class="members-note">
      <Icon name="lock" />
      <span>{say('only_super')}</span>
      {!identity.value && (
        <Button
          icon="user"
          onClick={() => {
            loginOpen.value = true;
          }}
        >
          {say('sign_in')}
        </Button>
      )}
    </p>
  );
}

function Fact({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div class="fact">
      <dt>{title}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Tolerance({ tolerance }: { tolerance: number | null }) {
  if (tolerance === null) {
    return <span class="dot bad">{say('tolerance_unknown')}</span>;
  }
  if (tolerance > 0) {
    return <span class="dot">{tolerance.toLocaleString(locale())}</span>;
  }
  return tolerance === 0 ? (
    <span class="dot warn">{say('tolerance_none')}</span>
  ) : (
    <span class="dot bad">{say('tolerance_less')}</span>
  );
}

function Facts({ all }: { all: Ensemble }) {
  const { members, tolerance, in_step: count, config_version: version, level, hold } = all;
  return (
    <dl class="facts">
      <Fact title={say('tolerance')}>
        <Tolerance tolerance={tolerance} />
      </Fact>
      <Fact title={say('voters_in_step')}>
        {say('voters_in_step_value', { count, voters: votersIn(members) })}
      </Fact>
      <Fact title={say('config_version')}>
        <code title={version}>{epochCounter(version)}</code>
      </Fact>
      <Fact title={say('level')}>
        {hold === null ? String(level) : say('level_held', { level, hold })}
      </Fact>
    </dl>
  );
}

/** Since when: no replica tells, so it is how long this page has seen it. */
function Pending({ version, members }: { version: string; members: MemberShort[] }) {
  const now = useNow();
  const seen = useRef({ version, at: Date.now() });
  if (seen.current.version !== version) {
    seen.current = { version, at: Date.now() };
  }
  const age = duration(Math.max(SECOND_MS, now.value - seen.current.at));
  return (
    <div class="members-note warn">
      <Icon name="clock" />
      <div>
        <p>{say('pending', { version: epochCounter(version), age })}</p>
        <p>{say('pending_members', { members: listOf(members) })}</p>
      </div>
    </div>
  );
}

function Removed({ removed }: Pick<Ensemble, 'removed'>) {
  return (
    <details class="members-more">
      <summary>
        {say('removed')} <span class="count">{removed.length}</span>
      </summary>
      <p class="hint">{say('removed_hint')}</p>
      <Table
        caption={say('removed')}
        rows={[...removed].reverse()}
        keyOf={({ id, zxid }) => `${id} ${zxid}`}
        columns={[
          { name: 'id', title: say('waiting_id'), cell: ({ id }) => id },
          {
            name: 'zxid',
            title: say('removed_by'),
            cell: ({ zxid }) => <code title={zxid}>{epochCounter(zxid)}</code>,
          },
        ]}
      />
    </details>
  );
}

function WaitingPanel({ all, onChange }: Props) {
  const reason = whyNoChange(all);
  const text = (one: WaitingReplica, name: 'peer' | 'client' | 'zone') =>
    one[name] ? <code>{visibleText(one[name])}</code> : '—';
  return (
    <section class="panel" aria-labelledby="waiting">
      <header>
        <h2 id="waiting">{say('waiting')}</h2>
        <span class="count">{all.waiting.length}</span>
      </header>
      <p class="hint panel-note">{say('waiting_hint', { id: all.seen_by })}</p>
      <Table
        caption={say('waiting')}
        rows={all.waiting}
        keyOf={({ id, peer }) => `${id} ${peer}`}
        columns={[
          { name: 'id', title: say('waiting_id'), cell: ({ id }) => id },
          {
            name: 'action',
            title: say('waiting_action'),
            cell: (one) => (
              <span class="inline">
                <Button
                  icon="plus"
                  reason={reason}
                  onClick={() => onChange({ action: 'add', waiting: one })}
                >
                  {sayChange('do_add', { id: one.id })}
                </Button>
                {one.command && <Copy text={one.command} label={say('copy_command')} />}
              </span>
            ),
          },
          { name: 'peer', title: say('for_peers'), cell: (one) => text(one, 'peer') },
          { name: 'client', title: say('for_clients'), cell: (one) => text(one, 'client') },
          { name: 'zone', title: say('zone'), cell: (one) => text(one, 'zone') },
          {
            name: 'since',
            title: say('waiting_since'),
            cell: ({ waits_ms: ms }) => duration(ms),
          },
          {
            name: 'reason',
            title: say('waiting_reason'),
            cell: ({ reason: why }) => (why ? <code>{why}</code> : '—'),
          },
        ]}
      />
    </section>
  );
}
