import assert from 'node:assert/strict';
import { test } from 'node:test';

Object.assign(globalThis, {
  location: { protocol: 'http:', host: '127.0.0.1', href: 'http://h/ui/' },
});

import { ApiError } from '../../../web/src/api/error';
import type { Ensemble, MembersChanged, Problem } from '../../../web/src/api/types';
import {
  changeOf,
  etagOf,
  faultsOf,
  isDone,
  isGrave,
  MemberChange,
  newWish,
  passes,
  risksOf,
  textsOf,
  trialOf,
  type Wish,
} from '../../../web/src/views/ensemble/change/model';

const HAD = { peer: 'zk3:10998', client: 'zk3:9998', zone: '' };

function wish(action: Wish['action'], more: Partial<Wish> = {}): Wish {
  return { ...newWish(action, action === 'add' ? 0 : 3, HAD), ...more };
}

const NEW: Partial<Wish> = { other: '4', peer: 'zk4:10998', client: '', zone: '' };

function verdict(before: number, after: number, voters: number, more: object = {}): MembersChanged {
  const members = Array.from({ length: voters }, (_, at) => ({ id: at + 1, role: 'voter' }));
  return {
    version: null,
    previous: '0x50000001a',
    applied: false,
    members,
    tolerance: { before, after },
    in_step: voters,
    ...more,
  } as MembersChanged;
}

function ensemble(more: object[] = []): Ensemble {
  const members = [1, 2, 3].map((id) => ({
    id,
    role: 'voter',
    peer: `zk${id}:10998`,
    client: `http://zk${id}:9998`,
    connected: true,
    state: id === 1 ? 'leader' : 'follower',
  }));
  for (const [at, one] of more.entries()) {
    members[at] = { ...members[at], ...one } as (typeof members)[number];
  }
  return { leader: 1, seen_by: 2, members, waiting: [], removed: [] } as unknown as Ensemble;
}

// ---- What is sent ----

test('each action is a request of its own; a trial changes nothing and has no key', () => {
  const asked = (one: Wish) => {
    const { method, path, request } = trialOf(one);
    assert.equal(request.headers?.['Idempotency-Key'], undefined);
    return [method, path, request.body ?? request.query];
  };
  assert.deepEqual(asked(wish('add', { ...NEW, zone: 'b', autoPromote: true })), [
    'POST',
    '/ensemble/v1/members',
    '{"id":4,"peer":"zk4:10998","zone":"b","autoPromote":true,"dryRun":true}',
  ]);
  assert.deepEqual(asked(wish('promote')), [
    'PUT',
    '/ensemble/v1/members/3',
    '{"role":"voter","dryRun":true}',
  ]);
  assert.deepEqual(asked(wish('demote', { force: true })), [
    'PUT',
    '/ensemble/v1/members/3',
    '{"role":"observer","dryRun":true,"force":true}',
  ]);
  assert.deepEqual(asked(wish('move', { peer: 'zk3b:10998', client: '' })), [
    'PUT',
    '/ensemble/v1/members/3',
    '{"peer":"zk3b:10998","client":"","dryRun":true}',
  ]);
  assert.deepEqual(asked(wish('replace', { other: '4' })), [
    'PATCH',
    '/ensemble/v1/members',
    '{"remove":[3],"promote":[4],"dryRun":true}',
  ]);
  assert.deepEqual(asked(wish('remove', { force: true })), [
    'DELETE',
    '/ensemble/v1/members/3',
    { dryRun: true, force: true },
  ]);
});

test('a change names the version, the key and the tolerance that were seen', () => {
  const remove = changeOf(wish('remove'), verdict(1, 1, 3), 'k');
  assert.deepEqual(remove.request, {
    query: { minTolerance: 1 },
    headers: { 'If-Match': '"m50000001a"', 'Idempotency-Key': 'k' },
  });
  const promote = changeOf(wish('promote'), verdict(-1, -1, 3), 'k');
  assert.equal(promote.request.body, '{"role":"voter"}');
  const add = changeOf(wish('add', NEW), verdict(1, 1, 3), 'k');
  assert.equal(add.request.body, '{"id":4,"peer":"zk4:10998"}');
  assert.equal(etagOf('0x0'), '"m0"');
});

test('faults of the fields are found without the server', () => {
  assert.deepEqual(faultsOf(wish('add', NEW)), {});
  assert.deepEqual(faultsOf(wish('add', { ...NEW, other: '65536', peer: 'zk4', client: 'x:0' })), {
    other: 'bad_id',
    peer: 'bad_peer',
    client: 'bad_client',
  });
  assert.deepEqual(faultsOf(wish('add', { ...NEW, other: '04x', peer: 'a b:1', zone: 'a b' })), {
    other: 'bad_id',
    peer: 'bad_peer',
    zone: 'bad_zone',
  });
  assert.deepEqual(faultsOf(wish('add', { ...NEW, peer: '[::1]:10998' })), {});
  assert.deepEqual(faultsOf(wish('move')), { peer: 'unchanged' });
  assert.deepEqual(faultsOf(wish('move', { zone: 'b' })), {});
  assert.deepEqual(faultsOf(wish('remove', { peer: '' })), {});
});

