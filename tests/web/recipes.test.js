// Live views of recipes: locks, groups and the others, while clients come and die.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { NARROW, openBrowser, Visit, WIDE } from './browser.js';
import { Client } from './clients.js';
import { keys } from './finders.js';
import { Replicas, until } from './replicas.js';

const WAITERS = 20;
const MEMBERS = 50;
const LOST_MS = 2_000; // The shortest timeout that replicas grant by default: of clients that die.
const LONG_MS = 60_000; // Of the others: no busy machine ends their sessions.

let browser;
let replicas;

before(async () => {
  browser = await openBrowser();
  replicas = await Replicas.start();
});

after(async () => {
  await browser?.close();
  await replicas?.stop();
});

/** Records each state that the page has shown, as returned by `look`. */
async function record(page, look) {
  await page.evaluate((source) => {
    const now = new Function(`return (${source})()`);
    globalThis.seen = [];
    const note = () => {
      const text = JSON.stringify(now());
      if (globalThis.seen.at(-1) !== text) {
        globalThis.seen.push(text);
      }
    };
    note();
    new MutationObserver(note).observe(document.querySelector('main'), {
      childList: true,
      subtree: true,
      characterData: true,
    });
  }, String(look));
  return async () => (await page.evaluate(() => globalThis.seen)).map((text) => JSON.parse(text));
}

const sentence = (page, text) => page.locator('.recipe-sentence', { hasText: text }).waitFor();

/** Clients of which those that `dies` names by their place have sessions that end soon after them. */
function connectMany(count, dies, options) {
  return Promise.all(
    Array.from({ length: count }, (_, at) =>
      Client.connect(replicas, { ...options, timeout_ms: dies(at) ? LOST_MS : LONG_MS }),
    ),
  );
}

async function closeAll(clients) {
  await Promise.all(clients.map((client) => client.ask('close')));
  for (const client of clients) {
    client.die();
  }
}

test('a lock with 20 waiters, while its holder and some waiters are killed', async () => {
  const dead = [0, 1, 7, 13];
  const clients = await connectMany(1 + WAITERS, (at) => dead.includes(at));
  const paths = [];
  for (const client of clients) {
    paths.push(await client.stand('/locks/report/lock-'));
  }
  const names = paths.map((path) => path.split('/').at(-1));
  const visit = await Visit.begin(browser, replicas);
  const { page } = visit;
  await visit.open('/ui/recipes/locks/report');
  await sentence(page, `${names[0]} holds it, ${WAITERS} waiting`);
  assert.equal(await page.locator('.stand').count(), 1 + WAITERS);
  assert.match(await page.locator('.stand').nth(1).textContent(), RegExp(`waits for ${names[0]}`));
  assert.match(await page.locator('.stand').nth(0).textContent(), /fence \d+/);

  const states = await record(page, () => ({
    holders: [...document.querySelectorAll('.stand.holds strong')].map((one) => one.textContent),
    count: document.querySelectorAll('.stand').length,
  }));
  for (const at of dead) {
    clients[at].die();
  }
  const left = names.filter((_, at) => !dead.includes(at));
  await sentence(page, `${left[0]} holds it, ${left.length - 1} waiting`);
  assert.deepEqual(await page.locator('.stand strong').allTextContents(), left);
  await closeAll([clients[2]]);
  await sentence(page, `${left[1]} holds it, ${left.length - 2} waiting`);
  await page.getByText(`${left[0]} left; ${left[1]} is first now`).waitFor();

  const seen = await states();
  for (const [at, { holders, count }] of seen.entries()) {
    assert.equal(holders.length, 1, `one holder at each moment: ${JSON.stringify(seen)}`);
    assert.ok(count <= (seen[at - 1]?.count ?? count), 'no client reappears');
  }
  const turns = seen.map(({ holders }) => names.indexOf(holders[0]));
  assert.deepEqual(
    turns,
    turns.toSorted((a, b) => a - b),
    'the turn only advances',
  );
  assert.deepEqual(visit.complaints, []);
  await visit.end();
  await closeAll(clients.filter((_, at) => at > 2 && !dead.includes(at)));
});

