// shots.js [NAME...]: takes pictures of every view into docs/images/, of an ensemble with realistic
// data. The views come from the navigation, so none is forgotten.

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { NARROW, openBrowser, Visit, WIDE } from './browser.js';
import { Client } from './clients.js';
import { shrink } from './png.js';
import { Replicas, until } from './replicas.js';

const target = join(dirname(fileURLToPath(import.meta.url)), '../../docs/images');
const wanted = process.argv.slice(2);
const LONG_MS = 600_000; // Sessions survive when a busy machine loses their sockets.
const WAIT_MS = 60_000; // Timeout until a view is complete, also on a busy machine.
const HISTORY = 20; // Minimal seconds of a plot.
const EVENTS = 12; // Minimal lines of the stream of events.
const LOAD_MS = 40; // Pause between two writes of each busy client.

const CONFIG = {
  currency: 'EUR',
  checkout: { timeout_ms: 2500, retries: 3 },
  features: ['search', 'wishlist', 'gift-cards'],
  orders_from: 12345678901234567890n,
};

const json = (value) =>
  JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? JSON.rawJSON(String(one)) : one));

// ---- An ensemble with realistic data ----

async function makeTree(client) {
  await client.create('/shop/config', json(CONFIG));
  await client.create('/shop/config/regions/eu-west', json({ weight: 60 }));
  await client.create('/shop/config/regions/us-east', json({ weight: 40 }));
  await client.create('/shop/flags/dark-launch', 'on');
  await client.create('/shop/flags/new-checkout', 'off');
  await client.create('/shop/secrets/payment', 'not for everybody', { acl: 'creator' });
  await client.create('/shop/leases', '', { container: true });
  await client.create('/shop/leases/import', 'nightly', { ttl: 3_600_000 });
  await client.create('/queues/mail/item-', 'welcome: carol', { sequence: true });
  await client.create('/queues/mail/item-', 'invoice: 4711', { sequence: true });
  await client.create('/queues/mail/item-', 'invoice: 4712', { sequence: true });
  await client.create('/counters/tickets', '41873');
  await client.create('/barriers/migration/members/node-a', '', { ephemeral: true });
  await client.create('/empty');
}

async function makeRecipes(clients) {
  const hosts = clients.map((_, at) => `web-${String(at + 1).padStart(2, '0')}`);
  for (const [at, client] of clients.entries()) {
    await client.create(`/groups/web/${hosts[at]}`, `10.0.0.${11 + at}:8080`, { ephemeral: true });
    if (at < 7) {
      await client.stand('/locks/report/lock-', `${hosts[at]}/cron`);
    }
    if (at < 4) {
      await client.stand('/election/scheduler/candidate-', `scheduler-${at + 1}`);
    }
    if (at < 8) {
      await client.stand(`/locks/catalog/${at === 3 || at === 6 ? 'write' : 'read'}-`, hosts[at]);
    }
  }
}

/** A busy client, until the returned function is called. */
function work(client, path) {
  let count = 0;
  const timer = setInterval(() => {
    count += 1;
    const asked = [
      client.ask('set', { path, dataUtf8: `items: ${count % 5}` }),
      client.ask('get', { path: '/shop/config' }),
      client.ask('children', { path: '/groups/web' }),
    ];
    Promise.all(asked).catch(() => undefined); // Refused requests are repeated in a moment.
  }, LOAD_MS);
  return () => clearInterval(timer);
}

async function prepare(replicas) {
  const admin = await Client.connect(replicas, { timeout_ms: LONG_MS });
  await admin.ask('auth', { scheme: 'digest', credential: 'carol:pass-w0rd' });
  await makeTree(admin);
  const clients = [];
  for (let at = 0; at < 12; at += 1) {
    clients.push(await Client.connect(replicas, { timeout_ms: LONG_MS, at: at % 3 }));
  }
  await makeRecipes(clients);
  const ends = [];
  for (const client of clients.slice(0, 3)) {
    ends.push(work(client, await client.create('/shop/carts/cart-', '0', { sequence: true })));
  }
  await until(
    'plots have a history',
    async () => {
      const answer = await replicas.ask('GET', '/metrics/history/v1');
      return (await answer.json()).times.length >= HISTORY;
    },
    WAIT_MS,
  );
  return { admin, end: () => ends.map((one) => one()) };
}

// ---- Pictures ----

/** URLs of the best pictures of some views; other views have their own URL. */
const PLACES = {
  tree: '/ui/tree/shop/config',
  recipes: '/ui/recipes/locks/report',
  events: '/ui/events?watch=recursive:/shop',
  tools: '/ui/tools/shop?name=*e*',
};