// ---- What it risks ----

const textsIn = (one: Wish, judged: MembersChanged, all = ensemble()) =>
  risksOf(one, judged, all).map(({ text }) => text);

test('the first risk is what the ensemble tolerates', () => {
  const first = (before: number, after: number, voters: number) =>
    risksOf(wish('demote'), verdict(before, after, voters), ensemble())[0];
  assert.equal(first(1, 0, 2)?.text, 'risk_one');
  assert.equal(first(1, 0, 2)?.level, 'bad');
  assert.equal(first(0, 0, 3)?.text, 'risk_one_still');
  assert.equal(first(0, 0, 1)?.text, 'risk_alone');
  assert.equal(first(2, 1, 4)?.text, 'risk_fewer');
  assert.equal(first(1, 2, 5)?.text, 'risk_more');
  assert.deepEqual(first(1, 1, 3), {
    level: 'good',
    text: 'risk_same',
    values: { before: 1, after: 1 },
  });
});

test('other risks: even numbers, voters that are away, the leader, a disk, this page', () => {
  assert.deepEqual(textsIn(wish('promote'), verdict(1, 1, 4, { in_step: 3 })), [
    'risk_same',
    'risk_away',
    'risk_even',
    'risk_promote',
  ]);
  assert.deepEqual(textsIn(wish('remove', { id: 1 }), verdict(1, 1, 3)), [
    'risk_same',
    'risk_leader',
    'risk_disk',
  ]);
  const away = ensemble([{}, {}, { connected: false, state: 'unreachable' }]);
  assert.deepEqual(textsIn(wish('remove'), verdict(1, 1, 3), away), [
    'risk_same',
    'risk_disk',
    'risk_unheard',
  ]);
  assert.deepEqual(textsIn(wish('replace', { id: 2, other: '4' }), verdict(1, 1, 3)), [
    'risk_same',
    'risk_disk',
    'risk_serves',
    'risk_promote',
  ]);
  const home = risksOf(wish('remove', { id: 2 }), verdict(1, 1, 3), ensemble(), 'zk2:9998');
  assert.deepEqual(
    home.map(({ text }) => text),
    ['risk_same', 'risk_disk', 'risk_home'],
  );
  assert.deepEqual(textsIn(wish('demote', { id: 1 }), verdict(1, 1, 3)), [
    'risk_same',
    'risk_leader',
    'risk_demote',
  ]);
  assert.deepEqual(textsIn(wish('add', { ...NEW, autoPromote: true }), verdict(1, 1, 3)), [
    'risk_same',
    'risk_add',
    'risk_auto',
  ]);
  assert.deepEqual(textsIn(wish('move'), verdict(1, 1, 3)), ['risk_same', 'risk_move_voter']);
});

test('the id of a voter that leaves is typed, that of an observer is not', () => {
  const observing = ensemble([{}, {}, { role: 'observer' }]);
  const empty = ensemble([{}, {}, { role: 'empty-seat' }]);
  assert.equal(isGrave(wish('remove'), ensemble()), true);
  assert.equal(isGrave(wish('replace'), empty), true);
  assert.equal(isGrave(wish('remove'), observing), false);
  assert.equal(isGrave(wish('demote'), ensemble()), false);
});

test('whether the members show the change', () => {
  const all = ensemble([{}, {}, { role: 'observer' }]);
  assert.equal(isDone(wish('demote'), all), true);
  assert.equal(isDone(wish('promote'), all), false);
  assert.equal(isDone(wish('remove'), all), false);
  assert.equal(isDone(wish('remove', { id: 9 }), all), true);
  assert.equal(isDone(wish('add', { other: '3' }), all), true);
  assert.equal(isDone(wish('replace', { id: 9, other: '2' }), all), true);
  assert.equal(isDone(wish('replace', { id: 9, other: '3' }), all), false);
  assert.equal(isDone(wish('move', { peer: 'zk3b:10998' }), all), false);
  const moved = ensemble([{}, {}, { peer: 'zk3b:10998' }]);
  assert.equal(isDone(wish('move', { peer: 'zk3b:10998' }), moved), true);
  assert.deepEqual(textsOf(all.members[2] as never), HAD);
});

// ---- One change ----

type Answer = MembersChanged | Partial<Problem>;

/** A server that gives these answers in turn, and keeps what it was asked. */
function server(...answers: Answer[]) {
  const asked: { method: string; request: { headers?: Record<string, string>; body?: unknown } }[] =
    [];
  const send = async (method: string, _: string, request: object) => {
    asked.push({ method, request });
    const answer = answers.shift();
    if (!answer) {
      throw new ApiError({ detail: 'Failed to fetch' });
    }
    if ('applied' in answer) {
      return { json: async () => answer } as Response;
    }
    throw new ApiError(answer as Partial<Problem>);
  };
  return { http: { send } as never, asked };
}

