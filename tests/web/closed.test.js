// An ensemble in closed mode, with TLS between its replicas: the page asks for an identity first.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { NARROW, openBrowser, visitingBy } from './browser.js';
import { button, dialog, heading, said } from './finders.js';
import { Replicas } from './replicas.js';
import { toasted } from './toasts.js';

const SUPER = 'super:zUZ0bpqYS7FucDXsnUgxOWTto1s='; // super:root
const ROOT = { Authorization: `Basic ${Buffer.from('super:root').toString('base64')}` };
const SUBJECT = 'CN=eve,OU=Department of Certificates,O=An Example of a Long Organization';

let browser;
let replicas;
let directory;

before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'zabra-web-secret-'));
  const peerSecretFile = join(directory, 'secret');
  writeFileSync(peerSecretFile, `${'c2VjcmV0'.repeat(6)}\n`, { mode: 0o600 });
  browser = await openBrowser();
  replicas = await Replicas.start(3, {
    requireIdentity: true,
    superDigest: SUPER,
    peerTls: 'required',
    peerSecretFile,
  });
  await replicas.create('/app/own', 'for a certificate', {
    headers: { ...ROOT, 'Zk-Acl': `x509:${SUBJECT}:r` },
  });
});

after(async () => {
  await browser?.close();
  await replicas?.stop();
  rmSync(directory, { recursive: true });
});

const visiting = visitingBy(() => ({ browser, replicas }));

/** Opens a page that waits for an identity. */
async function openLocked(visit, path) {
  visit.origins.add(0);
  await visit.page.goto(`${replicas.url()}${path}`);
  await visit.page.locator('.banner.offline').waitFor();
  await dialog(visit.page).waitFor();
}

/** Fills the dialog that the page has opened by itself. */
async function signIn(page, user, password) {
  await dialog(page).getByLabel('User').fill(user);
  await dialog(page).getByLabel('Password').fill(password);
  await dialog(page).getByRole('button', { name: 'Sign in' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await toasted(page, `Signed in as ${user}.`);
  await page.locator('.lamp.live').waitFor();
}

visiting(
  'a page says that it needs an identity, then works with one',
  { refused: true },
  async (page, visit) => {
    await openLocked(visit, '/ui/tree/app/own');
    await page.locator('.banner').getByText('serves only clients with an identity').waitFor();
    await page.locator('.lamp').getByText('Locked').waitFor();
    assert.deepEqual(await visit.barriers(), []);
    await page.keyboard.press('Escape');
    await dialog(page).waitFor({ state: 'detached' });
    await page.getByRole('banner').getByRole('button', { name: 'Sign in' }).click();
    // A wrong password is another identity, which no ACL names.
    await signIn(page, 'super', 'wrong');
    await page.locator('.banner.offline').waitFor({ state: 'detached' });
    await said(page, 'Not allowed: you need permission to read');
    await said(page, 'the password may be wrong');
    // Without the identity the page is locked again.
    await page.getByRole('banner').getByRole('button', { name: 'super' }).click();
    await dialog(page).getByRole('button', { name: 'Sign out' }).click();
    await page.locator('.lamp').getByText('Locked').waitFor();
    await page.locator('.banner').getByText('serves only clients with an identity').waitFor();
    if ((await dialog(page).count()) === 0) {
      await page.getByRole('banner').getByRole('button', { name: 'Sign in' }).click();
    }
    await signIn(page, 'super', 'root');
    await heading(page, 'own');
    await page.getByText('for a certificate').waitFor();
    for (const [path, text] of [
      ['/ui/', /voting, led by replica/],
      ['/ui/sessions', /session/i],
      ['/ui/metrics', 'Figures of replica 1 only'],
    ]) {
      await visit.go(path);
      await page.locator('main').getByText(text).first().waitFor();
      assert.equal(await page.locator('.banner.offline').count(), 0, path);
    }
  },
);

visiting('each card shows how its link is sealed', { refused: true }, async (page, visit) => {
  await openLocked(visit, '/ui/ensemble');
  await signIn(page, 'super', 'root');
  for (const id of [2, 3]) {
    const row = page.getByRole('region', { name: `Replica ${id}` }).locator('dl');
    await row.getByText('Link', { exact: true }).waitFor();
    await row.getByText('TLS, with the shared secret').waitFor();
  }
  // A replica has no link to itself.
  const own = page.getByRole('region', { name: 'Replica 1' });
  assert.equal(await own.getByText('Link', { exact: true }).count(), 0);
  assert.deepEqual(await visit.barriers(), []);
});

visiting(
  'entries for certificates are shown in words, added and changed',
  { refused: true },
  async (page, visit) => {
    await openLocked(visit, '/ui/tree/app/own?tab=acl');
    await signIn(page, 'super', 'root');
    await page.getByRole('cell', { name: `Certificate ${SUBJECT} x509` }).waitFor();
    assert.deepEqual(await visit.barriers(), []);
    // The subject is long, and does not push the permissions out of sight.
    const last = page.getByRole('columnheader', { name: 'change the ACL' });
    assert.ok(await last.evaluate((head) => head.getBoundingClientRect().right <= innerWidth));
    const check = page.getByRole('form', { name: 'Check the permissions of an identity' });
    await check.getByRole('combobox').selectOption({ label: 'A client certificate' });
    await check.getByLabel('Subject').fill(SUBJECT);
    await check.getByRole('button', { name: 'Check' }).click();
    await said(page, `${SUBJECT}: read`);
    await button(page, 'Change').click();
    await page.getByLabel(`Certificate ${SUBJECT}: write`).check();
    const add = page.getByRole('form', { name: 'Add an entry' });
    await add.getByRole('combobox').selectOption({ label: 'A client certificate' });
    await add.getByLabel('Subject').fill('CN=bob');
    await add.getByRole('button', { name: 'Add' }).click();
    await button(page, 'Save').click();
    await toasted(page, 'The ACL is saved.');
    const answer = await replicas.ask('GET', '/znodes/v1/app/own?view=acl', { headers: ROOT });
    const { acl } = await answer.json();
    assert.deepEqual(acl, [
      { scheme: 'x509', id: SUBJECT, perms: ['read', 'write'] },
      { scheme: 'x509', id: 'CN=bob', perms: ['read'] },
    ]);
  },
);

visiting(
  'a locked page is understandable and accessible in Chinese',
  { language: 'zh', theme: 'dark', viewport: NARROW, refused: true },
  async (page, visit) => {
    await openLocked(visit, '/ui/');
    await page.locator('.banner').getByText('请登录').waitFor();
    assert.equal(await page.locator('.lamp').getAttribute('aria-label'), '需要登录');
    assert.deepEqual(await visit.barriers(), []);
    await page.keyboard.press('Escape');
    await dialog(page).waitFor({ state: 'detached' });
    assert.deepEqual(await visit.barriers(), []);
    assert.equal(await visit.excess(), 0);
  },
);
