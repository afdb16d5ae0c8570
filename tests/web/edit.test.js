// Creating, editing and deleting: by mouse and by keyboard, concurrently with other clients, and
// when it is refused.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { NARROW, openBrowser, visitingBy } from './browser.js';
import { at, button, dialog, edit, editor, heading, item, keys, said, save } from './finders.js';
import { Replicas, until } from './replicas.js';
import { toasted } from './toasts.js';

const RAW = Buffer.from(Array.from({ length: 600 }, (_, at) => (at * 7) & 255));
const BROKEN = Buffer.from([0x61, 0xff, 0xfe, 0x0d, 0x0a, 0x62]);
const MIB = 1 << 20;

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

const visiting = visitingBy(() => ({ browser, replicas }));

async function statOf(path) {
  return (await replicas.ask('GET', `/znodes/v1${path}?view=stat&consistency=linearizable`)).json();
}

/** The path of a file of zeros: the bytes of a large one need not go through the page's scripts. */
function fileOf(size) {
  const path = join(replicas.directory, `${size}.bin`);
  writeFileSync(path, Buffer.alloc(size));
  return path;
}

// ---- Creating ----

visiting('a znode is created below the shown one', {}, async (page, visit) => {
  await replicas.create('/new');
  await visit.open('/ui/tree/new');
  await button(page, 'New child').click();
  await page.getByLabel('Name', { exact: true }).fill('a/b');
  await page.getByRole('textbox', { name: 'Data' }).fill('hello');
  await dialog(page).getByText('Path: /new/a/b').waitFor();
  await button(page, 'Create').click();
  await heading(page, 'b');
  assert.equal((await replicas.data('/new/a/b')).toString(), 'hello');
  await button(page, 'New child').click();
  await page.getByLabel('Sequential').check();
  await page.getByLabel('Name, before the number').fill('job-');
  await page.getByLabel('TTL: deleted').check();
  await page.getByLabel('Seconds').fill('90');
  await page.getByLabel('Data format').selectOption('hex');
  await page.getByRole('textbox', { name: 'Data' }).fill('00 ff 0');
  await button(page, 'Create').click();
  await dialog(page).getByText('This is not hex').waitFor();
  await page.getByRole('textbox', { name: 'Data' }).fill('00 ff');
  await button(page, 'Create').click();
  await heading(page, 'job-0000000000');
  assert.deepEqual(await replicas.data('/new/a/b/job-0000000000'), Buffer.from([0, 255]));
  assert.equal((await statOf('/new/a/b/job-0000000000')).ttl, 90_000);
  await visit.open('/ui/tree/new');
  await button(page, 'New child').click();
  await page.getByLabel('Container').check();
  assert.ok(await page.getByLabel('Sequential: not available for containers').isDisabled());
  assert.ok(
    await page.getByLabel('Ephemeral: not available, the dashboard has no session').isDisabled(),
  );
  await page.getByLabel('Name', { exact: true }).fill('<b>\u202egpj');
  await page.getByLabel('Data format').selectOption('file');
  await page
    .getByLabel('File', { exact: true })
    .setInputFiles({ name: 'x', mimeType: 'a/b', buffer: RAW });
  await button(page, 'Create').click();
  await heading(page, '<b>\u2039202E\u203agpj');
  assert.deepEqual(await replicas.data('/new/<b>\u202egpj'), RAW);
});

visiting('a refusal is shown at its field, and the input is kept', {}, async (page, visit) => {
  await replicas.create('/limited/there');
  await replicas.ask(
    'POST',
    '/znodes/v1/zookeeper/quota/limited?op=create&name=zookeeper_limits&parents=true',
    {
      body: 'count=-1,bytes=-1;byteHardLimit=20',
      headers: { 'Content-Type': 'application/octet-stream' },
    },
  );
  await visit.open('/ui/tree/limited');
  await button(page, 'New child').click();
  const name = page.getByLabel('Name', { exact: true });
  const refused = async (typed, text) => {
    await name.fill(typed);
    await button(page, 'Create').click();
    await dialog(page).getByRole('alert').filter({ hasText: text }).waitFor();
    assert.equal(await name.inputValue(), typed);
  };
  await refused('there', 'NodeExists');
  await refused('bad\u0001', 'control character');
  await refused('a/../b', 'a component "." or ".."');
  await refused('a//b', 'empty component');
  await page.getByRole('textbox', { name: 'Data' }).fill('more than twenty bytes of data');
  await refused('large', 'QuotaExceeded');
  assert.equal(await name.getAttribute('aria-invalid'), 'false');
  await page.getByLabel('Data format').selectOption('file');
  const input = page.getByLabel('File', { exact: true });
  await input.setInputFiles(fileOf(MIB + 1));
  await refused('larger', 'TooLarge');
  await input.setInputFiles(fileOf(4 * MIB));
  await refused('larger than a message', 'maxMessageBytes');
  await page.locator('.lamp.live').waitFor();
});

