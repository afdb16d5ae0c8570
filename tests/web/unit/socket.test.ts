import assert from 'node:assert/strict';
import { beforeEach, mock, test } from 'node:test';
import { Socket } from '../../../web/src/api/socket';

Object.assign(globalThis, { location: { protocol: 'http:' } });

/** The replica's end of a connection; the test sends its messages. */
class Wire {
  sent: Record<string, unknown>[] = [];
  closed = false;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  readonly url: string;

  constructor(url: string) {
    this.url = url;
  }

  send(text: string) {
    this.sent.push(JSON.parse(text));
  }

  close() {
    this.closed = true;
  }

  say(message: object) {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  hello(more: object = {}) {
    this.say({
      event: 'hello',
      server: 1,
      history: 'h1',
      zxid: '0x10',
      heartbeat_ms: 1000,
      ...more,
    });
  }

  last(op: string) {
    const found = this.sent.findLast((message) => message['op'] === op);
    assert.ok(found, `${op} was sent`);
    return found;
  }
}

let wires: Wire[] = [];

function start(): Socket {
  const socket = new Socket('a:1', (url) => {
    const wire = new Wire(url);
    wires.push(wire);
    return wire as unknown as WebSocket;
  });
  socket.know(['a:1', 'b:1']);
  socket.start();
  return socket;
}

const now = (): Wire => wires.at(-1) as Wire;
const settle = () => new Promise((resolve) => setImmediate(resolve));

mock.method(performance, 'now', () => Date.now());

beforeEach(() => {
  wires = [];
  mock.timers.reset();
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
});

/** Loses the replica; the next one is tried. */
function lose() {
  now().onclose?.();
  mock.timers.tick(5_000);
}

test('replies are matched by id, errors are thrown', async () => {
  const socket = start();
  const early = socket.read('status');
  assert.equal(now().sent.length, 0);
  now().hello();
  assert.equal(socket.link.value, 'live');
  const late = socket.write('set', { path: '/a' });
  const [first, second] = now().sent;
  now().say({ id: first?.['id'], ok: true, status: { id: 1 } });
  now().say({
    id: second?.['id'],
    ok: false,
    error: { code: 'NoNode', status: 404, detail: 'none' },
  });
  assert.equal((await early).status.id, 1);
  await assert.rejects(late, { code: 'NoNode', status: 404, message: 'none' });
});

test('an unanswered read is sent to another replica, and shows no older state', async () => {
  const socket = start();
  now().hello({ zxid: '0x20' });
  const read = socket.read('stat', { path: '/a' });
  const write = socket.write('set', { path: '/a' });
  const keyed = socket.write('set', { path: '/a', key: 'k' });
  write.catch(() => undefined);
  lose();
  assert.equal(socket.link.value, 'resyncing');
  assert.equal(now().url, 'ws://b:1/ws/v1');
  await assert.rejects(write, { code: 'ConnectionLoss', outcome: 'unknown' });
  now().hello({ zxid: '0x1' });
  assert.deepEqual(
    now().sent.map(({ op, min_zxid }) => [op, min_zxid]),
    [
      ['stat', '0x20'],
      ['set', undefined],
    ],
  );
  for (const { id } of now().sent) {
    now().say({ id, ok: true, zxid: '0x21' });
  }
  assert.equal((await read).zxid, '0x21');
  await keyed;
});

test('watches resume from their zxid', async () => {
  const socket = start();
  const seen: string[] = [];
  now().hello();
  socket.watch({
    path: '/a',
    kind: 'persistent',
    onChange: ({ zxid }) => seen.push(zxid),
    onReset: () => seen.push('reset'),
  });
  now().say({ id: now().last('watch')['id'], ok: true, zxid: '0x10', watch: 7 });
  await settle();
  now().say({ event: 'NodeDataChanged', watches: [7], path: '/a', zxid: '0x11', end: false });
  lose();
  now().hello();
  assert.equal(now().last('watch')['since'], 'h1:0x10', 'an incomplete transaction does not count');
  now().say({
    id: now().last('watch')['id'],
    ok: true,
    zxid: '0x10',
    watch: 1,
    resumed: 'replayed',
  });
  await settle();
  now().say({ event: 'NodeDataChanged', watches: [1], path: '/a', zxid: '0x11', end: true });
  now().say({ event: 'heartbeat', zxid: '0x15' });
  lose();
  now().hello();
  assert.equal(now().last('watch')['since'], 'h1:0x15');
  assert.deepEqual(seen, ['0x11', '0x11']);
});

test('after a gap the data is read again', async () => {
  const socket = start();
  const seen: string[] = [];
  now().hello();
  socket.watch({
    path: '/a',
    kind: 'recursive',
    onChange: () => seen.push('change'),
    onReset: () => seen.push('reset'),
  });
  now().say({ id: now().last('watch')['id'], ok: true, zxid: '0x10', watch: 1 });
  await settle();
  now().say({ event: 'gap', watches: [1], zxid: '0x30' });
  assert.deepEqual(seen, ['reset']);
  lose();
  now().hello({ history: 'h2', zxid: '0x2' });
  assert.equal(now().last('watch')['since'], undefined, 'zxids of the old history are not used');
  assert.deepEqual(seen, ['reset', 'reset']);
  now().say({ id: now().last('watch')['id'], ok: true, zxid: '0x2', watch: 1 });
  await settle();
  lose();
  now().hello({ history: 'h2', zxid: '0x2' });
  now().say({ id: now().last('watch')['id'], ok: false, error: { code: 'HistoryChanged' } });
  await settle();
  assert.equal(now().last('watch')['since'], undefined);
  assert.equal(seen.length, 3);
});

test('silence is a loss; the loss of all is offline, and retries continue', () => {
  const socket = start();
  now().hello();
  mock.timers.tick(1_999);
  assert.equal(socket.link.value, 'live');
  mock.timers.tick(1);
  assert.equal(socket.link.value, 'resyncing');
  mock.timers.tick(0);
  for (let i = 0; i < 4; i += 1) {
    lose();
  }
  assert.equal(socket.link.value, 'offline');
  now().hello();
  assert.equal(socket.link.value, 'live');
});

test('a silent replica gets a ping', () => {
  const socket = start();
  now().hello({ heartbeat_ms: 10_000 });
  const first = now();
  mock.timers.tick(3_000);
  first.say({ id: first.last('ping')['id'], ok: true, zxid: '0x11' });
  assert.equal(socket.zxid.value, '0x11');
  mock.timers.tick(2_999);
  first.say({ event: 'heartbeat', zxid: '0x11' });
  assert.equal(first.sent.length, 1);
  mock.timers.tick(3_000);
  assert.equal(first.sent.length, 2);
  mock.timers.tick(4_999);
  assert.equal(socket.link.value, 'live');
  mock.timers.tick(1);
  assert.equal(socket.link.value, 'resyncing');
  mock.timers.tick(0);
  assert.equal(now().url, 'ws://b:1/ws/v1');
});

test('the timeout of a small answer is shorter than that of a large one', () => {
  const socket = start();
  now().hello({ heartbeat_ms: 10_000 });
  socket.read('status').catch(() => undefined);
  mock.timers.tick(3_000);
  assert.equal(now().sent.length, 1);
  mock.timers.tick(5_000);
  assert.equal(socket.link.value, 'resyncing');
});

test('a large answer has more time', async () => {
  const socket = start();
  now().hello({ heartbeat_ms: 10_000 });
  const large = socket.read('get', { path: '/large' });
  mock.timers.tick(19_000);
  now().say({ id: now().last('get')['id'], ok: true, zxid: '0x10' });
  await large;
  assert.equal(now().sent.length, 1);
  assert.equal(socket.link.value, 'live');
});

test('a replica that closes for lack of a quorum does not make the page live', () => {
  const socket = start();
  now().hello();
  lose();
  now().hello({ role: 'looking' });
  assert.equal(socket.link.value, 'live', 'an election may still succeed');
  lose();
  lose();
  lose();
  assert.equal(socket.link.value, 'offline');
  now().hello({ role: 'looking' });
  assert.equal(socket.link.value, 'offline');
  lose();
  now().hello({ role: 'looking', heartbeat_ms: 10_000 });
  mock.timers.tick(1_900);
  assert.equal(socket.link.value, 'offline');
  mock.timers.tick(100);
  assert.equal(socket.link.value, 'live');
  socket.stop();
});

test('credentials are sent first, to each replica', async () => {
  const socket = start();
  now().hello();
  socket.identify({ user: 'a', password: 'b' });
  assert.equal(socket.link.value, 'live', 'no loss');
  mock.timers.tick(0);
  void socket.read('whoami').catch(() => undefined);
  now().hello();
  assert.deepEqual(
    now().sent.map(({ op }) => op),
    ['auth', 'whoami'],
  );
  assert.equal(now().last('auth')['credential'], 'a:b');
  now().say({
    id: now().last('auth')['id'],
    ok: false,
    error: { code: 'AuthFailed', detail: 'no' },
  });
  await settle();
  assert.equal(socket.refused.value?.code, 'AuthFailed');
});

test('an unused watch is removed', async () => {
  const socket = start();
  now().hello();
  const watch = { path: '/a', kind: 'data' as const, onChange() {}, onReset() {} };
  const one = socket.watch(watch);
  const two = socket.watch(watch);
  for (const { id } of now().sent) {
    now().say({ id, ok: true, zxid: '0x10', watch: 4 });
  }
  await settle();
  one();
  assert.equal(now().sent.length, 2, 'the other user still needs it');
  two();
  assert.equal(now().last('unwatch')['watch'], 4);
});

test('events of one watch do not advance one that is not resumed yet', async () => {
  const socket = start();
  const watch = (path: string) =>
    socket.watch({ path, kind: 'persistent', onChange() {}, onReset() {} });
  const answer = (at: number, id: number) =>
    now().say({ id: now().sent[at]?.['id'], ok: true, zxid: '0x10', watch: id });
  const sinceOf = (path: string) =>
    now().sent.find((message) => message['path'] === path)?.['since'];
  now().hello();
  watch('/a');
  watch('/b');
  answer(0, 1);
  answer(1, 2);
  await settle();
  lose();
  now().hello();
  answer(0, 1);
  await settle();
  now().say({ event: 'NodeDataChanged', watches: [1], path: '/a', zxid: '0x20', end: true });
  lose(); // Before /b has its missed events.
  now().hello();
  assert.deepEqual([sinceOf('/a'), sinceOf('/b')], ['h1:0x20', 'h1:0x10']);
  answer(0, 1);
  answer(1, 2);
  await settle();
  now().say({ event: 'overrun', watches: [2], from: '0x20' });
  now().say({ event: 'NodeDataChanged', watches: [1], path: '/a', zxid: '0x30', end: true });
  lose(); // Before /b has caught up.
  now().hello();
  assert.deepEqual([sinceOf('/a'), sinceOf('/b')], ['h1:0x30', 'h1:0x10']);
});

test('a watch with a late answer is removed, but not if another user needs it', async () => {
  const socket = start();
  const watch = { path: '/a', kind: 'persistent' as const, onChange() {}, onReset() {} };
  const seen: string[] = [];
  now().hello();
  socket.watch(watch)(); // Removed before its answer.
  now().say({ id: now().last('watch')['id'], ok: true, zxid: '0x10', watch: 3 });
  await settle();
  assert.equal(now().last('unwatch')['watch'], 3);

  const one = socket.watch(watch);
  now().say({ id: now().last('watch')['id'], ok: true, zxid: '0x10', watch: 4 });
  await settle();
  socket.watch({ ...watch, onChange: ({ path }) => seen.push(path) });
  one(); // For the replica both are one watch, and the second answer is in flight.
  assert.equal(now().last('unwatch')['watch'], 3, 'no further watch was removed');
  now().say({ id: now().last('watch')['id'], ok: true, zxid: '0x10', watch: 4 });
  await settle();
  now().say({ event: 'NodeDataChanged', watches: [4], path: '/a', zxid: '0x11', end: true });
  assert.deepEqual(seen, ['/a']);
});

test('watches are sent before reads', () => {
  const socket = start();
  void socket.read('stat', { path: '/a' });
  socket.watch({ path: '/a', kind: 'data', onChange() {}, onReset() {} });
  now().hello();
  assert.deepEqual(
    now().sent.map(({ op }) => op),
    ['watch', 'stat'],
  );
});

test('a request to a replica that lags is repeated', async () => {
  const socket = start();
  const error = { code: 'ReplicaBehind', detail: 'behind', retry_after_ms: 1_000 };
  const refused: string[] = [];
  const of = (op: string) => now().sent.filter((message) => message['op'] === op).length;
  now().hello({ heartbeat_ms: 10_000 });
  const read = socket.read('stat', { path: '/a' });
  socket.watch({
    path: '/a',
    kind: 'data',
    onChange() {},
    onReset() {},
    onRefused: ({ code }) => refused.push(code),
  });
  for (const { id } of [...now().sent]) {
    now().say({ id, ok: false, error });
  }
  await settle();
  assert.deepEqual([of('stat'), of('watch'), refused], [1, 1, ['ReplicaBehind']]);
  mock.timers.tick(1_000);
  assert.deepEqual([of('stat'), of('watch')], [2, 2]);
  now().say({ id: now().last('stat')['id'], ok: true, zxid: '0x20' });
  assert.equal((await read).zxid, '0x20');

  const vain = socket.read('stat', { path: '/a' });
  for (let tries = 0; tries < 10; tries += 1) {
    now().say({ id: now().last('stat')['id'], ok: false, error });
    mock.timers.tick(1_000);
  }
  await assert.rejects(vain, { code: 'ReplicaBehind' });
});

test('a request that each replica would refuse is not sent to all', async () => {
  const socket = start();
  now().hello({ limits: { maxMessageBytes: 1_000 } });
  const write = (data: string) => socket.write('create', { path: '/a', data, key: 'k' });
  await assert.rejects(write('x'.repeat(1_000)), { code: 'TooLarge', outcome: 'not-applied' });
  await assert.rejects(write('\u{1f600}'.repeat(245)), { code: 'TooLarge' });
  assert.equal(now().sent.length, 0);
  write('x'.repeat(900)).catch(() => undefined);
  assert.equal(now().sent.length, 1);
});

test('the refusal of a retry does not show the outcome of an earlier try', async () => {
  const socket = start();
  now().hello();
  const answer = (status: number, outcome: string, more: object = {}) =>
    now().say({ id: now().last('set')['id'], ok: false, error: { status, outcome, ...more } });
  const set = (key: string) => socket.write('set', { path: '/a', key });
  const first = set('k');
  answer(503, 'not-applied');
  await assert.rejects(first, { outcome: 'not-applied' }, 'there was no earlier try');
  const lost = set('k');
  lose();
  now().hello();
  answer(503, 'not-applied');
  await assert.rejects(lost, { status: 503, outcome: 'unknown' }, 'it was sent to two replicas');
  const again = set('k');
  answer(429, 'not-applied');
  await assert.rejects(again, { outcome: 'unknown' });
  const readOnly = set('k');
  answer(403, 'not-applied', { code: 'NotReadOnly' });
  await assert.rejects(
    readOnly,
    { code: 'NotReadOnly', outcome: 'unknown' },
    'also for this refusal',
  );
  const other = set('other');
  answer(403, 'not-applied', { code: 'NotReadOnly' });
  await assert.rejects(other, { outcome: 'not-applied' });
  const another = set('other');
  answer(503, 'not-applied');
  await assert.rejects(another, { outcome: 'not-applied' });
  const known = set('k');
  answer(412, 'not-applied', { code: 'BadVersion' });
  await assert.rejects(known, { outcome: 'not-applied' }, 'that replica knows the outcome');
  const last = set('k');
  answer(503, 'not-applied');
  await assert.rejects(last, { outcome: 'not-applied' });
});

test('a replica that requires an identity is asked nothing before there is one', async () => {
  const socket = start();
  const reply = socket.read('whoami');
  now().hello({ identity_required: true });
  assert.equal(socket.locked.value, true);
  assert.deepEqual(now().sent, []);
  assert.equal(now().closed, true);
  now().onclose?.();
  mock.timers.tick(60_000);
  assert.equal(wires.length, 1);
  socket.identify({ user: 'bob', password: 'pw' });
  mock.timers.tick(1);
  assert.equal(wires.length, 2);
  assert.equal(socket.locked.value, false);
  now().hello({ identity_required: true });
  assert.deepEqual(
    now().sent.map(({ op }) => op),
    ['auth', 'whoami'],
  );
  now().say({ id: now().last('whoami')['id'], ok: true, whoami: {} });
  await reply;
  socket.identify(undefined);
  mock.timers.tick(1);
  now().hello({ identity_required: true });
  assert.equal(socket.locked.value, true);
  assert.deepEqual(now().sent, []);
});
