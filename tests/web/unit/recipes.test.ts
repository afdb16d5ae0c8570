import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChildEntry, Stat } from '../../../web/src/api/types';
import { compare } from '../../../web/src/views/recipes/diary';
import type { Picture } from '../../../web/src/views/recipes/model';
import {
  guess,
  type Kind,
  labelOf,
  leasesOf,
  placesOf,
  sideBySide,
  standings,
} from '../../../web/src/views/recipes/shape';

function statOf(owner = '0x0', czxid = '0x1'): Stat {
  return {
    czxid,
    mzxid: czxid,
    pzxid: czxid,
    ctime: 0,
    mtime: 0,
    version: 0,
    cversion: 0,
    aversion: 0,
    ephemeralOwner: owner,
    dataLength: 0,
    numChildren: 0,
  };
}

const ephemerals = (...names: string[]): ChildEntry[] =>
  names.map((name, at) => ({ name, stat: statOf(`0x${at + 1}`, `0x${at + 1}`) }));
const plain = (...names: string[]): ChildEntry[] => names.map((name) => ({ name, stat: statOf() }));

function kindOf(path: string, children: ChildEntry[], text?: string, stat = statOf()) {
  return guess({ path, stat, text, children });
}

test('the names in a directory show its recipe', () => {
  const cases: [Kind | undefined, ChildEntry[]][] = [
    ['lock', ephemerals('lock-0000000001', 'lock-0000000002')],
    ['lock', ephemerals('_c_5d0a-lock-0000000003')],
    ['lock', ephemerals('5d0a__lock__0000000003')],
    ['rwlock', ephemerals('read-0000000001', 'write-0000000002')],
    ['rwlock', ephemerals('_c_5d-__READ__0000000001')],
    ['election', ephemerals('candidate-0000000001')],
    ['election', ephemerals('_c_5d-latch-0000000001')],
    ['semaphore', plain('leases', 'line')],
    ['semaphore', ephemerals('_c_5d-lease-0000000001')],
    ['barrier', plain('members')],
    ['barrier', plain('members', 'ready')],
    ['queue', plain('item-0000000001')],
    ['queue', plain('something0000000001')],
    ['group', ephemerals('host-a', 'host-b')],
    ['semaphore', plain('leases', 'locks')],
    [undefined, plain('config', 'other')],
    [undefined, plain('config', 'leases', 'members')],
    [undefined, [...plain('config'), ...ephemerals('host-a')]],
    [undefined, [{ name: 'hidden', hidden: true }]],
  ];
  for (const [kind, children] of cases) {
    assert.equal(kindOf('/x/y', children), kind, children.map(({ name }) => name).join());
  }
});

test('an empty directory has the recipe of its folder, a number is a counter', () => {
  assert.equal(kindOf('/locks/a', []), 'lock');
  assert.equal(kindOf('/groups/a', []), 'group');
  assert.equal(kindOf('/x/y', []), undefined);
  assert.equal(kindOf('/x/y', [], '-12'), 'counter');
  assert.equal(kindOf('/x/y', [], '12a'), undefined);
  assert.equal(kindOf('/x/y', [], undefined, statOf('0x7')), 'lock');
});

test('a queue is in the order of the numbers, not of the names before them', () => {
  const all = standings(placesOf(ephemerals('lock-0000000007', 'candidate-0000000003', 'other')));
  assert.deepEqual(
    all.map(({ place, holds, waitsFor }) => [place.name, holds, waitsFor?.name]),
    [
      ['candidate-0000000003', true, undefined],
      ['lock-0000000007', false, 'candidate-0000000003'],
    ],
  );
});

test('readers share, and wait for the last writer before them', () => {
  const names = ['read-0000000001', 'read-0000000002', 'write-0000000003', 'read-0000000004'];
  const steps = sideBySide(standings(placesOf(ephemerals(...names))));
  assert.deepEqual(
    steps.map((step) =>
      step.map(({ place, holds, waitsFor }) => [place.number, holds, waitsFor?.number]),
    ),
    [
      [
        [1, true, undefined],
        [2, true, undefined],
      ],
      [[3, false, 2]],
      [[4, false, 3]],
    ],
  );
});

test('a lease of a waiting client is not held yet', () => {
  const leases = placesOf(ephemerals('lease-0000000001', 'lease-0000000002', 'lease-0000000003'));
  const line = placesOf([{ name: 'lock-0000000009', stat: statOf('0x3') }]);
  const { held, asked } = leasesOf(leases, line);
  assert.deepEqual(
    [held.map(({ number }) => number), asked.map(({ number }) => number)],
    [[1, 2], [3]],
  );
});

test('a label is one short line, or else the name', () => {
  assert.equal(labelOf('/e/candidate-0000000001', 'alice\n'), 'alice');
  assert.equal(labelOf('/e/a', ''), 'a');
  assert.equal(labelOf('/e/a', '{"host":"b"}'), 'a');
  assert.equal(labelOf('/e/a', 'two\nlines'), 'a');
  assert.equal(labelOf('/e/a\u202e', undefined), 'a\u2039202E\u203a');
});

function pictureOf(kind: Kind, children: ChildEntry[]): Picture {
  return { path: '/p', stat: statOf(), text: undefined, children, total: 0, inner: {}, kind };
}

test('the log shows arrivals, departures and turns', () => {
  const label = (path: string) => path;
  const before = pictureOf('lock', ephemerals('lock-0000000001', 'lock-0000000002'));
  const after = pictureOf('lock', before.children.slice(1));
  assert.deepEqual(compare(before, after, label, 5), {
    at: 5,
    came: [],
    gone: ['/p/lock-0000000001'],
    cameCount: 0,
    goneCount: 1,
    first: '/p/lock-0000000002',
  });
  assert.equal(compare(before, before, label), undefined);
  const again = pictureOf('group', [{ name: 'a', stat: statOf('0x9', '0x9') }]);
  const entry = compare(pictureOf('group', ephemerals('a')), again, label);
  assert.deepEqual([entry?.came, entry?.gone], [['/p/a'], ['/p/a']], 'created again');
});
