// The views of the ensemble, the tree and a znode, in both languages and themes, wide and narrow.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { NARROW, openBrowser, visitingBy, WIDE } from './browser.js';
import { at, keys } from './finders.js';
import { Replicas, until } from './replicas.js';

const RAW = Buffer.from(Array.from({ length: 600 }, (_, at) => (at * 7) & 255));
const MARKUP = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>';
const OWNER = { Authorization: `Basic ${Buffer.from('bob:secret').toString('base64')}` };
/** Issues that may be true on a busy machine. */
const BUSY = /^The median log sync|last heard from the leader .* ago:/;

let browser;
let replicas;

before(async () => {
  browser = await openBrowser();
  replicas = await Replicas.start();
  await replicas.create('/app/config', '{"n":12345678901234567890,"a":[1]}');
  await replicas.create('/app/v1.2/deep', 'hello');
  await replicas.create('/app/raw', RAW);
  await replicas.create('/app/empty');
  await replicas.create('/app/secret', 'hidden', { headers: { ...OWNER, 'Zk-Acl': 'creator' } });
  await replicas.create('/app/safe/inside');
  await replicas.ask('PATCH', '/znodes/v1/app/safe', {
    headers: { ...OWNER, 'Content-Type': 'application/json' },
    body: JSON.stringify({ acl: 'creator' }),
  });
});

after(async () => {
  await browser?.close();
  await replicas?.stop();
});

const visiting = visitingBy(() => ({ browser, replicas }));

const item = (page, name) => page.getByRole('treeitem').filter({ hasText: name });

visiting('the overview shows the state of the ensemble', {}, async (page, visit) => {
  await visit.open('/ui/');
  await page.getByText(/^(All is well|Degraded): 3 of 3 voting, led by replica [123]$/).waitFor();
  await until('no other remark is left', async () => {
    const remarks = await page.locator('.warnings li').allTextContents();
    return remarks.every((one) => BUSY.test(one));
  });
  assert.equal(await page.getByRole('row').count(), 4);
  await page.getByText('serves this page').waitFor();
});

visiting('a filter without a match yet can continue', { alters: true }, async (page, visit) => {
  let first = true; // While the searched children have no match.
  await page.routeWebSocket(/\/ws\/v1/, (socket) => {
    const server = socket.connectToServer();
    const searches = new Set();
    socket.onMessage((text) => {
      const { op, id } = JSON.parse(text);
      if (op === 'search') {
        searches.add(id);
      }
      server.send(text);
    });
    server.onMessage((text) => {
      const message = JSON.parse(text);
      const none = { nodes: [], more: true, after: '/app/config' };
      const other = first && searches.has(message.id) ? { ...message, ...none } : message;
      socket.send(JSON.stringify(other));
    });
  });
  await visit.open('/ui/tree/app?tab=children');
  await page.getByRole('searchbox', { name: 'Filter by name' }).fill('emp');
  await page
    .getByText('No child matches the filter so far; further children were not searched yet.')
    .waitFor();
  first = false;
  await page.getByRole('button', { name: 'Search further children' }).click();
  await page.locator('.child bdi').getByText('empty').waitFor();
  assert.equal(await page.locator('.child').count(), 1);
});

visiting('containers and TTL znodes are marked and explained', {}, async (page, visit) => {
  await replicas.ask('POST', '/znodes/v1/app?op=create&name=group&container=true');
  await replicas.ask('POST', '/znodes/v1/app?op=create&name=lease&ttl=3600000');
  await replicas.ask('POST', '/znodes/v1/app?op=create&name=job&sequence=true');
  await visit.open('/ui/tree/app/group?tab=stat');
  await page.getByText('no session: container, deleted after its last child').waitFor();
  await item(page, 'group').getByText('Container: deleted after').waitFor({ state: 'attached' });
  await item(page, 'lease')
    .getByText('TTL: deleted when it has not')
    .waitFor({ state: 'attached' });
  await item(page, 'job').getByText('Sequential name').waitFor({ state: 'attached' });
  await item(page, 'lease').click();
  await page.getByRole('tab', { name: 'Stat' }).click();
  await page.getByText('deleted when it has not changed for 1 h').waitFor();
});

