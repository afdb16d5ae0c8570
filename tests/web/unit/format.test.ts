import assert from 'node:assert/strict';
import { test } from 'node:test';
import { epochOf, isNewer, newest } from '../../../web/src/api/zxid';
import { asUtf8, byteSize, fromBase64, hexLine, toBase64 } from '../../../web/src/format/bytes';
import { indentJson, isJson } from '../../../web/src/format/json';
import {
  ancestorsOf,
  childOf,
  compareNames,
  isBelow,
  isSystem,
  parentOf,
} from '../../../web/src/format/path';
import { hasRightToLeft, isReadable, visibleName, visibleText } from '../../../web/src/format/text';
import { duration, localTime, NO_TIME, relativeTime, utcTime } from '../../../web/src/format/time';
import { epochCounter } from '../../../web/src/format/zxid';
import { language } from '../../../web/src/i18n';
import { guess, show } from '../../../web/src/views/znode/forms';

const bytesOf = (text: string) => new TextEncoder().encode(text);

test('zxids keep all their 64 bits', () => {
  assert.equal(epochCounter('0x500000012'), '5:18');
  assert.equal(epochOf('0xfffffffe00000001'), 0xfffffffe);
  assert.ok(isNewer('0x100000000', '0xffffffff'));
  assert.ok(!isNewer('0x20000000000001', '0x20000000000002'));
  assert.equal(newest('0x0', '0x9'), '0x9');
});

test('a time beyond all dates does not break the page', () => {
  assert.equal(utcTime(8.64e15 + 1), NO_TIME);
  assert.equal(localTime(-9e18), NO_TIME);
  assert.equal(localTime(Number.NaN), NO_TIME);
  assert.equal(utcTime(253_402_300_799_999), '9999-12-31 23:59:59.999 UTC');
});

test('sizes and times are short', () => {
  assert.deepEqual([0, 1023, 1024, 1 << 20, 150 * 1024].map(byteSize), [
    '0 B',
    '1023 B',
    '1.0 KiB',
    '1.0 MiB',
    '150 KiB',
  ]);
  assert.deepEqual(
    [5, 61_000, 3_600_000, 90_061_000].map((ms) => duration(ms)),
    ['5 ms', '1 min 1 s', '1 h', '1 d 1 h'],
  );
  language.value = 'zh';
  assert.deepEqual(
    [500, 74_000, 90_061_000].map((ms) => duration(ms)),
    ['500 毫秒', '1 分 14 秒', '1 天 1 小时'],
  );
  language.value = 'en';
  assert.equal(relativeTime(0), NO_TIME);
});

test('bytes survive base64, and invalid UTF-8 is detected', () => {
  const all = Uint8Array.from({ length: 70_000 }, (_, at) => at & 255);
  assert.deepEqual(fromBase64(toBase64(all)), all);
  assert.equal(asUtf8(Uint8Array.of(0xc3, 0x28)), undefined);
  assert.equal(asUtf8(bytesOf('\ufeffa')), '\ufeffa');
  assert.match(hexLine(all, 4), /^000040 {2}40 41 .*4f {2}@ABCDEFGHIJKLMNO$/);
});

test('JSON is indented without the loss of a digit', () => {
  const text = '{"b":12345678901234567890,"a":[1,{}, []],"s":"x, {\\"y\\": [1]}"}';
  assert.equal(
    indentJson(text),
    '{\n  "b": 12345678901234567890,\n  "a": [\n    1,\n    {},\n    []\n  ],\n  "s": "x, {\\"y\\": [1]}"\n}',
  );
  assert.ok(isJson('[1]') && !isJson('7') && !isJson('{a:1}'));
});

test('deeply nested hostile JSON has a bounded size', () => {
  const text = '['.repeat(200_000) + ']'.repeat(200_000);
  const indented = indentJson(text);
  assert.ok(indented.length < 10 << 20, `${indented.length} characters`);
  assert.equal(indented.replace(/\s/g, ''), text);
});

test('invisible characters are shown', () => {
  assert.equal(visibleName('a\u202egpj.exe\u0000'), 'a\u2039202E\u203agpj.exe\u20390000\u203a');
  assert.equal(visibleText('a\tb\n'), 'a\tb\n');
  assert.equal(visibleName('<b>\n'), '<b>\u2039000A\u203a');
  assert.ok(hasRightToLeft('a \u05d0') && hasRightToLeft('\u{10a00}') && !hasRightToLeft('\u65e5'));
});

test('data that is hardly text is shown as bytes', () => {
  assert.ok(
    isReadable('a\r\nb\r\n'.repeat(5_000)) && isReadable('') && isReadable('\ufeffsome text'),
  );
  assert.ok(
    !isReadable('a\0b') && isReadable('x\u202ey\u0007') && !isReadable('\u0001'.repeat(99)),
  );
  assert.ok(!isReadable(`\u202e${'x'.repeat(19)}`.repeat(3_000)));
  assert.equal(guess(bytesOf('\u0007'.repeat(99))), 'hex');
});

test('paths are compared by their parts', () => {
  assert.ok(isBelow('/a/b', '/a') && !isBelow('/ab', '/a') && isBelow('/a', '/'));
  assert.deepEqual(ancestorsOf('/a/b'), ['/', '/a', '/a/b']);
  assert.ok(compareNames('a', 'ab') < 0 && compareNames('b', 'ab') > 0);
  assert.ok(compareNames('\uffff', '\u{10000}') < 0, 'in the order of UTF-8');
  assert.ok(compareNames('\u{10001}', '\u{10000}') > 0);
  assert.equal(compareNames('a\u{10000}', 'a\u{10000}'), 0);
  assert.equal(parentOf('/a'), '/');
  assert.equal(childOf('/', 'a'), '/a');
  assert.ok(isSystem('/zookeeper/quota') && !isSystem('/zookeepers'));
});

test('data is shown in its form', async () => {
  const packed = new Uint8Array(
    await new Response(
      new Blob(['{"a":1}']).stream().pipeThrough(new CompressionStream('gzip')),
    ).arrayBuffer(),
  );
  assert.equal(guess(bytesOf('{"a":1}')), 'json');
  assert.equal(guess(bytesOf('hello')), 'text');
  assert.equal(guess(Uint8Array.of(0, 1, 2)), 'hex');
  assert.equal(guess(packed), 'gunzip');
  assert.equal((await show(packed, 'auto')).text, '{\n  "a": 1\n}');
  assert.equal((await show(packed.slice(0, 12), 'gunzip')).remark, 'not_gzip');
  assert.equal((await show(Uint8Array.of(0x61, 0xff), 'text')).text, 'a\u25c6');
  assert.equal((await show(bytesOf('x'), 'json')).remark, 'not_json');
});
