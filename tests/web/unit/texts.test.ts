import assert from 'node:assert/strict';
import { test } from 'node:test';
import 'all-texts';
import { catalogues, defineTexts, language } from '../../../web/src/i18n';

const placesOf = (text: string | undefined) => (text?.match(/\{\w+\}/g) ?? []).sort();

test('both languages have the same keys with the same parameters', () => {
  assert.ok(catalogues.length >= 5);
  for (const { en, zh } of catalogues) {
    assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort());
    for (const [key, text] of Object.entries(en)) {
      assert.ok(text !== '' && zh[key] !== '', key);
    }
  }
});

test('both languages use the parameters, except for omitted numbers', () => {
  for (const { en, zh } of catalogues) {
    for (const [key, text] of Object.entries(en)) {
      assert.deepEqual(placesOf(zh[key]), placesOf(text), key);
    }
  }
});

test('a text has the current language', () => {
  const say = defineTexts({ many: '{n} of {what}' }, { many: '{what}：{n}' });
  language.value = 'en';
  assert.equal(say('many', { n: 12345, what: 'a{n}' }), '12,345 of a{n}');
  language.value = 'zh';
  assert.equal(say('many', { n: 1, what: 'x' }), 'x：1');
  assert.equal(say('many'), '{what}：{n}');
});

test('ids of replicas are no amounts', () => {
  const say = defineTexts({ all: '{id} of {n}' }, { all: '{n}：{id}' });
  language.value = 'en';
  assert.equal(say('all', { id: 65_535, n: 65_535 }), '65535 of 65,535');
});
