import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pathsOf } from '../../../web/src/views/tools/existing';
import { Lines } from '../../../web/src/views/tools/lines';

const HEAD = '{"export":1,"path":"/app","zxid":"0x100000003","history":"7f3a90c1d2e4b586"}\n';
const END = '{"end":true,"znodes":2,"skippedEphemerals":1,"skippedUnreadable":0,"maskedAcls":0}\n';
const LONG = `{"path":"long","dataUtf8":"${'x'.repeat(50_000)}"}\n`;

function read(text: string, size: number): Lines {
  const lines = new Lines();
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += size) {
    lines.take(bytes.subarray(at, at + size));
  }
  return lines;
}

test('an export is complete if its last line says so, for any split into pieces', () => {
  const text = `${HEAD}{"path":"","dataUtf8":"ä"}\n${LONG}${END}`;
  for (const size of [1, 7, 1_000, 1_000_000]) {
    const lines = read(text, size);
    assert.equal(lines.count, 4);
    assert.equal(lines.bytes, new TextEncoder().encode(text).length);
    assert.equal(lines.head?.zxid, '0x100000003');
    assert.equal(lines.tail?.skippedEphemerals, 1);
  }
});

test('a truncated export is incomplete', () => {
  for (const text of ['', HEAD, `${HEAD}${LONG}`, `${HEAD}${END.slice(0, -1)}`, `${HEAD}${END}{`]) {
    assert.equal(read(text, 100).tail, undefined, text.slice(-20));
  }
  assert.equal(read(END, 100).head, undefined);
  const failed = read(`${HEAD}{"error":{"code":"TooLarge"}}\n`, 100);
  assert.equal(failed.tail, undefined);
  assert.deepEqual(failed.error, { code: 'TooLarge' });
});

test('the paths of a file are those of its znodes', () => {
  const text = `${HEAD}{"path":""}\n{"path":"a/b"}\nnonsense\n${END}{"path":"cut`;
  assert.deepEqual(pathsOf('/top', text, false), ['/top', '/top/a/b']);
  assert.deepEqual(pathsOf('/', '{"path":"a"}', true), ['/a']);
  assert.deepEqual(pathsOf('/', '{"path":"a"}', false), []);
});
