// All sessions, or the one that the URL names.

import { useSignal } from '@preact/signals';
import type { ListedSession, Sessions } from '../../api/types';
import { clientOf, ensemble, http, socket, whoami } from '../../app/cluster';
import { identity } from '../../app/identity';
import { navigate, route, urlOf } from '../../app/router';
import { visibleName } from '../../format/text';
import { duration, localTime, relativeTime } from '../../format/time';
import { locale } from '../../i18n';
import { Button } from '../../ui/button';
import { Empty, Failure, Loading } from '../../ui/state';
import { Table } from '../../ui/table';
import { useLive } from '../../ui/use_live';
import {
  arrange,
  findSession,
  type Listing,
  LOADED_MAX,
  listSessions,
  SHOWN_MAX,
  SORTS,
  type Sort,
} from './model';
import { Heard, Left } from './parts';
import { SessionView } from './session';
import { say } from './texts';

const LOOK_MS = 2_000;

/** Of the leader where it can be reached, else of the replica that serves. */
function ask(query: Record<string, string | number>, leader: boolean): Promise<Sessions> {
  const at = leader ? clientOf(ensemble.peek()?.leader ?? 0) : undefined;
  return http.json<Sessions>('/sessions/v1', query, at);
}

export default function SessionsView() {
  const { path } = route.value;
  return path === '/' ? <AllSessions /> : <OneSession key={path} id={path.slice(1)} />;
}

/** The replica that is asked, and the identity. */
function inputs(): unknown[] {
  return [socket.hello.value?.server, identity.value, ensemble.value?.leader];
}

function OneSession({ id }: { id: string }) {
  const { live, again } = useLive(() => findSession(ask, id), LOOK_MS, inputs());
  const { value, error } = live.value;
  return <SessionView id={id} listing={value} error={error} onChanged={again} />;
}

function AllSessions() {
  const pages = useSignal(1);
  const { live, again } = useLive(() => listSessions(ask, pages.peek()), LOOK_MS, inputs());
  const { value, error } = live.value;
  const more = () => {
    pages.value = Math.min(pages.value + 1, LOADED_MAX);
    again();
  };
  return (
    <div class="page">
      <h1 class="sr-only">{say('title')}</h1>
      {error && <Failure error={error} onRetry={again} />}
      {!value && !error && <Loading />}
      {value && <List listing={value} onMore={more} />}
    </div>
  );
}

/** Filter and order are in the URL. */
function change(name: string, value: string): void {
  const query = Object.fromEntries(route.peek().query);
  navigate(urlOf('sessions', '/', { ...query, [name]: value }), true);
}

function Bar({ filter, sort, total }: { filter: string; sort: Sort; total: number }) {
  return (
    <div class="bar sessions-bar">
      <input
        type="search"
        data-filter
        aria-label={say('filter')}
        placeholder={say('filter')}
        value={filter}
        onInput={(event) => change('filter', event.currentTarget.value)}
      />
      <select
        aria-label={say('sort')}
        value={sort}
        onChange={(event) => change('sort', event.currentTarget.value)}
      >
        {SORTS.map((one) => (
          <option key={one} value={one}>
            {say(`sort_${one}`)}
          </option>
        ))}
      </select>
      <span class="hint">{say('total', { count: total })}</span>
    </div>
  );
}

function List({ listing, onMore }: { listing: Listing; onMore: () => void }) {
  const { query } = route.value;
  const filter = query.get('filter') ?? '';
  const sort = SORTS.find((one) => one === query.get('sort')) ?? 'opened';
  const found = arrange(listing.sessions, filter, sort);
  const shown = found.slice(0, SHOWN_MAX);
  return (
    <section class="panel" aria-label={say('all')}>
      <Bar filter={filter} sort={sort} total={listing.sessions.length} />
      {shown.length > 0 ? (
        <Rows sessions={shown} at={listing.at} />
      ) : (
        <Empty icon="sessions">{say(listing.sessions.length === 0 ? 'none' : 'none_match')}</Empty>
      )}
      <div class="sessions-notes">
        {found.length > shown.length && (
          <p class="hint">{say('shown', { shown: shown.length, total: found.length })}</p>
        )}
        {whoami.value && !whoami.value.super && <p class="hint">{say('limited')}</p>}
        {!listing.hearsAll && <p class="hint">{say('ask_leader')}</p>}
        {listing.more && (
          <p class="inline">
            <span class="hint">{say('some_more')}</span>
            <Button onClick={onMore}>{say('more')}</Button>
          </p>
        )}
      </div>
    </section>
  );
}

function Rows({ sessions, at }: { sessions: ListedSession[]; at: number }) {
  return (
    <Table
      caption={say('all')}
      rows={sessions}
      keyOf={({ session }) => session}
      columns={[
        {
          name: 'id',
          title: say('id'),
          cell: ({ session }) => (
            <a href={urlOf('sessions', `/${session}`)}>
              <code>{session}</code>
            </a>
          ),
        },
        {
          name: 'ephemerals',
          title: say('ephemerals'),
          numeric: true,
          cell: ({ ephemerals }) => ephemerals.toLocaleString(locale()),
        },
        {
          name: 'left',
          title: say('left'),
          cell: (session) => <Left session={session} at={at} />,
        },
        {
          name: 'heard',
          title: say('heard'),
          cell: (session) => <Heard session={session} at={at} />,
        },
        {
          name: 'timeout',
          title: say('timeout'),
          cell: ({ timeout_ms: timeout }) => duration(timeout),
        },
        {
          name: 'attached',
          title: say('attached'),
          cell: ({ attached_at: id }) => (id ? say('at', { id }) : say('not_attached')),
        },
        {
          name: 'address',
          title: say('address'),
          cell: ({ address }) => <code>{address}</code>,
        },
        {
          name: 'identity',
          title: say('identity'),
          cell: ({ identity: who }) => (who ? <bdi>{visibleName(who)}</bdi> : '—'),
        },
        {
          name: 'opened',
          title: say('opened'),
          cell: ({ opened_ms: opened }) => (
            <time dateTime={new Date(opened).toISOString()} title={localTime(opened)}>
              {relativeTime(opened)}
            </time>
          ),
        },
      ]}
    />
  );
}
