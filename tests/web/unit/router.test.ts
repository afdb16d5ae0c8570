import assert from 'node:assert/strict';
import { test } from 'node:test';

Object.assign(globalThis, { location: { href: 'http://127.0.0.1:9998/ui/' } });
const { parseUrl, route, urlOf } = await import('../../../web/src/app/router');

test('a znode with any name has a URL', () => {
  for (const path of ['/', '/a/b', '/a b/c%2F?x#y', '/v1.2/\u65e5\u672c', '/..a/%']) {
    const url = urlOf('tree', path, { tab: 'stat' });
    const { view, path: back, query } = parseUrl(url);
    assert.deepEqual([view, back, query.get('tab')], ['tree', path, 'stat'], url);
  }
});

test('an empty route is the overview, and invalid escapes are names', () => {
  assert.equal(route.value.view, 'overview');
  assert.equal(parseUrl('/ui').view, 'overview');
  assert.equal(parseUrl('/ui/tree/%zz').path, '/%zz');
  assert.equal(urlOf('overview'), '/ui/overview');
});
