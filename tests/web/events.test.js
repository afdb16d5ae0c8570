// The stream of events: live changes of other clients, several subscriptions, pause, filter, gaps,
// and no missed event when the replica is lost.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { NARROW, openBrowser, processorTime, visitingBy, WIDE } from './browser.js';
import { Client } from './clients.js';
import { Replicas, until } from './replicas.js';
import { toasted } from './toasts.js';

const MANY = 3_000;
const WHILE = 8; // Changes while the page has no replica; all fit into the view.
const OPS_MAX = 500; // In one multi.
const RATE = 2_500; // Events a second, duration in seconds, and events in each multi.
const BUSY_S = 4;
const BUSY_OPS = 25;
const DRAWINGS_PER_S = 11;
const BUSY_SHARE = 0.5; // Share of the time in which the page's thread may be busy.
const WORK_MAX_MS = 200; // Processor time of the page's thread for a multi of events.

let browser;
let replicas;

before(async () => {
  browser = await openBrowser();
  replicas = await Replicas.start(3, { maxWatches: 40 });
  await replicas.create('/app/one', 'x');
});

after(async () => {
  await browser?.close();
  await replicas?.stop();
});

const line = (page, text) => page.locator('.stream-row', { hasText: text });
const pathField = (page) => page.getByRole('textbox', { name: 'Path', exact: true });
const total = (page, count) =>
  page.getByText(new RegExp(`^${count.toLocaleString('en-GB')} events`)).waitFor();
const watching = (page, path) =>
  page.locator('.subscription', { hasText: path }).locator('.dot.good').waitFor();

const visiting = visitingBy(() => ({ browser, replicas }));

visiting('a subscription gets its events, and is in the URL', {}, async (page, visit) => {
  await visit.open('/ui/events');
  await page.getByText('Enter a path and choose a kind').waitFor();
  await pathField(page).fill('/app/');
  await page.keyboard.press('Enter');
  await watching(page, '/app');
  await page.waitForURL(({ searchParams }) => searchParams.get('watch') === 'recursive:/app');
  await page.getByText('No events yet.').waitFor();
  await replicas.create('/app/two', 'y', { at: 1 });
  await line(page, 'created').filter({ hasText: '/app/two' }).waitFor();
  await replicas.create('/app/two', 'z', { at: 2 });
  await line(page, 'data changed').waitFor();
  await replicas.ask('DELETE', '/znodes/v1/app/two', { at: 1 });
  await line(page, 'deleted').waitFor();
  await total(page, 3);
  await page.getByLabel('Kind').selectOption('children');
  await pathField(page).fill('/app/one');
  await page.getByRole('button', { name: 'Watch', exact: true }).click();
  await watching(page, '/app/one');
  await replicas.create('/app/one/child');
  await line(page, 'children changed').filter({ hasText: '/app/one' }).waitFor();
  const used = page.locator('.subscription', { hasText: 'Children, once' });
  await used.getByText('fired').waitFor();
  await used.getByRole('button', { name: 'Watch again' }).click();
  await used.locator('.dot.good').waitFor();
  await page.reload(); // Like a user with the link.
  await watching(page, '/app/one');
  await page.getByRole('button', { name: 'Stop watching /app/one' }).click();
  await used.waitFor({ state: 'detached' });
  await line(page, '/app/one/child').waitFor({ state: 'detached' });
  await replicas.create('/app/last', '', { at: 1 });
  await page.getByRole('link', { name: '/app/last' }).click();
  await page.getByRole('heading', { name: 'last' }).waitFor();
});

visiting(
  'a pause holds new events, a filter hides events, and shown ones are copied',
  { alters: true },
  async (page, visit) => {
    await visit.context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await visit.open('/ui/events?watch=recursive:/app&filter=three');
    await watching(page, '/app');
    await replicas.create('/app/three', 'x');
    await replicas.create('/app/four', 'x');
    await total(page, 2);
    await page.getByText('1 of 2 shown').waitFor();
    assert.equal(await page.locator('.stream-row').count(), 1);
    await page.getByRole('button', { name: 'Copy the shown events' }).click();
    await toasted(page, 'Copied.');
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    const event = JSON.parse(copied.trim());
    assert.equal(event.event, 'NodeCreated');
    assert.equal(event.path, '/app/three');
    assert.match(event.zxid, /^0x/);
    await page.getByLabel('Filter').fill('');
    await line(page, '/app/four').waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await replicas.create('/app/five', 'x');
    await page.getByText('1 wait').waitFor();
    assert.equal(await line(page, '/app/five').count(), 0);
    await page.getByRole('button', { name: 'Resume' }).click();
    await line(page, '/app/five').waitFor();
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByText('No events yet.').waitFor();
  },
);

visiting('a refused watch shows the reason', {}, async (page, visit) => {
  await visit.open('/ui/events?watch=data:/a/../b');
  await page.getByText(/^Refused: /).waitFor();
  await pathField(page).fill('app');
  const button = page.getByRole('button', { name: 'Watch', exact: true });
  await button.hover();
  await page.getByText('A path begins with a slash.').waitFor();
});

/**
 * The gap message of a replica that cannot send the missed events: here sent after so many changes,
 * between real events.
 */
