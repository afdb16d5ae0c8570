// How the ensemble is, at one glance.

import type { ComponentChildren } from 'preact';
import type { Ensemble, Status } from '../../api/types';
import { ensemble, newestZxid, status, trouble } from '../../app/cluster';
import { duration } from '../../format/time';
import { epochCounter } from '../../format/zxid';
import { locale } from '../../i18n';
import { Failure, Loading } from '../../ui/state';
import { Table } from '../../ui/table';
import { healthOf } from './health';
import { HealthSentence, Warnings } from './health_panel';
import { say } from './texts';
import { Trends } from './trends';

export default function Overview() {
  const all = ensemble.value;
  const one = status.value;
  if (!all || !one) {
    return trouble.value ? <Failure error={trouble.value} /> : <Loading />;
  }
  const health = healthOf(all, one);
  return (
    <div class="overview">
      <h1 class="sr-only">{say('title')}</h1>
      <HealthSentence health={health} leader={all.leader} seenBy={all.seen_by} />
      <Warnings warnings={health.warnings} />
      <Facts status={one} ensemble={all} />
      <Trends />
      <section class="panel">
        <header>
          <h2>{say('members')}</h2>
          <span class="hint">{say('seen_by', { id: all.seen_by })}</span>
        </header>
        <Members ensemble={all} />
      </section>
    </div>
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

function Facts({ status: one, ensemble: all }: { status: Status; ensemble: Ensemble }) {
  const count = (value: number) => value.toLocaleString(locale());
  return (
    <section class="panel" aria-label={say('facts')}>
      <dl class="facts">
        <Fact title={say('znodes')}>{count(one.znodes)}</Fact>
        <Fact title={say('sessions')}>{count(one.sessions)}</Fact>
        <Fact title={say('ephemerals')}>{count(one.ephemerals)}</Fact>
        <Fact title={say('requests')}>{count(one.requests)}</Fact>
        <Fact title={say('leader')}>{all.leader || say('none')}</Fact>
        <Fact title={say('epoch')}>{count(one.epoch)}</Fact>
        <Fact title={say('zxid')}>
          <code title={newestZxid.value}>{epochCounter(newestZxid.value)}</code>
        </Fact>
        <Fact title={say('lag')}>{duration(one.lag_ms)}</Fact>
        <Fact title={say('uptime')}>{duration(one.uptime_ms)}</Fact>
        <Fact title={say('version')}>{one.version}</Fact>
        <Fact title={say('cluster')}>
          <code title={one.cluster}>{one.cluster.slice(0, 8)}</code>
        </Fact>
      </dl>
    </section>
  );
}

const LAMPS: Partial<Record<string, string>> = {
  leader: 'good',
  follower: 'good',
  observer: 'good',
  joining: 'warn',
  looking: 'warn',
};

function Members({ ensemble: all }: { ensemble: Ensemble }) {
  return (
    <Table
      caption={say('members')}
      rows={all.members}
      keyOf={({ id }) => id}
      columns={[
        {
          name: 'id',
          title: say('replica'),
          cell: ({ id }) => (
            <>
              {id} {id === all.seen_by && <span class="chip">{say('serves')}</span>}
            </>
          ),
        },
        {
          name: 'state',
          title: say('role'),
          cell: ({ state }) => (
            <span class={`dot ${LAMPS[state ?? 'unknown'] ?? 'bad'}`}>
              {say(`state_${state ?? 'unknown'}`)}
            </span>
          ),
        },
        {
          name: 'votes',
          title: say('votes'),
          cell: ({ votes }) => (votes ? say('yes') : say('no')),
        },
        {
          name: 'zxid',
          title: say('zxid'),
          cell: ({ zxid }) => (zxid ? <code title={zxid}>{epochCounter(zxid)}</code> : '—'),
        },
        {
          name: 'client',
          title: say('address'),
          cell: ({ client }) => (client ? <code>{new URL(client).host}</code> : say('none')),
        },
      ]}
    />
  );
}
