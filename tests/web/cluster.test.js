// Replicas, sessions and metrics: the state of each replica and for how long; what each session
// owns, and its end; the figures of each replica.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { NARROW, openBrowser, visitingBy, WIDE } from './browser.js';
import { Client } from './clients.js';
import { at, withOthers } from './finders.js';
import { Replicas, until } from './replicas.js';
import { toasted } from './toasts.js';

const SUPER = 'super:zUZ0bpqYS7FucDXsnUgxOWTto1s='; // super:root
const LONG_MS = 60_000;

let browser;
let replicas;

before(async () => {
  browser = await openBrowser();
  replicas = await Replicas.start(3, { superDigest: SUPER });
});

after(async () => {
  await browser?.close();
  await replicas?.stop();
});

const visiting = visitingBy(() => ({ browser, replicas }));

async function signIn(page, user, password) {
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByLabel('User').fill(user);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('dialog').getByRole('button', { name: 'Sign in' }).click();
}

async function leader() {
  const answer = await replicas.ask('GET', '/ensemble/v1');
  return (await answer.json()).leader;
}

const card = (page, id) => page.getByRole('region', { name: `Replica ${id}` });

visiting('each replica shows the state of all', {}, async (page, visit) => {
  const leads = await leader();
  for (let at = 0; at < 3; at += 1) {
    await visit.open('/ui/ensemble', at);
    for (let id = 1; id <= 3; id += 1) {
      const state = id === leads ? 'leader' : 'follower';
      await card(page, id).getByText(state, { exact: true }).waitFor();
      await card(page, id)
        .getByText(/^p50 .*, p99 /)
        .waitFor();
      if (id !== at + 1) {
        await card(page, id).getByText('not encrypted').waitFor();
      }
    }
    await card(page, at + 1)
      .getByText('serves this page')
      .waitFor();
    await card(page, leads).getByText('leads', { exact: true }).waitFor();
  }
});

visiting(
  'a session appears with its ephemerals and watches, and is closed',
  {},
  async (page, visit) => {
    const client = await Client.connect(replicas, { at: 1, timeout_ms: LONG_MS });
    await visit.open('/ui/sessions');
    const row = page.getByRole('row').filter({ hasText: client.session });
    await row.getByText('replica 2', { exact: true }).waitFor();
    await client.create('/members/<b>one', 'x', { ephemeral: true });
    await client.ask('watch', { path: '/members', kind: 'recursive' });
    await page.getByLabel('Filter').fill('zzz');
    await page.getByText('No session matches.').waitFor();
    await page.getByLabel('Filter').fill(client.session);
    await row.getByRole('cell', { name: /by replica 2$/ }).waitFor(); // As the leader knows.
    await row.getByRole('link').click();
    await page.getByRole('link', { name: '/members/<b>one' }).waitFor();
    await page.getByRole('row').filter({ hasText: 'subtree' }).getByText('/members').waitFor();
    await page.getByText('As reported by replica 2').waitFor();
    const close = page.getByRole('button', { name: 'Close the session' });
    await close.hover();
    await page.getByText('Only the super user can close sessions of other clients').waitFor();
    await signIn(page, 'super', 'root');
    await until(
      'the permission is shown',
      async () => (await close.getAttribute('aria-disabled')) === 'false',
    );
    await close.click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('Also deleted (1):').waitFor();
    await dialog.getByText('/members/<b>one').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await close.click();
    await dialog.getByRole('button', { name: 'Close the session' }).click();
    await toasted(page, `Session ${client.session} is closed.`);
    await page.getByText('This session does not exist').waitFor();
    const gone = await fetch(`${replicas.url()}/znodes/v1/members/%3Cb%3Eone`);
    assert.equal(gone.status, 404);
    client.die();
  },
);

visiting('the owner of an ephemeral is a link to its session', {}, async (page, visit) => {
  const client = await Client.connect(replicas, { timeout_ms: LONG_MS });
  await client.create('/members/two', '', { ephemeral: true });
  await visit.open('/ui/tree/members/two?tab=stat');
  await page.getByRole('link', { name: client.session }).click();
  await page.getByRole('heading', { name: client.session }).waitFor();
  await page.getByRole('link', { name: '/members/two' }).waitFor();
  client.die();
});

