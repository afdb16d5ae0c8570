// Search, export and import in the page.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { NARROW, openBrowser, visitingBy, WIDE } from './browser.js';
import { Client } from './clients.js';
import { keys } from './finders.js';
import { Replicas } from './replicas.js';
import { toasted } from './toasts.js';

const SHOES = 250;
const OPS_MAX = 1_000; // In one multi.

let browser;
let replicas;
let client;

before(async () => {
  browser = await openBrowser();
  replicas = await Replicas.start();
  client = await Client.connect(replicas, { timeout_ms: 60_000 });
  await client.create('/shop');
  await client.ask('multi', {
    ops: Array.from({ length: SHOES }, (_, at) => ({
      op: 'create',
      path: `/shop/shoe-${String(at).padStart(3, '0')}`,
      dataUtf8: `size ${at % 50}`,
    })),
  });
  await client.create('/shop/<b>hat', 'felt');
  await client.create('/shop/visitor', 'here', { ephemeral: true });
});

after(async () => {
  client?.die();
  await browser?.close();
  await replicas?.stop();
});

const visiting = visitingBy(() => ({ browser, replicas }));

const hits = (page) => page.getByRole('region', { name: 'Search' }).getByRole('row');

visiting('a subtree is searched by name and by data', {}, async (page, visit) => {
  await visit.open('/ui/');
  await keys(page, 'g', 'l');
  await page.getByLabel('Below this znode').fill('shop/');
  await page.getByRole('textbox', { name: 'Name' }).fill('shoe-*');
  await page.getByRole('textbox', { name: 'Name' }).press('Enter');
  await page.getByText(/^100 found, \d+ searched$/).waitFor();
  await page.waitForURL(({ pathname }) => pathname === '/ui/tools/shop');
  assert.equal(await hits(page).count(), 1 + 100);
  await page.getByRole('button', { name: 'Continue searching' }).click();
  await page.getByText(/^200 found/).waitFor();
  await page.getByRole('button', { name: 'Continue searching' }).click();
  await page.getByText(/^250 found, all \d+ searched$/).waitFor();
  await page.getByLabel('Data contains').fill('size 49');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByText(/^5 found, all/).waitFor();
  await page.reload();
  await page.getByText(/^5 found, all/).waitFor();
  await page.getByRole('link', { name: '/shop/shoe-049' }).click();
  await page.getByRole('heading', { name: 'shoe-049' }).waitFor();
  await page.goBack();
  await page.getByRole('textbox', { name: 'Name' }).fill('<b>');
  await page.getByLabel('Data contains').fill('');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByRole('link', { name: '/shop/<b>hat' }).waitFor();
  await page.getByRole('textbox', { name: 'Name' }).fill('boots');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByText(/^No matches in \d+ znodes\.$/).waitFor();
  await visit.open('/ui/tools/none?name=x');
  await page.getByRole('alert').getByText('NoNode').waitFor();
});

async function exported(page) {
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export' }).click(),
  ]);
  return { name: download.suggestedFilename(), path: await download.path() };
}

visiting('an export can be imported, and the report is exact', {}, async (page, visit) => {
  await visit.open('/ui/tools/shop?tool=export');
  const file = await exported(page);
  await page.getByText(/^Complete: 252 znodes at \d+:\d+, /).waitFor();
  await page.getByText('Skipped: 1 ephemerals, 0 that you may not read').waitFor();
  assert.match(file.name, /^zabra-shop-\d+-\d+\.ndjson$/);

  await client.create('/blank ', 'x');
  await visit.open('/ui/tools/blank%20?tool=export');
  await exported(page);
  await page.getByText(/^Complete: 1 znodes /).waitFor();

  await page.getByRole('tab', { name: 'Import' }).click();
  await page.getByLabel('Below this znode').fill('/copy/shop');
  await page.getByLabel('File').setInputFiles(file.path);
  const look = page.getByRole('button', { name: 'Preview import' });
  await look.click();
  await page.getByText('Znodes to create: 252. Existing: 0.').waitFor();
  await assert.rejects(
    client.ask('stat', { path: '/copy/shop' }),
    /NoNode/,
    'A preview first shows',
  );
  await page.getByRole('button', { name: 'Import 252 znodes' }).click();
  await page.getByText('Done.').waitFor();
  const { stat } = await client.ask('stat', { path: '/copy/shop' });
  assert.equal(stat.numChildren, SHOES + 1);

  await client.ask('delete', { path: '/copy/shop/shoe-007' });
  await client.ask('set', { path: '/copy/shop/shoe-008', dataUtf8: 'changed' });
  const again = async (choice, button) => {
    await page.getByRole('button', { name: 'Choose another file' }).click();
    await page.getByLabel('File').setInputFiles(file.path);
    await look.click();
    await page.getByLabel(choice).check();
    await page.getByRole('button', { name: button }).click();
    await page.getByText('Done').waitFor();
  };
  await page.getByRole('button', { name: 'Choose another file' }).click();
  await page.getByLabel('File').setInputFiles(file.path);
  await look.click();
  await page.getByText('Znodes to create: 1. Existing: 251.').waitFor();
  await page.getByRole('link', { name: '/copy/shop/shoe-008' }).waitFor();
  await page.getByText('and 231 more').waitFor();
  await again('Skip', 'Import 1 znode');
  const kept = await client.ask('get', { path: '/copy/shop/shoe-008', dataformat: 'utf8' });
  assert.equal(kept.dataUtf8, 'changed');
  await again('Overwrite data and ACL', 'Import 252 znodes');
  const put = await client.ask('get', { path: '/copy/shop/shoe-008', dataformat: 'utf8' });
  assert.equal(put.dataUtf8, 'size 8');

  await page.getByRole('button', { name: 'Choose another file' }).click();
  await page.getByLabel('File').setInputFiles(file.path);
  await look.click();
  await page.getByText('Znodes to create: 0. Existing: 252.').waitFor();
  const none = page.getByRole('button', { name: 'Import 0 znodes' });
  assert.equal(await none.getAttribute('aria-disabled'), 'true');
  await none.hover();
  await page.getByRole('tooltip').getByText('No changes to import').waitFor();
});