async function signIn(page, _, user = 'carol', password = 'pass-w0rd') {
  await page.getByRole('banner').getByRole('button', { name: 'Sign in' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('User').fill(user);
  await dialog.getByLabel('Password').fill(password);
  await dialog.getByRole('button', { name: 'Sign in' }).click();
  await dialog.waitFor({ state: 'detached' });
}

/** Name of the picture, look, URL, and the user's actions. */
const SCENES = [
  { name: 'znode-acl', path: '/ui/tree/shop/secrets/payment?tab=acl', act: signIn },
  { name: 'znode-stat', path: '/ui/tree/shop/leases/import?tab=stat', theme: 'dark' },
  {
    name: 'edit',
    path: '/ui/tree/shop/config',
    act: async (page) => {
      await page.getByRole('button', { name: 'Edit', exact: true }).click();
      await page.locator('.cm-content').waitFor();
    },
  },
  { name: 'conflict', path: '/ui/tree/shop/config/regions/eu-west', act: merge },
  {
    name: 'conflict-narrow',
    path: '/ui/tree/shop/config/regions/us-east',
    act: merge,
    theme: 'dark',
    language: 'zh',
    viewport: NARROW,
  },
  { name: 'members', path: '/ui/ensemble', act: removeMember },
  { name: 'no-right', path: '/ui/tree/shop/secrets/payment' },
  { name: 'empty', path: '/ui/recipes/locks/nothing-yet', theme: 'dark' },
  { name: 'recipes-find', path: '/ui/recipes' },
  { name: 'recipes-rwlock', path: '/ui/recipes/locks/catalog', theme: 'dark' },
  { name: 'recipes-group', path: '/ui/recipes/groups/web' },
  { name: 'recipes-election', path: '/ui/recipes/election/scheduler', language: 'zh' },
  { name: 'tools-import', path: '/ui/tools/shop?tool=import', act: checkImport },
  { name: 'palette', path: '/ui/', act: (page) => typeInPalette(page, '/shop/') },
  { name: 'docs', path: '/ui/docs/operating.html' },
  { name: 'overview-zh-dark', path: '/ui/', language: 'zh', theme: 'dark' },
  { name: 'tree-narrow', path: '/ui/tree/shop/config', viewport: NARROW },
  { name: 'overview-narrow', path: '/ui/', viewport: NARROW, language: 'zh', theme: 'dark' },
  { name: 'recipes-narrow', path: '/ui/recipes/locks/report', viewport: NARROW, theme: 'dark' },
];

async function checkImport(page) {
  const lines = ['flags/new-checkout', 'flags/gift-cards', 'config/regions/ap-south'];
  const text = lines.map((path) => JSON.stringify({ path, dataUtf8: 'on' })).join('\n');
  await page.getByLabel('File').setInputFiles({
    name: 'shop.ndjson',
    mimeType: 'application/x-ndjson',
    buffer: Buffer.from(text),
  });
  await page.getByRole('button', { name: 'Preview import' }).click();
  await page.getByText('Znodes to create').waitFor();
}

/** Another client saves the edited znode. */
async function merge(page, admin) {
  const path = new URL(page.url()).pathname.replace('/ui/tree', '');
  const note =
    'Raised step by step: ask the shop before it takes more than it had at the end of last year';
  const text = (weight, zones) => JSON.stringify({ weight, note, zones }, null, 2);
  const set = (dataUtf8) => admin.ask('set', { path, dataUtf8 });
  await set(text(60, ['a', 'b']));
  await page.getByText('zones').first().waitFor();
  await page.keyboard.press('e');
  await page.locator('.cm-content').waitFor();
  await page.locator('.cm-content').press('Control+Home');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.type('  "drain": true,\n');
  await page.getByText('174 B').waitFor();
  await set(text(75, ['a', 'b', 'c']).replace('it had', 'they have'));
  await page.getByRole('alert').locator('.choices .button').first().click();
  await page.locator('.cm-chunkButtons').first().waitFor();
}

/** Asks what the removal of a voter would do. */
async function removeMember(page) {
  await signIn(page, undefined, 'super', 'root');
  await page.locator('.toast button').click();
  await page.getByRole('region', { name: 'Replica 3' }).locator('.danger').click();
  await page.locator('.consent input').check();
  await page.locator('.risks').waitFor();
}

async function typeInPalette(page, text) {
  await page.keyboard.press('Control+k');
  await page.locator('[role=combobox]:focus').waitFor();
  await page.keyboard.type(text);
  await page.getByRole('option').nth(1).waitFor();
}

/** Waits until nothing is loading any more. */
async function settle(page) {
  await page.waitForLoadState('networkidle');
  await until('all is shown', async () => (await page.locator('.spinner').count()) === 0);
  await page.evaluate(() => document.fonts.ready);
  for (const canvas of await page.locator('.plot canvas').all()) {
    await canvas.waitFor();
  }
}

async function take(visit, scene, admin) {
  const { name, path, act } = scene;
  const { page } = visit;
  page.setDefaultTimeout(WAIT_MS);
  await page.goto(`${visit.replicas.url()}${path}`);
  if (!path.startsWith('/ui/docs/')) {
    await page.locator('.lamp.live').waitFor();
  }
  await act?.(page, admin);
  if (name === 'events') {
    await page.getByText('/shop/carts/').nth(EVENTS).waitFor();
  }
  await settle(page);
  const png = shrink(await page.screenshot());
  writeFileSync(join(target, `${name}.png`), png);
  console.log(`${name}.png ${(png.length / 1024).toFixed(0)} KiB`);
}

async function viewsOf(browser, replicas) {
  const visit = await Visit.begin(browser, replicas);
  await visit.open('/ui/');
  const hrefs = await visit.page
    .locator('.navigation a')
    .evaluateAll((links) => links.map((link) => link.getAttribute('href')));
  await visit.end();
  return hrefs.map((href) => {
    const name = href.split('/').at(-1);
    return { name, path: PLACES[name] ?? href };
  });
}

const browser = await openBrowser();
const replicas = await Replicas.start(3, {
  environment: 'production',
  maxSessionTimeout: LONG_MS,
  superDigest: 'super:zUZ0bpqYS7FucDXsnUgxOWTto1s=', // super:root
});
try {
  mkdirSync(target, { recursive: true });
  const { admin, end } = await prepare(replicas);
  const scenes = [...(await viewsOf(browser, replicas)), ...SCENES];
  for (const scene of scenes) {
    if (wanted.length > 0 && !wanted.includes(scene.name)) {
      continue;
    }
    const visit = await Visit.begin(browser, replicas, { viewport: WIDE, ...scene });
    await take(visit, scene, admin);
    for (const complaint of visit.complaints) {
      console.log(`  ${complaint}`);
    }
    await visit.end();
  }
  end();
} finally {
  await browser.close();
  await replicas.stop();
}
process.exit(0); // The clients' sockets still reconnect.