visiting('missing and restricted views say so', {}, async (page, visit) => {
  await visit.open('/ui/sessions/0x7fff');
  await page.getByText('This session does not exist').waitFor();
  await page.getByRole('link', { name: 'All sessions' }).click();
  await page.getByText('You see the sessions that were opened with your identity').waitFor();
});

visiting('each replica has its own figures, each with an explanation', {}, async (page, visit) => {
  await replicas.create('/counted', 'x');
  await visit.open('/ui/metrics');
  await page.getByText('Figures of replica 1 only').waitFor();
  await page.locator('.plot canvas').first().waitFor();
  assert.equal(await page.locator('figure.plot').count(), 20);
  await page.getByLabel('Replica').selectOption('3');
  await page.getByText('Figures of replica 3 only').waitFor();
  await page.locator('.plot canvas').first().waitFor();
  await page.getByLabel('Range').selectOption('6h');
  await page.locator('.plot canvas').first().waitFor();
  await at(page, '/ui/metrics?replica=3&range=6h');
  await page.getByLabel('Search by name and meaning').fill('this replica has started');
  await page.getByRole('cell', { name: 'zabra_elections_total' }).waitFor();
  await page.getByText(/^1 of \d+$/).waitFor();
  await page.getByLabel('Search by name and meaning').fill('no such thing');
  await page.getByText('No metric matches.').waitFor();
});

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
      const client = await Client.connect(replicas, { timeout_ms: LONG_MS });
      await client.create(`/members/${language}`, '', { ephemeral: true });
      const pages = [
        ['/ui/ensemble', '.replica'],
        ['/ui/sessions', 'td'],
        [`/ui/sessions/${client.session}`, '.session-paths a'],
        ['/ui/metrics?search=log', '.plot canvas'], // With all metrics axe takes long.
      ];
      await visit.open('/ui/');
      for (const [path, part] of pages) {
        await visit.go(path);
        await page.locator(part).first().waitFor();
        assert.deepEqual(await visit.barriers(), [], path);
        assert.equal(await visit.excess(), 0, path);
      }
      await client.ask('close');
      client.die();
    },
  );
  visiting(
    `changes of the members are accessible: ${language}, ${theme}, ${viewport.width} wide`,
    { ...look, refused: true },
    async (page, visit) => {
      const check = async (what) => {
        assert.deepEqual(await visit.barriers(), [], what);
        assert.equal(await visit.excess(), 0, what);
      };
      await withOthers(page);
      await visit.open('/ui/ensemble');
      const dialog = page.getByRole('dialog');
      await page.locator('.members-note button').click();
      await dialog.locator('[autocomplete=username]').fill('super');
      await dialog.locator('[type=password]').fill('root');
      await page.keyboard.press('Enter');
      await dialog.waitFor({ state: 'detached' });
      const add = page.locator('[aria-labelledby=waiting] button').first();
      await add.click();
      await dialog.locator('[name=other]:focus').waitFor();
      await page.keyboard.press('Enter');
      await dialog.locator('.risks').waitFor();
      await check('add');
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
      assert.equal(await add.evaluate((one) => one === document.activeElement), true);
      await page.locator('[aria-labelledby=replica-3] .danger').click();
      await dialog.locator('.consent input').check();
      await dialog.locator('.risks .bad').waitFor();
      await check('remove');
    },
  );
}

// The last test: it stops a replica, then kills another one.
visiting('a stopped replica and a killed one are shown differently', {}, async (page, visit) => {
  const leads = await leader();
  const still = (leads % 3) + 1;
  const other = (still % 3) + 1;
  await visit.open('/ui/ensemble', other - 1);
  await card(page, still).getByText('follower', { exact: true }).waitFor();
  replicas.processes[still - 1].kill('SIGSTOP');
  try {
    await card(page, still)
      .getByText(/^(Silent for|Does not answer, last contact) \d+ s/)
      .waitFor({ timeout: 60_000 });
    await page.getByText('2 of 3 vote: if one more fails, writes stop.').waitFor();
  } finally {
    replicas.processes[still - 1].kill('SIGCONT');
  }
  await card(page, still).getByText('follower', { exact: true }).waitFor();
  await replicas.kill(still - 1);
  await card(page, still).getByText('unreachable').waitFor();
  await card(page, still)
    .getByText(/^Does not answer, last contact/)
    .waitFor();
  await page.getByText(`Replica ${still} cannot be reached.`).waitFor();
});