/** The page does not get the bytes of files until `release` is called with the size of one. */
async function holdFiles(page) {
  await page.evaluate(() => {
    const read = Blob.prototype.arrayBuffer;
    globalThis.held = new Map();
    Blob.prototype.arrayBuffer = function () {
      return new Promise((resolve) => {
        globalThis.held.set(this.size, async () => {
          resolve(await read.call(this));
          await new Promise(setTimeout); // The page has them.
        });
      });
    };
  });
  return (size) => page.evaluate((of) => globalThis.held.get(of)(), size);
}

visiting('what is sent is the file chosen last, once it has been read', {}, async (page, visit) => {
  await replicas.create('/slow/there', 'old');
  await visit.open('/ui/tree/slow');
  let release = await holdFiles(page);
  await button(page, 'New child').click();
  await page.getByLabel('Name', { exact: true }).fill('new');
  await page.getByLabel('Data format').selectOption('file');
  const chosen = page.getByLabel('File', { exact: true });
  await chosen.setInputFiles({ name: 'x', mimeType: 'a/b', buffer: Buffer.from('first') });
  await chosen.setInputFiles({ name: 'y', mimeType: 'a/b', buffer: RAW });
  await button(page, 'Create').press('Enter');
  assert.equal(await dialog(page).getByRole('alert').count(), 0, 'sent while it was read');
  await release(RAW.length);
  await release('first'.length); // The one chosen first is read last.
  assert.ok(!(await replicas.has('/slow/new')), 'created before the file was read');
  await button(page, 'Create').click();
  await heading(page, 'new');
  assert.deepEqual(await replicas.data('/slow/new'), RAW);

  await edit(visit, '/slow/there');
  await editor(page).press('Control+End');
  await page.keyboard.type(' text');
  release = await holdFiles(page);
  const upload = page.getByLabel('Upload a file');
  await upload.setInputFiles({ name: 'x', mimeType: 'a/b', buffer: RAW });
  await editor(page).press('Control+s');
  await release(RAW.length);
  await save(page);
  assert.deepEqual(await replicas.data('/slow/there'), RAW);
  assert.equal((await statOf('/slow/there')).version, 1, 'saved before the file was read');
});

visiting('Escape keeps the input, Cancel discards it', {}, async (page, visit) => {
  await replicas.create('/typed/other');
  await visit.open('/ui/tree/typed');
  const name = page.getByLabel('Name', { exact: true });
  const data = page.getByRole('textbox', { name: 'Data' });
  const again = async (typed) => {
    await button(page, 'New child').click();
    await name.waitFor();
    assert.deepEqual([await name.inputValue(), await data.inputValue()], typed);
  };
  await again(['', '']);
  await name.fill('long');
  await data.fill('much was typed');
  await page.keyboard.press('Escape');
  await page.locator('.actions button:focus').waitFor();
  await item(page, 'typed').locator('.twist').click();
  await item(page, 'other').click();
  await heading(page, 'other');
  await again(['', '']);
  await button(page, 'Cancel').click();
  await item(page, 'typed').click();
  await heading(page, 'typed');
  await again(['long', 'much was typed']);
  await name.fill('');
  await data.fill('');
  await page.keyboard.press('Escape');
  await again(['', '']);
  await name.fill('short');
  await button(page, 'Cancel').click();
  await again(['', '']);
});

visiting('a late answer does not change the view again', { alters: true }, async (page, visit) => {
  await replicas.create('/late/other');
  let late;
  await page.routeWebSocket(/\/ws\/v1/, (socket) => {
    const server = socket.connectToServer();
    let held = -1;
    socket.onMessage((text) => {
      const { op, id } = JSON.parse(text);
      held = op === 'create' ? id : held;
      server.send(text);
    });
    server.onMessage((text) => {
      if (JSON.parse(text).id === held) {
        late = () => socket.send(text);
      } else {
        socket.send(text);
      }
    });
  });
  await visit.open('/ui/tree/late');
  await item(page, 'late').locator('.twist').click();
  await button(page, 'New child').click();
  await page.getByLabel('Name', { exact: true }).fill('one');
  await button(page, 'Create').click();
  await until('it is made', () => late !== undefined);
  await page.keyboard.press('Escape');
  await item(page, 'other').click();
  await heading(page, 'other');
  late();
  await toasted(page, 'Created: /late/one');
  assert.equal(await page.evaluate(() => location.pathname), '/ui/tree/late/other');
});

