// Identities, permissions, a read-only replica, and the keyboard.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { NARROW, openBrowser, visitingBy } from './browser.js';
import { Client } from './clients.js';
import { Replicas } from './replicas.js';
import { toasted } from './toasts.js';

const BOB = { scheme: 'digest', credential: 'bob:pass-w0rd' };
const READ_ONLY = 1; // Index of the read-only replica.

let browser;
let replicas;
let client;

before(async () => {
  browser = await openBrowser();
  replicas = await Replicas.start(3, (at) => ({ readOnly: at === READ_ONLY }));
  client = await Client.connect(replicas);
  await client.ask('auth', BOB);
  await client.create('/app/config', 'open to all');
  await client.create('/app/secret', 'for bob alone', { acl: 'creator' });
});

after(async () => {
  client?.die();
  await browser?.close();
  await replicas?.stop();
});

const visiting = visitingBy(() => ({ browser, replicas }));

async function signIn(page, user, password, remember = false) {
  await page.getByRole('banner').getByRole('button', { name: 'Sign in' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('User').fill(user);
  await dialog.getByLabel('Password').fill(password);
  if (remember) {
    await dialog.getByLabel('Remember in this tab').check();
  }
  await dialog.getByRole('button', { name: 'Sign in' }).click();
  await dialog.waitFor({ state: 'detached' });
  await toasted(page, `Signed in as ${user}.`);
}

async function signOut(page, user) {
  await page.getByRole('banner').getByRole('button', { name: user }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Sign out' }).click();
  await toasted(page, 'Signed out.');
}

/** Everything that the browser has stored, and its URL. */
const remains = (page) =>
  page.evaluate(() =>
    JSON.stringify([
      location.href,
      document.cookie,
      { ...localStorage },
      { ...sessionStorage },
      history.state,
    ]),
  );

visiting('a user signs in, sees the identity, and signs out', {}, async (page, visit) => {
  await visit.open('/ui/tree/app/secret');
  await page.getByText('Not allowed: you need permission to read').waitFor();
  await page.getByText('You are not signed in.').waitFor();
  await signIn(page, 'bob', 'another-w0rd');
  await page.getByText('the password may be wrong').waitFor();
  await signOut(page, 'bob');
  await page.getByText('You are not signed in.').waitFor();
  await signIn(page, 'bob', 'pass-w0rd');
  await page.getByText('for bob alone').waitFor();
  await page.getByRole('banner').getByRole('button', { name: 'bob' }).click();
  await page.getByText('User bob, with a hash of the password').waitFor();
  await page.getByText('Address 127.0.0.1').waitFor();
  assert.deepEqual(await visit.barriers(), []);
  await page.keyboard.press('Escape');
  assert.doesNotMatch(await remains(page), /w0rd/);
  await page.reload();
  await page.getByText('You are not signed in.').waitFor();
});

visiting('an unreadable znode offers to sign in', {}, async (page, visit) => {
  await visit.open('/ui/tree/app/secret');
  await page.getByRole('main').getByRole('button', { name: 'Sign in' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('User').fill('bob');
  await dialog.getByLabel('Password').fill('pass-w0rd');
  await page.keyboard.press('Enter');
  await page.getByText('for bob alone').waitFor();
});

visiting('a password is kept only in the tab, and only on request', {}, async (page, visit) => {
  await visit.open('/ui/tree/app/secret');
  await signIn(page, 'bob', 'pass-w0rd', true);
  await page.getByText('for bob alone').waitFor();
  await page.reload();
  await page.getByText('for bob alone').waitFor();
  assert.equal(
    await page.evaluate(() => JSON.stringify({ ...localStorage }).includes('w0rd')),
    false,
  );
  await signOut(page, 'bob');
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await page.getByText('You are not signed in.').waitFor();
});

visiting(
  'a read-only replica is shown as such and accepts no write',
  { refused: true },
  async (page, visit) => {
    await visit.open('/ui/tree/app/config', READ_ONLY);
    for (const name of ['Edit', 'New child', 'Delete']) {
      const button = page.getByRole('button', { name, exact: true });
      assert.equal(await button.getAttribute('aria-disabled'), 'true', name);
      await button.focus();
      await page.getByRole('tooltip').getByText('This replica is read-only').waitFor();
    }
    await visit.open('/ui/tools/?tool=import', READ_ONLY);
    await page.getByRole('img', { name: 'Read-only: this replica refuses writes' }).waitFor();
    await page.getByLabel('File').setInputFiles({
      name: 'a.ndjson',
      mimeType: 'text/plain',
      buffer: Buffer.from('{"path":"new"}\n'),
    });
    await page.getByRole('button', { name: 'Preview import' }).click();
    await page.getByText('Znodes to create: 1.').waitFor();
    const run = page.getByRole('button', { name: 'Import 1 znode' });
    assert.equal(await run.getAttribute('aria-disabled'), 'true');
    await run.hover();
    await page.getByRole('tooltip').getByText('This replica is read-only').waitFor();
    await run.press('Enter');
    assert.equal(await run.count(), 1, 'the action had no effect');

    const other = await Client.connect(replicas, { at: READ_ONLY });
    for (const [op, members] of [
      ['create', { path: '/new' }],
      ['set', { path: '/app/config', dataUtf8: 'x' }],
      ['delete', { path: '/app/config' }],
      ['setacl', { path: '/app/config', acl: 'open' }],
      ['multi', { ops: [{ op: 'create', path: '/new' }] }],
      ['session', { timeout_ms: 5_000 }],
    ]) {
      await assert.rejects(other.ask(op, members), /NotReadOnly/, op);
    }
    for (const [method, target] of [
      ['PUT', '/znodes/v1/app/config'],
      ['DELETE', '/znodes/v1/app/config'],
      ['POST', '/import/v1/app'],
      ['POST', '/znodes/v1/app?op=create&name=new'],
    ]) {
      await assert.rejects(
        replicas.ask(method, target, { at: READ_ONLY }),
        /403.*NotReadOnly/,
        method,
      );
    }
    const { dataUtf8 } = await client.ask('get', { path: '/app/config', dataformat: 'utf8' });
    assert.equal(dataUtf8, 'open to all');
    other.die();
  },
);

/** Opens the palette and waits until it is ready for input. */
async function palette(page) {
  await page.keyboard.press('Control+k');
  await page.locator('[role=combobox]:focus').waitFor();
  return page.getByRole('combobox', { name: 'Go to' });
}

visiting('the palette opens views, znodes and actions by the keyboard', {}, async (page, visit) => {
  await visit.open('/ui/');
  const input = await palette(page);
  assert.deepEqual(await visit.barriers(), []);
  await page.keyboard.type('tool');
  const active = page.getByRole('option', { selected: true });
  await active.getByText('Tools').waitFor();
  assert.equal(await input.getAttribute('aria-activedescendant'), await active.getAttribute('id'));
  await page.keyboard.press('Enter');
  await page.getByLabel('Below this znode').waitFor();
  await palette(page);
  await page.keyboard.type('/app/con');
  await page.getByRole('option', { name: '/app/config' }).waitFor();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'config' }).waitFor();
  await page.getByRole('button', { name: 'Bookmark' }).click();
  await palette(page);
  await page.keyboard.type('config');
  await page.getByRole('option', { name: '/app/config bookmark' }).waitFor();
  await page.keyboard.press('Escape');
  await palette(page);
  await page.keyboard.type('/nowhere');
  await page.keyboard.press('Enter');
  await page.getByText('Not found (it may have been deleted).').waitFor();
  await palette(page);
  await page.keyboard.type('sign in');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByLabel('User').waitFor();
  await page.keyboard.press('Escape');
  await palette(page);
  await page.keyboard.type('nothing of this name');
  await page.getByText('No matches.').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
});

visiting('no letter is lost after the key that opens a dialog', {}, async (page, visit) => {
  await visit.open('/ui/tree/app/config');
  await page.getByRole('button', { name: 'Edit', exact: true }).waitFor();
  const focused = await page.evaluate(async () => {
    dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true }));
    for (let turn = 0; turn < 10; turn += 1) {
      await undefined; // A microtask: the next letter would be a task.
    }
    return document.activeElement.getAttribute('role');
  });
  assert.equal(focused, 'combobox');
});

