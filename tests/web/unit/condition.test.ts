import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Ensemble, Status } from '../../../web/src/api/types';
import { conditionOf, type Known, LATE_MS, lateness } from '../../../web/src/app/condition';

const members = (...connected: boolean[]) =>
  connected.map((up, at) => ({ id: at + 1, role: 'voter', connected: up, votes: up }));

/** A live page of replica 1 of three, with fresh information about all. */
function known(more: object = {}, status: object = {}, ensemble: object = {}): Known {
  return {
    link: 'live',
    server: 1,
    heard: 1_000,
    now: 1_000,
    look: {
      at: 1_000,
      status: { id: 1, serving: true, lag_ms: 20, read_only: false, ...status } as Status,
      ensemble: { leader: 2, members: members(true, true, true), ...ensemble } as Ensemble,
    },
    ...more,
  };
}

test('fresh and in sync is live, without writes read-only', () => {
  assert.equal(conditionOf(known()), 'live');
  assert.equal(conditionOf(known({}, { read_only: true })), 'read_only');
  assert.equal(conditionOf(known({ server: undefined })), 'live', 'a reconnect on purpose');
});

test('no page is live before the status of the serving replica', () => {
  assert.equal(conditionOf(known({ look: undefined })), 'reconnecting');
  assert.equal(conditionOf(known({ server: 3 })), 'reconnecting', 'the status of another replica');
  assert.equal(conditionOf(known({ link: 'resyncing' })), 'reconnecting');
  assert.equal(conditionOf(known({ link: 'offline' })), 'offline');
});

test('late answers, a silent leader and a replica out of sync are stale, each with its reason', () => {
  const late: [Known, string][] = [
    [known({ now: 1_001 + LATE_MS }), 'answer'],
    [known({}, { lag_ms: 1_500 }), 'leader'],
    [known({}, { serving: false }), 'step'],
    [known({}, { serving: false, lag_ms: 300 }, { leader: 0 }), 'election'],
  ];
  for (const [one, why] of late) {
    assert.equal(conditionOf(one), 'stale', why);
    assert.equal(lateness(one), why);
  }
});

test('less than a majority, or no leader for long, is no quorum, also during reconnects', () => {
  const alone = { members: members(true, false, false) };
  assert.equal(conditionOf(known({}, {}, alone)), 'no_quorum');
  assert.equal(conditionOf(known({}, { lag_ms: 6_000 }, { leader: 0 })), 'no_quorum');
  assert.equal(conditionOf(known({}, {}, { members: members(true, true, false) })), 'live');
  const round = known({ link: 'offline', server: undefined, now: 20_000 }, {}, alone);
  assert.equal(conditionOf(round), 'no_quorum');
  assert.equal(
    conditionOf({ ...round, now: 60_000 }),
    'offline',
    'no replica has answered for long',
  );
});
