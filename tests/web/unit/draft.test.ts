import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError, connectionLoss } from '../../../web/src/api/error';
import type { Stat } from '../../../web/src/api/types';
import { toBase64 } from '../../../web/src/format/bytes';
import { bestForm, bytesOf, lineEnd, textOf } from '../../../web/src/views/znode/edit/convert';
import { Draft, type Seen } from '../../../web/src/views/znode/edit/draft';

const bytes = (text: string) => new TextEncoder().encode(text);
const statOf = (version: number, czxid = '0x1') => ({ version, czxid }) as Stat;
const seen = (text: string, version: number, czxid = '0x1') => ({
  stat: statOf(version, czxid),
  bytes: bytes(text),
});

/** A fake znode: it keeps writes and answers them in order. */
class Fake {
  asked: Record<string, unknown>[] = [];
  answers: (object | ApiError)[] = [];
  now: object | ApiError = {};

  async write(op: string, members: object) {
    this.asked.push({ op, ...members });
    const answer = this.answers.shift() ?? {};
    if (answer instanceof ApiError) {
      throw answer;
    }
    return answer as never;
  }

  async read() {
    if (this.now instanceof ApiError) {
      throw this.now;
    }
    return this.now as never;
  }
}

function begin(text: string, version = 3) {
  const fake = new Fake();
  const draft = new Draft('/a', seen(text, version), fake, async () => undefined);
  const type = (now: string) => {
    draft.edits(() => now);
    draft.touched.value = now !== draft.start.value.text;
  };
  return { fake, draft, type };
}

const problem = (code: string, more: object = {}) =>
  new ApiError({ code: code as never, outcome: 'not-applied', detail: code, ...more });

test('each form returns the same bytes', () => {
  const all = Uint8Array.from({ length: 1000 }, (_, at) => (at * 7) & 255);
  for (const form of ['hex', 'base64'] as const) {
    assert.deepEqual(bytesOf(form, textOf(form, all) ?? ''), all);
  }
  const text = '\ufeffa\r\nb\u2028c\n\rd\0';
  assert.deepEqual(bytesOf('text', textOf('text', bytes(text)) ?? ''), bytes(text));
  assert.equal(textOf('text', Uint8Array.of(0x61, 0xff)), undefined);
  assert.equal(bestForm(Uint8Array.of(0x61, 0xff)), 'hex');
  assert.equal(bestForm(bytes('{"a":1}')), 'json');
  assert.deepEqual(
    [bytesOf('hex', '0'), bytesOf('hex', '0g'), bytesOf('base64', 'eA='), bytesOf('json', '{')],
    ['bad_hex', 'bad_hex', 'bad_base64', 'bad_json'],
  );
});

test('lines keep their ends', () => {
  assert.deepEqual(
    ['a\r\nb\r\n', 'a\nb', 'a\r\nb\nc', 'a\r\nb\rc', '', 'a'].map((text) => lineEnd(text)),
    ['\r\n', '\n', '\n', '\n', '\n', '\n'],
  );
});

test('untouched text is not encoded again', () => {
  const fake = new Fake();
  const raw = Uint8Array.of(0xff, 0xfe, 0);
  const draft = new Draft('/a', { stat: statOf(0), bytes: raw }, fake);
  assert.equal(draft.form.value, 'hex');
  assert.ok(!draft.allows('text') && draft.allows('base64'));
  draft.setForm('base64');
  assert.equal(draft.mine(), raw);
  assert.ok(!draft.dirty.value);
  draft.setForm('text');
  assert.equal(draft.form.value, 'base64', 'bytes that are no text stay base64');
});

test('a change of the form keeps the input, unless it is empty', () => {
  const { draft, type } = begin('ab');
  draft.setForm('hex');
  assert.equal(draft.start.value.text, '61 62');
  type('61 62 6');
  draft.setForm('text');
  assert.equal(draft.form.value, 'hex');
  assert.equal(draft.problem.value, 'bad_hex');
  type('61 62 63');
  draft.setForm('text');
  assert.equal(draft.start.value.text, 'abc');
  assert.ok(draft.dirty.value);
});

test('a save requires the version that was seen, and ends', async () => {
  const { fake, draft, type } = begin('old');
  type('new');
  fake.answers.push({ stat: statOf(4) });
  assert.equal((await draft.save())?.stat.version, 4);
  const { op, data64, version, czxid } = fake.asked[0] ?? {};
  assert.deepEqual(
    { op, data64, version, czxid },
    { op: 'set', data64: toBase64(bytes('new')), version: 3, czxid: '0x1' },
  );
  assert.equal(draft.phase.value, 'ended');
});

test('input during a save is kept', async () => {
  const { fake, draft, type } = begin('old');
  type('new');
  fake.answers.push({ stat: statOf(4) });
  const saving = draft.save();
  type('newer');
  await saving;
  assert.equal(draft.phase.value, 'editing');
  assert.equal(draft.base.value.stat.version, 4);
  assert.ok(draft.dirty.value);
});

test('a conflict is a choice: mine', async () => {
  const { fake, draft, type } = begin('old');
  type('mine');
  fake.answers.push(problem('BadVersion'), { stat: statOf(6) });
  fake.now = { stat: statOf(5), data64: toBase64(bytes('theirs')) };
  assert.equal(await draft.save(), undefined);
  assert.equal((draft.theirs.value as { stat: Stat }).stat.version, 5);
  assert.equal(await draft.save(), undefined, 'not before a choice');
  assert.equal(fake.asked.length, 1);
  draft.keepMine();
  await draft.save();
  assert.equal(fake.asked[1]?.['version'], 5);
  assert.equal(fake.asked[1]?.['data64'], toBase64(bytes('mine')));
});