visiting('the documentation is served, and its links have targets', {}, async (page, visit) => {
  const seen = new Map(); // The anchors of each page, by its URL.
  const wanted = [];
  const open = ['/ui/docs/README.html'];
  for (let url = open.pop(); url; url = open.pop()) {
    const html = await (await replicas.ask('GET', url)).text();
    seen.set(url, new Set([...html.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id)));
    for (const [, href] of html.matchAll(/<a href="([^"]*)"/g)) {
      const [path, anchor] = href.split('#');
      const target = path === '' ? url : path;
      if (target.startsWith('/ui/docs/')) {
        wanted.push({ from: url, target, anchor });
      }
      if (target.startsWith('/ui/docs/') && !seen.has(target) && !open.includes(target)) {
        open.push(target);
      }
    }
  }
  const broken = wanted.filter(({ target, anchor }) => anchor && !seen.get(target).has(anchor));
  assert.deepEqual(broken, []);
  assert.ok(seen.size > 20, `pages: ${seen.size}`);
  for (const path of ['operating', 'recipes/lock']) {
    await page.goto(`${replicas.url()}/ui/docs/${path}.html`);
    await page.locator('h1').waitFor();
    assert.deepEqual(await visit.barriers(), [], path);
  }
  await page.getByRole('link', { name: 'Dashboard' }).click();
  await page.getByText(/voting, led by replica/).waitFor();
});

visiting(
  'the palette and the login are accessible',
  { language: 'zh', theme: 'dark', viewport: NARROW },
  async (page, visit) => {
    await visit.open('/ui/');
    await page.keyboard.press('Control+k');
    await page.getByRole('option').first().waitFor();
    assert.deepEqual(await visit.barriers(), []);
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: '登录' }).click();
    await page.getByRole('dialog').waitFor();
    assert.deepEqual(await visit.barriers(), []);
    assert.equal(await visit.excess(), 0);
  },
);

// The last test: it kills a replica.
visiting('a user stays signed in when the replica is lost', {}, async (page, visit) => {
  await visit.open('/ui/tree/app/secret');
  await signIn(page, 'bob', 'pass-w0rd');
  await page.getByText('for bob alone').waitFor();
  await replicas.kill(0);
  const other = await Client.connect(replicas, { at: 2 });
  await other.ask('auth', BOB);
  await other.ask('set', { path: '/app/secret', dataUtf8: 'still for bob' });
  await page.getByText('still for bob').waitFor();
  await page.getByRole('banner').getByRole('button', { name: 'bob' }).waitFor();
  other.die();
});