visiting(
  'a failed import shows its line and the completed changes',
  { refused: true },
  async (page, visit) => {
    const lines = Array.from({ length: OPS_MAX * 2 }, (_, at) => `{"path":"line-${at}"}`);
    const file = join(replicas.directory, 'partly.ndjson');
    await client.create('/partly');
    const choose = async () => {
      await visit.open('/ui/tools/partly?tool=import');
      await page.getByLabel('File').setInputFiles(file);
      await page.getByRole('button', { name: 'Preview import' }).click();
    };
    writeFileSync(file, [...lines.slice(0, 10), 'nonsense'].join('\n'));
    await choose();
    await page.getByText(/^Line 11: /).waitFor();

    writeFileSync(file, lines.join('\n'));
    await choose();
    await page.getByText('Znodes to create: 2,000. Existing: 0.').waitFor();
    await client.create('/partly/line-1500');
    await page.getByRole('button', { name: 'Import 2,000 znodes' }).click();
    await page.getByText(/^Line 1,501: /).waitFor();
    await page.getByText('The import failed. These earlier changes remain:').waitFor();
    const { stat } = await client.ask('stat', { path: '/partly' });
    const created = page.locator('.fact', { hasText: 'Created' }).locator('dd');
    const reported = Number((await created.textContent()).replace(',', ''));
    assert.equal(reported, stat.numChildren - 1, 'all except the conflicting child');
    assert.ok(reported > 0);
  },
);

visiting('an import continues after the view is left, and reports', {}, async (page, visit) => {
  await client.create('/left');
  const file = join(replicas.directory, 'left.ndjson');
  writeFileSync(file, '{"path":"one"}\n{"path":"two"}\n');
  let resume;
  const wait = new Promise((resolve) => {
    resume = resolve;
  });
  await page.route(/dryRun=false/, async (request) => {
    await wait;
    await request.continue();
  });
  await visit.open('/ui/tools/left?tool=import');
  await page.getByLabel('File').setInputFiles(file);
  await page.getByRole('button', { name: 'Preview import' }).click();
  await page.getByRole('button', { name: 'Import 2 znodes' }).click();
  await page.getByText('Importing').waitFor();
  await page.getByRole('link', { name: 'Overview' }).click();
  await page.locator('.health').waitFor();
  resume();
  await toasted(page, 'The import below /left is done: 2 znodes were written.');
  const { stat } = await client.ask('stat', { path: '/left' });
  assert.equal(stat.numChildren, 2);
});

visiting('missing permissions are shown', { refused: true }, async (page, visit) => {
  await client.ask('auth', { scheme: 'digest', credential: 'bob:secret' });
  await client.create('/safe');
  await client.ask('setacl', { path: '/safe', acl: 'creator' });
  await visit.open('/ui/tools/safe?tool=export');
  await page.getByRole('button', { name: 'Export' }).click();
  await page.getByText('Not allowed: you need permission to read').waitFor();
  const file = join(replicas.directory, 'one.ndjson');
  writeFileSync(file, '{"path":"child"}\n');
  await visit.open('/ui/tools/safe?tool=import');
  await page.getByLabel('File').setInputFiles(file);
  await page.getByRole('button', { name: 'Preview import' }).click();
  await page.getByRole('alert').waitFor();
});

const LOOKS = [
  { language: 'en', theme: 'dark', viewport: WIDE },
  { language: 'zh', theme: 'light', viewport: NARROW },
];

for (const look of LOOKS) {
  const name = `the tools are accessible: ${look.language}, ${look.theme}`;
  visiting(name, look, async (page, visit) => {
    await visit.open('/ui/tools/shop');
    for (const [query, part] of [
      ['name=shoe-00*', 'td'],
      ['tool=export', 'form'],
      ['tool=import', 'form'],
    ]) {
      await visit.go(`/ui/tools/shop?${query}`);
      await page.locator(part).first().waitFor();
      assert.deepEqual(await visit.barriers(), [], query);
      assert.equal(await visit.excess(), 0, query);
    }
  });
}