// ---- Editing ----

visiting('data is edited in its form, and bytes stay bytes', {}, async (page, visit) => {
  await replicas.create('/edit/lines', 'one\r\ntwo\r\n');
  await edit(visit, '/edit/lines');
  await editor(page).press('Control+End');
  await page.keyboard.type('three');
  await page.keyboard.press('Control+s');
  await toasted(page, 'Saved: version 1.');
  assert.equal((await replicas.data('/edit/lines')).toString(), 'one\r\ntwo\r\nthree');

  await replicas.create('/edit/json', '{"n":12345678901234567890}');
  await edit(visit, '/edit/json');
  await button(page, 'Format').click();
  await until('indented', async () => (await page.locator('.cm-line').count()) === 3);
  await editor(page).press('Control+Home');
  await page.keyboard.type('x');
  await said(page, /^This is not JSON\./);
  await button(page, 'Save').press('Enter');
  assert.equal((await statOf('/edit/json')).version, 0);
  await editor(page).press('Backspace');
  await said(page, /^31 B of 1\.0 MiB/);
  await save(page);
  assert.equal((await replicas.data('/edit/json')).toString(), '{\n  "n": 12345678901234567890\n}');

  await replicas.create('/edit/broken', BROKEN);
  await edit(visit, '/edit/broken');
  await said(page, 'It is not UTF-8: editing it as text would damage it.');
  assert.equal(await editor(page).textContent(), '61 ff fe 0d 0a 62');
  assert.ok(await page.locator('option[value=text]').isDisabled());
  await page.getByLabel('Edit as').selectOption('base64');
  await until(
    'base64',
    async () => (await editor(page).textContent()) === BROKEN.toString('base64'),
  );
  await page.getByLabel('Edit as').selectOption('hex');
  await until('hex', async () => (await editor(page).textContent()).startsWith('61 ff'));
  await editor(page).press('Control+End');
  await page.keyboard.type(' 00');
  await save(page);
  assert.deepEqual(await replicas.data('/edit/broken'), Buffer.concat([BROKEN, Buffer.from([0])]));
});

visiting('a MiB is edited, and replaced by a file', {}, async (page, visit) => {
  await replicas.create('/edit/large', `a${'x'.repeat(MIB - 1)}`);
  await edit(visit, '/edit/large');
  await editor(page).press('Control+Home');
  await page.keyboard.press('Delete');
  await page.keyboard.type('b');
  await save(page);
  const large = await replicas.data('/edit/large');
  assert.equal(large.length, MIB);
  assert.equal(large.subarray(0, 3).toString(), 'bxx');
  await button(page, 'Edit').click();
  await editor(page).waitFor();
  const file = page.getByLabel('Upload a file');
  await file.setInputFiles(fileOf(MIB + 1));
  await said(page, /of 1\.0 MiB/);
  await page.locator('.hint.bad').waitFor();
  assert.equal(await button(page, 'Save').getAttribute('aria-disabled'), 'true');
  await file.setInputFiles({ name: 'x', mimeType: 'a/b', buffer: RAW });
  await said(page, /^600 B of/);
  await save(page);
  assert.deepEqual(await replicas.data('/edit/large'), RAW);
});

visiting('a MiB of invisible characters, or of lines, blocks nothing', {}, async (page, visit) => {
  const values = { seen: '\u0001 xxxxxxxx'.repeat(MIB / 10), lines: '\n'.repeat(MIB) };
  for (const [name, value] of Object.entries(values)) {
    await replicas.create(`/edit/${name}`, value);
    await edit(visit, `/edit/${name}`);
    await editor(page).press('Control+Home');
    await page.keyboard.type('00');
    await button(page, 'Discard').click();
    await dialog(page).getByRole('button', { name: 'Discard' }).click();
    await editor(page).waitFor({ state: 'detached' });
    assert.equal((await replicas.data(`/edit/${name}`)).toString(), value);
  }
});

visiting('a MiB in one line is not laid out until it has lines', {}, async (page, visit) => {
  const all = JSON.stringify(Array.from({ length: 40_000 }, (_, id) => ({ id, name: 'x' })));
  await replicas.create('/edit/line', all);
  await edit(visit, '/edit/line');
  const wrapped = page.locator('.cm-lineWrapping');
  assert.equal(await wrapped.count(), 0);
  await button(page, 'Format').click();
  await wrapped.waitFor();
  await page.locator('.cm-lineNumbers').getByText('9', { exact: true }).waitFor();
});