test('a conflict is a choice: theirs', () => {
  const { draft, type } = begin('old');
  type('mine');
  draft.observe(seen('theirs', 4));
  draft.takeTheirs();
  assert.equal(draft.start.value.text, 'theirs');
  assert.ok(!draft.dirty.value);
});

test('without input the new data is shown, and equal input is no conflict', () => {
  const { draft, type } = begin('old');
  draft.observe(seen('new', 4));
  assert.equal(draft.start.value.text, 'new');
  type('agreed');
  draft.observe(seen('agreed', 5));
  assert.equal(draft.theirs.value, undefined);
  assert.ok(!draft.dirty.value || draft.base.value.stat.version === 5);
  type('more');
  draft.observe(seen('agreed', 6));
  assert.equal(draft.theirs.value, undefined, 'only the version has changed');
  assert.equal(draft.base.value.stat.version, 6);
});

test('a change of theirs that mine has taken and theirs has reverted is a conflict', async () => {
  const { fake, draft, type } = begin('one\nx');
  type('mine\nx');
  draft.observe(seen('one\ny', 4));
  draft.merging.value = true;
  const grown = { base: draft.base.value, bytes: bytes('one\ny') };
  draft.edits(
    () => 'mine\ny',
    () => grown,
  );
  draft.observe(seen('one\nx', 5));
  assert.equal((draft.theirs.value as Seen).stat.version, 5, 'mine would bring y back');
  assert.ok(draft.merging.value);
  assert.deepEqual(draft.origin(), bytes('one\ny'));
  draft.setForm('hex');
  assert.deepEqual(draft.origin(), bytes('one\ny'), 'in any form');
  draft.keepMine();
  assert.deepEqual(draft.origin(), bytes('one\nx'), 'another base has no origin');
  fake.answers.push({ stat: statOf(6) });
  await draft.save();
  assert.equal(fake.asked[0]?.['version'], 5);
});

test('a reverted change of theirs is no conflict if mine has not taken it', () => {
  const { draft, type } = begin('old');
  type('mine');
  draft.observe(seen('theirs', 4));
  draft.observe(seen('old', 5));
  assert.equal(draft.theirs.value, undefined);
  assert.equal(draft.base.value.stat.version, 5);
});

test('deleted meanwhile: the text stays, and the znode can be created again', async () => {
  const { fake, draft, type } = begin('old');
  draft.base.value = { ...draft.base.value, stat: { ...statOf(3), ttl: 5000 } };
  draft.acl = [{ scheme: 'world', id: 'anyone', perms: ['read'] }];
  type('mine');
  draft.observe('gone');
  assert.equal(draft.theirs.value, 'gone');
  fake.answers.push({ stat: statOf(0, '0x9') });
  await draft.save();
  const { op, ttl, acl, parents } = fake.asked[0] ?? {};
  assert.deepEqual(
    { op, ttl, acl, parents },
    { op: 'create', ttl: 5000, acl: draft.acl, parents: true },
  );
});

test('an unknown outcome: the same write is sent again until a replica knows it', async () => {
  const { fake, draft, type } = begin('old');
  type('mine');
  fake.answers.push(connectionLoss(true), problem('InFlight'), { stat: statOf(4) });
  await draft.save();
  assert.equal(new Set(fake.asked.map(({ key }) => key)).size, 1);
  assert.equal(fake.asked.length, 3);
  assert.equal(draft.phase.value, 'ended');
});

test('an outcome unknown for long: the user decides, and newer data is no conflict', async () => {
  const { fake, draft, type } = begin('old');
  type('mine');
  fake.answers.push(...Array.from({ length: 5 }, () => connectionLoss(true)));
  await draft.save();
  assert.equal(draft.phase.value, 'unknown');
  draft.observe(seen('mine', 4)); // The write was executed.
  assert.equal(draft.theirs.value, undefined);
  fake.answers.push({ stat: statOf(4) });
  await draft.save();
  assert.equal(draft.phase.value, 'ended');
  assert.equal(new Set(fake.asked.map(({ key }) => key)).size, 1);
});

test('a later write of another client is shown while the user types', async () => {
  const { fake, draft, type } = begin('old');
  type('mine');
  fake.write = async () => {
    draft.observe(seen('mine', 4));
    draft.observe(seen('theirs', 5));
    type('mine and more');
    return { stat: statOf(4) } as never;
  };
  await draft.save();
  assert.equal(draft.phase.value, 'editing');
  assert.equal((draft.theirs.value as Seen).stat.version, 5);
});

test('a refusal is shown, and no input is lost', async () => {
  const { fake, draft, type } = begin('old');
  type('mine');
  fake.answers.push(problem('NoAuth'));
  await draft.save();
  assert.equal((draft.problem.value as ApiError).code, 'NoAuth');
  assert.equal(draft.phase.value, 'editing');
  assert.ok(draft.dirty.value);
});

test('an unknown outcome stays unknown until a replica knows it', async () => {
  const { fake, draft, type } = begin('old');
  type('mine');
  const away = problem('NotReady', { status: 503, outcome: 'unknown' });
  fake.answers.push(connectionLoss(true), away, away, away, away);
  await draft.save();
  assert.equal(draft.phase.value, 'unknown', 'the first write may still be executed');
  fake.answers.push({ stat: statOf(4) });
  await draft.save();
  assert.equal(draft.phase.value, 'ended');
  assert.equal(new Set(fake.asked.map(({ key }) => key)).size, 1);
});