test('a group of 50, while members die and a new one comes', async () => {
  const clients = await connectMany(MEMBERS, (at) => at < 10, { at: 1 });
  await Promise.all(
    clients.map((client, at) =>
      client.create(`/groups/web/host-${String(at).padStart(2, '0')}`, `10.0.0.${at}:80`, {
        ephemeral: true,
      }),
    ),
  );
  const visit = await Visit.begin(browser, replicas);
  const { page } = visit;
  await visit.open('/ui/recipes/groups/web');
  await sentence(page, `${MEMBERS} members`);
  await page.locator('.member', { hasText: 'host-49' }).getByText('10.0.0.49:80').waitFor();
  const states = await record(page, () => document.querySelectorAll('.member').length);
  for (const client of clients.slice(0, 10)) {
    client.die();
  }
  await sentence(page, `${MEMBERS - 10} members`);
  assert.equal(await page.locator('.member').count(), MEMBERS - 10);
  assert.equal(await page.getByText('host-09').count(), 0, 'no dead member is shown');
  const counts = await states();
  assert.deepEqual(
    counts,
    counts.toSorted((a, b) => b - a),
    'no flicker',
  );
  await clients[20].create('/groups/web/host-new', 'first', { ephemeral: true });
  await page.locator('.member', { hasText: 'host-new' }).getByText('first').waitFor();
  await clients[20].ask('set', { path: '/groups/web/host-new', dataUtf8: 'second' });
  await page.locator('.member', { hasText: 'host-new' }).getByText('second').waitFor();
  assert.deepEqual(visit.complaints, []);
  await visit.end();
  await closeAll(clients.slice(10));
});

/** Creates one of each recipe, like the command line. */
async function makeAll(client) {
  await client.stand('/locks/catalog/read-');
  await client.stand('/locks/catalog/read-');
  await client.stand('/locks/catalog/write-');
  await client.stand('/election/scheduler/candidate-', 'alice');
  await client.stand('/election/scheduler/candidate-', 'bob');
  const other = await Client.connect(replicas, { timeout_ms: LONG_MS });
  await client.stand('/semaphores/licences/leases/lease-');
  await other.stand('/semaphores/licences/leases/lease-');
  await other.stand('/semaphores/licences/line/lock-');
  await client.create('/barriers/migration');
  await client.create('/barriers/step/members/a', '', { ephemeral: true });
  await client.create('/queues/mail/item-', 'first letter', { sequence: true });
  await client.create('/queues/mail/item-', 'second letter', { sequence: true });
  await client.create('/counters/tickets', '41');
  await client.create('/groups/hostile/<img src=x onerror=hit()>', '\u202e<b>bold', {
    ephemeral: true,
  });
  return other;
}