visiting(
  'a znode deleted meanwhile can be created again, and leaving needs a confirmation',
  {},
  async (page, visit) => {
    await replicas.create('/gone/one', 'before');
    await replicas.create('/gone/two', 'other');
    await visit.open('/ui/tree/gone/two');
    await item(page, 'one').click();
    await heading(page, 'one');
    await button(page, 'Edit').click();
    await editor(page).fill('mine');
    await replicas.ask('DELETE', '/znodes/v1/gone/one', { at: 1 });
    await said(page, /^It was deleted meanwhile/);
    await item(page, 'two').click();
    await dialog(page).getByText('Your changes of /gone/one are not saved.').waitFor();
    await button(page, 'Stay').click();
    await page.goBack();
    await button(page, 'Stay').click();
    await at(page, '/ui/tree/gone/one');
    page.once('dialog', (asked) => asked.dismiss());
    await page.evaluate(() => location.reload()).catch(() => undefined);
    await page.getByRole('tab', { name: 'Data' }).click();
    assert.equal(await editor(page).textContent(), 'mine');
    await button(page, 'Create it again').click();
    await toasted(page, 'Created again.');
    assert.equal((await replicas.data('/gone/one')).toString(), 'mine');
    await button(page, 'Edit').click();
    await editor(page).fill('not kept');
    await item(page, 'two').click();
    await button(page, 'Discard and leave').click();
    await heading(page, 'two');
    assert.equal((await replicas.data('/gone/one')).toString(), 'mine');
  },
);

// ---- Deleting ----

visiting('a deletion shows its count, and stops after a change', {}, async (page, visit) => {
  for (const name of ['a', 'b', 'c']) {
    await replicas.create(`/waste/few/${name}`);
  }
  await Promise.all(Array.from({ length: 12 }, (_, at) => replicas.create(`/waste/many/${at}`)));
  await visit.open('/ui/tree/waste/few/a');
  await button(page, 'Delete').click();
  await said(page, 'Znodes to delete: 1');
  await replicas.create('/waste/few/a', 'changed', { at: 1 });
  await dialog(page).getByRole('button', { name: 'Delete', exact: true }).click();
  await dialog(page).getByText('BadVersion').waitFor();
  await dialog(page).getByText('Nothing was changed.').waitFor();
  await button(page, 'Count again').click();
  await dialog(page).getByRole('button', { name: 'Delete', exact: true }).click();
  await heading(page, 'few');
  assert.ok(!(await replicas.has('/waste/few/a')));
  await item(page, 'many').click();
  await button(page, 'Delete').click();
  const confirm = page.getByLabel('Type 13 to confirm');
  await button(page, 'Delete all 13').press('Enter');
  assert.ok(await replicas.has('/waste/many/0'));
  await confirm.fill('13');
  await replicas.create('/waste/many/more', '', { at: 1 });
  await button(page, 'Delete all 13').click();
  await dialog(page).getByText('znodes (max)').waitFor();
  await button(page, 'Count again').click();
  await page.getByLabel('Type 14 to confirm').fill('14');
  await page.keyboard.press('Enter');
  await heading(page, 'waste');
  assert.ok(!(await replicas.has('/waste/many')));
  await item(page, 'many').waitFor({ state: 'detached' });
});

visiting('znodes are marked and deleted, by mouse and by keyboard', {}, async (page, visit) => {
  for (const name of ['x-1', 'x-2', 'x-3', 'x-4', 'x-5']) {
    await replicas.create(`/several/${name}`);
  }
  await visit.open('/ui/tree/several/x-1');
  await item(page, 'x-2').click({ modifiers: ['Control'] });
  await item(page, 'x-4').click({ modifiers: ['Shift'] });
  await said(page, '3 marked');
  await item(page, 'x-3').locator('.tick').click();
  await said(page, '2 marked');
  assert.deepEqual(await visit.barriers(), []);
  await page.locator('.marked').getByRole('button', { name: 'Delete' }).click();
  await said(page, 'Znodes to delete: 2');
  await button(page, 'Delete all 2').click();
  await item(page, 'x-4').waitFor({ state: 'detached' });
  await heading(page, 'x-1');
  const tree = page.getByRole('tree');
  await tree.focus();
  await page.keyboard.press('Home');
  await keys(page, 'x', '-', '3');
  await page.keyboard.press('Shift+ArrowDown');
  await said(page, '2 marked');
  await page.keyboard.press('Delete');
  await button(page, 'Delete all 2').focus();
  await page.keyboard.press('Enter');
  await item(page, 'x-5').waitFor({ state: 'detached' });
  const left = await (await replicas.ask('GET', '/znodes/v1/several?view=children')).json();
  assert.deepEqual(left.children, ['x-1']);
});

