import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Ensemble, Status } from '../../../web/src/api/types';
import { healthOf } from '../../../web/src/views/overview/health';

const status = { id: 1, serving: true, draining: false, lag_ms: 20, reason: '' } as Status;

function ensemble(up: boolean[], more: object = {}): Ensemble {
  const members = up.map((connected, at) => ({
    id: at + 1,
    role: 'voter',
    connected,
    votes: connected,
    client: `http://h${at}:1`,
  }));
  return { leader: 1, seen_by: 1, members, ...more } as unknown as Ensemble;
}

const textsOf = (all: Ensemble, one = status) =>
  healthOf(all, one).warnings.map(({ text }) => text);

test('all voters are available', () => {
  const health = healthOf(ensemble([true, true, true]), status);
  assert.deepEqual(health, { level: 'good', voters: 3, voting: 3, quorum: 2, warnings: [] });
});

test('one missing voter is degraded, two are critical', () => {
  assert.equal(healthOf(ensemble([true, true, false]), status).level, 'warn');
  assert.deepEqual(textsOf(ensemble([true, true, false])), ['warn_unreachable', 'warn_quorum']);
  assert.equal(healthOf(ensemble([true, false, false]), status).level, 'bad');
});

test('no leader, lag, and an even number are issues', () => {
  assert.deepEqual(textsOf(ensemble([true, true, true], { leader: 0 })), ['warn_no_leader']);
  assert.deepEqual(textsOf(ensemble([true, true, true]), { ...status, lag_ms: 5_000 }), [
    'warn_lag',
  ]);
  assert.deepEqual(textsOf(ensemble([true, true, true, true])), ['warn_even']);
  assert.deepEqual(textsOf(ensemble([true]), { ...status, serving: false, reason: 'x' }), [
    'warn_not_serving',
  ]);
});

test('all is well only if each replica is in sync and has a recent contact', () => {
  const told = (more: object) => {
    const all = ensemble([true, true, true]);
    Object.assign(all.members[2] ?? {}, more);
    return all;
  };
  assert.equal(healthOf(told({ state: 'follower', heard_ms: 900 }), status).level, 'good');
  assert.deepEqual(textsOf(told({ state: 'joining', heard_ms: 900 })), ['warn_joining']);
  assert.deepEqual(textsOf(told({ state: 'leader', heard_ms: 3_000 })), ['warn_silent']);
});

test('a replica that waits to be added says only this', () => {
  const outside = ensemble([], { leader: 0 });
  const health = healthOf(outside, { ...status, serving: false, lag_ms: 9_000, reason: 'waits' });
  assert.equal(health.level, 'bad');
  assert.deepEqual(
    health.warnings.map(({ text, section }) => [text, section]),
    [['warn_not_serving', 'Adding a replica']],
  );
});

test('two processes with one id are the first issue', () => {
  const all = ensemble([true, true, false]);
  const why = 'two processes claim id 3: 10.0.0.3 and 10.0.0.7';
  Object.assign(all.members[2] ?? {}, { duplicate: why });
  assert.equal(healthOf(all, status).level, 'bad');
  assert.deepEqual(textsOf(all), ['warn_duplicate', 'warn_unreachable', 'warn_quorum']);
});
