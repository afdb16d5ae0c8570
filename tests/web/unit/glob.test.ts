import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fits } from '../../../web/src/format/glob';

test('a filter is a part of a name, or a pattern of the whole name, as at the replica', () => {
  const like: [string, string][] = [
    ['lock-0000000001', 'LOCK'],
    ['lock-0000000001', ''],
    ['x[a]y', '[a]'],
    ['lock-7', 'l?ck-*'],
    ['a*', 'a\\*'],
    ['a.b', 'a.*'],
    ['a\nb', 'a*b'],
    ['caf\u00e9', 'caf?'],
    ['\ud83c\udf40', '?'],
    ['a\\', 'a\\'],
  ];
  for (const [name, pattern] of like) {
    assert.ok(fits(name, pattern), `${name} is like ${pattern}`);
  }
  const unlike: [string, string][] = [
    ['lock-1', 'lock-2'],
    ['a-lock-7', 'lock-*'],
    ['ab', '?'],
    ['ab', 'a\\*'],
    ['axb', 'a.b*'],
    ['b', '(a|b)*'],
  ];
  for (const [name, pattern] of unlike) {
    assert.ok(!fits(name, pattern), `${name} is not like ${pattern}`);
  }
});