const begin = (...answers: Answer[]) => {
  const { http, asked } = server(...answers);
  return { change: new MemberChange(http, () => 1_000), asked };
};

const done = verdict(1, 1, 3, { version: '0x50000001b', applied: true });
const LOST: Partial<Problem> = { code: 'OperationTimeout', status: 504, outcome: 'unknown' };

test('a change is judged first, then done', async () => {
  const { change, asked } = begin(verdict(1, 1, 3), done);
  await change.run(wish('remove'));
  assert.equal(asked.length, 0); // Not judged.
  await change.judge(wish('remove'));
  assert.equal(change.state.value.at, 'judged');
  await change.run(wish('remove'));
  assert.deepEqual(change.state.value, { at: 'done', verdict: done });
  await change.run(wish('remove'));
  assert.equal(asked.length, 2);
});

test('after an unknown outcome the very same request is sent until it is known', async () => {
  const { change, asked } = begin(
    verdict(1, 1, 3),
    LOST,
    { code: 'NotReady', status: 503, outcome: 'not-applied' },
    done,
  );
  await change.judge(wish('remove'));
  await change.run(wish('remove'));
  assert.equal(change.state.value.at, 'unknown');
  change.reopen();
  assert.equal(change.state.value.at, 'unknown'); // The form cannot make it another change.
  await change.run(wish('demote'));
  assert.equal(change.state.value.at, 'unknown'); // The refusal was of the repetition.
  await change.run(wish('remove'));
  assert.equal(change.state.value.at, 'done');
  const [, first, second, third] = asked.map(({ method, request: { headers, body } }) => ({
    method,
    headers,
    body,
  }));
  assert.ok(first?.headers?.['Idempotency-Key']);
  assert.deepEqual(second, first);
  assert.deepEqual(third, first);
});

test('a refusal is final, and the next attempt has the same key and the new version', async () => {
  const other = verdict(1, 1, 3, { previous: '0x50000002a' });
  const refusal = { code: 'BadVersion' as const, status: 412, outcome: 'not-applied' as const };
  const { change, asked } = begin(verdict(1, 1, 3), refusal, other, done);
  await change.judge(wish('remove'));
  await change.run(wish('remove'));
  assert.equal(change.state.value.at, 'failed');
  await change.run(wish('remove'));
  assert.equal(asked.length, 2); // To be judged again.
  await change.judge(wish('remove'));
  await change.run(wish('remove'));
  assert.equal(change.state.value.at, 'done');
  const [first, second] = [asked[1], asked[3]].map((one) => one?.request.headers ?? {});
  assert.equal(first?.['If-Match'], '"m50000001a"');
  assert.equal(second?.['If-Match'], '"m50000002a"');
  assert.equal(first?.['Idempotency-Key'], second?.['Idempotency-Key']);
});

test('other members after an unknown outcome: it was not done and will not be', async () => {
  const refusal = { code: 'BadVersion' as const, status: 412, outcome: 'not-applied' as const };
  const { change } = begin(verdict(1, 1, 3), LOST, refusal);
  await change.judge(wish('remove'));
  await change.run(wish('remove'));
  await change.run(wish('remove'));
  assert.equal(change.state.value.at, 'failed');
});

test('no answer at all leaves the outcome unknown', async () => {
  const { change } = begin(verdict(1, 1, 3));
  await change.judge(wish('remove'));
  await change.run(wish('remove'));
  assert.equal(change.state.value.at, 'unknown');
});

test('what was judged for another form does not count', async () => {
  const { change } = begin(verdict(1, 1, 3));
  const late = change.judge(wish('add', NEW));
  change.reopen();
  await late;
  assert.equal(change.state.value.at, 'open');
});

test('only refusals that end by themselves are asked again', async () => {
  for (const [reason, again] of [
    ['NotInStep', true],
    ['UnderWay', true],
    ['NoTolerance', false],
  ] as const) {
    const { change } = begin({ code: 'ChangeRefused', status: 409, reason });
    await change.judge(wish('promote'));
    assert.equal(passes(change.state.value), again, reason);
  }
});

test('a new leader may refuse for now what the old one has judged', async () => {
  const early = { code: 'ChangeRefused' as const, status: 409, outcome: 'not-applied' as const };
  const again = verdict(1, 1, 3);
  const { change, asked } = begin(again, { ...early, reason: 'NotInStep' }, again, done);
  await change.judge(wish('replace', { other: '4' }));
  await change.run(wish('replace', { other: '4' }));
  assert.equal(change.state.value.at, 'failed');
  assert.equal(passes(change.state.value), true);
  await change.judge(wish('replace', { other: '4' }), true);
  await change.run(wish('replace', { other: '4' }));
  assert.equal(change.state.value.at, 'done');
  const keys = [1, 3].map((at) => asked[at]?.request.headers?.['Idempotency-Key']);
  assert.equal(keys[0], keys[1]);
});