test('each recipe is found, shown in its form, and updated', async () => {
  const client = await Client.connect(replicas, { timeout_ms: LONG_MS });
  const other = await makeAll(client);
  const visit = await Visit.begin(browser, replicas);
  const { page } = visit;
  const go = async (path) => {
    await page.getByLabel('Path of a znode').fill(path);
    await page.getByRole('button', { name: 'Open' }).click();
  };
  await visit.open('/ui/');
  await keys(page, 'g', 'r');
  const row = page.getByRole('row').filter({ hasText: '/election/scheduler' });
  await row.getByRole('cell', { name: 'Election', exact: true }).waitFor();
  await row.getByRole('link').click();
  await sentence(page, 'alice leads, 1 waiting');
  await page.getByText('waits for alice').waitFor();
  await go('/locks/catalog');
  await sentence(page, '2 reading, 1 waiting');
  await go('/semaphores/licences');
  await sentence(page, '1 leases held, 1 waiting');
  await go('/barriers/migration');
  await sentence(page, 'Raised: processes wait');
  await client.ask('delete', { path: '/barriers/migration' });
  await sentence(page, 'Lowered: processes pass');
  await go('/barriers/step');
  await sentence(page, 'Filling: 1 have entered and wait for more');
  await page.getByLabel('Needed').fill('3');
  await page.getByLabel('Needed').press('Enter');
  await sentence(page, 'Filling: 1 of 3 have entered');
  await page.waitForURL(/of=3/);
  await other.create('/barriers/step/members/b', '', { ephemeral: true });
  await sentence(page, 'Filling: 2 of 3 have entered');
  await client.create('/barriers/step/ready');
  await sentence(page, 'Open: 2 inside');
  await go('/queues/mail');
  await sentence(page, '2 items, the oldest has waited for');
  await page.locator('.stand').first().getByText('first letter').waitFor();
  await client.ask('delete', { path: '/queues/mail/item-0000000000' });
  await page.locator('.stand').first().getByText('second letter').waitFor();
  await client.ask('delete', { path: '/queues/mail/item-0000000001' });
  await sentence(page, 'Empty');
  await go('/counters/tickets');
  await sentence(page, '41');
  await client.ask('set', { path: '/counters/tickets', dataUtf8: '12345678901234567890' });
  await sentence(page, '12,345,678,901,234,567,890');
  await go('/groups/hostile');
  await page.getByText('‹202E›<b>bold').waitFor();
  assert.equal(await page.evaluate(() => globalThis.hit), undefined);
  await page.getByLabel('Show as').selectOption('lock');
  await sentence(page, 'Free: no process holds it');
  await page.waitForURL(/kind=lock/);
  assert.deepEqual(visit.complaints, []);
  await visit.end();
});

test('a missing and an unreadable recipe are shown as such', async () => {
  const client = await Client.connect(replicas);
  await client.ask('auth', { scheme: 'digest', credential: 'bob:secret' });
  await client.create('/locks/safe/inside', '', {});
  await client.ask('setacl', { path: '/locks/safe', acl: 'creator' });
  const visit = await Visit.begin(browser, replicas);
  const { page } = visit;
  await visit.open('/ui/recipes/locks/none');
  await page.getByText('It is shown once it is created.').waitFor();
  await client.create('/locks/none');
  await sentence(page, 'Free: no process holds it');
  await visit.open('/ui/recipes/locks/safe');
  await page.getByText('Not allowed: you need permission to read').waitFor();
  assert.deepEqual(visit.complaints, []);
  await visit.end();
});

const LOOKS = [
  { language: 'en', theme: 'light', viewport: WIDE },
  { language: 'zh', theme: 'dark', viewport: NARROW },
];

for (const look of LOOKS) {
  test(`recipes are accessible: ${look.language}, ${look.theme}`, async () => {
    const visit = await Visit.begin(browser, replicas, look);
    await visit.open('/ui/recipes');
    for (const path of ['', '/locks/catalog', '/semaphores/licences', '/barriers/step?of=3']) {
      await visit.go(`/ui/recipes${path}`);
      await visit.page.locator('.panel').first().waitFor();
      assert.deepEqual(await visit.barriers(), [], path);
      assert.equal(await visit.excess(), 0, path);
    }
    assert.deepEqual(visit.complaints, []);
    await visit.end();
  });
}

// The last test: it kills a replica.
test('the replica is lost, and the queue still advances', async () => {
  const clients = await Client.many(2, replicas, { timeout_ms: LONG_MS, at: 1 });
  for (const client of clients) {
    await client.stand('/locks/late/lock-');
  }
  const visit = await Visit.begin(browser, replicas);
  const { page } = visit;
  await visit.open('/ui/recipes/locks/late');
  await sentence(page, 'lock-0000000000 holds it, 1 waiting');
  await replicas.kill(0);
  await until('the lock is released', async () => {
    await clients[0].ask('close').catch(() => undefined); // It may be closed, and the answer lost.
    const children = '/znodes/v1/locks/late?view=children';
    return (await (await replicas.ask('GET', children, { at: 1 })).json()).children.length === 1;
  });
  await sentence(page, 'lock-0000000001 holds it, no process waits');
  assert.deepEqual(visit.complaints, []);
  await visit.end();
});