visiting('the tree opens level by level, and znodes are read', {}, async (page, visit) => {
  await visit.open('/ui/');
  await keys(page, 'g', 't');
  await item(page, 'app').locator('.twist').click();
  await item(page, 'config').click();
  await at(page, '/ui/tree/app/config');
  const data = page.locator('pre.data');
  await data.waitFor();
  assert.equal(
    await data.textContent(),
    '{\n  "n": 12345678901234567890,\n  "a": [\n    1\n  ]\n}',
  );
  await page.getByRole('tab', { name: 'Stat' }).click();
  await page.getByText('no session: persistent').waitFor();
  await page.getByRole('tab', { name: 'ACL' }).click();
  await page.getByRole('cell', { name: 'Every client world' }).waitFor();
  await page.goBack();
  await page.getByRole('heading', { name: '/', exact: true }).waitFor();
});

visiting('a long name leaves the counts of other znodes visible', {}, async (page, visit) => {
  await replicas.create(`/wide/${'long-'.repeat(40)}`);
  await replicas.create('/wide/other/below');
  await visit.open('/ui/tree/wide/other');
  const count = await item(page, 'other').locator('.count').boundingBox();
  const tree = await page.getByRole('tree').boundingBox();
  assert.ok(count.x + count.width <= tree.x + tree.width, 'the count is within the tree');
  await item(page, '/').first().click();
  await page.getByRole('heading', { name: '/', exact: true }).waitFor();
  assert.doesNotMatch(await page.locator('.znode-heading').textContent(), /ago/);
});

visiting('a znode links to its events, its recipe, its export', {}, async (page, visit) => {
  await visit.open('/ui/tree/app/config');
  await page.getByRole('link', { name: 'View as a recipe' }).click();
  await page.waitForURL('**/ui/recipes/app/config');
  await page.goBack();
  await page.getByRole('link', { name: 'Watch this subtree' }).click();
  await page.getByRole('link', { name: '/app/config' }).waitFor();
  await page.goBack();
  await page.getByRole('link', { name: 'Export this subtree' }).waitFor();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('export');
  await page.getByRole('option', { name: 'Export /app/config' }).waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL('**/ui/tools/app/config?tool=export');
});

visiting('a link leads to a znode with any name', {}, async (page, visit) => {
  await visit.open('/ui/tree/app/v1.2/deep?tab=stat');
  await page.getByRole('tab', { name: 'Stat', selected: true }).waitFor();
  await page.getByRole('treeitem', { selected: true }).filter({ hasText: 'deep' }).waitFor();
  await page.getByRole('link', { name: 'v1.2' }).click();
  await page.getByRole('heading', { name: 'v1.2' }).waitFor();
  await visit.open('/ui/tree/none');
  await page.getByText('Not found (it may have been deleted).').waitFor();
  await visit.open('/ui/nothing');
  await page.getByText('This view does not exist.').waitFor();
});

visiting('bytes are shown and kept unchanged', {}, async (page, visit) => {
  await visit.open('/ui/tree/app/raw');
  await page.locator('.hex-line').first().waitFor();
  assert.match(await page.locator('.hex-line').first().textContent(), /^000000 {2}00 07 0e 15/);
  await page.getByLabel('Show as').selectOption('base64');
  const text = await page.locator('pre.data').textContent();
  assert.deepEqual(Buffer.from(text, 'base64'), RAW);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download' }).click(),
  ]);
  const parts = [];
  for await (const part of await download.createReadStream()) {
    parts.push(part);
  }
  assert.deepEqual(Buffer.concat(parts), RAW);
});