visiting('a gap is marked at its position', { alters: true }, async (page, visit) => {
  let tell;
  let watch;
  await page.routeWebSocket(/\/ws\/v1/, (socket) => {
    const server = socket.connectToServer();
    server.onMessage((text) => {
      const message = JSON.parse(text);
      watch = message.watch ?? watch;
      socket.send(text);
    });
    tell = (message) => socket.send(JSON.stringify(message));
  });
  await visit.open('/ui/events?watch=recursive:/gap');
  await watching(page, '/gap');
  await replicas.create('/gap/before');
  await line(page, '/gap/before').waitFor();
  tell({ event: 'gap', watches: [watch], zxid: '0x100000001' });
  await line(page, 'Gap: events of /gap were lost.').waitFor();
  await replicas.create('/gap/after', '', { at: 1 });
  await line(page, '/gap/after').waitFor();
  assert.deepEqual(
    await page
      .locator('.stream-row')
      .evaluateAll((rows) => rows.map((row) => row.classList.contains('gap'))),
    [false, false, true, false],
  );
});

visiting(
  'thousands of events at once do not block the page',
  { alters: true },
  async (page, visit) => {
    await replicas.create('/many');
    await visit.open('/ui/events?watch=recursive:/many');
    await watching(page, '/many');
    const work = await processorTime(page);
    for (let from = 0; from < MANY; from += OPS_MAX) {
      const ops = Array.from({ length: OPS_MAX }, (_, at) => ({
        op: 'create',
        path: `/many/n${from + at}`,
      }));
      await replicas.ask('POST', '/multi/v1', {
        body: JSON.stringify({ ops }),
        headers: { 'Content-Type': 'application/json' },
      });
    }
    await total(page, MANY);
    await line(page, `/many/n${MANY - 1}`).waitFor();
    assert.ok((await page.locator('.stream-row').count()) < 100, 'only what is seen is there');
    const spent = await work();
    assert.ok(spent < WORK_MAX_MS * (MANY / OPS_MAX), `${Math.round(spent)} ms of work`);
  },
);

/** Records what each frame shows: the sum of all events, and that of the subscription. */
async function watchFrames(page) {
  await page.evaluate(() => {
    const sum = (selector) =>
      Number(
        document
          .querySelector(selector)
          ?.textContent.match(/^[\d,]+/)?.[0]
          .replace(/,/g, ''),
      );
    const seen = { differ: [], drawings: 0 };
    let last = -1;
    globalThis.seen = seen;
    const look = () => {
      const sums = [sum('.events-total'), sum('.subscription .count')];
      if (sums[0] !== sums[1]) {
        seen.differ.push(sums);
      }
      seen.drawings += sums[0] === last ? 0 : 1;
      last = sums[0];
      requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
}

visiting(
  'at 2,500 events a second each frame is consistent, and frames are few',
  { alters: true },
  async (page, visit) => {
    await replicas.create('/busy');
    await visit.open('/ui/events?watch=recursive:/busy&filter=n1');
    await watching(page, '/busy');
    const work = await processorTime(page);
    await watchFrames(page);
    const client = await Client.connect(replicas, { at: 1 });
    const answers = [];
    const begun = Date.now();
    for (let sent = 0; sent < RATE * BUSY_S; sent += BUSY_OPS) {
      const ops = Array.from({ length: BUSY_OPS }, (_, at) => ({
        op: 'create',
        path: `/busy/n${sent + at}`,
      }));
      answers.push(client.ask('multi', { ops }));
      await until('it is time', () => Date.now() - begun >= (sent * 1_000) / RATE);
    }
    await Promise.all(answers);
    await total(page, RATE * BUSY_S);
    const spent = await work();
    const seconds = (Date.now() - begun) / 1_000;
    const { differ, drawings } = await page.evaluate(() => globalThis.seen);
    assert.deepEqual(differ, []);
    assert.ok(drawings <= seconds * DRAWINGS_PER_S + 1, `${drawings} in ${seconds} s`);
    assert.ok((await page.locator('.stream-row').count()) < 100, 'only what is seen is there');
    assert.ok(spent < seconds * 1_000 * BUSY_SHARE, `${Math.round(spent)} ms of ${seconds} s`);
    client.die();
  },
);

const LOOKS = [
  { language: 'en', theme: 'light', viewport: WIDE },
  { language: 'zh', theme: 'dark', viewport: NARROW },
];

for (const look of LOOKS) {
  const { language, theme, viewport } = look;
  visiting(
    `the views are accessible: ${language}, ${theme}, ${viewport.width} wide`,
    look,
    async (page, visit) => {
      await visit.open('/ui/events');
      await page.locator('.state').waitFor();
      assert.deepEqual(await visit.barriers(), []);
      await visit.go('/ui/events?watch=recursive:/app&watch=data:/app/one');
      await watching(page, '/app/one');
      await replicas.create('/app/one', `${language} ${theme}`);
      await line(page, '/app/one').waitFor();
      assert.deepEqual(await visit.barriers(), []);
      assert.equal(await visit.excess(), 0);
    },
  );
}

// The last tests: they kill a replica.
visiting('the serving replica is lost, and no event is missed', {}, async (page, visit) => {
  await visit.open('/ui/events?watch=recursive:/lost');
  await watching(page, '/lost');
  await replicas.create('/lost/before');
  await line(page, '/lost/before').waitFor();
  await replicas.kill(0);
  for (let at = 0; at < WHILE; at += 1) {
    await replicas.create(`/lost/while-${at}`, '', { at: 1 + (at % 2) });
  }
  await line(page, 'No connection.').waitFor();
  await line(page, 'events resume without a gap').waitFor();
  for (let at = 0; at < WHILE; at += 1) {
    await page.getByRole('link', { name: `/lost/while-${at}`, exact: true }).waitFor();
  }
  await replicas.create('/lost/after', '', { at: 2 });
  await line(page, '/lost/after').waitFor();
  await total(page, 3 + WHILE);
});
