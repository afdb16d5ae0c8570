import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ListedSession, Sessions } from '../../../web/src/api/types';
import {
  arrange,
  findSession,
  listSessions,
  timeLeft,
} from '../../../web/src/views/sessions/model';

const session = (id: string, more: Partial<ListedSession> = {}) =>
  ({
    session: id,
    timeout_ms: 10_000,
    ephemerals: 0,
    address: '10.0.0.1',
    ...more,
  }) as ListedSession;

test('time of expiry', () => {
  const one = session('0x1', { heard_ms: 4_000 });
  assert.equal(timeLeft(one, 1_000, 1_000), 6_000);
  assert.equal(timeLeft(one, 1_000, 3_500), 3_500);
  assert.equal(timeLeft(one, 1_000, 99_000), 0);
  assert.equal(timeLeft(session('0x1'), 1_000, 1_000), undefined);
});

test('filter and order', () => {
  const all = [
    session('0x9', { ephemerals: 3, heard_ms: 9_000 }),
    session('0x100000000', { ephemerals: 1, heard_ms: 20, identity: 'digest:Alice' }),
    session('0x200000000', { ephemerals: 2 }),
  ];
  const ids = (list: ListedSession[]) => list.map((one) => one.session);
  assert.deepEqual(ids(arrange(all, '', 'opened')), ['0x200000000', '0x100000000', '0x9']);
  assert.deepEqual(ids(arrange(all, '', 'left')), ['0x9', '0x100000000', '0x200000000']);
  assert.deepEqual(ids(arrange(all, '', 'ephemerals')), ['0x9', '0x200000000', '0x100000000']);
  assert.deepEqual(ids(arrange(all, ' alice', 'opened')), ['0x100000000']);
});

const page = (id: string, more: object = {}) =>
  ({ sessions: [session(id)], more: false, looked: 1, hears_all: true, ...more }) as Sessions;

test('pages are read until there are enough, from the leader or the serving replica', async () => {
  const asked: [unknown, boolean][] = [];
  const listing = await listSessions((query, leader) => {
    asked.push([query['after'], leader]);
    return leader
      ? Promise.reject(new Error('it cannot be reached'))
      : Promise.resolve(page('0x1', { more: true, after: '0x1', hears_all: false }));
  }, 2);
  assert.deepEqual(asked, [
    [undefined, true],
    [undefined, false],
    ['0x1', false],
  ]);
  assert.equal(listing.sessions.length, 2);
  assert.equal(listing.more, true);
  assert.equal(listing.hearsAll, false);
});

test('one session is found among any number of others', async () => {
  const asked: unknown[] = [];
  const ask = (query: Record<string, string | number>) => {
    asked.push(query);
    return Promise.resolve(page('0x100000000'));
  };
  assert.equal((await findSession(ask, '0x100000000')).sessions.length, 1);
  assert.deepEqual(asked, [{ view: 'list', limit: 1, after: '0xffffffff' }]);
  assert.equal((await findSession(ask, '0xfffffffff')).sessions.length, 0);
  assert.equal((await findSession(ask, 'none')).sessions.length, 0);
  assert.equal(asked.length, 2);
});
