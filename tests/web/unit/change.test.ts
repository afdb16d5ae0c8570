import assert from 'node:assert/strict';
import { test } from 'node:test';

Object.assign(globalThis, {
  location: { protocol: 'http:', host: '127.0.0.1', href: 'http://h/ui/' },
});

import { ApiError } from '../../../web/src/api/error';
import { requestKey } from '../../../web/src/api/key';
import type { AclEntry, Stat, Whoami } from '../../../web/src/api/types';
import { sha1 } from '../../../web/src/format/sha1';
import {
  AclDraft,
  digestId,
  isMasked,
  permsOf,
  type SaveAcl,
  type SeenAcl,
} from '../../../web/src/views/znode/acl/model';
import {
  fieldOf,
  membersOf,
  pathOf,
  type Wish,
} from '../../../web/src/views/znode/change/creation';
import { count, deletesOf, topmost, total } from '../../../web/src/views/znode/change/deletion';

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

test('a digest is that of the server', () => {
  assert.equal(digestId('bob', 'secret'), 'bob:fyVmFCwVbTJYrznoSu1koqYEYF0=');
  assert.equal(hex(sha1(new Uint8Array(0))), 'da39a3ee5e6b4b0d3255bfef95601890afd80709');
  for (const length of [55, 56, 63, 64, 119, 1000]) {
    const text = 'a'.repeat(length);
    const { createHash } = process.getBuiltinModule('node:crypto');
    const expected = createHash('sha1').update(text).digest('hex');
    assert.equal(hex(sha1(new TextEncoder().encode(text))), expected);
  }
});

test('a key is a UUID', () => {
  assert.match(
    requestKey(),
    /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
  );
});

// ---- Deleting ----

const chosen = (path: string, numChildren = 0) => ({
  path,
  stat: { numChildren, version: 2, czxid: '0x7' } as Stat,
});

test('a znode below a deleted one is not deleted twice', () => {
  const paths = topmost([chosen('/a/b'), chosen('/a'), chosen('/ab')]).map(({ path }) => path);
  assert.deepEqual(paths, ['/a', '/ab']);
});

test('a deletion is counted page by page, and deletes no more than the count', async () => {
  const asked: object[] = [];
  const pages = [
    { looked: 1000, more: true, after: '/a/x' },
    { looked: 200, more: false },
  ];
  const socket = {
    read: async (_: string, members: object) => {
      asked.push(members);
      return pages.shift() as never;
    },
  };
  const counted = await count(socket as never, [chosen('/a', 3), chosen('/b')], 10_000);
  assert.equal(total(counted), 1201);
  assert.deepEqual(asked, [
    { path: '/a', name: '/' },
    { path: '/a', name: '/', after: '/a/x' },
  ]);
  assert.deepEqual(deletesOf(counted), [
    { op: 'delete', path: '/a', version: 2, czxid: '0x7', recursive: true, max: 1200 },
    { op: 'delete', path: '/b', version: 2, czxid: '0x7' },
  ]);
});

test('the count stops above the limit of a deletion', async () => {
  let asked = 0;
  const socket = {
    read: async () => {
      asked += 1;
      return { looked: 1000, more: true, after: '/a/x' } as never;
    },
  };
  const counted = await count(socket as never, [chosen('/a', 3)], 2_500);
  assert.ok(total(counted) > 2_500);
  assert.equal(asked, 3);
});

// ---- Creating ----

const wish: Wish = {
  parent: '/app',
  name: 'one',
  kind: 'persistent',
  sequential: false,
  seconds: '1.5',
  acl: 'open',
  form: 'text',
  text: 'x',
  file: undefined,
};

test('the form becomes the members of a create', () => {
  assert.deepEqual(membersOf(wish), { path: '/app/one', data64: 'eA==' });
  assert.deepEqual(
    membersOf({ ...wish, name: '/b/c', kind: 'ttl', sequential: true, acl: 'read' }),
    {
      path: '/app/b/c',
      data64: 'eA==',
      parents: true,
      sequence: true,
      ttl: 1500,
      acl: 'read',
    },
  );
  assert.deepEqual(membersOf({ ...wish, kind: 'container', sequential: true }), {
    path: '/app/one',
    data64: 'eA==',
    container: true,
  });
  assert.equal(membersOf({ ...wish, form: 'hex', text: 'x' }), 'bad_hex');
  assert.equal(membersOf({ ...wish, form: 'file' }), 'no_file');
  assert.equal(pathOf({ parent: '/', name: 'a' }), '/a');
});