// ---- Accessibility ----

visiting('keys work as soon as a znode is shown', { alters: true }, async (page, visit) => {
  await replicas.create('/keys/first', 'x');
  await page.addInitScript(() => {
    const look = new MutationObserver(() => {
      const heading = document.querySelector('.znode-heading bdi');
      if (heading?.textContent === 'first') {
        look.disconnect();
        dispatchEvent(new KeyboardEvent('keydown', { key: 'e' })); // Before the first drawing.
      }
    });
    look.observe(document, { subtree: true, childList: true });
  });
  await visit.open('/ui/tree/keys/first');
  await page.locator('.cm-focused').waitFor();
});

visiting(
  'the keyboard is sufficient, also without a clipboard',
  { alters: true },
  async (page, visit) => {
    await page.addInitScript(() => {
      Object.defineProperty(navigator, 'clipboard', { value: undefined });
      Object.defineProperty(crypto, 'randomUUID', { value: undefined });
    });
    await replicas.create('/keys/one', 'x');
    await visit.open('/ui/tree/keys/one');
    await heading(page, 'one');
    await page.keyboard.press('e');
    await page.locator('.cm-focused').waitFor();
    await page.keyboard.press('Control+a');
    await page.keyboard.type('g t / ? e d c');
    await page.keyboard.press('Control+s');
    await toasted(page, 'Saved: version 1.');
    assert.equal((await replicas.data('/keys/one')).toString(), 'g t / ? e d c');
    await page.locator('.actions button:focus').waitFor();
    await page.keyboard.press('c');
    await page.locator('dialog input:focus').waitFor();
    await page.keyboard.type('two');
    await page.keyboard.press('Enter');
    await heading(page, 'two');
    await page.keyboard.press('?');
    await said(page, 'Edit the shown znode');
    await page.keyboard.press('Escape');
    await button(page, 'Copy the path').press('Enter');
    await toasted(page, 'Copied.');
    await button(page, 'Bookmark').press('Enter');
    await page.keyboard.press('d');
    await said(page, 'Znodes to delete: 1');
    await dialog(page).getByRole('button', { name: 'Delete', exact: true }).press('Enter');
    await heading(page, 'one');
    await page.reload();
    await page.getByText('Bookmarks').click();
    await page.getByRole('link', { name: '/keys/one/two' }).click();
    await said(page, 'Not found (it may have been deleted).');
  },
);

for (const look of [
  { language: 'zh', theme: 'dark', viewport: NARROW },
  { language: 'en', theme: 'dark' },
]) {
  visiting(`editing is accessible: ${look.language}`, look, async (page, visit) => {
    await replicas.create('/access/one', '{"a":[1,"x",true]}');
    await visit.open('/ui/tree/access/one');
    const act = page.locator('.actions .button');
    await act.nth(1).click();
    await dialog(page).waitFor();
    assert.deepEqual(await visit.barriers(), [], 'create');
    await page.keyboard.press('Escape');
    await act.nth(2).click();
    await page.locator('.paths').waitFor();
    assert.deepEqual(await visit.barriers(), [], 'delete');
    await page.keyboard.press('Escape');
    await act.nth(0).click();
    await editor(page).fill('mine');
    await replicas.create('/access/one', `theirs ${look.language}`);
    await page.locator('.choices .button').first().click();
    await page.locator('.cm-deletedChunk').first().waitFor();
    assert.deepEqual(await visit.barriers(), [], 'merge');
    assert.equal(await visit.excess(), 0);
    await page.getByRole('tab').nth(3).click();
    await page.locator('.tab-panel .bar .button').click();
    await page.locator('.check-form').waitFor();
    assert.deepEqual(await visit.barriers(), [], 'acl');
    assert.equal(await visit.excess(), 0);
  });
}

// The last test: it kills a replica.
visiting(
  'the input survives the loss of the replica, and another one saves it',
  {},
  async (page, visit) => {
    await replicas.create('/lost/one', 'before');
    await edit(visit, '/lost/one');
    await editor(page).fill('mine');
    await replicas.kill(0);
    await editor(page).press('End');
    await page.keyboard.type(' and more');
    await page.keyboard.press('Control+s');
    await toasted(page, 'Saved: version 1.');
    const answer = await replicas.ask('GET', '/znodes/v1/lost/one?consistency=linearizable', {
      at: 1,
      headers: { Accept: 'application/octet-stream' },
    });
    assert.equal(await answer.text(), 'mine and more');
  },
);
