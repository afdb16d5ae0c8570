// Permissions: ACLs changed by the page, missing permissions, and a read-only replica.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { openBrowser, visitingBy } from './browser.js';
import { button, dialog, item, said } from './finders.js';
import { Replicas } from './replicas.js';
import { toasted } from './toasts.js';

const READ_ONLY = 2; // The third replica is read-only.
const BROKEN = Buffer.from([0x61, 0xff, 0xfe, 0x0d, 0x0a, 0x62]);
const BOB = { Authorization: `Basic ${Buffer.from('bob:secret').toString('base64')}` };

let browser;
let replicas;

before(async () => {
  browser = await openBrowser();
  replicas = await Replicas.start(3, (at) => (at === READ_ONLY ? { readOnly: true } : {}));
});

after(async () => {
  await browser?.close();
  await replicas?.stop();
});

const visiting = visitingBy(() => ({ browser, replicas }));

visiting('an ACL is changed and shown in words, and the data is kept', {}, async (page, visit) => {
  await replicas.create('/acl/open', BROKEN);
  await visit.open('/ui/tree/acl/open?tab=acl');
  const check = page.getByRole('form', { name: 'Check the permissions of an identity' });
  await check.getByLabel('User').fill('alice');
  await check.getByRole('button', { name: 'Check' }).click();
  await said(page, 'alice: read, write, create children, delete children, change the ACL');
  await button(page, 'Change').click();
  const add = page.getByRole('form', { name: 'Add an entry' });
  await add.getByLabel('User').fill('alice');
  await add.getByLabel('Password').fill('secret');
  await add.getByRole('button', { name: 'Add' }).click();
  await page.getByLabel('User alice: write').check();
  await page.getByLabel('Every client: change the ACL').uncheck();
  await page.getByLabel('Every client: write').uncheck();
  await said(page, 'You could no longer change this ACL.');
  assert.equal(await button(page, 'Save').getAttribute('aria-disabled'), 'true');
  await page.getByLabel('Every client: change the ACL').check();
  await page.getByText('You could no longer change').waitFor({ state: 'detached' });
  await button(page, 'Save').click();
  await toasted(page, 'The ACL is saved.');
  await check.getByLabel('User').fill('alice');
  await check.getByRole('button', { name: 'Check' }).click();
  await said(page, 'alice: read, write, create children');
  const { acl } = await (await replicas.ask('GET', '/znodes/v1/acl/open?view=acl')).json();
  assert.ok(acl.some(({ id }) => id === 'alice:x' || id.startsWith('alice:')));
  assert.deepEqual(await replicas.data('/acl/open'), BROKEN);
  await page.getByRole('tab', { name: 'Data' }).click();
  const reason = 'You need permission to write';
  await button(page, 'Edit').hover();
  await said(page, reason);
  assert.equal(await button(page, 'Edit').getAttribute('aria-disabled'), 'true');
});

visiting(
  'a concurrent change of an ACL needs a choice, too',
  { refused: true },
  async (page, visit) => {
    await replicas.create('/acl/changed');
    await visit.open('/ui/tree/acl/changed?tab=acl');
    await button(page, 'Change').click();
    await page.getByLabel('Every client: write').uncheck();
    await replicas.ask('PATCH', '/znodes/v1/acl/changed', {
      at: 1,
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        acl: [{ scheme: 'world', id: 'anyone', perms: ['read', 'write', 'admin'] }],
      }),
    });
    await button(page, 'Save').click();
    await said(page, /^Another client changed the ACL meanwhile/);
    await page.getByRole('tab', { name: 'Stat' }).click();
    await page.getByRole('tab', { name: 'ACL' }).click();
    await button(page, 'Keep mine').click();
    await button(page, 'Save').click();
    await toasted(page, 'The ACL is saved.');
    const { acl } = await (await replicas.ask('GET', '/znodes/v1/acl/changed?view=acl')).json();
    assert.deepEqual(acl[0].perms, ['read', 'create', 'delete', 'admin']);

    await replicas.create('/acl/anew');
    await visit.open('/ui/tree/acl/anew?tab=acl');
    await button(page, 'Change').click();
    await page.getByLabel('Every client: write').uncheck();
    const ops = [
      { op: 'delete', path: '/acl/anew' },
      { op: 'create', path: '/acl/anew', acl: [{ scheme: 'world', id: 'anyone', perms: ['all'] }] },
    ];
    ops[1].acl.push({ scheme: 'digest', id: 'bob:fyVmFCwVbTJYrznoSu1koqYEYF0=', perms: ['read'] });
    await replicas.ask('POST', '/multi/v1', {
      at: 1,
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ ops }),
    });
    await said(page, /^Another client changed the ACL meanwhile/);
    await button(page, 'Take theirs').click();
    await page.getByLabel('User bob: read').waitFor();

    const twice = [['read', 'admin'], ['write']].map((perms) => ({
      scheme: 'world',
      id: 'anyone',
      perms,
    }));
    await replicas.ask('PATCH', '/znodes/v1/acl/anew', {
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ acl: twice }),
    });
    await visit.open('/ui/tree/acl/anew?tab=acl');
    await button(page, 'Change').click();
    await button(page, 'Remove Every client').first().click();
    assert.ok(await page.getByLabel('Every client: write').isChecked());
    assert.equal(await button(page, 'Remove Every client').count(), 1);
  },
);

visiting('missing permissions are shown, and refused by the server', {}, async (page, visit) => {
  await replicas.create('/bob/own', 'hidden', {
    headers: { ...BOB, 'Zk-Acl': 'world:anyone:r, auth::cdrwa' },
  });
  await replicas.ask('PATCH', '/znodes/v1/bob', {
    headers: { ...BOB, 'Content-Type': 'application/json' },
    body: JSON.stringify({
      acl: [
        { scheme: 'auth', perms: ['all'] },
        { scheme: 'world', id: 'anyone', perms: ['read'] },
      ],
    }),
  });
  await visit.open('/ui/tree/bob/own');
  for (const [name, right] of [
    ['Edit', 'You need permission to write'],
    ['New child', 'You need permission to create children'],
    ['Delete', 'You need permission to delete children of its parent'],
  ]) {
    await button(page, name).focus();
    await page.getByRole('tooltip').getByText(right).waitFor();
    await button(page, name).press('Enter');
  }
  assert.equal(await dialog(page).count(), 0);
  await item(page, 'own').click({ modifiers: ['Control'] });
  await page.locator('.marked').getByRole('button', { name: 'Delete' }).click();
  await dialog(page).getByRole('button', { name: 'Delete', exact: true }).click();
  await dialog(page).getByText('Not allowed: you need permission to delete children').waitFor();
  assert.ok(await replicas.has('/bob/own'));
});

visiting('a read-only replica accepts no write and says so', {}, async (page, visit) => {
  await replicas.create('/look/one', 'x');
  await visit.open('/ui/tree/look/one', READ_ONLY);
  await page.getByRole('img', { name: 'Read-only' }).waitFor();
  for (const name of ['Edit', 'New child', 'Delete']) {
    await button(page, name).focus();
    await page.getByRole('tooltip').getByText('This replica is read-only').waitFor();
  }
  await page.locator('body').press('e');
  await page.getByRole('status').getByText('This replica is read-only').waitFor();
  await page.getByRole('tab', { name: 'ACL' }).click();
  assert.equal(await button(page, 'Change').getAttribute('aria-disabled'), 'true');
});