test('a refusal is shown at its field', () => {
  const codes = ['NodeExists', 'BadArguments', 'QuotaExceeded', 'InvalidACL', 'NotReadOnly'];
  assert.deepEqual(
    codes.map((code) => fieldOf(new ApiError({ code: code as never }))),
    ['name', 'name', 'data', 'acl', 'form'],
  );
});

// ---- ACLs ----

const bob = 'bob:fyVmFCwVbTJYrznoSu1koqYEYF0=';
const identity: Whoami = {
  address: '10.1.2.3',
  authenticated: true,
  super: false,
  read_only: false,
  ids: [
    { scheme: 'world', id: 'anyone' },
    { scheme: 'ip', id: '10.1.2.3' },
    { scheme: 'digest', id: bob },
  ],
} as Whoami;

test('entries name identities', () => {
  const of = (scheme: string, id: string) =>
    permsOf([{ scheme, id, perms: ['read'] } as never], identity).length > 0;
  assert.ok(of('world', 'anyone') && of('auth', '') && of('digest', bob));
  assert.ok(of('ip', '10.1.2.3') && of('ip', '10.1.0.0/16') && of('ip', '0.0.0.0/0'));
  assert.ok(!of('ip', '10.2.0.0/16') && !of('ip', '::1') && !of('digest', 'eve:x'));
  assert.equal(permsOf([], { ...identity, super: true }).length, 5);
  assert.ok(
    isMasked({ scheme: 'digest', id: 'bob:x' }) && !isMasked({ scheme: 'digest', id: bob }),
  );
});

const open: AclEntry[] = [
  { scheme: 'world', id: 'anyone', perms: ['read', 'write', 'create', 'delete', 'admin'] },
];

test('a list that removes own permissions gives a warning', () => {
  const seen = { acl: open, aversion: 0, stat: { czxid: '0x1' } };
  const draft = new AclDraft('/a', seen, {} as never, async () => undefined);
  draft.toggle(0, 'admin');
  assert.deepEqual(draft.lost(identity), ['admin']);
  assert.ok(draft.add({ scheme: 'auth', id: '', perms: ['admin'] }));
  assert.ok(!draft.add({ scheme: 'auth', id: '', perms: ['read'] }));
  assert.deepEqual(draft.lost(identity), []);
  draft.remove(1);
  draft.toggle(0, 'admin');
  assert.ok(!draft.dirty.value);
});

test('an ACL is saved only over the version that was seen; else theirs is shown', async () => {
  const asked: { seen: SeenAcl; key: string }[] = [];
  const answers = [new ApiError({ code: 'BadVersion' as never, outcome: 'not-applied' })];
  const send: SaveAcl = async (_path, _acl, seen, key) => {
    asked.push({ seen, key });
    const answer = answers.shift();
    if (answer) {
      throw answer;
    }
  };
  const theirs = {
    acl: [{ scheme: 'world', id: 'anyone', perms: ['read'] }],
    aversion: 3,
    stat: { czxid: '0x2' }, // Created again: the same version, another ACL.
  };
  const seen = { acl: open, aversion: 3, stat: { czxid: '0x1' } };
  const draft = new AclDraft('/a', seen, { read: async () => theirs } as never, send);
  draft.toggle(0, 'write');
  assert.equal(await draft.save(), false);
  assert.equal(draft.theirs.value?.stat.czxid, '0x2');
  draft.keepMine();
  assert.equal(await draft.save(), true);
  assert.deepEqual(
    asked.map(({ seen: { stat, aversion } }) => `${stat.czxid} ${aversion}`),
    ['0x1 3', '0x2 3'],
  );
  assert.notEqual(asked[0]?.key, asked[1]?.key);
});