visiting('hostile names and values are only shown', {}, async (page, visit) => {
  const name = '<img src=x onerror=hit()>';
  await replicas.create(`/hostile/${name}`, MARKUP);
  await replicas.create('/hostile/a\u202egpj.exe', 'x\u202ey\u0007');
  await replicas.create('/hostile/broken', Buffer.from([0x61, 0xff, 0xfe, 0x62]));
  await replicas.create('/hostile/large', 'x'.repeat(1 << 20));
  await replicas.create('/hostile/nested', '['.repeat(200_000) + ']'.repeat(200_000));
  await visit.open(`/ui/tree/hostile/${encodeURIComponent(name)}`);
  await page.getByRole('heading', { name }).waitFor();
  assert.equal(await page.locator('pre.data').textContent(), MARKUP);
  await item(page, 'gpj').click();
  await page.getByRole('heading', { name: 'a\u2039202E\u203agpj.exe' }).waitFor();
  assert.equal(await page.locator('pre.data').textContent(), 'x\u2039202E\u203ay\u20390007\u203a');
  await item(page, 'broken').click();
  await page.getByText('61 ff fe 62').waitFor();
  await item(page, 'large').click();
  await page.getByText(/^The first 256 KiB of 1\.0 MiB/).waitFor();
  await item(page, 'nested').click();
  await page.getByText('391 KiB, JSON, indented').waitFor();
  assert.equal(await page.evaluate(() => globalThis.hit), undefined);
});

visiting('an unreadable znode is shown as such before a sign-in', {}, async (page, visit) => {
  await visit.open('/ui/tree/app/secret');
  await page.getByText('Not allowed: you need permission to read').waitFor();
  await item(page, 'safe').locator('.twist').click();
  await page.locator('.tree-row.error').waitFor();
  await page.getByRole('banner').getByRole('button', { name: 'Sign in' }).click();
  await page.getByLabel('User').fill('bob');
  await page.getByLabel('Password').fill('secret');
  await page.getByRole('dialog').getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('hidden', { exact: true }).waitFor();
  await item(page, 'inside').waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await page.reload();
  await page.getByText('Not allowed: you need permission to read').waitFor();
});

visiting('every action works by the keyboard', {}, async (page, visit) => {
  await visit.open('/ui/overview');
  await page.keyboard.press('Tab');
  await page.getByRole('link', { name: 'Skip to the content' }).press('Enter');
  await keys(page, 'g', 't');
  await item(page, 'app').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('zzz');
  await item(page, 'app').waitFor({ state: 'detached' });
  await page.keyboard.press('Control+A');
  await page.keyboard.press('Delete');
  const tree = page.getByRole('tree');
  await item(page, 'app').waitFor();
  await tree.focus();
  await page.keyboard.press('a');
  await page.keyboard.press('ArrowRight');
  await item(page, 'config').waitFor();
  await page.keyboard.press('c');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'config' }).waitFor();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowLeft');
  await item(page, 'config').waitFor({ state: 'detached' });
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
});

const LOOKS = [
  { language: 'en', theme: 'light', viewport: WIDE, tabs: [0, 1, 2, 3] },
  { language: 'en', theme: 'dark', viewport: NARROW, tabs: [1] },
  { language: 'zh', theme: 'dark', viewport: WIDE, tabs: [2] },
  { language: 'zh', theme: 'light', viewport: NARROW, tabs: [3] },
];

for (const look of LOOKS) {
  const { language, theme, viewport, tabs } = look;
  visiting(
    `the views are accessible: ${language}, ${theme}, ${viewport.width} wide`,
    look,
    async (page, visit) => {
      await visit.open('/ui/');
      await page.locator('.health').waitFor();
      assert.deepEqual(await visit.barriers(), []);
      await visit.go('/ui/tree/app');
      for (const at of tabs) {
        await page.getByRole('tab').nth(at).click();
        await page.locator('[role=tabpanel] > *').first().waitFor();
        assert.deepEqual(await visit.barriers(), [], `tab ${at}`);
        assert.equal(await visit.excess(), 0);
      }
    },
  );
}

visiting('the theme follows that of the system', { alters: true }, async (page, visit) => {
  const shown = (name) => page.locator(`html[data-theme=${name}]`).waitFor();
  await page.emulateMedia({ colorScheme: 'dark' });
  await visit.open('/ui/');
  await shown('dark');
  await page.emulateMedia({ colorScheme: 'light' });
  await shown('light');
});

visiting('the chosen language and theme are remembered', {}, async (page, visit) => {
  await visit.open('/ui/');
  await page.getByRole('button', { name: '切换到中文' }).click();
  await page.getByText(/^一切正常/).waitFor();
  await page.getByRole('button', { name: '主题：跟随系统' }).click();
  await page.getByRole('button', { name: '主题：浅色' }).click();
  await page.reload();
  await page.getByText(/^一切正常/).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'zh-CN');
});
